"""stormdrain proves that asynchronous Python code shuts down correctly.

This is what a probe script imports: :func:`probe` for an operation, :func:`service` for a command, the
stances :func:`na`, :func:`relax` and :func:`tighten`, and what shows that a service is ready.
"""

from __future__ import annotations

__version__ = "0.1.0"

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
