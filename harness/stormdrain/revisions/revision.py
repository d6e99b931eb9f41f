"""A revision, resolved: which code it is, and where its tree lies in the cache.

Resolving is the only step that talks to a repository or to an index about
*which* code is meant; what is built from it depends on nothing but the fields
here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .interpreters import Interpreter
from .metadata import requires_python, runs_on
from .spec import Overlay


@dataclass(frozen=True)
class Revision:
    """One version of the code under test.

    spec: as it was written.
    label: short, for tables.
    kind: `worktree`, `git`, `pr`, `release`, `path`, or `stdlib`: no package, the interpreter's own library.
    source: the project's directory in a tree with the overlays applied (tests are looked up there); None
        where only a wheel is to be had.
    root: the same directory without overlays: what is built.
    checkout: the tree that `root` lies in (another directory where the project is not the repository's top).
    digest: identity of the code without overlays.
    name, version, has_sdist, has_wheel: of a release; sdist: whether its source distribution must be taken.
    commit: full commit id; of the commit that a working tree is based on.
    """

    spec: str
    label: str
    kind: str
    source: Path | None
    root: Path | None
    checkout: Path | None
    digest: str
    overlays: tuple[Overlay, ...] = ()
    name: str = ""
    version: str = ""
    commit: str = ""
    has_sdist: bool = False
    has_wheel: bool = False
    sdist: bool = False
    notes: tuple[str, ...] = ()

    def runs_on(self, interpreter: Interpreter) -> bool:
        """Whether the revision says that it runs on an interpreter; yes where only a build would tell."""
        return self.root is None or runs_on(requires_python(self.root), interpreter.full)

    @property
    def requirement(self) -> str:
        """What an installer is asked for (releases only)."""
        return f"{self.name}=={self.version}"


@dataclass(frozen=True)
class Tree:
    """The record of a tree in the cache; `inside` is where it lies in its entry."""

    inside: str = "tree"
    notes: tuple[str, ...] = ()
