"""Service probes: the decorator, the command that a probe gives, and when it counts as ready.

A service is a command, Python or not. What is known of it is what a supervisor knows:
how it is started, what shows that it is up, what its clients do, and what must be true
once it was told to go. A readiness condition is something that the service does; there
is none that waits for a time to pass.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, Union

from ..errors import UsageError
from ..model import Stance
from ..storms import names
from .script import MARK, Probe

if TYPE_CHECKING:
    from .drive.service_client import Service
    from .props.child import Child

F = TypeVar("F", bound=Callable[..., Any])
EOF = "EOF"
"""Stands for the end of its stdin where a signal's name could be."""
BOUND = 15.0
"""Seconds after the first fault after which a service counts as hung."""
FORBIDDEN = ("Traceback (most recent call last)", "Task was destroyed but it is pending")
SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")


@dataclass(frozen=True)
class Terms:
    """What must be true of a service once it was told to go."""

    exits: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    artefacts: Callable[..., Any] | None = None
    prompt: float | None = None
    forbids: tuple[str, ...] = FORBIDDEN
    bound: float = BOUND
    inject: bool = True


@dataclass(frozen=True)
class Ready:
    """One condition of readiness; `str()` says it in words."""

    kind: str
    text: str = ""
    reply: str = ""
    stream: str = ""
    host: str = "127.0.0.1"
    port: int = 0
    condition: Callable[[], Any] | None = None

    def __str__(self) -> str:
        where = f" on {self.stream}" if self.stream else ""
        return {
            "line": f"a line with {self.text!r}{where}",
            "reply": f"a reply with {self.reply!r} to the probe's request"
            + (f" on port {self.port}" if self.port else ""),
            "port": f"a listener on {self.host}:{self.port}",
            "file": f"the file {self.text}",
            "when": self.text or f"{getattr(self.condition, '__name__', 'the condition')} of the probe",
        }[self.kind]


def ready_line(text: str, stream: str = "") -> Ready:
    """Ready once it has printed a line that contains `text`; on `stdout`, `stderr`, or either."""
    if stream not in ("", "stdout", "stderr"):
        raise UsageError(
            f"There is no stream {stream!r}.", where="ready_line", todo="use stdout, stderr, or leave it out"
        )
    return Ready("line", text=text, stream=stream)


def ready_reply(request: str, reply: str, *, port: int = 0, host: str = "127.0.0.1") -> Ready:
    """Ready once it has answered a request with something that contains `reply`.

    Args:
        request: a line for its stdin; with `port`, what is sent over a connection (as it is).
        reply: a part of the line on its stdout, or of what comes back over the connection.
        port: where to connect to; 0: its stdin and stdout.
    """
    return Ready("reply", text=request, reply=reply, port=port, host=host)


def ready_port(port: int, host: str = "127.0.0.1") -> Ready:
    """Ready once it accepts a connection (which is closed again at once). `case.port()` gives a free port."""
    return Ready("port", port=port, host=host)


def ready_file(path: str | os.PathLike[str]) -> Ready:
    """Ready once the file is there."""
    return Ready("file", text=os.fspath(path))


def ready_when(condition: Callable[[], Any]) -> Ready:
    """Ready once a function of the probe says so: `ready_when(lambda: "call" in worker.lines())`."""
    return Ready("when", condition=condition)


def ready_child(child: Child) -> Ready:
    """Ready once a process of this scripted child is up, its signal handlers in place."""

    def is_up() -> bool:
        return any(process.ready for process in child.processes)

    return Ready("when", text=f"the scripted child {child.name!r} is up", condition=is_up)


@dataclass(frozen=True)
class Command:
    """What a service probe gives: made by `case.spawn`."""

    argv: tuple[str, ...]
    ready: tuple[Ready, ...]
    stdin: str = "open"
    client: Callable[[Service], Any] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""


