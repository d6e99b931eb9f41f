"""Interpreters in the matrices of GitHub workflows, tox, nox and hatch, read without running any of them."""

from __future__ import annotations

import ast
import configparser
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib


@dataclass(frozen=True)
class Found:
    """Interpreters that one kind of file names, the files, and what could not be read."""

    pythons: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


OLDEST = 6
"""Minor version below which a number is a mistake (3.1 for 3.10) and no interpreter."""

_VERSION = re.compile(r"(?:cpython-?|cp|python|py)?(3)\.?(\d{1,2})(?:\.\d+)?(?:[abt]|-dev|\.?rc.*|-rc.*)?\d*$")


def version_of(text: object) -> str:
    """`3.11` of `3.11.4`, `py311`, `python3.11`, `3.11-dev`; empty for the rest (`pypy3.10`, `3.x`)."""
    match = _VERSION.fullmatch(str(text).strip().lower())
    return f"3.{match[2]}" if match and int(match[2]) >= OLDEST else ""


def _versions(texts: Iterable[object]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(version for version in map(version_of, texts) if version))


# GitHub workflows

_TESTS = re.compile(r"\b(pytest|py\.test|tox|nox|hatch|unittest|test|tests|make|just|coverage)\b")
_EXPRESSION = re.compile(r"\$\{\{\s*matrix\.([\w-]+)\s*\}\}")
_IN_COMMAND = re.compile(r"(?:--python[= ]|-p |uv python install |python)(3\.\d+)\b|\bpy(3\d{1,2})\b")


def from_workflows(project: Path) -> Found:
    """Interpreters on which a job of .github/workflows runs something that looks like tests."""
    files = sorted((project / ".github" / "workflows").glob("*.y*ml"))
    if not files:
        return Found()
    try:
        import yaml  # type: ignore[import-untyped] # it ships no types
    except ModuleNotFoundError:
        return Found(notes=("workflows were not read: PyYAML is not installed",))
    pythons: list[str] = []
    sources: list[str] = []
    notes: list[str] = []
    for file in files:
        name = f".github/workflows/{file.name}"
        try:
            data = yaml.safe_load(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError, RecursionError):
            notes.append(f"{name} cannot be read")
            continue
        jobs = data.get("jobs", {}) if isinstance(data, dict) else {}
        found: list[str] = []
        for job in jobs.values() if isinstance(jobs, dict) else ():
            if isinstance(job, dict):
                found += _job(job, name, notes)
        if found:
            sources.append(name)
            pythons += found
    return Found(tuple(dict.fromkeys(pythons)), tuple(sources), tuple(notes))


def _job(job: dict[str, Any], name: str, notes: list[str]) -> list[str]:
    listed = job.get("steps")
    steps = [step for step in listed if isinstance(step, dict)] if isinstance(listed, list) else []
    commands = [str(step.get("run", "")) for step in steps]
    if steps and not any(_TESTS.search(command) for command in commands):
        return []
    strategy = job.get("strategy")
    matrix = strategy.get("matrix") if isinstance(strategy, dict) else None
    axes = list(matrix.values()) if isinstance(matrix, dict) else [matrix]
    if any(isinstance(axis, str) for axis in axes):
        notes.append(f"{name}: a matrix is computed while it runs and was not read")
    rows = list(_rows(matrix)) if isinstance(matrix, dict) else [{}]
    texts: list[str] = []
    for row in rows:
        for text in _wanted(job, steps, commands):
            value = _EXPRESSION.sub(lambda match, row=row: str(row.get(match[1], "")), text)  # type: ignore[misc] # a default binds the row
            texts += value.split()
        texts += [str(value) for key, value in row.items() if "py" in key.lower()]
    if "3.1" in texts:
        notes.append(f"{name}: 3.10 without quotes is the number 3.1, and that is what CI gets")
    return list(_versions(texts))


def _wanted(job: dict[str, Any], steps: list[dict[str, Any]], commands: list[str]) -> Iterator[str]:
    """Texts in a job that name an interpreter."""
    for step in (job, *steps):
        given, env = step.get("with"), step.get("env")
        if isinstance(given, dict):
            yield from (str(value) for key, value in given.items() if "python-version" in str(key))
        if isinstance(env, dict):
            yield from (str(value) for key, value in env.items() if "PYTHON" in str(key))
    container = job.get("container")
    image = str(container.get("image", "")) if isinstance(container, dict) else str(container or "")
    if "python:" in image:
        yield image.rpartition("python:")[2].split("-")[0]
    for command in commands:
        for match in _IN_COMMAND.finditer(command):
            yield match[1] or f"py{match[2]}"


