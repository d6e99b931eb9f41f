"""Which file a module of the target is imported from: the revision's layer, or a mutated text of it.

A suite's own settings may put a checkout before the layer on `sys.path`; then
mutants of the layer would never run. So the top-level packages that hold a file
under test are found in the layer first. A mutated text is served from memory:
the source tree is never written.
"""

from __future__ import annotations

import importlib.machinery
import linecache
import os
import sys
from collections.abc import Iterable, Sequence
from types import CodeType, ModuleType
from typing import Any

from . import codes


class MutantLoader(importlib.machinery.SourceFileLoader):
    """Loads a module from its file, or from the text that stands in for it."""

    def get_code(self, fullname: str) -> CodeType | None:
        text = LayerFinder.texts.get(os.path.realpath(self.path))
        if text is None:
            return super().get_code(fullname)
        code = codes.compiled(text, self.path)
        LayerFinder.loaded.append(code)
        return code

    def get_source(self, fullname: str) -> str | None:
        text = LayerFinder.texts.get(os.path.realpath(self.path))
        return super().get_source(fullname) if text is None else text


class LayerFinder:
    """A finder for `sys.meta_path`. `texts` holds mutated sources by real path."""

    texts: dict[str, str] = {}  # noqa: RUF012 - one per process, as sys.modules is

    loaded: list[CodeType] = []  # noqa: RUF012 - as above
    """What was compiled from such texts."""

    def __init__(self, layers: Sequence[str], packages: Iterable[str]) -> None:
        self.layers = list(layers)
        self._packages = frozenset(packages)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        top = name.partition(".")[0]
        if top not in self._packages:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, self.layers if path is None else path)
        if spec is not None and type(spec.loader) is importlib.machinery.SourceFileLoader:
            spec.loader = MutantLoader(spec.loader.name, spec.loader.path)
        return spec


def move(layers: Sequence[str]) -> None:
    """From here on the packages are found in these layers before the others."""
    for finder in sys.meta_path:
        if isinstance(finder, LayerFinder):
            finder.layers[:0] = layers
    LayerFinder.texts = {}


def install(layers: Sequence[str], files: Iterable[str]) -> None:
    """Find the packages that hold the files in the layers first.

    Args:
        layers: import roots of the revision.
        files: paths below one of them.
    """
    tops = {os.path.relpath(file, layer).split(os.sep)[0] for layer in layers for file in files}
    finder: Any = LayerFinder(layers, {top.removesuffix(".py") for top in tops if not top.startswith("..")})
    sys.meta_path.insert(0, finder)


def serve(texts: dict[str, str], names: dict[str, str]) -> None:
    """From here on these texts stand in for their files: in imports to come and in tracebacks.

    Args:
        texts: real path -> text.
        names: how code objects spell paths -> real path.
    """
    LayerFinder.texts = texts
    for spelled, real in names.items():
        if real in texts:
            text = texts[real]
            linecache.cache[spelled] = (len(text), None, text.splitlines(True), spelled)
