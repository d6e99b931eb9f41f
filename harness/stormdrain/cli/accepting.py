"""What single commands take from the project's configuration: its policy, with what it accepts named."""

from __future__ import annotations

import dataclasses
import datetime

from ..gate.config import Config
from ..gate.decide import conclude, judged
from ..gate.watched import Watched
from ..model import Run


def conclude_here(run: Run, config: Config, watched: Watched | None = None) -> Run:
    """The run concluded by the project's policy; what was accepted is said in its notes."""
    today = datetime.datetime.now(datetime.timezone.utc).date()
    in_force = tuple(entry for entry in config.policy.accepted if entry.days_left(today) >= 0)
    policy = dataclasses.replace(config.policy, accepted=in_force)
    run = conclude(run, policy, watched.pythons if watched else None)
    there = {finding.id for result in judged(run) for finding in result.findings}
    there |= {name for mutant in run.mutants for name in (mutant.id, mutant.name)}
    notes = tuple(
        f"accepted until {entry.until} in {config.file.name}: {entry.id}: {entry.reason}"
        for entry in in_force
        if entry.id in there
    )
    unwatched = {}
    if watched is not None and watched.pythons:
        unwatched["watched"] = ", ".join(watched.pythons)
    return dataclasses.replace(run, notes=(*run.notes, *notes), unwatched={**run.unwatched, **unwatched})
