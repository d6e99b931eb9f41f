"""What a probe is given: scripted children, a folder, declarations, hand-overs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .clock import clock

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .drive.service_client import Service
    from .props.child import Child
    from .props.hub import Hub
    from .props.keywords import ChildKeywords, PeerKeywords
    from .props.peer import Peer
    from .service import Command, Ready


class Case:
    """The surroundings of one trial.

    Attributes:
        param: the value of the probe's parameter set, None without `parametrize`.
        backend: `asyncio`, `uvloop` or `trio`.
        path: a folder of this trial's own; it is gone afterwards.
    """

    def __init__(self, folder: str, backend: str, param: Any, hub: Hub) -> None:
        self.path = os.path.join(folder, "case")
        self.backend = backend
        self.param = param
        self._hub = hub
        self.results: list[Any] = []
        """What the operation returned, to each caller that it returned to."""
        self.take_back: Callable[[Any], Any] | None = None
        self.overrides: dict[str, Any] = {}
        """What the storm changes of every scripted child."""
        self.events: list[str] = []
        self._on_event: Callable[[str], None] = lambda name: None
        os.makedirs(self.path, exist_ok=True)

    def child(self, name: str = "child", **script: Unpack[ChildKeywords]) -> Child:
        """A scripted child: an executable that the target starts; its `path` is what to start.

        Args:
            name: how it is called in reports.
            **script: what it does: `on_eof`, `sigterm`, `sigint`, `says`, `replies`, ... (see the README's table).

        Raises:
            UsageError: there is no such behaviour.
        """
        return self._hub.child(name, **{**script, **self.overrides})

    def spawn(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        ready: Ready | Sequence[Ready],
        stdin: str = "open",
        client: Callable[[Service], Any] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> Command:
        """The service of a service probe: what to run. It is started when the probe has returned or yielded this.

        Args:
            argv: the command, a list of words; no shell is involved.
            ready: what shows that it is up: `ready_line(...)`, `ready_reply(...)`, `ready_port(...)`,
                `ready_file(...)`, `ready_when(...)`, or several, one after the other.
            stdin: `open`: a pipe that stays open; `closed`: /dev/null.
            client: a function of the service that runs in a thread of its own once it is ready:
                it sends requests, streams, opens connections, and says `service.in_flight("name")`
                where a signal shall land.
            env: environment variables beyond the probe's.
            cwd: where it runs (default: `case.path`).

        Raises:
            UsageError: a value is wrong.
        """
        from .service import command

        return command(argv, ready=ready, stdin=stdin, client=client, env=env, cwd=cwd)

    def port(self, host: str = "127.0.0.1") -> int:
        """A TCP port that is free now, for the service to listen on."""
        import socket

        with socket.socket() as probe:
            probe.bind((host, 0))
            number: int = probe.getsockname()[1]
        return number

    def hand_back(self, take_back: Callable[[Any], Any]) -> None:
        """Say how a resource that the operation returns is given back before the follow-up.

        Args:
            take_back: called with what was returned; awaited where it answers with an awaitable.
        """
        self.take_back = take_back

    def peer(self, name: str = "peer", **script: Unpack[PeerKeywords]) -> Peer:
        """A scripted TCP peer on loopback; it listens when this returns. Its `host` and `port` are what to connect to.

        Args:
            name: how it is called in reports.
            **script: what it does: `replies`, `reply_after`, `silent`, `resets`, ... (see the README's table).

        Raises:
            UsageError: there is no such behaviour, or it does not come up.
        """
        return self._hub.peer(name, **script)

    def inert(self, pid: int | None = None) -> None:
        """Declare that a child (None: every child) does nothing by itself, so that it does not hold the clock."""
        if pid is None:
            clock.all_inert = True
        else:
            clock.inert.add(pid)

    def event(self, name: str) -> None:
        """Say that something happened: faults whose moment is `!name` land now (see `trigger`).

        Args:
            name: letters, digits, `_`, `.` and `-`.
        """
        self.events.append(name)
        self._on_event(name)
