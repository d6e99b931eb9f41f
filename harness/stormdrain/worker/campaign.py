"""One probe in one cell, from canaries to confirmation.

Canaries first: each check must flag its built-in subject here. Then calm, twice on
the trial's clock and once in real time; it must behave alike, or nothing else is
worth running. Then the storms, the most telling schedules first, within the
budget. Then confirmation: one representative of every kind of finding runs three
times in real time, and a seeded sample of passes too.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import inspect
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..expectations import CHECKS, Context, Judgement, judge
from ..model import (
    Cell,
    CellResult,
    Finding,
    Note,
    Observation,
    Outcome,
    Schedule,
    StormTally,
    Token,
    Trial,
    Verdict,
    from_json,
    merge,
    parse_schedule,
)
from ..storms import FAMILIES, SEARCH, Ground, NotHere, names
from . import closely, drive, searching
from .canaries import canaries
from .chains import roots
from .clock import real_monotonic
from .pool import Pool, Result
from .scout import service_ground
from .script import Probe
from .trial import MISSING, Order

CONFIRM_RUNS = 3
CONFIRM_SPIN = 200
"""Turns in a row that confirm a spin: in the same real second a busy machine has fewer of them."""
PASS_SAMPLE = 3
ASKED_SECONDS = 60.0
"""Real seconds for the schedules in which the other side fails."""
SHARE = 5
"""Schedules of a storm in each round, so that a short budget meets every storm."""
REAL_JOBS = 3
"""Trials in real time mostly wait: so many more of them run at a time."""
HANG_BOUND = 15.0
"""Seconds of the trial's clock after which an operation counts as hung, or three times calm if that is more."""


@dataclass
class Options:
    """What a campaign is asked to do.

    budget_seconds: real seconds for the storms of this probe and cell.
    confirm_seconds: real seconds for confirmation; at least one kind of finding is confirmed.
    schedules: only these (a replay).
    """

    cell: Cell
    storms: tuple[str, ...] = ()
    budget_trials: int | None = None
    budget_seconds: float = 60.0
    confirm: bool = True
    confirm_seconds: float = 60.0
    jobs: int = 2
    seed: int = 0
    clock: str = "virtual"
    schedules: tuple[str, ...] = ()
    canaries: bool = True
    search: bool = False
    """Whether the host searches for schedules once the storms are over."""
    compared: bool = False
    """Whether the host is told that the storms are over, and may ask for more: what the other side fails in."""

    @classmethod
    def read(cls, request: dict[str, Any]) -> Options:
        """From the host's request."""
        names = (
            "budget_trials",
            "budget_seconds",
            "confirm",
            "confirm_seconds",
            "jobs",
            "seed",
            "clock",
            "canaries",
            "search",
            "compared",
        )
        given = {name: request[name] for name in names if name in request}
        return cls(
            cell=from_json(Cell, request["cell"]),
            storms=tuple(request.get("storms", ())),
            schedules=tuple(request.get("schedules", ())),
            **given,
        )


Say = Callable[[str, Any], None]


class Broken(Exception):
    """The campaign cannot go on: ERROR (or UNRESOLVED), with the exit code that belongs to it."""

    def __init__(self, what: str, todo: str = "", code: int = 4, verdict: Verdict = Verdict.ERROR) -> None:
        super().__init__(what)
        self.todo = todo
        self.code = code
        self.verdict = verdict


def run(probe: Probe, options: Options, say: Say, folder: str, hear: searching.Hear = lambda: None) -> None:
    """Run a campaign; each trial and at last the cell's result are said as they come.

    Args:
        hear: gives the host's next request, for a search.
    """
    Campaign(probe, options, say, folder, hear).run()


@dataclass
class Kind:
    """Findings that are one and the same: an expectation at a suspension line."""

    order: Order
    trial: Trial
    finding: Finding
    others: list[tuple[Trial, Finding]] = field(default_factory=list)
    failed: int = 0
    runs: int = 0


