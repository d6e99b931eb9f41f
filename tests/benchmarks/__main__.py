"""`make bench`: what is fast, beside the same in real time, in one run."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from stormdrain.model import Cell, CellResult, Trial, from_json, to_json
from stormdrain.workers import Worker

from . import mutants_per_second, sweep_with_pairs

HERE = Path(__file__).parent
JOBS = 2


def trials_a_second(clock: str, trials: int) -> tuple[float, int, float]:
    """Run `trials` schedules of a cancel sweep; trials a second, how many, real seconds."""
    stamps: list[float] = []
    with Worker(sys.executable) as worker:
        request = {
            "do": "campaign",
            "file": str(HERE / "escalating_close.py"),
            "probe": "transport",
            "cell": to_json(Cell("00000000", "transport", "worktree", sys.version.split()[0], "asyncio")),
            "storms": ["cancel-sweep"],
            "budget_trials": trials,
            "budget_seconds": 300,
            "clock": clock,
            "jobs": JOBS,
            "confirm": False,
            "canaries": False,
        }
        for kind, body in worker.ask(request):
            if kind == "trial":
                stamps.append(time.monotonic())
                assert from_json(Trial, body).observation is not None
            else:
                assert not from_json(CellResult, body).error
    # The first stamp is calm's: from there on only trials ran.
    spent = stamps[-1] - stamps[0]
    return (len(stamps) - 1) / spent, len(stamps) - 1, spent


def main() -> int:
    """Print the ratios. Returns the exit code: 1 where mutmut says otherwise and nobody knows why."""
    print(f"close() that escalates for 10 s against a child that ignores SIGTERM, {JOBS} at a time")
    fast, count, spent = trials_a_second("virtual", 60)
    print(f"  virtual time  {fast:8.2f} trials/s   ({count} trials in {spent:.1f} s)", flush=True)
    slow, count, spent = trials_a_second("real", 4)
    print(f"  real time     {slow:8.2f} trials/s   ({count} trials in {spent:.1f} s)")
    print(f"  ratio         {fast / slow:8.0f} x")
    sweep_with_pairs.main()
    return mutants_per_second.main()


if __name__ == "__main__":
    sys.exit(main())
