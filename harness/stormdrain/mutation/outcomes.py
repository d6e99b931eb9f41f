"""What a mutant's raw results come to: one function for each interpreter, one for the record.

Outcomes are derived, never stored while things run, so that one rule decides them
all: a failed test that stays failed is a kill; a hang is a kill of its own name;
"missed" needs the proof that the mutated function runs at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..model import MutantRecord, Site, TestResult
from .campaign import Campaign, Ran
from .mutant import Mutant

Record = dict[str, Any]

_HANGS = {"deadlock": "deadlock", "spun": "spun", "looped": "spun", "hung": "hung"}
"""What the worker calls a verdict, and what the record does."""


def result(record: Record) -> TestResult:
    """One test's raw record as the model keeps it."""
    text = str(record.get("text", ""))
    verdict = record.get("verdict", "")
    where = "; ".join(record.get("where", ()))
    if verdict == "looped":
        text = f"a loop that never awaits: {where}"
    elif verdict in ("spun", "deadlock"):
        text = where or text
    outcome = "unstable" if "unstable" in record else _HANGS.get(verdict) or verdict or record["out"]
    if outcome == "failed" and "MemoryError" in text.partition("\n")[0]:
        outcome = "memory"
    if "unstable" in record:
        text = f"{record['unstable']}: {text}"
    return TestResult(outcome, text[:1000], round(float(record.get("seconds", 0.0)), 4))


def outcome(mutant: Mutant, ran: Ran, campaign: Campaign) -> str:
    """What a mutant came to on one interpreter."""
    if ran.unviable or ran.same_as:
        return "unviable"
    executed = [campaign.executed[name] for name in mutant.functions if name in campaign.executed]
    silent = bool(executed) and not any(executed)
    if not ran.chosen:
        return "not executed" if silent and campaign.facts.spawners else "uncovered"
    found = {result(record).outcome for record in ran.results.values()}
    if found & {"failed", "crashed"}:
        return "caught"
    if found & {"hung", "deadlock", "spun", "memory"}:
        return "timed out"
    if "unstable" in found:
        return "unstable"
    if silent or ran.broken or len(ran.results) < len(ran.chosen):
        return "not executed"
    return "missed"


def why_not(ran: Ran, names: Mapping[str, str]) -> str:
    """Why a mutant was not run, if it was not."""
    if ran.unviable:
        return f"does not compile: {ran.unviable}"
    if ran.same_as:
        return f"compiles to the same as {names.get(ran.same_as, ran.same_as)}"
    return f"the worker failed: {ran.broken}" if ran.broken else ""


def record(
    mutant: Mutant,
    sources: Mapping[str, bytes],
    parts: Sequence[tuple[str, Campaign, Ran]],
    names: Mapping[str, str],
) -> MutantRecord:
    """The record of a mutant over all interpreters.

    Args:
        mutant: the mutant.
        sources: the files that it started from.
        parts: interpreter, campaign and what became of it there.
        names: id -> name of every mutant.
    """
    errors = {python: text for python, _, ran in parts if (text := why_not(ran, names))}
    same = len(set(errors.values())) == 1 and len(errors) == len(parts)
    return MutantRecord(
        id=mutant.id,
        name=mutant.name,
        source=mutant.source,
        operator=mutant.operator,
        path=mutant.path,
        symbol=mutant.symbol,
        diff=mutant.diff(sources),
        why=mutant.why,
        outcome={python: outcome(mutant, ran, campaign) for python, campaign, ran in parts},
        matrix={python: _row(ran, campaign) for python, campaign, ran in parts},
        ran={python: len(ran.results) for python, _, ran in parts},
        expected=mutant.expected,
        site=Site(mutant.path, mutant.line, mutant.symbol, True) if mutant.line else None,
        error=next(iter(errors.values())) if same else "; ".join(f"{at}: {text}" for at, text in errors.items()),
        left={python: ran.left_behind for python, _, ran in parts if ran.left_behind},
        confirmed={python: ran.confirmed for python, _, ran in parts if ran.confirmed},
        taken=tuple(python for python, _, ran in parts if ran.known),
    )


def _row(ran: Ran, campaign: Campaign) -> dict[str, TestResult]:
    tests = campaign.suite.tests
    return {
        tests[index]: result(record)
        for index, record in sorted(ran.results.items())
        if record["out"] != "passed" or "unstable" in record
    }
