"""What reports say of coverage: the touched lines that not every cell runs, each with its place."""

from __future__ import annotations

from ..gate.coverage import place_of, sentence
from ..model import Gap, Run

WORDS = {"uncovered": "UNCOVERED", "one platform": "one platform", "in some cells": "some cells"}


def ordered(run: Run) -> tuple[Gap, ...]:
    """The gaps, those that no cell runs first."""
    kinds = list(WORDS)
    return tuple(
        sorted(
            run.gaps,
            key=lambda gap: (kinds.index(gap.kind) if gap.kind in kinds else 0, gap.place or gap.path, gap.first),
        )
    )


def rows(run: Run, limit: int) -> list[tuple[str, str, str]]:
    """Word, place and sentence of the first gaps."""
    return [(WORDS.get(gap.kind, gap.kind), place_of(gap), sentence(gap)) for gap in ordered(run)[:limit]]


def loud(run: Run, gap: Gap) -> bool:
    """Whether a gap is one for which a rule of the gate is broken."""
    broken = {rule.rule for rule in run.rules if not rule.held}
    return (gap.kind == "uncovered" and bool(broken & {"coverage", "cell coverage"})) or (
        gap.kind == "in some cells" and not gap.reason and "cell coverage" in broken
    )
