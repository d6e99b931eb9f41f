"""What a probe says of itself, as plain data: the host reads it without importing the target."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Stance:
    """How a probe changes a default expectation: `na`, `relax`, `tighten`; why; and for which revisions or interpreters."""

    kind: str
    reason: str
    value: float | None = None
    revisions: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProbeSpec:
    """One probe (one parameter set of it).

    name: the function's name, with `[id]` where it is parametrised.
    file: the script, as given to the worker.
    operation: a method's name or the name of an async function of subject and case.
    """

    name: str
    file: str
    operation: str
    kind: str = "asyncio"
    """`async` (an operation on a loop) or `service` (a command)."""
    backends: tuple[str, ...] = ("asyncio",)
    storms: tuple[str, ...] = ()
    """Only these storms; empty: all whose needs it meets."""
    count: tuple[str, ...] = ()
    fail: tuple[str, ...] = ()
    actors: int = 1
    deadline: float | None = None
    requires: tuple[str, ...] = ()
    expect: dict[str, Stance] = field(default_factory=dict)
    absorbs_cancel: str = ""
    closes: bool = False
    """Whether the operation ends the subject."""
    trigger: str = ""
    """An event of the case that brings the fault, instead of a step."""
    victim: str = ""
    """Name of the task that gets the faults, where it is not the one whose steps are counted."""
    doc: str = ""
    real_time: str = ""
    """Why the probe must run in real time, if it says so."""
    signals: tuple[str, ...] = ()
    """Signals that the operation delivers to its own process: a handler in process."""
    exits: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Of a service: the exit codes that are right, by signal; `EOF` for the end of its stdin."""
    prompt: float | None = None
    """Of a service: seconds from the first signal within which it must have ended."""
