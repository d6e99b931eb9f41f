"""The suite worker: `python -m stormdrain.worker.suite SETTINGS LIFE COMMANDS EVENTS`.

SETTINGS is a JSON file; the others are inherited descriptors: the pipe whose end
says that the host is gone, requests from the host, lines to it.
"""

from __future__ import annotations

import functools
import json
import os
import select
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from .. import guardian, linux
from . import clock, doors, finder


def main() -> int:
    """Set a guardian up and run the suite below it."""
    settings, *numbers = sys.argv[1:5]
    if linux.fix_addresses():
        os.execv(sys.executable, [sys.executable, "-m", "stormdrain.worker.suite", *sys.argv[1:5]])
    life, commands, events = map(int, numbers)
    for descriptor in (life, commands, events):
        os.set_inheritable(descriptor, False)
    with open(settings) as file:
        status = guardian.guard(life, lambda: work(json.load(file), commands, events))
    # Only the guardian comes here. A host that was killed cannot clean up after itself.
    if select.select([life], [], [], 0)[0]:
        shutil.rmtree(os.path.dirname(settings), ignore_errors=True)
    return status


def work(settings: dict[str, Any], commands: int, events: int) -> int:
    """Collect the suite and serve jobs."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    clock.install()
    doors.open_asyncio()
    try:
        import pytest
    except ImportError as error:
        os.write(events, (json.dumps(["failed", f"{error}; the suite needs pytest"]) + "\n").encode())
        return 1

    from . import rewrites
    from .cold import Cold
    from .monitor import ImportWatch
    from .session import Session
    from .warm import Warm
    from .zygote import ColdStart, Zygote

    os.chdir(settings["cwd"])
    if sys.path and sys.path[0] in ("", settings["cwd"], os.getcwd()):
        del sys.path[0]
    real = set(settings["files"].values())
    finder.install(settings["layers"], real)
    rewrites.keep(Path(settings["temporary"]))
    watch = ImportWatch(functools.lru_cache(maxsize=None)(lambda name: os.path.realpath(name) in real))
    arguments = settings["arguments"] + _quietened()
    begun = Zygote.begin()
    role = Cold(settings["layers"], begun) if isinstance(begun, ColdStart) else Warm(commands, events, begun)
    session = Session(settings, watch, role, Cold)
    watch.start()
    status = pytest.main(arguments, plugins=[session])
    if not session.served:
        session.role.lose(session, f"pytest ended with status {int(status)} before it had collected")
    sys.stdout.flush()
    os._exit(0)


def _quietened() -> list[str]:
    """Options that switch off what has no place under a mutant: caches, coverage, other processes."""
    from importlib.util import find_spec

    options = ["-p", "no:cacheprovider", "--capture=no"]
    if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        return options
    if find_spec("pytest_cov"):
        options.append("--no-cov")
    if find_spec("pytest_randomly"):
        options += ["-p", "no:randomly"]
    if find_spec("xdist"):
        options += ["-n", "0"]
    return options


if __name__ == "__main__":
    sys.exit(main())
