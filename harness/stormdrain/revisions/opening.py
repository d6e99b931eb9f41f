"""Lets a revision's layer into every Python of a prepared environment. Copied there, and run as it starts.

PYTHONPATH does not reach an interpreter that was started with -I or -E, and loses to a
checkout in the working directory under `python -c` and `-m`. What is named in
STORMDRAIN_LAYERS is found first in any case. Standard library only; without that
variable it does nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class Layers:
    """A finder for `sys.meta_path`: top-level modules and packages of the layers come from there."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = list(roots)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a top-level module in the layers; a namespace package is left to the path."""
        found = PathFinder.find_spec(name, self._roots) if path is None else None
        return found if found is not None and found.loader is not None else None


def open_to_layers() -> None:
    """Put the layers first."""
    roots = [root for root in os.environ.get("STORMDRAIN_LAYERS", "").split(os.pathsep) if root]
    if roots:
        sys.path[:0] = [root for root in roots if root not in sys.path]
        sys.meta_path.insert(0, Layers(roots))


open_to_layers()
