"""The door into a Python service: found through PYTHONPATH, gone before the service's first line.

Python imports `sitecustomize` at its start. This one takes its own folder out of
`sys.path` and its variables out of the environment again (the service's children get
neither), runs the `sitecustomize` that it hides, if there is one, and then lets
`_stormdrain_boot` put in place what the trial asked for. An interpreter that was
started with -E, -I or -S never comes here.
"""

from __future__ import annotations

import os
import sys

_VARIABLE = "STORMDRAIN_BOOT"


def _enter() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    asked = os.environ.pop(_VARIABLE, "")
    boot = None
    if asked:
        import marshal

        with open(asked, "rb") as file:
            boot = marshal.load(file)
        _restore(boot["path"])
        module = __import__("_stormdrain_boot")
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    _hidden()
    if boot is not None:
        module.install(boot)


def _restore(path: str | None) -> None:
    """PYTHONPATH as it would be without us."""
    if path is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = path


def _hidden() -> None:
    """Import the sitecustomize that this one hides, under the name that they share."""
    mine = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if mine is not None:
            sys.modules["sitecustomize"] = mine


_enter()