class Campaign:
    """The state of one campaign."""

    def __init__(
        self, probe: Probe, options: Options, say: Say, folder: str, hear: searching.Hear = lambda: None
    ) -> None:
        self.probe = probe
        self.options = options
        self.say = say
        self.hear = hear
        self.searched = 0
        """How many schedules a search has thrown."""
        self.service = probe.kind == "service"
        self.pool = Pool(folder, options.jobs * (REAL_JOBS if self.service else 1))
        self.lines = closely.Lines(self.pool)
        self.cell = options.cell
        self.virtual = options.clock == "virtual" and not probe.real_time
        self.calm: Observation | None = None
        self.drift: set[int] = set()
        self.trials: list[Trial] = []
        self.orders: dict[str, Order] = {}
        self.canary_verdicts: dict[str, Verdict] = {}
        self.began = real_monotonic()
        self.rest: dict[str, str] = {}
        """Schedules that the budget had no room for, and their storms."""
        self.unreached: dict[str, int] = {}
        """Schedules that need not run: their second point is known to be out of reach."""
        self.met: dict[str, int] = {}
        self.na: dict[str, str] = {}
        self.passes = ""
        self.notes: list[Note] = []

    # -- the whole -------------------------------------------------------

    def run(self) -> None:
        try:
            try:
                self._phases()
                result = self._result()
            except Broken as error:
                result = self._result(error)
        finally:
            self.pool.close()
        self.say("cell", result)

    def _phases(self) -> None:
        self._backend()
        if self.options.schedules:
            self._calm()
            self._replay()
            return
        if self.options.canaries:
            self._canaries()
        self._calm()
        schedules = list(self._schedules())
        self._storm(schedules)
        if self.options.compared:
            self._asked()
        if self.options.search and self.service:
            self.na[SEARCH] = "it is for operations on a loop"
        elif self.options.search:
            searching.search(self, self.hear)
        if (self.virtual or self.service) and self.options.confirm:
            self._confirm()

    def _backend(self) -> None:
        """Import the backend's driver, once for all trials, and see that it can drive what is installed here."""
        backend = self.cell.backend
        try:
            why, notes = drive.look(backend)
        except ImportError as error:
            raise Broken(
                f"the probe names the backend {backend}, which does not import here: {error}",
                f"add {backend!r} to the probe's requires=[...], or leave it out of backends=[...]",
                2,
            ) from None
        if why:
            raise Broken(why, "use a version that was tried", 3, Verdict.UNRESOLVED)
        self.notes += [Note("backend", note) for note in notes]
        if drive.kind(backend) != "asyncio" and self.probe.victim:
            raise Broken(
                f"the probe names a victim, {self.probe.victim!r}, and {backend} cancels scopes, not tasks",
                f"leave {backend!r} out of backends=[...], or make what the victim does the operation",
                2,
            )

    # -- canaries --------------------------------------------------------

    def _canaries(self) -> None:
        """Every expectation must flag the subject that breaks it."""
        flock = canaries(self.cell.backend)
        kind, there = self.probe.kind, {canary.expectation for canary in flock}
        if missing := sorted(name for name, check in CHECKS.items() if check.of(kind) and name not in there):
            raise Broken(f"the expectation {missing[0]} has no canary", code=70)
        for canary in flock:
            if canary.na:  # said by name: what is not checked here must not look like a clean bill
                self.notes.append(Note("canary", f"{canary.name}: {canary.na}"))
        expected = [canary for canary in flock if not canary.na]
        orders = [replace(canary.order) for canary in expected]
        results = {id(result.order): result for result in self.pool.run(orders)}
        for canary, order in zip(expected, orders):
            result = results[id(order)]
            verdict = self._judge_canary(canary.expectation, result)
            self.canary_verdicts[canary.name] = verdict
            if verdict is not Verdict.FAIL:
                seen = result.observation
                why = result.error.strip().splitlines()[-1:] if result.error else [_told(seen)]
                raise Broken(
                    f"the check {canary.name} did not flag its canary here ({verdict.value}; {why[0] if why else ''}): "
                    "a check that cannot fail is worth nothing",
                    "run `stormdrain doctor` with this interpreter; if it fails there too, this is a fault of stormdrain",
                    70,
                )

    def _judge_canary(self, expectation: str, result: Result) -> Verdict:
        if result.observation is None:
            return Verdict.ERROR
        probe = result.order.probe
        context = Context(probe.spec(), result.order.schedule, result.observation, None, probe.closes)
        return judge(context, (expectation,)).verdict

    # -- calm ------------------------------------------------------------

    def _order(self, schedule: Schedule, **changes: Any) -> Order:
        bound = max(HANG_BOUND, 3 * self.calm.elapsed) if self.calm else 60.0 if self.virtual else HANG_BOUND * 2
        if self.probe.terms is not None:
            bound = self.probe.terms.bound
        order = Order(
            probe=self.probe,
            schedule=schedule,
            backend=self.cell.backend,
            virtual=self.virtual,
            bound=bound,
            baseline=self.calm.there if self.calm else (),
            final=self.calm.final if self.calm else (),
            seed=self.options.seed,
        )
        return replace(order, **changes)

    def _calm(self) -> None:
        """Calm twice, and once in real time: they must behave alike."""
        schedule = Schedule("calm")
        first = self._order(schedule, calm=True, record_points=True, phase="calm")
        orders = [first, replace(first)]
        compare = self.virtual and not self.options.schedules  # a replay's clock was decided before
        if compare:
            orders.append(replace(first, virtual=False, bound=HANG_BOUND * 2))
        seen = {id(result.order): self._calm_observation(result) for result in self.pool.run(orders)}
        observations = [seen[id(order)] for order in orders]
        a, b = observations[:2]
        if (difference := _alike(a, b, fates=not self.service)) is not None:
            raise Broken(
                f"baseline broken: two calm trials differ ({difference})",
                "make the probe's subject and operation repeatable",
            )
        if compare and (difference := _alike(a, observations[2])) is not None:
            self.virtual = False
            why = f"calm differs between virtual and real time ({difference})"
            self.cell = replace(self.cell, clock="real", clock_why=why)
            self.notes.append(Note("clock", why))
            a = observations[2]
        elif self.probe.real_time:
            self.cell = replace(self.cell, clock="real", clock_why=self.probe.real_time)
        else:
            self.cell = replace(self.cell, clock="virtual" if self.virtual else "real")
        self.notes += [Note("calm", note) for note in a.notes]
        _import(a.imported)
        self.drift = {p.n for p, q in zip(a.points, b.points) if p.key != q.key}
        self.drift |= set(range(min(len(a.points), len(b.points)) + 1, max(len(a.points), len(b.points)) + 1))
        order = replace(first, virtual=self.virtual)
        for result in self.lines.named([Result(order, a)]):
            a = result.observation or a
        self._keep(order, Result(order, a), phase="calm")
        if (error := a.outcome.error) is not None:
            told = f"{error.type}: {error.message}" + (f" at {error.site}" if error.site else "")
            self.notes.append(Note("calm", f"the operation raises when nothing disturbs it: {told}"))
        self.calm = replace(a, follow_up=a.follow_up)

    def _calm_observation(self, result: Result) -> Observation:
        seen = result.observation
        if seen is None:
            raise Broken(
                f"the trial broke down: {result.error.strip().splitlines()[-1] if result.error else 'no answer'}",
                code=70,
            )
        if seen.built.kind != "returned":
            if self.cell.role == "base" and MISSING in seen.built.value:
                raise Broken(
                    seen.built.value, "the operation is new on head: there is nothing to compare it with", 0, Verdict.NA
                )
            if seen.built.value and (self.service or seen.built.kind == "raised"):
                told = seen.built.error  # what the user can do, where it is the command that is wrong
                todo = told.message if told else "mend what case.spawn(...) is given, or the service"
                raise Broken(seen.built.value, todo, 2 if told else 4)
            error = seen.built.error
            if error is not None:
                where = f" at {error.site}" if error.site else ""
                raise Broken(
                    f"the probe raises while it builds its subject: {error.type}: {error.message}{where}",
                    "mend the probe, or name what it needs in requires=[...]",
                )
            if seen.built.kind == "crashed":
                raise Broken(
                    f"the process died while the probe built its subject: {seen.built.value}",
                    "run the probe's lines by themselves with this interpreter",
                )
            where = "; ".join(seen.hang.tasks[:3] or seen.hang.threads[:1]) if seen.hang else "; ".join(seen.notes)
            raise Broken(
                f"the probe hangs while it builds its subject ({seen.hang.why if seen.hang else seen.outcome.kind}): {where}",
                "wait for a handshake that comes, and give children and peers what is waited for",
            )
        if self.probe.victim and seen.victim.kind == "not-run":
            raise Broken(
                f"the probe names the victim {self.probe.victim!r}, and no task of that name was there",
                "start it before the operation, with asyncio.create_task(..., name=...)",
            )
        if (error := seen.outcome.error) is not None and error.type == "UsageError":
            raise Broken(error.message.partition("\n")[0], error.message.partition("to do: ")[2], 2)
        if seen.outcome.kind == "crashed":
            raise Broken(f"the process died in calm: {seen.outcome.value}", "the operation must run undisturbed first")
        if seen.outcome.kind == "not-run" and seen.hang is not None:
            raise Broken(f"the trial did not come to its operation: {seen.hang.why}")
        if seen.dispose.kind == "raised" and (error := seen.dispose.error) is not None:
            raise Broken(
                f"dispose raises in calm: {error.type}: {error.message}", "mend what follows the probe's yield"
            )
        if seen.dispose.kind in ("hung", "deadlock", "crashed"):
            where = "; ".join((*seen.hang.tasks[:3], *seen.hang.threads[:1])) if seen.hang else "; ".join(seen.notes)
            raise Broken(f"dispose does not end in calm: {where}", "mend what follows the probe's yield")
        return seen

    # -- storms ----------------------------------------------------------

    def _ground(self) -> Ground:
        assert self.calm is not None
        return Ground(
            spec=self.probe.spec(),
            backend=drive.kind(self.cell.backend),
            python=(sys.version_info[0], sys.version_info[1]),
            points=self.calm.points,
            elapsed=self.calm.elapsed,
            modules=frozenset(name for name in ("anyio", "trio", "uvloop") if uses(name, self.probe.file)),
            seed=self.options.seed,
            children=any(fact.name for fact in self.calm.processes),
            **(self._service_ground(self.calm) if self.service else {}),
        )

    def _service_ground(self, calm: Observation) -> dict[str, Any]:
        wanted = self.options.storms or self.probe.storms
        signals = [name for name in self.probe.spec().exits if name != "EOF"]
        sweeps = not wanted or "signal-sweep" in wanted
        return service_ground(calm, signals[0] if signals else "", sweeps, self.pool, self._order)

    def _schedules(self) -> Iterator[Schedule]:
        """What will be thrown: every storm gets its turn, each the most telling first, pairs at the end."""
        wanted = self.options.storms or self.probe.storms or tuple(FAMILIES)
        ground = self._ground()
        rest: dict[str, list[Schedule]] = {}
        for name, family in FAMILIES.items():
            if name not in wanted:
                continue
            if self.probe.kind not in family.kinds:
                if name in self.options.storms:
                    self.na[name] = (
                        "it is for services" if "service" in family.kinds else "it is for operations on a loop"
                    )
                continue
            try:
                rest[name] = family.generate(ground)
            except NotHere as why:
                self.na[name] = str(why)
        pairs = rest.pop("cancel-pairs", [])
        while any(rest.values()):
            for name, schedules in rest.items():
                share = SHARE * 2 if name == "cancel-sweep" else SHARE
                yield from schedules[:share]
                rest[name] = schedules[share:]
        yield from pairs

    def _storm(self, schedules: Sequence[Schedule]) -> None:
        """Throw everything, within the budget. What was not tried is counted."""
        until = real_monotonic() + self.options.budget_seconds
        limit = self.options.budget_trials
        rest = list(schedules)

        def orders() -> Iterator[Order]:
            given = 0
            while rest:
                if real_monotonic() >= until or (limit is not None and given >= limit):
                    return
                schedule = rest.pop(0)
                if self._out_of_reach(schedule):
                    self.unreached[schedule.storm] = self.unreached.get(schedule.storm, 0) + 1
                    continue
                given += 1
                yield self._order(schedule)

        self._run(orders())
        self.rest = {str(schedule): schedule.storm for schedule in rest}

    def _asked(self) -> None:
        """Throw what the host asks for besides, whatever the budget was."""
        self.say("stormed", None)
        until = real_monotonic() + ASKED_SECONDS
        texts = (self.hear() or {}).get("also", ())

        def orders() -> Iterator[Order]:
            for schedule in map(parse_schedule, texts):
                if schedule.storm not in self.na and real_monotonic() < until:
                    self.rest.pop(str(schedule), None)
                    yield self._order(schedule)

        self._run(orders())

    def _out_of_reach(self, schedule: Schedule) -> bool:
        """Whether the first fault alone ended the operation before it came to the second one's point."""
        if schedule.storm != "cancel-pairs":
            return False
        first, second = schedule.faults
        alone = self.met.get(str(replace(schedule, storm="cancel-sweep", faults=(first,))))
        return alone is not None and alone < second.when.n

    def _replay(self) -> None:
        self._run(self._order(parse_schedule(text)) for text in self.options.schedules)

    def _run(self, orders: Iterator[Order]) -> None:
        """Run and judge; what blocks the loop at a new place is judged last, when its line is known."""
        held: list[Result] = []
        for result in self.pool.run(orders):
            if self.lines.unknown(result):
                held.append(result)
            else:
                self._keep(result.order, self.lines.tell(result))
        for result in self.lines.named(held):
            self._keep(result.order, result)

    def _keep(self, order: Order, result: Result, phase: str = "storm") -> Trial:
        trial = self._judge(order, result, phase)
        if phase != "confirm":
            self.trials.append(trial)
            if result.observation is not None:
                self.met[str(order.schedule)] = result.observation.met
            self.orders[trial.token] = order
        self.say("trial", trial)
        return trial

    def _judge(self, order: Order, result: Result, phase: str) -> Trial:
        """The verdict on one trial, derived from what was seen."""
        schedule = order.schedule
        token = str(Token(self.cell.key, schedule))
        made = Trial(self.cell.key, schedule.storm, token, Verdict.ERROR, phase=phase)
        seen = result.observation
        if seen is None:
            return replace(made, error=result.error.strip()[-1500:] or "the trial gave no answer")
        made = replace(made, observation=seen)
        if seen.built.kind != "returned":
            return replace(
                made, verdict=Verdict.UNRESOLVED, error=seen.built.value or "the subject was not built this time"
            )
        if seen.undecided:
            return replace(made, verdict=Verdict.UNRESOLVED, error=seen.undecided)
        if missing := [failure.call for failure in schedule.failures if failure.call not in seen.failures]:
            return replace(made, verdict=Verdict.NA, na=(Note("fail", f"this revision has no {missing[0]}"),))
        if seen.partial and seen.dispose.kind in ("hung", "crashed"):
            return replace(
                made, verdict=Verdict.UNRESOLVED, error=f"what it left is not known: {'; '.join(seen.notes)}"
            )
        if not _reached(schedule, seen):
            if (
                schedule.storm == "gc"
                and schedule.variant == "unanchored"
                and seen.outcome.kind in ("returned", "raised")
            ):
                why = f"not reachable in this version: at none of {seen.met} points would a collection destroy a task"
                self.notes.append(Note("gc", why))
                return replace(made, verdict=Verdict.NA, reached=False, na=(Note("gc", why),))
            return replace(made, verdict=Verdict.NA, reached=False)
        if phase == "calm" or order.calm:
            calm = None
        else:
            calm = self.calm
        context = Context(
            spec=self.probe.spec(),
            schedule=schedule,
            seen=seen,
            calm=calm,
            closes=self.probe.closes,
            revision=self.cell.revision,
            python=self.cell.python,
            token=token,
        )
        judgement = self._beyond_calm(judge(context), schedule)
        counted = (
            schedule.faults[:1] if self.service else schedule.faults
        )  # a service's later steps count from the fault
        drift = any(int(f.when.n) in self.drift for f in counted if f.when.kind == "point")
        findings = tuple(replace(f, drift=True) for f in judgement.findings) if drift else judgement.findings
        return replace(made, verdict=judgement.verdict, findings=findings, notes=judgement.notes, na=judgement.na)

    def _beyond_calm(self, judgement: Judgement, schedule: Schedule) -> Judgement:
        """What is broken in calm is said once, of calm."""
        if schedule.storm == "calm" or not self.trials:
            return judgement
        broken = {finding.expectation for finding in self.trials[0].findings}
        kept = tuple(f for f in judgement.findings if f.expectation not in broken)
        if len(kept) == len(judgement.findings):
            return judgement
        verdict = judgement.verdict
        if verdict is Verdict.FAIL and not kept:
            verdict = Verdict.PASS
        return replace(judgement, findings=kept, verdict=verdict)

    # -- confirmation ----------------------------------------------------

    def _kinds(self) -> list[Kind]:
        kinds: dict[tuple[str, str], Kind] = {}
        for trial in self.trials:
            for finding in trial.findings:
                key = (finding.expectation, str(finding.site))
                kind = kinds.get(key)
                if kind is None:
                    kinds[key] = Kind(self.orders[trial.token], trial, finding)
                    continue
                kind.others.append((trial, finding))
                if self._cost(trial) < self._cost(kind.trial):  # the cheapest one stands for all
                    kind.others.append((kind.trial, kind.finding))
                    kind.others.remove((trial, finding))
                    kind.order, kind.trial, kind.finding = self.orders[trial.token], trial, finding
        return sorted(kinds.values(), key=lambda kind: self._cost(kind.trial))

    @staticmethod
    def _cost(trial: Trial) -> float:
        seen = trial.observation
        if seen is None:
            return 0.0
        return seen.bound if seen.outcome.kind in ("hung", "deadlock") else seen.elapsed

    def _confirm(self) -> None:
        """Run one of each kind of finding in real time, and some passes."""
        until = real_monotonic() + self.options.confirm_seconds
        kinds = self._kinds()
        if self.service:  # its trials ran in real time as it is: the first one counts
            for kind in kinds:
                kind.runs = kind.failed = 1
        # One trial often shows several kinds: it is run for all of them.
        chosen: dict[str, list[Kind]] = {}
        for kind in kinds:
            chosen.setdefault(kind.trial.token, []).append(kind)
        asked: list[tuple[Order, list[Kind]]] = []

        def orders() -> Iterator[Order]:
            for number, group in enumerate(chosen.values()):
                if number and real_monotonic() >= until:
                    return
                for _ in range(CONFIRM_RUNS):
                    order = replace(self._real(group[0].order), spin=CONFIRM_SPIN)
                    asked.append((order, group))
                    yield order

        self.pool.jobs = self.options.jobs * REAL_JOBS
        for result in self.pool.run(orders()):
            group = next(group for order, group in asked if order is result.order)
            trial = self._keep(result.order, result, phase="confirm")
            for kind in group:
                kind.runs += 1
                kind.failed += any(f.expectation == kind.finding.expectation for f in trial.findings)
        self._settle_findings(kinds)
        if self.virtual:
            self._confirm_passes(until)

    def _real(self, order: Order) -> Order:
        return replace(order, virtual=False, record_points=False)

    def _settle_findings(self, kinds: Sequence[Kind]) -> None:
        """k of n: at least one is a FAIL, none leaves it unresolved; the others inherit."""
        changed: dict[str, list[Finding]] = {}
        for kind in kinds:
            if not kind.runs:
                continue
            own = replace(kind.finding, failed=kind.failed, runs=kind.runs)
            changed.setdefault(kind.trial.token, []).append(own)
            for trial, finding in kind.others:
                heir = replace(finding, failed=kind.failed, runs=kind.runs, inherits=kind.trial.token)
                changed.setdefault(trial.token, []).append(heir)
        for index, trial in enumerate(self.trials):
            if trial.token not in changed:
                continue
            new = {f.expectation: f for f in changed[trial.token]}
            findings = tuple(new.get(f.expectation, f) for f in trial.findings)
            doubtful = all(f.runs and not f.failed for f in findings)
            verdict = Verdict.UNRESOLVED if doubtful and trial.verdict is Verdict.FAIL else trial.verdict
            error = "seen in virtual time only, 0 of 3 in real time" if doubtful else trial.error
            self.trials[index] = replace(trial, findings=findings, verdict=verdict, error=error)

    def _confirm_passes(self, until: float) -> None:
        """A seeded sample of passes, in real time: a clock that hides faults would show here."""
        passes = [
            t for t in self.trials if t.verdict is Verdict.PASS and t.phase == "storm" and self._cost(t) <= HANG_BOUND
        ]
        chosen = random.Random(self.options.seed).sample(passes, min(PASS_SAMPLE, len(passes)))
        asked: dict[int, Trial] = {}
        orders = []  # kept alive to the end: an order is known by its identity
        for trial in chosen:
            order = self._real(self.orders[trial.token])
            asked[id(order)] = trial
            orders.append(order)
        same = ran = 0
        for result in self.pool.run(order for order in orders if real_monotonic() < until or order is orders[0]):
            trial = self._keep(result.order, result, phase="confirm")
            if trial.verdict is Verdict.NA:
                continue
            ran += 1
            if trial.verdict is Verdict.PASS:
                same += 1
            elif trial.verdict is Verdict.FAIL:
                self._overrule(asked[id(result.order)], trial)
        self.passes = f"{same} of {ran}"

    def _overrule(self, virtual: Trial, real: Trial) -> None:
        """Real time is the truth: a pass that fails there fails."""
        for index, trial in enumerate(self.trials):
            if trial.token == virtual.token:
                findings = tuple(replace(f, failed=1, runs=1) for f in real.findings)
                self.trials[index] = replace(
                    trial, verdict=Verdict.FAIL, findings=findings, error="seen in real time only"
                )

    # -- the result ------------------------------------------------------

    def _result(self, broken: Broken | None = None) -> CellResult:
        tallies = [self._tally(name) for name in (*names(), SEARCH)]
        shown = tuple(tally for tally in tallies if tally is not None)
        verdict = broken.verdict if broken else merge(tally.verdict for tally in shown)
        return CellResult(
            cell=self.cell,
            verdict=verdict,
            spec=self.probe.spec(),
            storms=shown,
            findings=tuple(f for trial in self.trials for f in trial.findings),
            points=self.calm.points if self.calm else (),
            canaries=self.canary_verdicts,
            error=str(broken) if broken else "",
            error_todo=broken.todo if broken else "",
            exit_code=broken.code if broken else 0,
            trials=self.pool.count,
            seconds=round(real_monotonic() - self.began, 3),
            confirmed_passes=self.passes,
            notes=tuple(self.notes),
        )

    def _tally(self, name: str) -> StormTally | None:
        if name in self.na:
            return StormTally(name, Verdict.NA, why=self.na[name])
        mine = [trial for trial in self.trials if trial.storm == name]
        left = sum(storm == name for storm in self.rest.values())
        searched = self.searched if name == SEARCH else 0
        if not mine and not left and not searched and name not in self.unreached:
            return None
        return StormTally(
            storm=name,
            verdict=merge([trial.verdict for trial in mine] or [Verdict.PASS] * bool(searched)),
            trials=searched or len(mine),
            failed=sum(trial.verdict is Verdict.FAIL for trial in mine),
            not_reached=sum(not trial.reached for trial in mine) + self.unreached.get(name, 0),
            not_tried=left,
            unresolved=sum(trial.verdict is Verdict.UNRESOLVED for trial in mine),
        )


