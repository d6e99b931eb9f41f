"""A full sweep, with pairs, of a real system's close(): the repaired close() of claude-agent-sdk, on asyncio and on trio."""

from __future__ import annotations

import resource
import time
from pathlib import Path

from stormdrain.errors import StormdrainError
from stormdrain.lab import ProbeRequest, run_probes
from stormdrain.model import CellResult
from stormdrain.revisions import Cache

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "probes" / "claude_agent_sdk"
PYTHON = "3.11"
JOBS = 2
STORMS = ("cancel-sweep", "cancel-pairs")
CHILDREN = ("transport[stays]", "transport[ignores]")


def cpu() -> float:
    """User and system seconds of all processes that have ended below this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def sweep(child: str, backend: str) -> tuple[CellResult, float, float]:
    """One cell, every point and every pair: its result, real seconds, seconds of the processor."""
    request = ProbeRequest(
        (FOLDER / "close.py",),
        head=f"pypi:claude-agent-sdk==0.2.143+{FOLDER / 'h760.toml'}",
        pythons=(PYTHON,),
        backends=(backend,),
        storms=STORMS,
        keyword=child,
        budget_seconds=600.0,
        confirm=False,
        jobs=JOBS,
        project=ROOT,
        cache=Cache(),
    )
    began, before = time.monotonic(), cpu()
    (result,), _ = run_probes(request, lambda item: None)
    return result, time.monotonic() - began, cpu() - before


def main() -> int:
    """Print points, trials and trials a second of each cell, and of all. Returns 0: nothing here asserts a time."""
    print(f"full sweep with pairs of a real close(), repaired (h760), Python {PYTHON}, {JOBS} at a time")
    trials, spent, used = 0, 0.0, 0.0
    for child in CHILDREN:
        for backend in ("asyncio", "trio"):
            try:
                result, seconds, processor = sweep(child, backend)
            except StormdrainError as error:  # no such interpreter, or nothing to install it from
                print(f"  not measured: {error}")
                return 0
            left = sum(tally.not_tried for tally in result.storms)
            print(
                f"  {child:<20} {backend:<8} {len(result.points):4} points {result.trials:5} trials "
                f"{result.trials / result.seconds:6.1f} trials/s  {seconds:6.1f} s, of the processor {processor:6.1f} s"
                f"  {result.verdict.value}{f', {left} not tried' if left else ''}",
                flush=True,
            )
            trials, spent, used = trials + result.trials, spent + seconds, used + processor
    print(
        f"  all of it: {trials} trials in {spent:.1f} s, {trials / spent:.1f} trials/s; "
        f"of the processor {used:.1f} s, {1000 * used / trials:.0f} ms each",
        flush=True,
    )
    return 0
