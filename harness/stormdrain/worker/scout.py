"""What a campaign of a service must know before its storms: what happened in calm, and the steps of a shutdown.

An idle service has no steps, so those of its shutdown show only after a signal. One
trial is spent on that, and only where a sweep will use it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..model import Fault, Observation, Schedule, When
from .pool import Pool
from .trial import Order

SWEPT = ("asyncio", "trio", "asyncio and trio")


def service_ground(
    calm: Observation, signal: str, sweeps: bool, pool: Pool, order: Callable[..., Order]
) -> dict[str, Any]:
    """What storms may know of a service, as keywords of `Ground`.

    Args:
        calm: what was seen in calm.
        signal: the first signal that its probe gives an exit code for; empty: none.
        sweeps: whether a sweep over steps is wanted.
        order: makes an order of a schedule.
    """
    at = [event.at for event in calm.timeline if event.what == "moment" and event.detail == "ready"]
    found: dict[str, Any] = {
        "moments": calm.moments,
        "stepping": calm.stepping,
        "ready_after": at[0] if at else 0.0,
    }
    if sweeps and signal and calm.stepping in SWEPT:
        schedule = Schedule("signal", None, (Fault("signal", When("event", name="idle"), signal),))
        for result in pool.run([order(schedule, record_points=True, phase="calm")]):
            if result.observation is not None:
                found["after"] = result.observation.points
    return found
