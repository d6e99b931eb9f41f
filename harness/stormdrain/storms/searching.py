"""What a search may draw from: made of what calm and the storms showed. Pure."""

from __future__ import annotations

from ..model import Field
from .families import SHORT, Ground, distinct

SEARCH = "search"
"""The name under which schedules that were drawn appear beside the storms."""
POINTS = 80
"""So many points are drawn from: distinct ones first."""
BEYOND = 3
"""Points past the last one that was ever met: a cleanup that is disturbed goes on for longer."""


def field(ground: Ground, met: int = 0, known: tuple[str, ...] = ()) -> Field:
    """The field of a search.

    Args:
        ground: what calm showed.
        met: the most points that any trial came to.
        known: findings that the storms have with one or two faults (see :class:`Field`).
    """
    spec, asyncio = ground.spec, ground.backend == "asyncio"
    calm = [point.n for point in distinct(ground.points)]
    later = range(len(ground.points) + 1, max(met, len(ground.points)) + BEYOND + 1)
    kinds = ["cancel" if asyncio else "scope"]
    if asyncio and spec.actors > 1 and not spec.victim:
        kinds.append("actors")
    kinds += ["kill", "stop"] if ground.children else []
    kinds.append("gc")
    wraps, failures = [""], [""]
    if asyncio and not spec.victim:
        wraps += [f"{kind}={SHORT:g}" for kind in _timeouts(ground)]
    if not spec.victim:
        failures += [call if ":" in call else f"{call}:RuntimeError" for call in spec.fail]
    return Field(
        points=tuple(sorted([*calm[: POINTS - len(later)], *later][:POINTS])),
        kinds=tuple(kinds),
        wraps=tuple(wraps) if asyncio else ("scope",),
        failures=tuple(failures),
        known=known,
    )


def _timeouts(ground: Ground) -> list[str]:
    kinds = ["wait_for"]
    if ground.python >= (3, 11):
        kinds.append("timeout")
    if "anyio" in ground.modules:
        kinds += ["fail_after", "move_on_after"]
    return kinds
