"""The mutants of a run on a terminal: what survived and why that matters, by interpreter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..gate.policy import CAUGHT, fate, minor
from ..model import MutantRecord, Run
from .escape import block, plain

if TYPE_CHECKING:
    from .terminal import Page

_STYLE = {
    "survivor": "bold red",
    "caught only unwatched": "bold yellow",
    "undecided": "yellow",
    "caught": "green",
    "none": "dim",
}
_WORD = {
    "survivor": "SURVIVES",
    "caught only unwatched": "ALMOST",
    "undecided": "UNDECIDED",
    "caught": "caught",
}
FULL = 30
"""Survivors that are shown in full."""


def by_outcome(mutant: MutantRecord) -> str:
    """`missed on 3.11, 3.12; caught on 3.14`."""
    pythons: dict[str, list[str]] = {}
    for python, outcome in mutant.outcome.items():
        pythons.setdefault(outcome, []).append(minor(python))
    return "; ".join(
        f"{outcome} on {', '.join(sorted(names, key=_key))}" for outcome, names in pythons.items()
    )


def _key(python: str) -> tuple[int, ...]:
    return tuple(int(part) for part in python.split(".") if part.isdigit())


def catchers(mutant: MutantRecord) -> tuple[str, ...]:
    """Tests that noticed it on any interpreter, by name."""
    return tuple(dict.fromkeys(test for tests in mutant.matrix.values() for test in tests))


def watched_of(run: Run) -> tuple[str, ...] | None:
    """Interpreters of the run that CI runs, None where it is not known."""
    text = run.unwatched.get("watched", "")
    return tuple(part.strip() for part in text.split(",") if part.strip()) or None


def ordered(run: Run) -> list[tuple[str, MutantRecord]]:
    """Mutants with their fate, survivors first."""
    rank = list(_STYLE)
    pairs = [(fate(mutant, watched_of(run)), mutant) for mutant in run.mutants]
    return sorted(pairs, key=lambda pair: rank.index(pair[0]))


def print_mutants(page: Page, run: Run) -> None:
    """Print baselines, survivors in full, and the rest in a line each."""
    for baseline in run.baselines:
        text = f"{len(baseline.tests)} tests green three times"
        if baseline.forced:
            text += f"; forced failure {plain(baseline.forced, 120)}"
        page.row(f"suite {plain(baseline.python, 8)}", text, indent=0)
        for test, why in list(baseline.left_out.items())[:10]:
            page.row("", f"left out: {plain(test, 120)}: {plain(why, 160)}", "yellow", indent=0)
    if run.baselines:
        page.gap()
    pairs = ordered(run)
    loud = [pair for pair in pairs if pair[0] not in ("caught", "none")]
    for kind, mutant in loud[:FULL]:
        _survivor(page, kind, mutant)
    if len(loud) > FULL:
        page.say(f"and {len(loud) - FULL} more, in run.json")
    quiet = [pair for pair in pairs if pair[0] in ("caught", "none")]
    for kind, mutant in quiet[: 2 * FULL]:
        _line(page, kind, mutant)
    if len(quiet) > 2 * FULL:
        page.say((f"and {len(quiet) - 2 * FULL} more that were caught or not viable, in run.json", "dim"))
    if pairs:
        page.gap()


def _survivor(page: Page, kind: str, mutant: MutantRecord) -> None:
    page.say((_WORD[kind], _STYLE[kind]), " ", (plain(mutant.name, 120), "bold"))
    page.say(f"{plain(mutant.symbol or mutant.path, 200)} - {by_outcome(mutant)}", indent=2)
    if mutant.why:
        page.say(plain(mutant.why, 400), indent=2)
    if mutant.error:
        page.say((plain(mutant.error, 400), "magenta"), indent=2)
    for line in _changed(block(mutant.diff, lines=14)):
        page.verbatim(
            line[:120],
            "red" if line.startswith("-") else "green" if line.startswith("+") else "dim",
            indent=4,
        )
    caught = catchers(mutant)
    if caught and kind != "survivor":
        page.row("noticed by", ", ".join(plain(test, 120) for test in caught[:6]))
    page.row("id", plain(mutant.id, 80))
    page.gap()


def _changed(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if not line.startswith(("---", "+++"))]


def _line(page: Page, kind: str, mutant: MutantRecord) -> None:
    tests = catchers(mutant)
    by = f" by {plain(tests[0].rpartition('::')[2], 60)}" if tests else ""
    more = f" and {len(tests) - 1} more" if len(tests) > 1 else ""
    timed = " (timed out)" if "timed out" in mutant.outcome.values() else ""
    text = f"{plain(mutant.name, 60)}{by}{more}{timed}" if kind == "caught" else f"{plain(mutant.name, 60)}: "
    page.row(
        _WORD.get(kind, "-"), text + ("" if kind == "caught" else by_outcome(mutant)), _STYLE[kind], indent=0
    )


def noticed(mutant: MutantRecord) -> bool:
    """Whether any interpreter's tests noticed it."""
    return any(outcome in CAUGHT for outcome in mutant.outcome.values())
