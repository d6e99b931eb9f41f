"""Observations: the facts measured in a trial, and no opinion in them.

Times are seconds. `at` and `elapsed` are on the trial's clock (virtual or real,
`clock` says which), counted from the start of the operation.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Site:
    """A place in source: file, line, qualified name of the function, and whether it is code of the target."""

    file: str
    line: int
    function: str = ""
    target: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f" in {self.function}" if self.function else "")


@dataclass(frozen=True)
class Exc:
    """One exception of a chain: `link` says how it hangs on the one before (`""`, `cause`, `context`, `group`)."""

    type: str
    message: str
    link: str = ""
    injected: bool = False
    cancelled: bool = False
    timeout: bool = False
    site: Site | None = None


@dataclass(frozen=True)
class Outcome:
    """How something ended.

    kind: `returned`, `raised`, `hung` (not returned within the bound), `deadlock`
    (nothing can ever happen again), `crashed` (took its process down),
    `never-entered` (cancelled before its first step), `not-run`.
    """

    kind: str
    chain: tuple[Exc, ...] = ()
    value: str = ""

    @property
    def error(self) -> Exc | None:
        """The exception that came out, if one did."""
        return self.chain[0] if self.chain else None


@dataclass(frozen=True)
class FaultRecord:
    """A fault that was due: whether it was delivered, where the operation was suspended, what `cancel()` returned."""

    kind: str
    point: int
    at: float
    accepted: bool | None
    """What `cancel()` returned; None where the kind has no answer."""
    chain: tuple[Site, ...] = ()
    caller: Site | None = None
    injected: bool = True
    note: str = ""

    @property
    def site(self) -> Site | None:
        """The innermost line of the target on which the operation was suspended."""
        return suspended_at(self.chain)


def suspended_at(chain: tuple[Site, ...]) -> Site | None:
    """The innermost site of an await chain that is code of the target, else the innermost one."""
    for site in reversed(chain):
        if site.target:
            return site
    return chain[-1] if chain else None


@dataclass(frozen=True)
class ProcessFact:
    """A process that the target started, or that descends from one.

    state: `gone` (ended and reaped), `zombie`, `alive`, `orphaned` (alive, its
    parent is gone).
    """

    pid: int
    command: str
    state: str
    returncode: int | None = None
    site: Site | None = None
    name: str = ""
    """Name of the scripted child, where it is one."""
    blocked: tuple[int, ...] = ()
    """Signals that it blocks beyond those that the trial blocked."""
    status: str = ""
    """The kernel's state letter where it still exists."""


@dataclass(frozen=True)
class Left:
    """Something that was there before or after the operation.

    kind: `task`, `thread`, `process`, `descriptor`, `socket`, `pipe`, `file`, `loop`.
    key: what makes two of them the same kind of thing, from trial to trial.
    """

    kind: str
    what: str
    key: str = ""
    site: Site | None = None


@dataclass(frozen=True)
class Event:
    """An entry of the timeline."""

    at: float
    what: str
    detail: str = ""


@dataclass(frozen=True)
class Point:
    """A point that was met: the await chain of the operation there, and a key that is equal where chains and ready state are."""

    n: int
    chain: tuple[Site, ...] = ()
    key: str = ""
    at: float = 0.0


@dataclass(frozen=True)
class Hang:
    """What could be seen of a hang: where every task waits, where every thread is, and the process tree."""

    why: str
    tasks: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    site: Site | None = None
    """The line of the target that blocks, where that is known."""


@dataclass(frozen=True)
class Report:
    """What the loop's exception handler, `sys.unraisablehook`, `threading.excepthook` or a warning said."""

    channel: str
    message: str
    site: Site | None = None
    exact: bool = False
    """Whether that is the line that made the future or task which it is about."""


@dataclass(frozen=True)
class Blocked:
    """A callback that kept the loop from running for `seconds` of real time."""

    seconds: float
    site: Site | None = None
    exact: bool = False
    """Whether that is the line that ran, and not merely where the operation was suspended afterwards."""


