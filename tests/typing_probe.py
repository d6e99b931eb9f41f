"""The public face as a probe script uses it. Not run: mypy reads it (test_typing.py), and what is wrong on purpose must be.

A line that ends in `# wrong: CODE` is one that mypy has to refuse with that code.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from typing_extensions import assert_type

import stormdrain
from stormdrain import (
    Case,
    closure,
    deliver,
    na,
    probe,
    ready_child,
    ready_file,
    ready_line,
    ready_port,
    ready_reply,
    ready_when,
    relax,
    service,
    tighten,
)

assert_type(stormdrain.__version__, str)


class Transport:
    """A subject."""

    async def connect(self) -> None: ...

    async def close(self) -> None: ...


async def send(subject: Transport, case: Case) -> str:
    """An operation."""
    case.event("sent")
    return "sent"


async def still_there(subject: Transport, case: Case) -> None:
    """A follow-up."""


# -- probes ------------------------------------------------------------------


@probe(operation="close")
async def plain(case: Case) -> AsyncIterator[Transport]:
    """The subject is yielded; what follows is dispose."""
    subject = Transport()
    await subject.connect()
    yield subject
    await subject.close()


@probe(operation=send, backends=["asyncio", "trio"])
async def returned(case: Case) -> Transport:
    """The subject is returned: there is nothing to dispose of."""
    return Transport()


@probe(
    operation="close",
    backends=("asyncio",),
    count=["_close_impl"],
    fail=["_close_impl:RuntimeError", "_process.terminate"],
    actors=3,
    victim="reader",
    trigger="sent",
    follow_up=still_there,
    expect={
        "follow-up-works": na("it is closed for good", revisions=["==1.0"], pythons=["3.10"]),
        "no-blocked-loop": relax("it flushes", 1.5, revisions=["==1.0"]),
        "child-reaped": relax("by design"),
        "no-leaked-tasks": tighten("nothing may outlive it", pythons=["3.12"]),
    },
    deadline=2.5,
    parametrize={"one": 1, "two": {"any": "value"}},
    requires=["anyio==4.15.0"],
    env={"KEY": "value"},
    storms=["cancel-sweep"],
    absorbs_cancel="by design",
    closes=True,
    real_time="it talks to a real server",
)
async def everything(case: Case) -> AsyncIterator[Transport]:
    """All that may be said."""
    yield Transport()


@probe(operation="__aexit__", body=still_there)
async def context_manager(case: Case) -> AsyncIterator[Transport]:
    """Entered and left."""
    yield Transport()


async def the_surroundings(case: Case) -> None:
    """What a case gives."""
    assert_type(case.path, str)
    assert_type(case.backend, str)
    assert_type(case.param, Any)
    assert_type(case.port(), int)
    child = case.child("cli", on_eof="stay", sigterm="delay:2", says=["up"], replies={"ping": ["pong"]})
    assert_type(child.path, str)
    assert_type(child.pids, list[int])
    assert_type(child.received(), list[str])
    await child.ready()
    peer = case.peer(speaks="redis", replies={"GET a": [b"$-1\r\n", 0.5]}, reply_after=0.1)
    assert_type(peer.host, str)
    assert_type(peer.port, int)
    case.inert()
    case.inert(child.pids[0])
    case.event("done")
    case.hand_back(lambda thing: None)
    case.hand_back(give_back)


async def give_back(thing: object) -> None:
    """A resource may be given back asynchronously."""


# -- services and handlers -----------------------------------------------------


@service(
    exits={"SIGTERM": 0, "SIGINT": [0, 130]},
    artefacts=lambda case: None,
    prompt=5,
    forbids=["Traceback"],
    bound=20,
    inject=False,
    expect={"quiet-output": na("it logs")},
    parametrize={"small": 1},
    requires=["uvicorn"],
    env={"A": "b"},
    storms=["signal"],
)
def server(case: Case) -> Iterator[object]:
    """A command, and what shows that it is up."""
    port = case.port()
    child = case.child("worker")
    yield case.spawn(
        [sys.executable, "-m", "server"],
        ready=[
            ready_line("up", "stdout"),
            ready_reply("ping", "pong", port=port),
            ready_port(port),
            ready_file("pid"),
            ready_when(lambda: True),
            ready_child(child),
        ],
        stdin="open",
        client=lambda running: running.request("hello", "world"),
        env={"C": "d"},
        cwd="/",
    )


def start() -> None:
    """A start function with a handler inside."""


handler = closure(start, "start.<locals>.handler", defaults=(None,), kwdefaults={"a": 1}, runner=object())
assert_type(handler, Callable[..., Any])


@probe(operation=deliver("SIGTERM", until="wait_for_shutdown"), closes=True)
async def in_process(case: Case) -> object:
    """A handler in this process."""
    asyncio.get_running_loop()
    return object()


# -- a decorator leaves the function as it is ------------------------------------

assert_type(returned(case=Case.__new__(Case)).__class__.__name__, str)
named: str = plain.__name__


# -- what is wrong ---------------------------------------------------------------

probe("close")  # wrong: call-arg
probe()  # wrong: call-arg
probe(operation=3)  # wrong: arg-type
probe(operation="close", actors="2")  # wrong: arg-type
probe(operation="close", storm=["calm"])  # wrong: call-arg
probe(operation="close", expect={"returns": "no"})  # wrong: dict-item
probe(operation="close", follow_up="close")  # wrong: arg-type
na()  # wrong: call-arg
relax("why", "much")  # wrong: arg-type
tighten("why", value=3)  # wrong: call-arg
service(prompt="soon")  # wrong: arg-type
ready_port("80")  # wrong: arg-type
_ = stormdrain.storm  # wrong: attr-defined


def wrong_surroundings(case: Case) -> None:
    case.child(name=3)  # wrong: arg-type
    case.child(on_eof=3)  # wrong: arg-type
    case.child(sigturm="ignore")  # wrong: call-arg
    case.peer(replies=3)  # wrong: arg-type
    case.spawn(["server"])  # wrong: call-arg
    case.hand_back("close")  # wrong: arg-type
    case.event()  # wrong: call-arg
    _ = case.paths  # wrong: attr-defined
