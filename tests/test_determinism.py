"""The same token gives the same timeline, up to real times, a hundred times of a hundred, with scripted children."""

from __future__ import annotations

import re
import sys

import pytest

from conftest import Stager
from stormdrain.model import Observation, Trial
from stormdrain.workers import Worker

PROBES = """
import asyncio, subprocess
from stormdrain import probe

class Transport:
    '''It waits, terminates, waits again and kills; whoever cancels waits for that.'''

    def __init__(self, process, library):
        self.process, self.library = process, library

    async def end(self):
        for end in (self.process.terminate, self.process.kill):
            try:
                await asyncio.wait_for(self.process.wait(), 2)
                return
            except asyncio.TimeoutError:
                end()
        await self.process.wait()

    async def close(self):
        task, cancelled = asyncio.ensure_future(self.end()), None
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled:
            raise cancelled

    async def aclose(self):
        import trio
        with trio.CancelScope(shield=True):
            for end in (self.process.terminate, self.process.kill):
                with trio.move_on_after(2):
                    await self.process.wait()
                    return
                end()
            await self.process.wait()

CHILDREN = {"stays": {"on_eof": "stay"}, "hesitates": {"sigterm": "delay:0.7"}, "ignores": {"sigterm": "ignore"}}

@probe(operation="close", parametrize=CHILDREN)
async def on_asyncio(case):
    child = case.child("tool", **case.param)
    process = await asyncio.create_subprocess_exec(child.path, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    await child.ready()
    yield Transport(process, asyncio)

@probe(operation="aclose", backends=["trio"], parametrize=CHILDREN)
async def on_trio(case):
    import trio
    child = case.child("tool", **case.param)
    process = await trio.lowlevel.open_process([child.path], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    await child.ready()
    yield Transport(process, trio)
"""
SCHEDULES = {
    "on_asyncio": [
        "cancel-storm/f:cancel~0.02s",
        "cancel-sweep/f:cancel@3",
        "cancel-pairs/f:cancel@2/f:cancel@5",
        "timeout/w:wait_for=0.05",
        "child-dies/f:kill@2",
    ],
    "on_trio": ["cancel-storm(once)/w:scope/f:scope+0.02s", "cancel-sweep/w:scope/f:scope@2", "child-dies/f:kill@1"],
}
NUMBER = re.compile(r"\b(pid |0x)?[0-9a-f]*\d[0-9a-f]{2,}\b")


def told(trial: Trial) -> tuple[object, ...]:
    """What is the same whenever a token is replayed.

    All moments are of the trial's clock, so they count. Of one moment events of several
    processes have no order of their own, and pids are the kernel's: neither counts.
    """
    seen = trial.observation
    assert isinstance(seen, Observation), trial.error
    return (
        trial.token,
        trial.verdict,
        tuple(sorted((abs(event.at), event.what, NUMBER.sub("N", event.detail)) for event in seen.timeline)),
        seen.elapsed,
        tuple((one.kind, one.point, one.at, one.accepted, one.chain) for one in seen.faults),
        tuple((one.name, one.state, one.returncode) for one in seen.processes),
        tuple(sorted((one.expectation, str(one.site)) for one in trial.findings)),
    )


def differences(kinds: set[tuple[object, ...]]) -> list[str]:
    """What is not the same in all of them."""
    found = set()
    for values in zip(*kinds, strict=True):
        if len(set(values)) > 1:
            sets = [set(value) if isinstance(value, tuple) else {value} for value in values]
            found |= set.union(*sets) - set.intersection(*sets)
    return sorted(map(str, found))


def turns(campaign: Stager, probe: str, child: str, times: int) -> dict[str, set[tuple[object, ...]]]:
    """What each schedule came to in so many runs, two at a time."""
    if probe == "on_trio":
        pytest.importorskip("trio")
    backend = probe.removeprefix("on_")
    found: dict[str, set[tuple[object, ...]]] = {}
    with Worker(sys.executable) as worker:
        played = campaign(
            PROBES,
            f"{probe}[{child}]",
            schedules=[text for text in SCHEDULES[probe] for _ in range(times)],
            worker=worker,
            backend=backend,
        )
    assert not played.cell.error, played.cell.error
    count: dict[str, int] = {}
    for trial in played.trials:
        if trial.phase == "storm":
            text = trial.token.partition("/")[2]
            count[text] = count.get(text, 0) + 1
            found.setdefault(text, set()).add(told(trial))
    assert count == dict.fromkeys(SCHEDULES[probe], times)
    return found


@pytest.mark.parametrize("probe", SCHEDULES)
def test_a_token_gives_the_same_timeline_again(campaign: Stager, probe: str) -> None:
    found = turns(campaign, probe, "hesitates", 3)
    assert {text: len(kinds) for text, kinds in found.items()} == dict.fromkeys(SCHEDULES[probe], 1)


@pytest.mark.long
@pytest.mark.parametrize("child", ["stays", "hesitates", "ignores"])
@pytest.mark.parametrize("probe", SCHEDULES)
def test_a_token_gives_the_same_timeline_a_hundred_times_of_a_hundred(campaign: Stager, probe: str, child: str) -> None:
    found = turns(campaign, probe, child, 100)
    differing = {text: differences(kinds) for text, kinds in found.items() if len(kinds) > 1}
    assert not differing, differing