def command(
    argv: Sequence[str | os.PathLike[str]],
    *,
    ready: Union[Ready, Sequence[Ready]],  # noqa: UP007 - a string form would hide it from `help()` on 3.10
    stdin: str,
    client: Callable[[Service], Any] | None,
    env: Mapping[str, str] | None,
    cwd: str | os.PathLike[str] | None,
) -> Command:
    """Check what `case.spawn` was given.

    Raises:
        UsageError: the command is no list of words, there is no readiness condition, a value is wrong.
    """
    if isinstance(argv, (str, bytes)) or not argv:
        raise UsageError(
            f"{argv!r} is no command.", where="case.spawn", todo='give a list of words: ["server", "--port", "8000"]'
        )
    conditions = (ready,) if isinstance(ready, Ready) else tuple(ready)
    if not conditions or not all(isinstance(one, Ready) for one in conditions):
        raise UsageError(
            "A service needs to say when it is ready.",
            where="case.spawn(ready=...)",
            todo="use ready_line, ready_reply, ready_port, ready_file or ready_when",
        )
    if stdin not in ("open", "closed"):
        raise UsageError(
            f"There is no stdin {stdin!r}.", where="case.spawn", todo="use open (a pipe that stays open) or closed"
        )
    if stdin == "closed" and any(one.kind == "reply" and not one.port for one in conditions):
        raise UsageError(
            "A request cannot be sent to a closed stdin.", where="case.spawn", todo="leave stdin open, or give port="
        )
    if client is not None and not callable(client):
        raise UsageError(f"{client!r} is no client.", where="case.spawn", todo="give a function of the service")
    words = tuple(os.fspath(word) for word in argv)
    return Command(words, conditions, stdin, client, dict(env or {}), os.fspath(cwd) if cwd else "")


def service(
    *,
    exits: Mapping[str, int | Sequence[int]] | None = None,
    artefacts: Callable[..., Any] | None = None,
    prompt: float | None = None,
    forbids: Sequence[str] = FORBIDDEN,
    bound: float = BOUND,
    inject: bool = True,
    expect: Mapping[str, Stance] | None = None,
    parametrize: Mapping[str, Any] | None = None,
    requires: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    storms: Sequence[str] = (),
) -> Callable[[F], F]:
    """Make a plain function of `case` the probe of a service.

    The function returns (or, as a generator, yields) what `case.spawn` gives; what
    follows a yield is run once the service has gone.

    Args:
        exits: the exit code that is right after each signal, or several; these signals are
            what storms send. `"EOF"` stands for the end of its stdin. Default: `{"SIGTERM": 0}`.
        artefacts: function of `case` that looks at the files of the service once it has gone:
            an exception, False or a text says what is wrong with them.
        prompt: seconds from the first signal within which it must have ended.
        forbids: what no line of its output may contain.
        bound: seconds after the first signal after which it counts as hung.
        inject: whether a Python service gets the code that tells, from inside, its steps and
            where it hangs; it is found through PYTHONPATH and taken out again before the service starts.
        expect: stances by expectation.
        parametrize: values for `case.param`, by name.
        requires: requirements that the environment needs beyond the target's own (a literal list).
        env: environment variables, for the service and everything else in the trial.
        storms: only these; by default all that apply.

    Raises:
        UsageError: a value is wrong.
    """
    for name, value in (("forbids", forbids), ("requires", requires), ("storms", storms)):
        if isinstance(value, str):
            raise UsageError(f"{name} is a text.", where=f"@service({name}={value!r})", todo="give a list")
    if unknown := sorted(set(storms) - set(names())):
        todo = f"choose from: {', '.join(names())}"
        raise UsageError(f"There is no storm {unknown[0]!r}.", where="@service(storms=...)", todo=todo)
    terms = Terms(_exits(exits), artefacts, prompt, tuple(forbids), float(bound), bool(inject))

    def mark(function: F) -> F:
        setattr(
            function,
            MARK,
            Probe(
                function=function,
                operation="exit",
                kind="service",
                terms=terms,
                backends=("service",),
                expect=dict(expect or {}),
                parametrize=dict(parametrize or {}),
                requires=tuple(requires),
                env=dict(env or {}),
                storms=tuple(storms),
                real_time="services run in real time",
            ),
        )
        return function

    return mark


def _exits(given: Mapping[str, int | Sequence[int]] | None) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for name, codes in (given if given is not None else {"SIGTERM": 0}).items():
        if name != EOF and not hasattr(signal, name):
            raise UsageError(
                f"{name!r} is no signal.", where="@service(exits=...)", todo=f"use {', '.join(SIGNALS)} or EOF"
            )
        found[name] = (codes,) if isinstance(codes, int) else tuple(codes)
    return found
