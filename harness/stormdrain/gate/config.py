"""`[tool.stormdrain]`: read strictly, so that a misspelt key is an error and not a gate that never closes.

The file is the project's pyproject.toml, or a file of ours with the same tables
for a project that is not ours. Paths in it are looked up beside it first, then in
the current directory.
"""

from __future__ import annotations

import ast
import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomllib

from ..errors import UsageError
from ..model import OnePlatform
from ..revisions import EnvironmentConfig
from .kinds import DATE, FLAG, NUMBER, PERCENT, STRING, STRINGS, TABLE, TABLES, fits
from .located import anchored, line_of
from .nearest import nearest
from .policy import BASE_RULES, REDGREEN_RULES, UNWATCHED_RULES, Accepted, CoveragePolicy, Policy

KEYS: dict[str, dict[str, str]] = {
    "tool.stormdrain": {
        "base": STRING,
        "head": STRING,
        "watched": STRINGS,
        "environment": TABLE,
        "gate": TABLE,
        "accepted": TABLES,
    },
    "tool.stormdrain.environment": {
        "extras": STRINGS,
        "groups": STRINGS,
        "requires": STRINGS,
        "install": STRINGS,
        "sdist": FLAG,
        "dependencies": STRING,
    },
    "tool.stormdrain.gate": {
        "probes": STRINGS,
        "plans": STRINGS,
        "mutants": STRINGS,
        "tests": STRINGS,
        "pythons": STRINGS,
        "optional_pythons": STRINGS,
        "backends": STRINGS,
        "storms": STRINGS,
        "budget": STRING,
        "seed": NUMBER,
        "fail_on": STRINGS,
        "base_rule": STRING,
        "max_survivors": NUMBER,
        "unwatched": STRING,
        "redgreen": STRING,
        "coverage": TABLE,
    },
    "tool.stormdrain.gate.coverage": {"union": PERCENT, "per_cell": PERCENT, "only": TABLES},
    "tool.stormdrain.gate.coverage.only": {"condition": STRING, "symbol": STRING, "reason": STRING},
    "tool.stormdrain.accepted": {"id": STRING, "reason": STRING, "until": DATE},
}
"""Every key that is known, by table, with what it holds."""


@dataclass(frozen=True)
class Plan:
    """What the gate runs."""

    probes: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()
    mutants: tuple[str, ...] = ()
    """Kinds of mutants (`plan`, `revert`, `operator`, `general`, `neutral`); empty: all."""
    tests: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    optional_pythons: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    storms: tuple[str, ...] = ()
    budget: str = "60s"
    seed: int = 0


@dataclass(frozen=True)
class Config:
    """A whole configuration.

    found: whether the file has a `[tool.stormdrain]` table at all.
    watched: None where it does not say which interpreters CI runs.
    """

    file: Path
    found: bool = False
    base: str | None = None
    head: str | None = None
    watched: tuple[str, ...] | None = None
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    plan: Plan = field(default_factory=Plan)
    policy: Policy = field(default_factory=Policy)

    def path(self, name: str) -> Path:
        """A path that the configuration names: beside the file if it is there, else as given."""
        beside = self.file.parent / name
        return beside if beside.exists() else Path(name)


