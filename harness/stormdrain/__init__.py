"""stormdrain proves that asynchronous Python code shuts down correctly.

This is what a probe script imports: :func:`probe` for an operation, :func:`service` for a command, the
stances :func:`na`, :func:`relax` and :func:`tighten`, and what shows that a service is ready.

Names are loaded when they are asked for, so that the command line starts at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .worker.case import Case
    from .worker.handler import closure, deliver
    from .worker.script import na, probe, relax, tighten
    from .worker.service import ready_child, ready_file, ready_line, ready_port, ready_reply, ready_when, service

__all__ = [
    "Case",
    "__version__",
    "closure",
    "deliver",
    "na",
    "probe",
    "ready_child",
    "ready_file",
    "ready_line",
    "ready_port",
    "ready_reply",
    "ready_when",
    "relax",
    "service",
    "tighten",
]

_WHERE = {
    **dict.fromkeys(("na", "probe", "relax", "tighten"), "worker.script"),
    **dict.fromkeys(("closure", "deliver"), "worker.handler"),
    "Case": "worker.case",
}


if not TYPE_CHECKING:  # or every name would be there

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f".{_WHERE.get(name, 'worker.service')}", __name__), name)
        globals()[name] = value
        return value
