"""The mutants of a run on a terminal: what survived and why that matters, and the kill matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..gate.policy import minor
from ..model import Baseline, MutantRecord, Run
from .escape import plain
from .kills import (
    MARKS,
    by_outcome,
    catchers,
    change_lines,
    ordered,
    pythons_of,
    readers,
    short_test,
    surprises,
    unwatched_sentence,
    watched_of,
)

if TYPE_CHECKING:
    from .terminal import Page

_STYLE = {
    "survivor": "bold red",
    "caught only unwatched": "bold yellow",
    "undecided": "yellow",
    "caught": "green",
    "none": "dim",
}
_WORD = {"survivor": "SURVIVES", "caught only unwatched": "ALMOST", "undecided": "UNDECIDED"}
_WIDTH = 80
FULL = 30
"""Mutants that are shown in full, and suites whose left-out tests are."""


def print_mutants(page: Page, run: Run) -> None:
    """Print baselines, survivors in full, and the matrix of all."""
    for baseline in run.baselines[:FULL]:
        _suite(page, baseline)
    if run.baselines:
        page.gap()
    pairs = ordered(run)
    loud = [pair for pair in pairs if pair[0] in _WORD]
    for kind, mutant in loud[:FULL]:
        _loud(page, run, kind, mutant)
    if len(loud) > FULL:
        page.say(f"and {len(loud) - FULL} more that no test catches, in run.json")
        page.gap()
    _matrix(page, pairs)


def _suite(page: Page, baseline: Baseline) -> None:
    text = f"{len(baseline.tests)} tests, {len(baseline.left_out)} left out"
    if baseline.revision:
        text = f"{plain(baseline.revision, 80)}: {text}"
    if baseline.forced:
        text += f"; forced failure: {plain(baseline.forced, 160)}"
    page.row(f"suite {plain(baseline.python, 7)}", text, indent=0)
    for test, why in list(baseline.left_out.items())[:10]:
        page.row("", f"left out: {plain(short_test(test), 120)}: {plain(why, 160)}", "yellow", indent=0)


def _loud(page: Page, run: Run, kind: str, mutant: MutantRecord) -> None:
    page.say((_WORD[kind], _STYLE[kind]), " ", (plain(mutant.name, 120), "bold"))
    where = plain(mutant.symbol or mutant.path, 200)
    page.say(f"{where} - {by_outcome(mutant) or 'was not run'}", indent=2)
    if kind == "caught only unwatched":
        page.say((unwatched_sentence(mutant, watched_of(run) or ()), "yellow"), indent=2)
    if mutant.why:
        page.say(plain(mutant.why, 400), indent=2)
    if mutant.error:
        page.say((plain(mutant.error, 400), "magenta"), indent=2)
    for line in change_lines(mutant):
        style = {"-": "red", "+": "green"}.get(line[:1], "dim")
        page.verbatim(plain(line, 62), style, indent=4)
    caught = catchers(mutant)
    for python, number in mutant.left.items():
        page.row("left behind", plain(f"{number} processes on {python}"), "yellow")
    if caught and kind != "survivor":
        page.row("noticed by", plain(", ".join(caught[:6]), 400))
    for text in dict.fromkeys(mutant.confirmed.values()):
        page.row("confirmed", plain(text, 200))
    for text in surprises(mutant):
        page.row("the plan", plain(text, 300), "yellow")
    page.row("id", plain(mutant.id, 80))
    page.gap()


def _fit(mutant: MutantRecord, room: int) -> str:
    """A mutant and who noticed it, on one line: the first test, cut where it must be, and how many more."""
    tests = catchers(mutant)
    name = plain(mutant.name, 40)
    if not tests:
        return name
    more = f" +{len(tests) - 1}" if len(tests) > 1 else ""
    test = plain(tests[0].removeprefix("test_"), 200)
    left = room - len(name) - len(more) - 2
    return f"{name}: {test if len(test) <= left else test[: max(left - 2, 0)] + '..'}{more}"


def _matrix(page: Page, pairs: list[tuple[str, MutantRecord]]) -> None:
    """A row for each mutant and a column for each interpreter."""
    pythons = pythons_of([mutant for _, mutant in pairs])
    if not pythons:
        return
    page.say((" ".join(minor(python).rjust(4) for python in pythons) + "  mutant", "dim"))
    for kind, mutant in pairs[: 10 * FULL]:
        marks = " ".join(MARKS.get(mutant.outcome.get(python, ""), " ").rjust(4) for python in pythons)
        room = max(20, _WIDTH - len(marks) - 2)
        page.verbatim(f"{marks}  {_fit(mutant, room)}", _STYLE[kind])
    if len(pairs) > 10 * FULL:
        page.say(f"and {len(pairs) - 10 * FULL} more, in run.json")
    used = {outcome for _, mutant in pairs for outcome in mutant.outcome.values()}
    legend = ", ".join(f"{mark} {outcome}" for outcome, mark in MARKS.items() if outcome in used)
    page.say((legend, "dim"))
    for test in readers(mutant for _, mutant in pairs):
        page.row("reads source", plain(test, 200), "yellow", indent=0)
    odd = [(mutant, text) for kind, mutant in pairs if kind == "caught" for text in surprises(mutant)]
    for mutant, text in odd[:FULL]:
        page.row("the plan", plain(f"{mutant.name}: {text}", 300), "yellow", indent=0)
    page.gap()
