"""Splices: the one representation of every change to source.

Overlays, explicit mutants, reverted hunks and operators all come down to
byte ranges that are replaced. Bytes, not trees, because everything outside the
range then stays what it was: line numbers, comments and formatting, so that a
diff shows the change and nothing else, and a traceback still points at the line
that its reader sees.

The edits of one list are all laid against the same source, so their order says
nothing; where two of them meet in one place the list is refused.
"""

from __future__ import annotations

import ast
import difflib
import io
import textwrap
import tokenize
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from .errors import UsageError
from .symbols import Symbol, Symbols

OPERATIONS = ("replace", "add_after", "add_before", "import", "delete", "old")
"""The keys of an `[[edit]]` table of which each table has exactly one."""


@dataclass(frozen=True)
class Splice:
    """Bytes `start` to `end` of the file `path` (relative to the import root) become `replacement`."""

    path: str
    start: int
    end: int
    replacement: bytes


@dataclass(frozen=True)
class Edit:
    """One `[[edit]]` table.

    operation: one of :data:`OPERATIONS`; text: the new source; old: what is
    replaced where the operation is `old`, and in how many places (`count`).
    where: the file and position of the table, for messages.
    """

    path: str
    operation: str
    text: str = ""
    symbol: str = ""
    old: str = ""
    count: int = 1
    where: str = ""


def read_edits(tables: Sequence[Mapping[str, object]], where: str) -> tuple[Edit, ...]:
    """Read the `[[edit]]` tables of an overlay or a mutant.

    Args:
        tables: the tables, as a TOML reader gives them.
        where: the file (and the mutant) that they stand in.

    Raises:
        UsageError: a table is not an edit.
    """
    if not isinstance(tables, (list, tuple)) or not tables:
        raise UsageError("no [[edit]] table is there", where=where, todo="write at least one [[edit]]")
    return tuple(_read_edit(table, f"{where}, edit {number}") for number, table in enumerate(tables, 1))


def _read_edit(table: Mapping[str, object], where: str) -> Edit:
    if not isinstance(table, Mapping):
        raise UsageError("an edit must be a table", where=where, todo="write it as [[edit]]")
    known = {*OPERATIONS, "module", "path", "symbol", "new", "count"}
    if unknown := sorted(set(table) - known):
        todo = f"known: {', '.join(sorted(known))}"
        raise UsageError(f"an edit has no key {unknown[0]!r}", where=where, todo=todo)
    for key, value in table.items():
        wanted = {"delete": bool, "count": int}.get(key, str)
        if type(value) is not wanted:
            raise UsageError(f"{key!r} must be a {wanted.__name__}", where=where, todo=f"it is {value!r}")
    operations = [key for key in OPERATIONS if key in table and table[key] is not False]
    if len(operations) != 1:
        raise UsageError(
            f"an edit does exactly one thing; this one does {', '.join(operations) or 'nothing'}",
            where=where,
            todo=f"keep one of {', '.join(OPERATIONS)}",
        )
    operation, symbol = operations[0], str(table.get("symbol", ""))
    if fault := _misfit(table, operation, symbol):
        raise UsageError(fault[0], where=where, todo=fault[1])
    text = table.get("new", "") if operation == "old" else table[operation]
    return Edit(
        path=_edit_path_of(table, where),
        operation=operation,
        text="" if operation == "delete" else str(text),
        symbol=symbol,
        old=str(table.get("old", "")),
        count=int(str(table.get("count", 1))),
        where=where,
    )


def _misfit(table: Mapping[str, object], operation: str, symbol: str) -> tuple[str, str] | None:
    """What is wrong about the keys that go with an operation, and what to do."""
    if operation == "old" and ("new" not in table or not table["old"]):
        return "`old` needs a text that is not empty, and `new`", 'give new = "..."'
    if operation != "old" and ("new" in table or "count" in table):
        return f"`new` and `count` go with `old`, not with `{operation}`", "remove them"
    if operation == "import" and symbol:
        return "an import is put at module level, in no symbol", "remove `symbol`"
    if operation in ("replace", "add_after", "add_before", "delete") and not symbol:
        return f"`{operation}` needs a symbol", 'give symbol = "Class.method"'
    if int(str(table.get("count", 1))) < 1:
        return "`count` must be 1 or more", "remove it, or count the places"
    return None