def load_config(file: Path, *, must_exist: bool = True) -> Config:
    """Read the configuration of a file.

    Raises:
        UsageError: it cannot be read, or a key or value of it is not known.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        if not must_exist and isinstance(error, (FileNotFoundError, NotADirectoryError)):
            return Config(file)
        raise UsageError(
            f"the configuration cannot be read: {error.strerror}",
            where=str(file),
            todo="name the file with --config, or run in the project's folder",
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError("the configuration is not UTF-8", where=str(file), todo="save it as UTF-8") from error
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"the configuration is not TOML: {error}", where=str(file), todo="mend that line") from error
    tool = tables.get("tool", {})
    if "stormdrain" in tables:
        raise UsageError(
            "the table is called [tool.stormdrain]",
            where=f"{file}:{line_of(text, '', 'stormdrain')}",
            todo="put `tool.` before each of its names",
        )
    if not isinstance(tool, dict) or "stormdrain" not in tool:
        return Config(file)
    return _Reader(file, text).config(tool["stormdrain"])


class _Reader:
    def __init__(self, file: Path, text: str) -> None:
        self.file, self.text = file, text

    def wrong(self, table: str, key: str, what: str, todo: str = "", entry: int = 0) -> UsageError:
        where = f"{self.file}:{line_of(self.text, table, key, entry)}"
        return UsageError(what, where=where, todo=todo)

    def check(self, table: str, values: Any, entry: int = 0) -> Mapping[str, Any]:
        if not isinstance(values, dict):
            raise self.wrong(table.rpartition(".")[0], table.rpartition(".")[2], f"[{table}] is not a table")
        known = KEYS[table]
        for key, value in values.items():
            if key not in known:
                guess = nearest(key, known)
                todo = f"did you mean {guess!r}?" if guess else "known are: " + ", ".join(sorted(known))
                if other := next((name for name, keys in KEYS.items() if key in keys), ""):
                    todo = f"{key} belongs in [{other}]"
                raise self.wrong(table, key, f"[{table}] has no key {key!r}", todo, entry)
            if not fits(value, known[key]):
                raise self.wrong(table, key, f"{key} in [{table}] must be {known[key]}", "", entry)
        return values

    def one_of(self, table: str, values: Mapping[str, Any], key: str, choices: tuple[str, ...]) -> str:
        value = str(values.get(key, choices[0]))
        if value not in choices:
            todo = "it is one of: " + ", ".join(choices)
            raise self.wrong(table, key, f"{key} in [{table}] cannot be {value!r}", todo)
        return value

    def config(self, values: Any) -> Config:
        top = self.check("tool.stormdrain", values)
        folder = self.file.parent
        return Config(
            self.file,
            True,
            base=anchored(top["base"], folder) if "base" in top else None,
            head=anchored(top["head"], folder) if "head" in top else None,
            watched=tuple(top["watched"]) if "watched" in top else None,
            environment=self.environment(top.get("environment", {})),
            plan=self.plan(top.get("gate", {})),
            policy=self.policy(top.get("gate", {}), top.get("accepted", [])),
        )

    def environment(self, values: Any) -> EnvironmentConfig:
        table = self.check("tool.stormdrain.environment", values)
        self.one_of("tool.stormdrain.environment", table, "dependencies", ("metadata", "listed"))
        return EnvironmentConfig(**{key: _frozen(value) for key, value in table.items()})

    def plan(self, values: Any) -> Plan:
        table = self.check("tool.stormdrain.gate", values)
        names = Plan.__dataclass_fields__
        return Plan(**{key: _frozen(value) for key, value in table.items() if key in names})

    def policy(self, values: Any, accepted: Any) -> Policy:
        name = "tool.stormdrain.gate"
        table = self.check(name, values)
        fail_on = tuple(table.get("fail_on", Policy.fail_on))
        self.known_failures(fail_on)
        if table.get("max_survivors", 0) < 0:
            raise self.wrong(name, "max_survivors", "max_survivors cannot be below zero")
        return Policy(
            fail_on=fail_on,
            base_rule=self.one_of(name, table, "base_rule", BASE_RULES),
            max_survivors=table.get("max_survivors", 0),
            unwatched=self.one_of(name, table, "unwatched", UNWATCHED_RULES),
            redgreen=self.one_of(name, table, "redgreen", REDGREEN_RULES),
            accepted=tuple(self.entry(entry, index) for index, entry in enumerate(accepted)),
            coverage=self.coverage(table["coverage"]) if "coverage" in table else CoveragePolicy(),
        )

    def coverage(self, values: Any) -> CoveragePolicy:
        """Where the section is there and says nothing of the union, all is wanted of it."""
        name = "tool.stormdrain.gate.coverage"
        table = self.check(name, values)
        minimum = {key: 100 if table[key] == "all" else table[key] for key in ("union", "per_cell") if key in table}
        only = tuple(self.one_platform(entry, index) for index, entry in enumerate(table.get("only", [])))
        return CoveragePolicy(**{"union": 100, **minimum}, only=only)

    def one_platform(self, values: Any, index: int) -> OnePlatform:
        name = "tool.stormdrain.gate.coverage.only"
        table = self.check(name, values, index)
        what, todo = "", "each entry has a reason, and a condition (the test of an if) or a symbol (pkg.mod:Class.f)"
        if not table.get("reason", "").strip():
            what = "has no reason"
        elif bool(table.get("condition", "").strip()) == bool(table.get("symbol", "").strip()):
            what = "must have either a condition or a symbol"
        if what:
            raise self.wrong(name, "", f"entry {index + 1} of [[{name}]] {what}", todo, index)
        try:
            ast.parse(table.get("condition", "True").strip(), mode="eval")
        except (SyntaxError, ValueError):
            what = f"the condition {table['condition']!r} is no Python expression"
            raise self.wrong(name, "condition", what, "write what stands after `if`", index) from None
        return OnePlatform(**{key: value.strip() for key, value in table.items()})

    def known_failures(self, names: tuple[str, ...]) -> None:
        from .names import expectation_names

        known = {"FAIL", "UNRESOLVED", *expectation_names()}
        for name in names:
            if name not in known:
                guess = nearest(name, known)
                todo = f"did you mean {guess!r}?" if guess else "name FAIL, UNRESOLVED or an expectation"
                raise self.wrong("tool.stormdrain.gate", "fail_on", f"fail_on cannot hold {name!r}", todo)

    def entry(self, values: Any, index: int) -> Accepted:
        name = "tool.stormdrain.accepted"
        table = self.check(name, values, index)
        for key in KEYS[name]:
            if not str(table.get(key, "")).strip():
                todo = "each accepted entry has an id, a reason and a last day: until = 2026-12-31"
                raise self.wrong(name, "", f"accepted entry {index + 1} has no {key}", todo, index)
        return Accepted(table["id"], table["reason"], _day(table["until"]), line_of(self.text, name, "id", index))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _day(value: datetime.date | str) -> datetime.date:
    return datetime.date.fromisoformat(value) if isinstance(value, str) else value
