"""Unified diffs, applied to files whose place may differ from what the diff says.

`git apply` knows only the paths of the diff; a layer has other ones, and in a
layer half of a pull request (its tests) has no place at all. So a diff is taken
apart by file, and each file's hunks are laid on by content: at the stated line,
else at the nearest line where the old text is found exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unidiff.errors import UnidiffParseError
from unidiff.patch import Hunk, PatchedFile, PatchSet

from ..errors import UsageError

_TODO = "write it with `git diff` or `diff -u`"


class Misfit(Exception):
    """A hunk whose old text is not in the file; the message says which."""


@dataclass(frozen=True)
class Change:
    """One hunk: the line at which `old` stood (from 1), and the lines that replace it, endings included."""

    line: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]


@dataclass(frozen=True)
class FilePatch:
    """The part of a diff that is about one file.

    path: the file after the change (before it, where it is removed).
    source: the file before the change.
    """

    path: str
    source: str
    is_new: bool
    is_removed: bool
    changes: tuple[Change, ...]

    def apply(self, content: bytes) -> bytes:
        """The file's content with every hunk applied.

        Raises:
            Misfit: the old text of a hunk is not there.
        """
        lines = _lines(content)
        out: list[bytes] = []
        taken = 0
        for number, change in enumerate(self.changes, 1):
            at = _place(lines, change.old, max(change.line - 1, 0), taken)
            if at is None:
                raise Misfit(f"hunk {number} of {len(self.changes)} (line {change.line}) does not match")
            out += [*lines[taken:at], *change.new]
            taken = at + len(change.old)
        return b"".join([*out, *lines[taken:]])


def _lines(content: bytes) -> list[bytes]:
    lines = [line + b"\n" for line in content.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _place(lines: Sequence[bytes], old: Sequence[bytes], wanted: int, first: int) -> int | None:
    """The index nearest to `wanted`, from `first` on, at which `old` stands."""
    wanted = max(wanted, first)
    last = len(lines) - len(old)
    for distance in range(max(wanted - first, last - wanted, 0) + 1):
        for at in (wanted + distance, wanted - distance):
            if first <= at <= last and tuple(lines[at : at + len(old)]) == tuple(old):
                return at
    return None


def read_patch(body: bytes, where: str) -> tuple[FilePatch, ...]:
    """Take a unified diff apart.

    Args:
        body: the diff, as `git diff` or `diff -u` writes it.
        where: its file, for messages.

    Raises:
        UsageError: it is not a unified diff, changes nothing, or changes binary files.
    """
    try:
        patch = PatchSet.from_string(body.decode("utf-8", "surrogateescape"))
        files = tuple(_file(file) for file in patch if _says_something(file))
    except (UnidiffParseError, ValueError) as error:
        raise UsageError(f"the patch cannot be read: {error}", where=where, todo=_TODO) from error
    if not files:
        raise UsageError("the patch changes no text file", where=where, todo=_TODO)
    return files


def _says_something(file: PatchedFile) -> bool:
    # A change of mode alone says nothing, and a binary file cannot be told by lines.
    moved = file.is_rename or file.is_added_file or file.is_removed_file
    return bool(len(file)) or (moved and not file.is_binary_file)


def _file(file: PatchedFile) -> FilePatch:
    return FilePatch(
        path=file.path,
        source=file.path if file.is_added_file else _plain(file.source_file),
        is_new=file.is_added_file,
        is_removed=file.is_removed_file,
        changes=tuple(_change(hunk) for hunk in file),
    )


def _plain(name: str) -> str:
    return name.removeprefix("a/")


def _change(hunk: Hunk) -> Change:
    old: list[bytes] = []
    new: list[bytes] = []
    sides: list[list[bytes]] = []
    for line in hunk:
        value = line.value.encode("utf-8", "surrogateescape")
        if line.line_type == "\\":
            # "No newline at end of file" is about the line before it.
            for side in sides:
                side[-1] = side[-1].removesuffix(b"\n")
            continue
        sides = [side for side, on in ((old, not line.is_added), (new, not line.is_removed)) if on]
        for side in sides:
            side.append(value)
    return Change(hunk.source_start, tuple(old), tuple(new))