def _edit_path_of(table: Mapping[str, object], where: str) -> str:
    if ("module" in table) == ("path" in table):
        raise UsageError("an edit names a `module` or a `path`, one of them", where=where, todo="give one")
    if "module" in table:
        name = str(table["module"])
        if not all(part.isidentifier() for part in name.split(".")):
            raise UsageError(f"{name!r} is no module name", where=where, todo='write module = "pkg.mod"')
        return name.replace(".", "/") + ".py"
    path = str(table["path"])
    if not path or path.startswith("/") or "\\" in path or {"..", "."} & set(path.split("/")):
        raise UsageError(f"{path!r} is no path below the import root", where=where, todo='write path = "pkg/mod.py"')
    return path


def edit_path(edit: Edit, exists: Callable[[str], bool] | None = None) -> str:
    """The file that an edit changes, relative to the import root.

    Args:
        edit: the edit.
        exists: says whether there is a file of that relative path; with it, a
            module that is a package is found in its `__init__.py`.
    """
    package = edit.path.removesuffix(".py") + "/__init__.py"
    if exists is not None and not exists(edit.path) and exists(package):
        return package
    return edit.path


def splices(edit: Edit, source: bytes, path: str) -> tuple[Splice, ...]:
    """The splices that carry out an edit on the source of its file.

    Args:
        edit: the edit.
        source: the whole file.
        path: the path that the splices are to name.

    Raises:
        UsageError: the edit does not fit: no such symbol, no such text, text
            that is no Python.
    """
    where = edit.where or path
    if edit.operation == "old" and not edit.symbol:
        return _text_splices(edit, source, path, 0, len(source), where)
    symbols = Symbols(source, where=f"{where} ({path})" if edit.where else path)
    if edit.operation == "import":
        offset = symbols.import_offset()
        text = _indented(edit.text, "", where)
        glue = "" if offset == 0 or source[:offset].endswith((b"\n", b"\r")) else "\n"
        return (Splice(path, offset, offset, _encoded(glue + text + "\n", source)),)
    symbol = symbols.find(edit.symbol)
    if edit.operation == "old":
        return _text_splices(edit, source, path, *symbols.whole_lines(symbol), where)
    return (_symbol_splice(edit, source, path, symbols, symbol, where),)


def _symbol_splice(edit: Edit, source: bytes, path: str, symbols: Symbols, symbol: Symbol, where: str) -> Splice:
    first, last = symbols.whole_lines(symbol)
    if edit.operation == "delete":
        shares = source[first : symbol.start].strip() or source[symbol.end : last].strip()[:1] == b";"
        if symbol.alone or shares:
            return Splice(path, symbol.start, symbol.end, b"pass")
        return Splice(path, first, last, b"")
    indent = symbols.indent(symbol)
    text = _indented(edit.text, indent, where)
    if edit.operation == "replace":
        return Splice(path, symbol.start, symbol.end, _encoded(text.removeprefix(indent), source))
    gap = "\n" if symbol.kind == "assign" else "\n\n" if indent else "\n\n\n"
    if edit.operation == "add_before":
        return Splice(path, first, first, _encoded(text + gap, source))
    while last > symbol.end and source[last - 1 : last] in (b"\n", b"\r"):
        last -= 1
    return Splice(path, last, last, _encoded(gap + text, source))


