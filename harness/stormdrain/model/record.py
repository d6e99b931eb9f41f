"""Records of a run: cells, trials, findings, mutants, and the run that holds them.

These are what the worker sends, what the store writes and what every report reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .coverage import Gap, JobCoverage, Touched
from .observation import Observation, Point, Site
from .probe import ProbeSpec
from .suites import OwnTest, RedGreen, Slack
from .verdict import Verdict

SCHEMA = 1
"""Version of run.json."""


@dataclass(frozen=True)
class Cell:
    """revision x interpreter x backend, and the probe that runs there.

    role: `base`, `head` or `""` where there is only one revision.
    key: eight hexadecimal digits, the first part of every token of this cell.
    """

    key: str
    probe: str
    revision: str
    python: str
    backend: str
    role: str = ""
    clock: str = "virtual"
    clock_why: str = ""
    freeze: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    """Hash of the probe's script and of the revision's layer."""
    script: str = ""
    """Path of the probe's script."""
    requires: tuple[str, ...] = ()
    """Requirements beyond the revision's own, for a replay."""
    interpreter: str = ""
    """Path of the interpreter, for a replay."""
    environment: dict[str, Any] = field(default_factory=dict)
    """How the environment was configured, for a replay."""


@dataclass(frozen=True)
class Finding:
    """An expectation that did not hold.

    site: the line of the target on which the operation was suspended when the
    fault landed (or the line that the expectation is about).
    failed, runs: k of n in real time; runs is 0 where it was not confirmed apart
    (then `inherits` names the token of the representative that was).
    """

    id: str
    expectation: str
    message: str
    storm: str
    token: str
    site: Site | None = None
    seen: tuple[str, ...] = ()
    failed: int = 0
    runs: int = 0
    inherits: str = ""
    drift: bool = False


@dataclass(frozen=True)
class Note:
    """Something worth saying that is no finding, or an expectation that does not apply, with the reason."""

    expectation: str
    message: str


@dataclass(frozen=True)
class Trial:
    """One operation under one schedule in one cell."""

    cell: str
    storm: str
    token: str
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    notes: tuple[Note, ...] = ()
    na: tuple[Note, ...] = ()
    """Expectations that do not apply to this trial."""
    observation: Observation | None = None
    phase: str = "storm"
    """`canary`, `calm`, `storm`, `confirm`."""
    reached: bool = True
    """False where the operation no longer came to the point: N/A, counted."""
    error: str = ""
    """Why the verdict is ERROR or UNRESOLVED."""


@dataclass(frozen=True)
class StormTally:
    """What a storm came to in one cell."""

    storm: str
    verdict: Verdict
    trials: int = 0
    failed: int = 0
    not_reached: int = 0
    not_tried: int = 0
    unresolved: int = 0
    why: str = ""
    """Why it is N/A or was cut short."""


@dataclass(frozen=True)
class CellResult:
    """What one probe came to in one cell."""

    cell: Cell
    verdict: Verdict
    spec: ProbeSpec | None = None
    storms: tuple[StormTally, ...] = ()
    findings: tuple[Finding, ...] = ()
    points: tuple[Point, ...] = ()
    canaries: dict[str, Verdict] = field(default_factory=dict)
    error: str = ""
    """Why the verdict is ERROR: one clear text."""
    error_todo: str = ""
    exit_code: int = 0
    """Where it is ERROR: 2 (the user's), 4 (baseline) or 70 (ours)."""
    trials: int = 0
    seconds: float = 0.0
    confirmed_passes: str = ""
    """`3 of 3` PASSes of a seeded sample that were the same in real time."""
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class Change:
    """One line of base against head.

    kind: `fixed`, `regressed`, `still failing`, `still passing`, `new`, `N/A on base`, `inconclusive`.
    """

    kind: str
    probe: str
    python: str
    backend: str
    storm: str
    expectation: str
    base: str = ""
    """Token on the base side."""
    head: str = ""
    message: str = ""
    differs_from: str = ""
    """The first timeline event that differs."""
    aspect: str = ""
    """Variant, wrapper and failing calls within the storm that this is about; empty where it has none."""


