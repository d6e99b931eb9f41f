"""`stormdrain redgreen`: the head's new tests on the base's source.

A test that was written for a change has to fail without it. One that passes is
decorative; one that fails because the code it imports is not there yet says nothing
about behaviour. Both look like a good test on the head.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import BaselineError, UsageError
from ..known import harness
from ..model.suites import RedGreen
from ..revisions import Environment, Revision, find_interpreters, prepare, resolve
from ..revisions.cache import digest
from ..symbols import Symbols
from .assertions import files_of_tests
from .campaign import Campaign
from .results import suite_digest
from .runner import MutationRequest, completed, find_tests
from .sources import changed_files
from .suite import SuiteProcess, SuiteSpec
from .together import Together

Held = Callable[[SuiteProcess], AbstractContextManager[object]]

RIGHT = "an assertion"
WRONG = {
    "AttributeError", "ImportError", "ModuleNotFoundError", "NameError", "TypeError", "SyntaxError",
    "UnboundLocalError", "FixtureLookupError",
}  # fmt: skip
"""Exceptions that say that something is not there, not that it behaves badly."""


@dataclass(frozen=True)
class Kept:
    """The record in the cache."""

    found: tuple[RedGreen, ...]


def run(
    request: MutationRequest, listen: Callable[[object], None], within: Together | None = None
) -> tuple[RedGreen, ...]:
    """Run the head's new tests on base's source and on head's.

    Args:
        request: head, base, tests, interpreters and environment are used; with `reuse`, what an
            earlier run found is taken where nothing that it depends on has changed.
        listen: gets progress lines and each :class:`RedGreen`.
        within: ends this run when it is stopped itself.

    Raises:
        UsageError: no base is named, or something does not fit.
        BaselineError: head's suite cannot be collected.
    """
    request, _ = completed(request)
    if not request.base:
        raise UsageError("redgreen needs a base", where="--base", todo="give --base REV")
    revisions = [
        resolve(spec, project=request.project, cache=request.cache, sdist=request.environment.sdist)
        for spec in (request.base, request.head)
    ]
    base, head = revisions
    new = new_tests(request, base, head)
    found: list[RedGreen] = []
    with Together(request.jobs, listen, within) as together:
        parts = []
        for interpreter in find_interpreters(request.pythons):
            old, now = (
                prepare(
                    revision,
                    interpreter,
                    requires=request.requires,
                    config=request.environment,
                    cache=request.cache,
                )
                for revision in revisions
            )
            parts.append(together.begin(partial(_unless_known, request, head, old, now, new, together)))
        for part in parts:
            for one in part.result():
                found.append(one)
                together.listen(one)
    return tuple(found)


def _unless_known(
    request: MutationRequest,
    head: Revision,
    old: Environment,
    now: Environment,
    new: Mapping[str, set[str]] | None,
    together: Together,
) -> tuple[RedGreen, ...]:
    """Compare on one interpreter, or take what an earlier run of the same content found."""
    tests, cwd = find_tests(request, head)
    of_tests = sorted((file, sorted(names)) for file, names in (new or {}).items())
    key = digest(
        harness(), old.digest, now.digest, now.interpreter.full, *request.arguments, *tests,
        suite_digest(tests, Path(cwd)), new is None, of_tests,
    )  # fmt: skip
    kept = request.cache.read("redgreen", key, Kept) if request.reuse else None
    if kept is None:
        version = now.interpreter.version
        kept = Kept(tuple(compare(request, head, old, now, new, version, together.listen, together.held)))
        if request.reuse and all(one.kind != "unstable" for one in kept.found):
            made = kept
            request.cache.make("redgreen", key, Kept, lambda folder: made)
    return kept.found


def new_tests(request: MutationRequest, base: Revision, head: Revision) -> Mapping[str, set[str]] | None:
    """Real path of each test file -> functions that base does not have in that form; None: all are new."""
    if base.source is None:
        return None
    tests, cwd = find_tests(request, head)
    found: dict[str, set[str]] = {}
    for name, real in files_of_tests(tests, Path(cwd)).items():
        here = _functions(Path(real))
        before = _functions(base.source / name)
        found[real] = {function for function, text in here.items() if before.get(function) != text}
    return found


def _functions(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    symbols = Symbols(file.read_bytes(), where=str(file))
    return {symbol.name: ast.dump(symbol.node) for symbol in symbols.all if symbol.kind == "function"}


def compare(
    request: MutationRequest,
    head: Revision,
    old: Environment,
    now: Environment,
    new: Mapping[str, set[str]] | None,
    python: str,
    listen: Callable[[object], None],
    held: Held = nullcontext,
) -> list[RedGreen]:
    """Run the head's tests on both sources.

    Args:
        request: the tests and how to run them.
        head: whose tests they are.
        old, now: base's and head's environment on one interpreter.
        new: which tests count (see :func:`new_tests`).
        python: what to call the interpreter.
        listen: gets progress lines.
        held: around the time in which a suite is there, so that it can be ended from elsewhere.
    """
    on_head, _ = _baseline(request, head, old, now, now, f"head on {python}", listen, held)
    wanted = {
        test: real
        for test, real in on_head.paths.items()
        if new is None or test.partition("[")[0].partition("::")[2].replace("::", ".") in new.get(real, set())
    }
    on_base, errors = _baseline(request, head, old, now, old, f"base on {python}", listen, held)
    return [_judge(test, python, on_head, on_base, errors) for test in wanted]


@dataclass
class _Side:
    """How tests came out on one side: green ones, and why the others did not."""

    paths: dict[str, str]
    green: set[str]
    left_out: dict[str, str]
    raw: dict[str, dict[str, Any]]


def _baseline(
    request: MutationRequest,
    head: Revision,
    old: Environment,
    now: Environment,
    on: Environment,
    label: str,
    listen: Callable[[object], None],
    held: Held,
) -> tuple[_Side, dict[str, str]]:
    tests, cwd = find_tests(request, head)
    files = tuple(path for path in changed_files(old.layer, now.layer) if (on.layer / path).is_file())
    spec = SuiteSpec(
        python=on.python,
        layers=on.path,
        files=files,
        tests=tests,
        cwd=cwd,
        arguments=request.arguments,
        jobs=request.jobs,
        seed=request.seed,
        label=label,
    )
    listen(f"{label}: collecting")
    try:
        with SuiteProcess(spec) as suite, held(suite):
            campaign = Campaign(suite, {}, {}, listen, label=label)
            baseline = campaign.baseline()
            paths = dict(zip(suite.tests, suite.facts["paths"], strict=True))
            return _Side(paths, set(baseline.tests), baseline.left_out, campaign.raw), suite.facts["errors"]
    except BaselineError as error:
        if on is now:
            raise
        return _Side({}, set(), {}, {}), {"": str(error.what).partition("\n")[0].partition(": ")[2]}


def _judge(test: str, python: str, head: _Side, base: _Side, errors: Mapping[str, str]) -> RedGreen:
    if test not in head.green:
        return RedGreen(test, python, "broken", message=head.left_out.get(test, "it did not run"))
    if test in base.green:
        return RedGreen(test, python, "decorative", message="it is green without the change")
    if test not in base.paths:
        why = next((text for node, text in errors.items() if test.startswith(node)), "it is not there on base")
        last = why.strip().rpartition("\n")[2].removeprefix("E").strip()
        return RedGreen(test, python, "wrong reason", last.partition(":")[0], last)
    message = base.left_out.get(test, "")
    if message.startswith("unstable"):
        return RedGreen(test, python, "unstable", message=message)
    record = base.raw.get(test, {})
    reason = reason_of(record)
    kind = "wrong reason" if reason in WRONG or record.get("when") == "setup" else "red"
    return RedGreen(test, python, kind, reason, message.partition(": ")[2])


def reason_of(record: Mapping[str, Any]) -> str:
    """What failed a test: an assertion, a hang of some kind, or the exception's name."""
    if record.get("verdict"):
        return str(record["verdict"])
    name = str(record.get("text", "")).partition(": ")[2].partition("\n")[0].partition(":")[0].strip()
    return RIGHT if name in ("AssertionError", "Failed") else name.rpartition(".")[2]
