"""Mutants per second with a full kill matrix, hangs included, on a small asynchronous library; beside mutmut.

By hand: `python -m tests.benchmarks.mutants_per_second [PYTHON]`. It prints the rate, the
CPU time of a mutant (which other work on the machine does not change), the ratio to a
floor taken in the same run (as many forks of the same warm process that run the same
tests on unchanged code), mutmut on the same module and tests, and a line for
each mutant that both make and that does not come to the same, with the reason.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Mapping

from stormdrain.errors import UsageError
from stormdrain.mutation import outcomes
from stormdrain.mutation.campaign import Campaign, Ran
from stormdrain.mutation.confirm import confirm
from stormdrain.mutation.runner import MutationRequest, Side, campaign, completed, sides
from stormdrain.revisions import EnvironmentConfig, Interpreter, find_interpreters
from stormdrain.worker import procfs

from . import mutmut_beside

JOBS = 2
REQUEST = MutationRequest(
    head="pypi:aiolimiter==1.3.0",
    tests=("tests",),
    symbols=("aiolimiter.leakybucket",),
    environment=EnvironmentConfig(
        dependencies="listed", requires=("pytest", "pytest-asyncio", "typing-extensions", "dunamai")
    ),
    arguments=("-o", "addopts=", "-k", "not version"),
    sources=("operator", "general"),
    jobs=JOBS,
)


def cpu_below() -> float:
    """CPU seconds of all processes below this one, those that they have seen end included."""
    total = 0
    for pid in procfs.descendants():
        try:
            with open(f"/proc/{pid}/stat") as file:
                total += sum(int(field) for field in file.read().rpartition(")")[2].split()[11:15])
        except OSError:
            continue
    return total / os.sysconf("SC_CLK_TCK")


def ours(side: Side, request: MutationRequest) -> tuple[Mapping[str, Ran], Mapping[str, str]]:
    """Run the mutants and print the figures. Returns the raw results and what each came to, by id."""
    began = time.monotonic()
    with campaign(request, side, side.environments[0], lambda line: None) as phases:
        phases.baseline()
        phases.force(name for one in side.mutants for name in one.functions)
        at, cpu = time.monotonic(), cpu_below()
        found = phases.mutate(side.mutants)
        took, cpu = time.monotonic() - at, cpu_below() - cpu
        confirm(phases, side.mutants, found)
        whole = time.monotonic() - began
        floor, least = _floor(phases, len(found))
        came_to = {one.id: outcomes.outcome(one, found[one.id], phases) for one in side.mutants}
        cold = sum(bool(ran.how) for ran in found.values())
        cells = sum(len(ran.results) for ran in found.values())
        tests = len(phases.facts.kept)
    count = len(found)
    kinds = ", ".join(f"{number} {kind}" for kind, number in Counter(came_to.values()).most_common())
    print(f"  {tests} tests, {count} mutants, {cold} cold, {cells} cells of the matrix: {kinds}")
    print(f"  stormdrain    {count / took:8.2f} mutants/s, {cpu / count:.3f} CPU s a mutant   (matrix in {took:.1f} s;")
    print(f"                all {whole:.1f} s: collection, baseline, forced fail and confirmation, too)")
    print(f"  floor         {count / floor:8.2f} forks/s, {least / count:.3f} CPU s a fork", flush=True)
    return found, came_to


def _floor(phases: Campaign, count: int) -> tuple[float, float]:
    """Real and CPU seconds of so many forks that run every test on unchanged code."""
    at, cpu = time.monotonic(), cpu_below()
    phases.run([{"id": str(number), "items": phases.facts.kept} for number in range(count)])
    return time.monotonic() - at, cpu_below() - cpu


def beside(side: Side, request: MutationRequest, python: Interpreter) -> bool:
    """Both, and where they differ. Returns whether every difference is explained."""
    found, came_to = ours(side, request)
    theirs = mutmut_beside.run(request, "aiolimiter/leakybucket.py", "not version", python, JOBS)
    ran = sum(verdict != "uncovered" for verdict in theirs.verdicts.values())
    kinds = ", ".join(f"{number} {kind}" for kind, number in Counter(theirs.verdicts.values()).most_common())
    print(
        f"  mutmut {mutmut_beside.VERSION}  {theirs.rate:8.2f} mutants/s, {theirs.cpu / ran:.3f} CPU s a mutant",
        end="   ",
    )
    print(f"(no matrix; all {theirs.seconds:.1f} s): {kinds}")
    known = mutmut_beside.keys(side.mutants, side.sources.files)
    both = [key for key in theirs.verdicts if key in known]
    print(
        f"  {len(both)} mutants are made by both; mutmut alone makes {len(theirs.verdicts) - len(both)} (texts of errors)"
    )
    rows = []
    for key in both:
        one = known[key]
        mine, its = came_to[one.id], theirs.verdicts[key]
        if mine != its:
            reason = mutmut_beside.why(mine, its, found[one.id])
            rows.append((one.name, mine, its, reason or "NOT EXPLAINED"))
    print(f"  {len(rows)} come to something else:" if rows else "  all come to the same")
    for name, mine, its, reason in rows:
        print(f"    {name:34} {mine:10} {its:10} {reason}")
    return all(reason != "NOT EXPLAINED" for *_, reason in rows)


def main(python: str = "") -> int:
    """Measure and print. Returns the exit code: 1 where a difference is not explained."""
    try:
        chosen = find_interpreters((python or "3.12",))
    except UsageError:
        if python:
            raise
        chosen = find_interpreters((sys.executable,))
    request, plans = completed(REQUEST)
    side = next(sides(request, plans, chosen, lambda line: None))
    print(f"mutants of aiolimiter 1.3.0's leakybucket.py on {chosen[0].version}, {JOBS} at a time")
    return 0 if beside(side, request, chosen[0]) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