def _reached(schedule: Schedule, seen: Observation) -> bool:
    """Whether the faults that have a point were delivered while the operation ran."""
    if seen.partial or seen.outcome.kind == "crashed":
        return True
    if seen.outcome.kind in ("hung", "deadlock") and not seen.delivered:
        return True  # what blocks or dies cannot say which faults it got
    if schedule.faults and not seen.delivered:
        return False
    if seen.moments:  # a service: every fault but those that go on until it has ended
        single = [fault for fault in schedule.faults if fault.when.kind not in ("start", "every", "turns")]
        return seen.delivered >= len(single)
    points = [fault for fault in schedule.faults if fault.when.kind == "point"]
    return not points or sum(1 for record in seen.faults if record.accepted is not False) >= len(points)


def _alike(a: Observation, b: Observation, fates: bool = True) -> str | None:
    """What differs in behaviour between two calm trials, if anything does.

    fates: whether those of processes count; a service is killed in calm, at whatever it is doing.
    """
    pairs: list[tuple[str, Any, Any]] = [
        ("outcome", _brief(a.outcome), _brief(b.outcome)),
        ("follow-up", _brief(a.follow_up), _brief(b.follow_up)),
        ("dispose", _brief(a.dispose), _brief(b.dispose)),
    ]
    if fates:
        pairs.append(("fate of processes", _fates(a), _fates(b)))
    for what, one, other in pairs:
        if one != other:
            return f"{what}: {one} and {other}"
    return None


