"""stormdrain proves that asynchronous Python code shuts down correctly.

This is what a probe script imports: :func:`probe` and the stances :func:`na`,
:func:`relax` and :func:`tighten`.
"""

from __future__ import annotations

__version__ = "0.1.0"

from .worker.case import Case
from .worker.script import na, probe, relax, tighten

__all__ = ["Case", "__version__", "na", "probe", "relax", "tighten"]
