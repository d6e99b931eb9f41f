"""The baseline: every test unmutated, three times, in both clocks.

A test that is red, or sometimes red, would seem to catch every mutant; so it is left
out on the interpreter where it is so, and named. A test that comes out otherwise in
virtual time runs in real time from then on. What each test needed is what bounds it
under a mutant, and the lines that it ran are what it can notice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..model import Baseline
from .facts import Ran, Record

if TYPE_CHECKING:
    from .campaign import Campaign


def establish(campaign: Campaign) -> Baseline:
    """Run everything unmutated: which tests may be used, in which clock, and which lines they run."""
    began = time.monotonic()
    items = list(range(len(campaign.suite.tests)))
    campaign.listen(f"{campaign.label}: baseline of {len(items)} tests")
    runs = _runs(
        campaign,
        items,
        {
            "real": {"clock": "real"},
            "lines": {"clock": "virtual", "cover": True},
            "virtual": {"clock": "virtual"},
        },
    )
    again = [index for index in items if not _alike([one.results.get(index, {}) for one in runs.values()])]
    more = _runs(campaign, again, {"real 2": {"clock": "real"}, "real 3": {"clock": "real", "cover": True}})
    for index in items:
        _judge(campaign, index, runs, more)
    _learn(campaign, runs, more)
    campaign.suite.needs({index: _needs(campaign, index, runs, more) for index in campaign.facts.kept})
    return Baseline(
        python=campaign.suite.facts["python"],
        tests=tuple(campaign.suite.tests[index] for index in campaign.facts.kept),
        left_out={**campaign.suite.facts["errors"], **campaign.facts.left_out},
        seconds=round(time.monotonic() - began, 3),
    )


def _runs(campaign: Campaign, items: Sequence[int], kinds: Mapping[str, Record]) -> dict[str, Ran]:
    """Run tests in several ways; in real time, which takes long, in as many parts as there are jobs."""
    jobs: list[Record] = []
    for name, options in kinds.items():
        parts = 2 * campaign.suite.spec.jobs if options["clock"] == "real" else 1
        for number in range(min(parts, len(items))):
            jobs.append({"id": f"{name} {number}", "items": list(items[number::parts]), **options})
    found = {name: Ran(chosen=list(items)) for name in kinds if items}
    for key, ran in campaign.run(jobs).items():
        one = found[key.rpartition(" ")[0]]
        one.results.update(ran.results)
        one.left += ran.left
        one.broken = one.broken or ran.broken
    return found


def _judge(campaign: Campaign, index: int, runs: Mapping[str, Ran], more: Mapping[str, Ran]) -> None:
    """Keep a test that is green three times in one clock; else name it and say what it did."""
    name = campaign.suite.tests[index]
    first = runs["real"].results.get(index, {})
    if first.get("out") == "skipped":
        campaign.facts.left_out[name] = f"skipped: {first.get('text', '')}"
        return
    real = [first, *(one.results.get(index, {}) for one in more.values())]
    every = [one.results.get(index, {}) for one in runs.values()]
    if all(record.get("out") == "passed" for record in every):
        campaign.facts.kept.append(index)
        return
    failures = [record for record in real if record.get("out") != "passed"]
    if not failures:
        campaign.facts.kept.append(index)
        campaign.facts.real.add(index)
        return
    campaign.raw[name] = failures[0]
    text = failures[0].get("text", "no result")
    kind = "red" if len(failures) == len(real) else f"unstable, {len(failures)} of {len(real)} runs failed"
    campaign.facts.left_out[name] = f"{kind}: {text}"


def _learn(campaign: Campaign, runs: Mapping[str, Ran], more: Mapping[str, Ran]) -> None:
    facts = campaign.facts
    for index in facts.kept:
        cover = more["real 3"] if index in facts.real else runs["lines"]
        record = cover.results.get(index, {})
        lines = record.get("lines", {})
        facts.lines[index] = {campaign.suite.relative[path]: set(found) for path, found in lines.items()}
        if record.get("spawned"):
            facts.spawners.add(index)
        facts.real_seconds[index] = runs["real"].results[index].get("seconds", 0.0)
        run = runs["real"] if index in facts.real else runs["virtual"]
        facts.seconds[index] = run.results[index].get("seconds", 0.0)
    facts.left = len(runs["real"].left)


def _needs(campaign: Campaign, index: int, runs: Mapping[str, Ran], more: Mapping[str, Ran]) -> Record:
    """The most that a test needed over its runs in the clock that it keeps, and in real time."""
    real = index in campaign.facts.real
    records = [runs["real"].results[index]]
    records += [one.results[index] for one in (more if real else runs).values() if index in one.results]
    return {
        "turns": max(1, *(int(record.get("turns", 0)) for record in records)),
        "jumps": max(int(record.get("jumps", 0)) for record in records),
        "seconds": max(float(record.get("seconds", 0.0)) for record in records),
        "cpu": max(float(record.get("cpu", 0.0)) for record in records),
        "real": real,
    }


def _alike(records: Sequence[Record]) -> bool:
    """Whether a test needs no further look: always passed, or skipped."""
    return all(record.get("out") == "passed" for record in records) or all(
        record.get("out") == "skipped" for record in records
    )