def uses(library: str, script: str) -> bool:
    """Whether the target, or the probe's script itself, has imported anything of a library.

    That it is loaded says nothing: another probe of this worker may have loaded it.
    """
    if library not in sys.modules:
        return False
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None) or ""
        if not (roots.is_target(file) or file == script):
            continue
        for value in list(vars(module).values()):
            name = getattr(value, "__name__", None) if inspect.ismodule(value) else getattr(value, "__module__", None)
            if isinstance(name, str) and name.split(".")[0] == library:
                return True
    return False


def _import(names: Sequence[str]) -> None:
    """Import what trials import late (a backend of anyio, say), so that each fork need not."""
    for name in names:
        if name not in sys.modules and not name.startswith("stormdrain_probe"):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _brief(outcome: Outcome) -> str:
    error = outcome.error
    kind = "hung" if outcome.kind == "deadlock" else outcome.kind
    return f"{kind} {error.type}" if error else kind


def _told(seen: Observation | None) -> str:
    """How a trial came out, in a few words."""
    if seen is None:
        return ""
    error = seen.outcome.error
    return f"it came out as {seen.outcome.kind}" + (f", {error.type}: {error.message}" if error else "")


def _fates(seen: Observation) -> list[str]:
    """Of the processes that the target started, or left as orphans; what its children start comes and goes with them."""
    own = [p for p in seen.processes if p.site is not None or p.name or p.state == "orphaned"]
    return sorted(f"{p.name or p.command.split()[0] if p.command else '?'} {p.state} {p.returncode}" for p in own)
