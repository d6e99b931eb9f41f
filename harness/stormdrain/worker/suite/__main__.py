"""The suite worker: `python -m stormdrain.worker.suite SETTINGS LIFE COMMANDS EVENTS`.

SETTINGS is a JSON file; the others are inherited descriptors: the pipe whose end
says that the host is gone, requests from the host, lines to it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from typing import Any

from .. import guardian, linux


def main() -> int:
    """Set a guardian up and run the suite below it."""
    settings, *numbers = sys.argv[1:5]
    if linux.fix_addresses():
        os.execv(sys.executable, [sys.executable, "-m", "stormdrain.worker.suite", *sys.argv[1:5]])
    life, commands, events = map(int, numbers)
    for descriptor in (life, commands, events):
        os.set_inheritable(descriptor, False)
    with open(settings) as file:
        return guardian.guard(life, lambda: work(json.load(file), commands, events))


def work(settings: dict[str, Any], commands: int, events: int) -> int:
    """Collect the suite and serve jobs."""
    import signal

    from . import clock, doors, finder

    signal.signal(signal.SIGINT, signal.default_int_handler)
    clock.install()
    doors.open_asyncio()
    import pytest

    from .monitor import ImportWatch
    from .session import ColdSession, Session
    from .zygote import Zygote

    os.chdir(settings["cwd"])
    if sys.path and sys.path[0] in ("", settings["cwd"], os.getcwd()):
        del sys.path[0]
    arguments = settings["arguments"] + _quietened()
    real = set(settings["files"].values())
    finder.install(settings["layers"], real)
    watch = ImportWatch(functools.lru_cache(maxsize=None)(lambda name: os.path.realpath(name) in real))

    def cold(request: dict[str, Any], pipe: int) -> None:
        session = ColdSession(settings, request, pipe, watch)
        watch.start()
        status = pytest.main(arguments, plugins=[session])
        if not session.served:
            session.errors.setdefault("", f"pytest ended with status {int(status)} before it had collected")
            session.lose(session.names)
            session.send("end", [])

    zygote = Zygote(cold)
    session = Session(settings, commands, events, watch, zygote)
    watch.start()
    status = pytest.main(arguments, plugins=[session])
    if not session.served:
        with contextlib.suppress(BrokenPipeError):
            session.send("failed", int(status))
    sys.stdout.flush()
    os._exit(0)


def _quietened() -> list[str]:
    """Options that switch off what has no place under a mutant: caches, coverage, reordering, other processes."""
    from importlib.util import find_spec

    options = ["-p", "no:cacheprovider", "--capture=no"]
    if find_spec("pytest_cov"):
        options.append("--no-cov")
    if find_spec("pytest_randomly"):
        options += ["-p", "no:randomly"]
    if find_spec("xdist"):
        options += ["-n", "0"]
    return options


if __name__ == "__main__":
    sys.exit(main())