def _text_splices(edit: Edit, source: bytes, path: str, start: int, end: int, where: str) -> tuple[Splice, ...]:
    old, new = _encoded(edit.old, source), _encoded(edit.text, source)
    found, at = [], source.find(old, start, end)
    while at >= 0:
        found.append(Splice(path, at, at + len(old), new))
        at = source.find(old, at + len(old), end)
    if len(found) == edit.count:
        return tuple(found)
    place = f"in {edit.symbol}" if edit.symbol else "in the file"
    lines = ", ".join(str(source.count(b"\n", 0, item.start) + 1) for item in found)
    if found:
        todo = "make `old` longer, or give `count`"
    elif _loosely(old) in _loosely(source[start:end]):
        todo = "it is there with another indentation: write the leading blanks as they are in the file"
    else:
        todo = "compare it with the file, blanks and line ends too"
    raise UsageError(
        f"{edit.old!r} is {place} {len(found)} times{f' (lines {lines})' if lines else ''}, not {edit.count}",
        where=f"{where} ({path})",
        todo=todo,
    )


def _loosely(text: bytes) -> bytes:
    return b"\n".join(line.strip() for line in text.strip().splitlines())


def _encoded(text: str, source: bytes) -> bytes:
    """`text` in the file's encoding and with its line ends."""
    crlf = source.count(b"\r\n") * 2 > source.count(b"\n")
    return (text.replace("\r\n", "\n").replace("\n", "\r\n") if crlf else text).encode()


def _indented(text: str, indent: str, where: str) -> str:
    """The definition in `text` moved to `indent`; what lies within its strings stays untouched."""
    text = text.strip("\r\n").rstrip()
    first = text[: len(text) - len(text.lstrip(" \t"))]
    shell = "async def _():\n" if first else ""
    try:
        ast.parse(shell + text)
        inside = lines_within_strings(shell + text)
    except (SyntaxError, tokenize.TokenError) as error:
        line = (getattr(error, "lineno", None) or 1) - bool(first)
        raise UsageError(
            f"the new source is not Python: {getattr(error, 'msg', error)} (its line {line})",
            where=where,
            todo="write it dedented, as it would stand at module level",
        ) from error
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if number + bool(first) not in inside and line.strip():
            lines[number - 1] = indent + line.removeprefix(first)
    return "\n".join(lines)


def lines_within_strings(text: str) -> set[int]:
    """The lines (from 1) that begin inside a string, where an indentation would change its value."""
    inside: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            inside.update(range(token.start[0] + 1, token.end[0] + 1))
    return inside


def apply(source: bytes, splices: Iterable[Splice]) -> bytes:
    """The source with all splices carried out; all of them count from the original.

    Order does not matter, except that insertions at the same offset keep the
    order that they are given in.

    Raises:
        UsageError: two of them overlap, or one lies outside the source.
    """
    out, at = [], 0
    for item in sorted(splices, key=lambda item: (item.start, item.end)):
        line = source.count(b"\n", 0, item.start) + 1
        where = f"{item.path}:{line}"
        if not 0 <= item.start <= item.end <= len(source):
            raise UsageError("an edit lies outside the file", where=where, todo="take it from this version")
        if item.start < at:
            raise UsageError("two edits change the same place", where=where, todo="make one edit of them")
        out += [source[at : item.start], item.replacement]
        at = item.end
    return b"".join([*out, source[at:]])


def edited(source: bytes, edits: Iterable[Edit], path: str) -> bytes:
    """The source of one file with several edits carried out, all of them laid against that source.

    Raises:
        UsageError: one of them does not fit, or two overlap.
    """
    return apply(source, [item for edit in edits for item in splices(edit, source, path)])


def line_splices(path: str, old: bytes, new: bytes) -> tuple[Splice, ...]:
    """Splices that turn `old` into `new`: one for each independent group of lines that differ."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    offsets = [0]
    for line in before:
        offsets.append(offsets[-1] + len(line))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return tuple(
        Splice(path, offsets[i1], offsets[i2], b"".join(after[j1:j2]))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    )


def unified(path: str, old: bytes, new: bytes, context: int = 3) -> str:
    """The change of one file as a unified diff."""
    before, after = (source.decode("utf-8", "replace").splitlines() for source in (old, new))
    return "\n".join(difflib.unified_diff(before, after, f"a/{path}", f"b/{path}", lineterm="", n=context))


def dedented(text: str) -> str:
    """Source without its common indentation and outer blank lines, for messages and reports."""
    return textwrap.dedent(text).strip("\n")