def _rows(matrix: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The combinations of a matrix, with its includes and without its excludes."""
    axes = {
        key: value for key, value in matrix.items() if isinstance(value, list) and key not in ("include", "exclude")
    }
    excluded = [row for row in matrix.get("exclude") or [] if isinstance(row, dict)]
    combinations = itertools.islice(itertools.product(*axes.values()), 2000)
    for combination in combinations:
        row = dict(zip(axes, combination, strict=True))
        if not any(all(row.get(key) == value for key, value in one.items()) for one in excluded):
            yield row
    yield from (row for row in matrix.get("include") or [] if isinstance(row, dict))


# tox


def from_tox(project: Path) -> Found:
    """Interpreters in tox's list of environments (tox.ini, setup.cfg, tox.toml, pyproject.toml)."""
    found: dict[str, list[str]] = {}
    for name, section in (("tox.ini", "tox"), ("setup.cfg", "tox:tox")):
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            if not parser.read(project / name, encoding="utf-8") or not parser.has_section(section):
                continue
        except (configparser.Error, UnicodeDecodeError):
            continue
        text = _env_list(parser, section)
        found[name] = [factor for env in _expanded(text) for factor in env.split("-")]
    for name, table in (("tox.toml", _toml(project / "tox.toml")), ("pyproject.toml", _tox_table(project))):
        environments = table.get("env_list", table.get("envlist", []))
        if isinstance(environments, list):
            found[name] = [factor for env in environments for factor in str(env).split("-")]
    return _found(found)


def _env_list(parser: configparser.ConfigParser, section: str) -> str:
    return parser.get(section, "env_list", fallback="") or parser.get(section, "envlist", fallback="")


def _tox_table(project: Path) -> dict[str, Any]:
    table = _toml(project / "pyproject.toml").get("tool", {}).get("tox", {})
    legacy = table.get("legacy_tox_ini") if isinstance(table, dict) else None
    if isinstance(legacy, str):
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            parser.read_string(legacy)
        except configparser.Error:
            return {}
        return {"env_list": _expanded(_env_list(parser, "tox"))}
    return table if isinstance(table, dict) else {}


def _expanded(text: str) -> list[str]:
    """`py{310,311}-{a,b}, lint` as the names that tox makes of it."""
    out = []
    for item in re.split(r"[,\s]+(?![^{]*\})", re.sub(r"#.*", "", text)):
        parts = [piece.split(",") if braced else [piece] for piece, braced in _pieces(item)]
        out += ["".join(combination).strip() for combination in itertools.islice(itertools.product(*parts), 2000)]
    return [name for name in out if name]


def _pieces(item: str) -> Iterator[tuple[str, bool]]:
    for match in re.finditer(r"\{([^}]*)\}|([^{}]+)", item):
        yield (match[1].replace(" ", ""), True) if match[1] is not None else (match[2], False)


# nox


def from_nox(project: Path) -> Found:
    """Interpreters of the sessions in noxfile.py, as far as they are literals or constants."""
    try:
        tree = ast.parse((project / "noxfile.py").read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return Found()
    constants: dict[str, list[str]] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            constants[statement.targets[0].id] = list(_strings(statement.value, constants))
    texts: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("session"):
                    for keyword in decorator.keywords:
                        if keyword.arg in ("python", "py"):
                            texts += _strings(keyword.value, constants)
    return _found({"noxfile.py": texts})


def _strings(node: ast.expr, constants: dict[str, list[str]]) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield from constants.get(node.id, [])
        return
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value
        elif isinstance(child, ast.Name):
            yield from constants.get(child.id, [])


# hatch


def from_hatch(project: Path) -> Found:
    """Interpreters in the matrices of hatch's environments (pyproject.toml, hatch.toml)."""
    tool = _toml(project / "pyproject.toml").get("tool", {})
    tables = {
        "pyproject.toml": tool.get("hatch", {}) if isinstance(tool, dict) else {},
        "hatch.toml": _toml(project / "hatch.toml"),
    }
    found: dict[str, list[str]] = {}
    for name, table in tables.items():
        for environment in _tables(table.get("envs") if isinstance(table, dict) else None):
            for row in _tables({str(n): row for n, row in enumerate(environment.get("matrix", []))}):
                pythons = row.get("python", row.get("py", []))
                found.setdefault(name, []).extend(str(one) for one in pythons)
    return _found(found)


def _tables(value: object) -> list[dict[str, Any]]:
    """The tables among the values of what should be a table of tables."""
    return [item for item in value.values() if isinstance(item, dict)] if isinstance(value, dict) else []


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _found(texts: dict[str, list[str]]) -> Found:
    versions = {name: _versions(values) for name, values in texts.items()}
    return Found(
        tuple(dict.fromkeys(one for found in versions.values() for one in found)),
        tuple(name for name, found in versions.items() if found),
    )
