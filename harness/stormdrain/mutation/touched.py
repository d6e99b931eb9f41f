"""The statements that a diff touches, as the coverage package counts them.

What is a statement, where one ends that takes several lines, and what the project's
own coverage settings leave out (`# pragma: no cover`, `exclude_also`, `omit`) is the
coverage package's to say, so that the figures are those of the project's reports.
Where head and base lie in a repository, base's settings are used: a change cannot
leave its own lines out but by a comment that its reader sees.
"""

from __future__ import annotations

import ast
import configparser
import fnmatch
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tomllib

from ..errors import UsageError
from ..model import OnePlatform, Touched, numbers, ranges
from ..symbols import Symbols
from .sources import python_files
from .targets import changed_lines, module_path

if TYPE_CHECKING:
    from coverage.parser import PythonParser

    from .campaign import Campaign


@dataclass(frozen=True)
class Settings:
    """What the project's coverage settings leave out: a regular expression of lines, patterns of files, and paths."""

    exclude: str = ""
    omit: tuple[str, ...] = ()
    paths: tuple[tuple[str, ...], ...] = ()


def settings_of(*trees: Path | None) -> Settings:
    """The coverage settings of the first tree that has any, else coverage's own.

    Raises:
        UsageError: they cannot be read.
    """
    from coverage import Coverage
    from coverage.exceptions import CoverageException

    file = next((file for tree in trees if tree is not None for file in _settings_files(tree)), None)
    try:
        found = Coverage(data_file=None, config_file=str(file) if file else False)
    except CoverageException as error:
        raise UsageError(
            f"the coverage settings cannot be read: {error}",
            where=str(file),
            todo="mend that section: `coverage debug config` says what it takes",
        ) from error

    def listed(name: str) -> tuple[str, ...]:
        value = found.get_option(name)
        return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()

    paths = found.get_option("paths")
    return Settings(
        "|".join(f"(?:{one})" for one in (*listed("report:exclude_lines"), *listed("report:exclude_also"))),
        (*listed("run:omit"), *listed("report:omit")),
        tuple(tuple(map(str, one)) for one in paths.values()) if isinstance(paths, dict) else (),
    )


def _settings_files(tree: Path) -> Iterator[Path]:
    """Files of a tree that hold coverage settings, in the order in which coverage looks for them."""
    for name, lead in ((".coveragerc", ""), ("setup.cfg", "coverage:"), ("tox.ini", "coverage:")):
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            parser.read_string((tree / name).read_text(encoding="utf-8"))
        except (OSError, ValueError, configparser.Error):
            continue
        if any(section.startswith(lead) for section in parser.sections()):
            yield tree / name
    try:
        tables = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if tables.get("tool", {}).get("coverage"):
        yield tree / "pyproject.toml"


def parsed(source: bytes, exclude: str = "") -> PythonParser | None:
    """The statements of a file; None where this interpreter cannot parse it."""
    from coverage.exceptions import CoverageException
    from coverage.parser import PythonParser

    try:
        parser = PythonParser(text=source.decode("utf-8-sig"), exclude=exclude or None)
        parser.parse_source()
    except (CoverageException, UnicodeDecodeError):
        return None
    return parser


def touched_files(
    base: Path,
    head: Path,
    settings: Settings,
    only: Sequence[OnePlatform] = (),
    place: Callable[[str], str] = str,
) -> tuple[tuple[Touched, ...], tuple[str, ...]]:
    """The statements of head that are not base's.

    Args:
        base, head: layers.
        settings: of the project.
        only: what runs on one platform only.
        place: gives where an installed file lies in the repository.

    Returns:
        The files with any such statement, and those that cannot be parsed here.
    """
    found: list[Touched] = []
    unread: list[str] = []
    names = list(python_files(head))
    for path in names:
        new = (head / path).read_bytes()
        old = (base / path).read_bytes() if (base / path).is_file() else b""
        if new == old or _omitted((path, place(path)), settings.omit):
            continue
        lines = changed_lines({path: old}, {path: new}).get(path, set())
        parser = parsed(new, settings.exclude)
        if parser is None:
            unread.append(path)
            continue
        chosen = parser.first_lines(lines)
        statements = chosen & parser.statements
        excluded = chosen & parser.first_lines(parser.excluded)
        if statements or excluded:
            marks = _marks(path, new, only, names, statements)
            found.append(Touched(path, place(path), ranges(statements), ranges(excluded), marks))
    return tuple(found), tuple(unread)


def covered(campaign: Campaign, touched: Iterable[Touched]) -> dict[str, str]:
    """The touched statements of each file that ran while a suite was imported or under a test that its baseline keeps."""
    suite = campaign.suite
    found: dict[str, str] = {}
    for one in touched:
        source = campaign.sources[one.path]
        lines = {line for path, line in suite.facts["import_lines"] if suite.relative[path] == one.path}
        lines.update(*(ran.get(one.path, ()) for ran in campaign.facts.lines.values()))
        found[one.path] = ranges(statements_that_ran(source, lines, numbers(one.lines)))
    return found


def statements_that_ran(source: bytes, lines: Iterable[int], wanted: Collection[int]) -> set[int]:
    """Of the wanted statements of a file, those of which any line ran."""
    parser = parsed(source)
    return set() if parser is None else set(parser.first_lines(lines)) & set(wanted)


def _omitted(names: Iterable[str], patterns: Sequence[str]) -> bool:
    return any(
        fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(f"/{name}", pattern) for name in names for pattern in patterns
    )


def _marks(
    path: str, source: bytes, only: Sequence[OnePlatform], existing: Collection[str], statements: set[int]
) -> dict[str, str]:
    """Statements that run on one platform only, as ranges -> the reason; the first entry wins."""
    taken: set[int] = set()
    marks: dict[str, str] = {}
    for entry in only:
        lines = _guarded(source, entry.condition) if entry.condition else _named(path, source, entry.symbol, existing)
        here = (lines & statements) - taken
        if here:
            taken |= here
            marks[ranges(here)] = entry.reason
    return marks


def _guarded(source: bytes, condition: str) -> set[int]:
    wanted = _normal(condition)
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.If) and wanted in _conditions(node.test):
            lines.update(range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1))
    return lines


def _conditions(test: ast.expr) -> list[str]:
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else []
    return [ast.unparse(one) for one in (test, *parts)]


def _normal(condition: str) -> str:
    return ast.unparse(ast.parse(condition, mode="eval").body)


def _named(path: str, source: bytes, symbol: str, existing: Collection[str]) -> set[int]:
    placed = module_path(symbol, existing)
    if placed is None or placed[0] != path:
        return set()
    if not placed[1]:
        return set(range(1, source.count(b"\n") + 2))
    try:
        found = Symbols(source, where=path).find(placed[1])
    except UsageError:
        return set()
    return set(range(found.line, found.end_line + 1))