@dataclass(frozen=True)
class Observation:
    """Everything that was measured in one trial."""

    clock: str
    outcome: Outcome
    operation: Outcome = Outcome("not-run")
    """How the operation itself ended, inside what was put around it (a scope absorbs its own cancellation)."""
    others: tuple[Outcome, ...] = ()
    """How the operation's other callers ended, where several call it at once."""
    victim: Outcome = Outcome("not-run")
    """How the task ended that got the faults, where it is not the operation's: `left` where it still runs."""
    built: Outcome = Outcome("returned")
    """How building the subject ended."""
    elapsed: float = 0.0
    elapsed_real: float = 0.0
    bound: float = 0.0
    """The hang bound that was in force."""
    asked: float | None = None
    """A timeout that was put around the operation."""
    faults: tuple[FaultRecord, ...] = ()
    """The first faults; `delivered` and `accepted` count all of them."""
    delivered: int = 0
    accepted: int = 0
    own_cancels: int = 0
    """Accepted cancels of the operation's task that the probe's own code asked for, from within."""
    thrown: int | None = None
    """How often a cancellation of the scope around it was thrown into the operation's task; None where that is not seen."""
    cancels: tuple[FaultRecord, ...] = ()
    """Calls of `cancel()` by the target or by libraries, seen on the way."""
    counts: dict[str, int | None] = field(default_factory=dict)
    """Entries of counted methods; None where the revision has none."""
    failures: dict[str, int] = field(default_factory=dict)
    """How often each call that was made to raise was reached."""
    steps: int = 0
    turns: int = 0
    spin: int = 0
    """Longest run of turns in which nothing happened but turns, turns that a fault caused left out."""
    spin_site: Site | None = None
    cancelling: tuple[int, int] | None = None
    """`cancelling()` of the operation's task before and after; None where the interpreter has none."""
    processes: tuple[ProcessFact, ...] = ()
    before: tuple[Left, ...] = ()
    """Census before the operation."""
    left: tuple[Left, ...] = ()
    """Census after settling, as far as it goes beyond what may be."""
    there: tuple[Left, ...] = ()
    """The whole of that census, in calm only: what may be in other trials."""
    late: tuple[Left, ...] = ()
    """What was there when the operation ended and went away while settling."""
    final: tuple[Left, ...] = ()
    """Census after dispose."""
    follow_up: Outcome = Outcome("not-run")
    body: Outcome = Outcome("not-run")
    dispose: Outcome = Outcome("not-run")
    exit: Outcome = Outcome("not-run")
    """How the interpreter's own exit went."""
    reports: tuple[Report, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    hang: Hang | None = None
    holds: dict[str, float] = field(default_factory=dict)
    """Real seconds for which the clock was held, by reason."""
    imported: tuple[str, ...] = ()
    """Modules that were imported only in the trial: the worker imports them once, before the next ones."""
    met: int = 0
    """How many points the operation came to."""
    points: tuple[Point, ...] = ()
    """Every point (only where they were recorded)."""
    timeline: tuple[Event, ...] = ()
    notes: tuple[str, ...] = ()
    partial: bool = False
    """The process blocked or died before it could tell: what it knew of faults and leftovers is not here."""
    unanchored: tuple[Left, ...] = ()
    """Pending tasks that a garbage collection would have destroyed: nothing but the loop's weak set holds them."""
    moments: tuple[str, ...] = ()
    """Of a service: what happened, in order: `started`, `child-1`, `ready`, the client's own moments, `idle`."""
    exit_status: int | None = None
    """Of a service: its exit code, negative where a signal ended it; None where it did not end by itself."""
    artefacts: Outcome = Outcome("not-run")
    """Of a service: what the probe's check of its files said."""
    printed: tuple[str, ...] = ()
    """Of a service: lines of its output that the probe forbids."""
    output: str = ""
    """Of a service: the end of what it printed."""
    stepping: str = ""
    """Of a service: whose steps are seen from inside (`asyncio`, `trio`), or why none are."""
    target: int = 0
    """The child of a service to which the fault was sent."""
    undecided: str = ""
    """Why nothing may be concluded from this trial."""