@dataclass(frozen=True)
class TestResult:
    """One test under one mutant: `passed`, `failed`, `hung`, `deadlock`, `spun`, `memory`, `crashed`, `skipped`, `unstable`, `not-run`."""

    __test__ = False

    outcome: str
    message: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class MutantRecord:
    """One mutant on every interpreter.

    outcome: per interpreter `caught`, `missed`, `timed out`, `unviable`,
    `uncovered`, `unstable`, `not executed`.
    matrix: interpreter -> test -> result (only tests that did not pass are listed
    in `matrix`; `ran` counts all).
    """

    id: str
    name: str
    source: str
    """`plan`, `revert`, `operator`, `general`, `neutral`, `forced`."""
    operator: str
    path: str
    symbol: str
    diff: str
    why: str = ""
    outcome: dict[str, str] = field(default_factory=dict)
    matrix: dict[str, dict[str, TestResult]] = field(default_factory=dict)
    ran: dict[str, int] = field(default_factory=dict)
    expected: tuple[str, ...] = ()
    """Tests that a plan expects to catch it; `3.14 test` where it is said for one interpreter, `nothing` for none."""
    site: Site | None = None
    error: str = ""
    head: str = ""
    """Label of the revision that it starts from."""
    left: dict[str, int] = field(default_factory=dict)
    """Interpreter -> processes that it left behind, beyond what the unmutated suite does."""
    confirmed: dict[str, str] = field(default_factory=dict)
    """Interpreter -> how the outcome was confirmed."""
    taken: tuple[str, ...] = ()
    """Interpreters on which an earlier run's result was taken, since nothing that it depends on has changed."""


@dataclass(frozen=True)
class Baseline:
    """A suite on one interpreter, unmutated: every test, those left out and why, and whether a forced failure was seen."""

    python: str
    tests: tuple[str, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    forced: str = ""
    """`seen` where the tests failed when the mutated function raised, else what was not executed."""
    freeze: tuple[str, ...] = ()
    seconds: float = 0.0
    revision: str = ""
    """Label of the revision that the suite ran on."""
    lines: dict[str, str] = field(default_factory=dict)
    """File -> touched statements that ran, at import or under a test that is kept, as `3-5,9`."""
    spawns: int = 0
    """Tests that start processes: lines that run only there are not seen."""


@dataclass(frozen=True)
class RuleResult:
    """One rule of the gate: held or not, the figure, where to look."""

    rule: str
    held: bool
    figure: str
    look: str = ""
    warning: bool = False


@dataclass(frozen=True)
class Run:
    """run.json."""

    command: tuple[str, ...]
    verdict: Verdict
    exit_code: int
    schema: int = SCHEMA
    started: str = ""
    seconds: float = 0.0
    interrupted: bool = False
    base: str = ""
    head: str = ""
    environment: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Full freeze by `revision python`."""
    seed: int = 0
    cells: tuple[CellResult, ...] = ()
    trials: tuple[Trial, ...] = ()
    comparison: tuple[Change, ...] = ()
    mutants: tuple[MutantRecord, ...] = ()
    baselines: tuple[Baseline, ...] = ()
    redgreen: tuple[RedGreen, ...] = ()
    slack: tuple[Slack, ...] = ()
    own: tuple[OwnTest, ...] = ()
    """Tests of the project that are not green on head."""
    touched: tuple[Touched, ...] = ()
    coverage: tuple[JobCoverage, ...] = ()
    """Of other jobs; that of our own cells is in the baselines."""
    gaps: tuple[Gap, ...] = ()
    rules: tuple[RuleResult, ...] = ()
    unwatched: dict[str, str] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
