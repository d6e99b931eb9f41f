"""What new tests prove and how much delay tests bear, on a terminal and as rows for other formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model import Run
from ..model.suites import RedGreen, Slack
from .escape import plain
from .kills import short_test

if TYPE_CHECKING:
    from .terminal import Page

KINDS = {
    "broken": "not green on head",
    "decorative": "green without the change",
    "wrong reason": "red for the wrong reason",
    "unstable": "not the same each time",
    "red": "red without the change",
}
"""Every kind of new test, those that need attention first."""
_STYLE = {"broken": "bold magenta", "decorative": "bold red", "wrong reason": "bold red", "unstable": "yellow"}
ROWS = 200
TRIED = 60.0
"""Seconds of delay beyond which nothing was tried."""


def ordered(run: Run) -> list[RedGreen]:
    """New tests, those that need attention first."""
    return sorted(run.redgreen, key=lambda one: list(KINDS).index(one.kind) if one.kind in KINDS else 0)


def pythons(run: Run) -> list[str]:
    """Interpreters on which suites ran."""
    tests = [one.python for one in run.redgreen] + [one.python for one in run.slack]
    return [one.python for one in run.baselines] + tests


def tightest(run: Run) -> list[Slack]:
    """Tests by how little they bear, the tightest first."""

    def least(one: Slack) -> float:
        return min((value for value in (one.margin, one.child_start, one.turn) if value is not None), default=1e9)

    return sorted(run.slack, key=least)


def seconds(value: float | None) -> str:
    """A time in a column; `-` where there is none."""
    if value is None:
        return "-"
    if value >= TRIED:
        return f"{TRIED:g}+"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def print_suites(page: Page, run: Run) -> None:
    """Print new tests and the slack of tests, where the run has them."""
    for one in ordered(run)[:ROWS]:
        page.say(
            (one.kind, _STYLE.get(one.kind, "green")), f" on {plain(one.python, 12)}: {plain(short_test(one.test))}"
        )
        text = one.message.partition("\n")[0]
        if one.reason and not text.startswith(one.reason):
            text = f"{one.reason}: {text}"
        if text:
            page.say((plain(text, 300), "dim"), indent=2)
    if run.redgreen:
        page.gap()
    if run.slack:
        _slack(page, tightest(run))


def _slack(page: Page, rows: list[Slack]) -> None:
    """Seconds: what each test took, what was left of its tightest timeout, and the delays that it bears."""
    heads = ("waits", "work", "margin", "of", "start", "turn")
    page.say(("".join(head.rjust(7) for head in heads) + "  test", "dim"))
    several = len({one.python for one in rows}) > 1
    for one in rows[:ROWS]:
        values = (one.waits, one.work, one.margin, one.of, one.child_start, one.turn)
        name = plain(short_test(one.test).removeprefix("test_"), 200)
        name = f"{plain(one.python, 8)} {name}" if several else name
        room = 80 - 7 * len(heads) - 2
        line = "".join(seconds(value).rjust(7) for value in values)
        page.verbatim(f"{line}  {name if len(name) <= room else name[: room - 2] + '..'}")
    if len(rows) > ROWS:
        page.say(f"and {len(rows) - ROWS} more, in run.json")
    page.say(
        (
            "margin: left of the tightest timeout (of); start, turn: delay of each process start, of each turn of the "
            "loop, that the test bears",
            "dim",
        )
    )
    page.gap()
