"""Mutants per second with a full kill matrix, hangs included, on a small asynchronous library.

Run it by hand: `python tests/benchmarks/mutants_per_second.py [PYTHON]`. It prints the
rate, and its ratio to a floor taken in the same run: as many forks of the same warm
process that run the same tests on unchanged code.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

from stormdrain.mutation import outcomes
from stormdrain.mutation.runner import MutationRequest, campaign, completed, sides
from stormdrain.revisions import EnvironmentConfig, find_interpreters

REQUEST = MutationRequest(
    head="pypi:aiolimiter==1.3.0",
    tests=("tests",),
    symbols=("aiolimiter.leakybucket",),
    environment=EnvironmentConfig(
        dependencies="listed", requires=("pytest", "pytest-asyncio", "typing-extensions", "dunamai")
    ),
    arguments=("-o", "addopts=", "-k", "not version"),
    sources=("operator", "general"),
)


def main() -> None:
    """Measure and print."""
    request, plans = completed(REQUEST)
    interpreters = find_interpreters(sys.argv[1:2] or ("3.12",))
    side = next(sides(request, plans, interpreters, print))
    with campaign(request, side, side.environments[0], lambda line: None) as phases:
        phases.baseline()
        phases.force(name for one in side.mutants for name in one.functions)
        began = time.monotonic()
        found = phases.mutate(side.mutants)
        took = time.monotonic() - began
        kept = phases.facts.kept
        began = time.monotonic()
        phases.run([{"id": str(number), "items": kept} for number in range(len(side.mutants))])
        floor = time.monotonic() - began
        kinds = Counter(outcomes.outcome(one, found[one.id], phases) for one in side.mutants)
        cold = sum(bool(ran.how) for ran in found.values())
    print(f"{len(kept)} tests, {len(found)} mutants, {cold} of them cold: {dict(kinds)}")
    print(f"{len(found) / took:.1f} mutants/s; floor {len(found) / floor:.1f}/s; ratio {floor / took:.2f}")


if __name__ == "__main__":
    main()
