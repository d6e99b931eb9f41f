"""The worker's side of a search: the host draws schedules, trials of them run here.

The campaign is in the middle of its work: calm is known, the storms are over. The
host gets the field that it may draw from, and then asks for trials, a batch at a
time, until it has enough. What it wants kept joins the campaign's own trials, and is
confirmed and reported like them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..model import Note, Thrown, Trial, Verdict, parse_schedule
from ..storms import SEARCH, field
from .pool import Result

if TYPE_CHECKING:
    from .campaign import Campaign

Hear = Callable[[], "dict[str, Any] | None"]
"""Gives the host's next request; None where the host has gone."""
MINIMAL = 2
"""A finding with so many faults needs no search."""


def search(campaign: Campaign, hear: Hear) -> None:
    """Serve the host's search; the campaign has what came of it afterwards."""
    met = max(campaign.met.values(), default=0)
    campaign.say("field", field(campaign._ground(), met, _known(campaign.trials)))
    there: dict[str, Result] = {}
    while (request := hear()) is not None and "throw" in request:
        for thrown, result in _throw(campaign, request["throw"]):
            campaign.searched += 1
            if thrown.verdict is Verdict.FAIL or request.get("again"):
                there[thrown.schedule] = result
            campaign.say("thrown", thrown)
        campaign.say("caught", None)
    kept = [there[text] for text in (request or {}).get("keep", ()) if text in there]
    for result in campaign.lines.named(kept):
        campaign._keep(result.order, result)
    if note := (request or {}).get("note"):
        campaign.notes.append(Note(SEARCH, note))


def _throw(campaign: Campaign, texts: Sequence[str]) -> list[tuple[Thrown, Result]]:
    """Run schedules; in the order in which they were asked for, whichever was over first."""
    orders = [campaign._order(parse_schedule(text)) for text in texts]
    results = {id(result.order): result for result in campaign.pool.run(orders)}
    done = []
    for text, order in zip(texts, orders):  # as many of each
        result = results[id(order)]
        trial = campaign._judge(order, result, "storm")
        seen = result.observation
        met = seen.met if seen and seen.outcome.kind in ("returned", "raised") else None
        done.append((Thrown(text, trial.verdict, met, tuple(dict.fromkeys(_found(trial)))), result))
    return done


def _found(trial: Trial) -> list[str]:
    return [f"{finding.expectation} at {finding.site}" for finding in trial.findings]


def _known(trials: Sequence[Trial]) -> tuple[str, ...]:
    """What is already found with few faults at single points: nothing simpler can come of a search."""
    found: dict[str, None] = {}
    for trial in trials:
        faults = parse_schedule(trial.token.partition("/")[2]).faults
        if len(faults) <= MINIMAL and all(fault.when.kind in ("point", "start") for fault in faults):
            found.update(dict.fromkeys(_found(trial)))
    return tuple(found)
