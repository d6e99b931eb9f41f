"""What the kill matrix says of a mutant: who noticed it, where, and whether the plan expected that."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import UsageError
from ..gate.policy import fate, minor
from ..model import MutantRecord, Run

ORDER = ("survivor", "caught only unwatched", "undecided", "caught", "none")
"""Fates, those that need attention first."""

MARKS = {
    "caught": "X",
    "timed out": "T",
    "missed": ".",
    "uncovered": "u",
    "not executed": "?",
    "unstable": "~",
    "unviable": "-",
}
"""One letter for each outcome, in a matrix."""


def version_key(python: str) -> tuple[int, ...]:
    """Orders interpreters as a person would."""
    return tuple(int(part) for part in python.split(".") if part.isdecimal() and len(part) < 9)


def by_outcome(mutant: MutantRecord) -> str:
    """`missed on 3.11, 3.12; caught on 3.14`."""
    pythons: dict[str, list[str]] = {}
    for python in sorted(mutant.outcome, key=version_key):
        pythons.setdefault(mutant.outcome[python], []).append(minor(python))
    return "; ".join(f"{outcome} on {', '.join(names)}" for outcome, names in pythons.items())


def short_test(name: str) -> str:
    """A test's own name, without the path of its file."""
    return name.rpartition("::")[2] or name


def catchers(mutant: MutantRecord) -> tuple[str, ...]:
    """Tests that noticed it on any interpreter, by short name."""
    found = (
        short_test(test)
        for tests in mutant.matrix.values()
        for test, result in tests.items()
        if result.outcome not in ("passed", "skipped", "not-run", "unstable")
    )
    return tuple(dict.fromkeys(found))


def readers(mutants: Iterable[MutantRecord]) -> tuple[str, ...]:
    """Tests that notice a change that changes nothing: they read the source instead of running it."""
    found = (test for mutant in mutants if mutant.source == "neutral" for test in catchers(mutant))
    return tuple(dict.fromkeys(found))


def watched_of(run: Run) -> tuple[str, ...] | None:
    """Interpreters that CI runs, None where it is not known."""
    text = run.unwatched.get("watched", "")
    return tuple(part.strip() for part in text.split(",") if part.strip()) or None


def ordered(run: Run) -> list[tuple[str, MutantRecord]]:
    """Mutants with their fate, those that need attention first."""
    pairs = [(fate(mutant, watched_of(run)), mutant) for mutant in run.mutants]
    return sorted(pairs, key=lambda pair: ORDER.index(pair[0]))


def pythons_of(mutants: Sequence[MutantRecord]) -> tuple[str, ...]:
    """Every interpreter of the matrix, the oldest first."""
    return tuple(sorted({python for mutant in mutants for python in mutant.outcome}, key=version_key))


def on(run: Run, pythons: Sequence[str]) -> Run:
    """The run with its mutants as only these interpreters see them (`3.12` or a whole version); all of it for none.

    Raises:
        UsageError: no mutant was put to one of them.
    """
    if not pythons:
        return run
    known = pythons_of(run.mutants)
    kept: set[str] = set()
    for python in pythons:
        found = {one for one in known if one == python or minor(one) == python}
        if not found:
            raise UsageError(
                f"no mutant was put to tests on {python}",
                where="--python",
                todo=f"the run has {', '.join(known)}" if known else "run `stormdrain mutate` first",
            )
        kept |= found
    mutants = tuple(_mutant_on(one, kept) for one in run.mutants if not one.outcome or kept & set(one.outcome))
    baselines = tuple(one for one in run.baselines if one.python in kept)
    return dataclasses.replace(run, mutants=mutants, baselines=baselines)


def _mutant_on(mutant: MutantRecord, kept: set[str]) -> MutantRecord:
    by_python = ("outcome", "matrix", "ran", "left", "confirmed")
    changes: dict[str, Any] = {
        name: {python: value for python, value in getattr(mutant, name).items() if python in kept} for name in by_python
    }
    return dataclasses.replace(mutant, **changes)


def expected_on(mutant: MutantRecord, python: str) -> frozenset[str] | None:
    """Tests that the plan expects to notice it on an interpreter, None where it says nothing."""
    if not mutant.expected:
        return None
    lead = f"{minor(python)} "
    own = [text.removeprefix(lead) for text in mutant.expected if text.startswith(lead)]
    anywhere = [text for text in mutant.expected if not re.match(r"3\.\d+ ", text)]
    return frozenset(own or anywhere) - {"nothing"}


def surprises(mutant: MutantRecord) -> tuple[str, ...]:
    """Where the tests that noticed it are not those that the plan names, a sentence for each interpreter."""
    rows = []
    for python in sorted(mutant.outcome, key=version_key):
        wanted = expected_on(mutant, python)
        if wanted is None or mutant.outcome[python] in ("unviable", "not executed", "unstable"):
            continue
        seen = {
            short_test(test)
            for test, result in mutant.matrix.get(python, {}).items()
            if result.outcome not in ("passed", "skipped", "not-run", "unstable")
        }
        wanted = frozenset(short_test(test) for test in wanted)
        missing, more = sorted(wanted - seen), sorted(seen - wanted)
        said = [f"not noticed by {', '.join(missing)}"] if missing else []
        said += [f"noticed by {', '.join(more)} too"] if more else []
        if said:
            rows.append(f"on {minor(python)} it was {' and '.join(said)}")
    return tuple(rows)


def unwatched_sentence(mutant: MutantRecord, watched: Sequence[str]) -> str:
    """`caught only on 3.14, which nothing runs`."""
    pythons = [
        minor(python)
        for python in sorted(mutant.outcome, key=version_key)
        if mutant.outcome[python] in ("caught", "timed out") and minor(python) not in watched
    ]
    return f"caught only on {', '.join(pythons)}, which nothing runs"


def change_lines(mutant: MutantRecord, limit: int = 14) -> list[str]:
    """The changed lines of its diff with a line of context around them, dedented, at most `limit`."""
    lines = [line for line in mutant.diff.splitlines() if not line.startswith(("---", "+++", "@@", "\\"))]
    near = {
        index + offset
        for index, line in enumerate(lines)
        if line[:1] in "+-" and line
        for offset in (-1, 0, 1)
        if 0 <= index + offset < len(lines)
    }
    kept = [lines[index] or " " for index in sorted(near)]
    bodies = [line[1:] for line in kept if line[1:].strip()]
    indent = min((len(body) - len(body.lstrip()) for body in bodies), default=0)
    shown = [line[0] + line[1 + indent :] for line in kept]
    return [*shown[:limit], f"  ({len(shown) - limit} lines more)"] if len(shown) > limit else shown
