"""Confirmation: what a mutant came to is looked at once more before it is reported.

A test with a fixed sleep fails under load and seems to catch a mutant; a clock that
jumps while a child is about to act shows failures, and hides them, that real time
does not. So a kill is repeated with one of its tests, in real time where anything
else was alive when the clock jumped, and with each test that has processes of its own;
and, within a budget, survivors run again in a fresh process in real time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .campaign import Campaign, Ran, Record
from .mutant import Mutant
from .outcomes import outcome


def confirm(campaign: Campaign, mutants: Sequence[Mutant], found: Mapping[str, Ran]) -> None:
    """Repeat kills, then survivors; what does not come out alike is marked `unstable` in the results."""
    by_id = {one.id: one for one in mutants}
    kinds = {key: outcome(by_id[key], ran, campaign) for key, ran in found.items()}
    kills = [by_id[key] for key, kind in kinds.items() if kind in ("caught", "timed out")]
    doubtful = _repeat(campaign, kills, found)
    if doubtful:
        campaign.listen(f"{campaign.label}: {len(doubtful)} mutants came out otherwise, looking again")
        _repeat_all(campaign, doubtful, found)
    _repeat_timed(campaign, [one for one in kills if one not in doubtful], found)
    missed = [by_id[key] for key, kind in kinds.items() if kind == "missed"]
    _repeat_survivors(campaign, [one for one in missed if one.source != "neutral"], found)


def _repeat(campaign: Campaign, mutants: Sequence[Mutant], found: Mapping[str, Ran]) -> list[Mutant]:
    """Run the quickest test that caught each mutant again. Returns the mutants that it did not catch."""
    jobs: list[Record] = []
    for one in mutants:
        ran = found[one.id]
        failed = [index for index, record in ran.results.items() if record["out"] == "failed"]
        test = min(failed, key=lambda index: (_weight(ran.results[index]), campaign.cost(index, ran.results[index])))
        if _sound(ran.results[test]):
            continue
        clock = "real" if ran.results[test].get("company") else "auto"
        jobs.append(campaign.job(one, [test], clock=clock, first=False))
    doubtful = []
    for key, again in campaign.run(jobs).items():
        (index,) = again.chosen
        before, now = found[key].results[index], again.results.get(index, {"out": "none"})
        if now["out"] != "failed":
            doubtful.append(next(one for one in mutants if one.id == key))
        elif "company" in before:
            found[key].confirmed = "in real time"
        if now["out"] == "failed" and kind_of(now) != kind_of(before):
            before["text"] = f"{before.get('text', '')}\n  the second time: {now.get('text', '')}"
    return doubtful


def _repeat_timed(campaign: Campaign, mutants: Sequence[Mutant], found: Mapping[str, Ran]) -> None:
    """Run each test that failed beside processes of its own, or that needs real time, once more.

    Such a test has delays that a busy machine overruns, so that it seems to catch what it does not look at.
    """
    facts = campaign.facts
    jobs: list[Record] = []
    for one in mutants:
        results = found[one.id].results
        failed = [index for index, record in results.items() if record["out"] == "failed" and not _sound(record)]
        timed = [i for i in failed if (i in facts.real or i in facts.spawners) and not results[i].get("company")]
        if timed and len(failed) > 1:  # a single one was repeated already
            jobs.append(campaign.job(one, timed, first=False))
    for key, again in campaign.run(jobs).items():
        for index in again.chosen:
            if again.results.get(index, {"out": "none"})["out"] != "failed":
                found[key].results[index]["unstable"] = "failed 1 of 2 times"


def _weight(record: Record) -> int:
    """Prefer a failed test to a hang, and one that needed no company."""
    return (2 if record.get("verdict") else 0) + (1 if record.get("company") else 0)


def _sound(record: Record) -> bool:
    """Whether a verdict rests on nothing but the process itself: then nothing could have ended the hang."""
    return record.get("verdict") in ("deadlock", "spun", "looped", "hung") and not record.get("company")


def kind_of(record: Record) -> str:
    """What a failure is compared by: the type of its exception, or its verdict."""
    text = str(record.get("text", "")).partition(": ")[2]
    return str(record.get("verdict") or text.partition(":")[0].partition("\n")[0])


def _repeat_all(campaign: Campaign, mutants: Sequence[Mutant], found: Mapping[str, Ran]) -> None:
    """Run every test that caught a doubtful mutant twice more, in real time."""
    jobs = []
    for one in mutants:
        failed = [index for index, record in found[one.id].results.items() if record["out"] == "failed"]
        for number in (1, 2):
            jobs.append(campaign.job(one, failed, clock="real", first=False, key=f"{one.id} {number}"))
    again = campaign.run(jobs)
    for one in mutants:
        for index, record in found[one.id].results.items():
            if record["out"] != "failed":
                continue
            runs = [again[f"{one.id} {number}"].results.get(index, {"out": "none"}) for number in (1, 2)]
            failures = sum(run["out"] == "failed" for run in runs)
            if failures == 0 and record.get("company"):
                found[one.id].results[index] = {**runs[0], "out": "passed"}
            elif failures < 2:
                record["unstable"] = f"failed {failures + 1} of 3 times"
        found[one.id].confirmed = "every kill twice more in real time"


def _repeat_survivors(campaign: Campaign, mutants: Sequence[Mutant], found: Mapping[str, Ran]) -> None:
    """Run survivors again in a fresh process in real time, the cheapest first, while the budget lasts."""
    left = campaign.confirm_seconds
    jobs = []
    for one in sorted(mutants, key=lambda item: campaign.real_cost(found[item.id].chosen)):
        left -= campaign.real_cost(found[one.id].chosen)
        if left < 0:
            break
        jobs.append(campaign.job(one, found[one.id].chosen, clock="real", cold=True, first=False))
    if jobs:
        campaign.listen(f"{campaign.label}: {len(jobs)} survivors once more, cold and in real time")
    for key, again in campaign.run(jobs).items():
        found[key].confirmed = "missed again, cold and in real time"
        caught = {index: record for index, record in again.results.items() if record["out"] == "failed"}
        if caught:
            _judge_late_kill(campaign, next(one for one in mutants if one.id == key), caught, found[key])


def _judge_late_kill(campaign: Campaign, one: Mutant, caught: Mapping[int, Record], ran: Ran) -> None:
    """What only real time caught is a kill if it does so again."""
    again = campaign.run([campaign.job(one, caught, clock="real", cold=True, first=False)])[one.id]
    ran.confirmed = "caught only cold and in real time"
    for index, record in caught.items():
        if again.results.get(index, {}).get("out") == "failed":
            ran.results[index] = dict(record)
        else:
            ran.results[index] = {**record, "unstable": "failed 1 of 3 times"}
