"""One line for each rule of the gate: held or not, the figure, where to look."""

from __future__ import annotations

import dataclasses
import datetime
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..compare import KINDS, standing
from ..model import RuleResult, Run, Verdict
from .coverage import coverage_rules, gaps_of
from .decide import conclude, counting, judged, survivors, undecided, unresolved
from .policy import WARN_DAYS, Accepted, Policy, caught_on, distinct, fate, minor
from .suites import suite_rules
from .watched import Watched


@dataclass(frozen=True)
class Setting:
    """What the rules need besides the run.

    supported: interpreters that the project says it supports.
    missing: interpreters that the configuration names as optional and that are not on this machine.
    today: the day on which accepted entries are looked at.
    """

    policy: Policy
    watched: Watched
    supported: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    today: datetime.date | None = None

    @property
    def day(self) -> datetime.date:
        """Today, in UTC unless it was given."""
        return self.today or datetime.datetime.now(datetime.timezone.utc).date()


def apply_gate(run: Run, setting: Setting) -> Run:
    """The run with verdict, exit code and the results of all rules.

    A broken rule makes the exit code 1 where nothing worse does.
    """
    policy = setting.policy
    in_force = tuple(entry for entry in policy.accepted if entry.days_left(setting.day) >= 0)
    judged_policy = dataclasses.replace(policy, accepted=in_force)
    run = conclude(run, judged_policy, setting.watched.pythons)
    rules = [_baseline(run), _findings(run, judged_policy), _unresolved(run, judged_policy)]
    if run.mutants:
        rules += [_survivors(run, judged_policy, setting), *_unwatched_kills(run, setting)]
    rules += suite_rules(run, judged_policy)
    gaps = gaps_of(run)
    rules += coverage_rules(run, judged_policy, gaps)
    rules += [_interpreters(run, setting), _watched(setting)]
    if policy.accepted:
        rules.append(_accepted(run, setting))
    verdict, code = run.verdict, run.exit_code
    if code == 0 and not all(rule.held for rule in rules):
        verdict, code = Verdict.FAIL, 1
    return dataclasses.replace(
        run,
        verdict=verdict,
        exit_code=code,
        gaps=gaps,
        rules=tuple(rules),
        unwatched=told_watched(setting),
    )


def told_watched(setting: Setting) -> dict[str, str]:
    """Which interpreters CI runs and which it does not, as the run keeps it; empty where it is not known."""
    told = {
        "watched": ", ".join(setting.watched.pythons or ()),
        "unwatched": ", ".join(setting.watched.unwatched(setting.supported)),
    }
    return {key: value for key, value in told.items() if value}


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _baseline(run: Run) -> RuleResult:
    broken = [result for result in run.cells if result.verdict is Verdict.ERROR]
    look = ""
    if broken:
        cell = broken[0].cell
        look = f"{cell.probe} ({cell.role} {cell.python} {cell.backend}): {broken[0].error.strip()}"
    return RuleResult("baseline", not broken, f"{len(broken)} of {_count(len(run.cells), 'cell')} broken", look)


def _findings(run: Run, policy: Policy) -> RuleResult:
    found = counting(run, policy)
    if run.comparison:
        kinds = Counter(change.kind for change in run.comparison if change.expectation)
        detail = ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS if kinds[kind]) or "none on either side"
    else:
        detail = _count(sum(len(standing(result)) for result in judged(run)), "finding")
    rule = "all count" if policy.base_rule == "all" or not run.comparison else "new ones count"
    look = f"stormdrain replay '{found[0].token}'" if found else ""
    problems = {(finding.storm, finding.expectation, finding.id) for finding in found}
    return RuleResult("findings", not found, f"{len(problems)} count ({detail}; {rule})", look)


def _unresolved(run: Run, policy: Policy) -> RuleResult:
    number = unresolved(run)
    counts = "UNRESOLVED" in policy.fail_on
    places = [
        f"{result.cell.probe} {tally.storm} ({result.cell.python} {result.cell.backend})"
        for result in judged(run)
        for tally in result.storms
        if tally.unresolved
    ]
    figure = f"{number} unresolved" + ("" if counts or not number else " (the policy lets them pass)")
    return RuleResult("unresolved", not number or not counts, figure, "; ".join(places[:3]))


def _survivors(run: Run, policy: Policy, setting: Setting) -> RuleResult:
    lost = survivors(run, policy, setting.watched.pythons)
    open_ = undecided(run, policy)
    real = [mutant for mutant in run.mutants if fate(mutant) != "none"]
    accepted = sum(
        mutant.id in _ids(policy.accepted) or mutant.name in _ids(policy.accepted)
        for mutant in real
        if fate(mutant, setting.watched.pythons) == "survivor"
    )
    figure = f"{len(lost)} of {_count(len(real), 'mutant')} survive, {policy.max_survivors} allowed"
    figure += f"; {accepted} accepted" if accepted else ""
    figure += f"; {len(open_)} undecided" if open_ else ""
    names = [f"{mutant.name} ({mutant.id})" for mutant in (*lost, *open_)]
    return RuleResult("survivors", len(lost) <= policy.max_survivors and not open_, figure, "; ".join(names[:4]))


def _unwatched_kills(run: Run, setting: Setting) -> list[RuleResult]:
    """Mutants that only an interpreter outside CI notices: a warning, or survivors if the policy says so."""
    alone = [m for m in run.mutants if fate(m, setting.watched.pythons) == "caught only unwatched"]
    if not alone:
        return []
    where = sorted({minor(python) for mutant in alone for python in caught_on(mutant)})
    figure = f"{_count(len(alone), 'mutant')} caught only on {', '.join(where)}, which nothing runs"
    look = "; ".join(mutant.name for mutant in alone[:4])
    return [RuleResult("unwatched", setting.policy.unwatched != "fail", figure, look, warning=True)]


def _interpreters(run: Run, setting: Setting) -> RuleResult:
    used = distinct([*(one.cell.python for one in run.cells), *(one.python for one in run.baselines)])
    figure = ", ".join(used)
    if not setting.missing:
        return RuleResult("interpreters", bool(used), figure or "none")
    missing = ", ".join(setting.missing)
    look = f"what only {missing} shows was not shown here"
    return RuleResult("interpreters", bool(used), f"{figure or 'none'}; {missing} not found", look, warning=True)


def _watched(setting: Setting) -> RuleResult:
    watched = setting.watched
    notes = "; ".join(watched.notes)
    if watched.pythons is None:
        look = notes or "name them: watched = [...] in [tool.stormdrain]"
        return RuleResult("watched", True, "which interpreters CI runs is not known", look, warning=True)
    figure = f"{', '.join(watched.pythons)} ({watched.source})"
    unwatched = watched.unwatched(setting.supported)
    if unwatched:
        figure += f"; supported, but nothing runs it: {', '.join(unwatched)}"
    return RuleResult("watched", True, figure, notes, warning=bool(unwatched or notes))


def _ids(entries: Sequence[Accepted]) -> set[str]:
    return {entry.id for entry in entries}


def _accepted(run: Run, setting: Setting) -> RuleResult:
    """Expired entries and entries that match nothing break the rule; entries about to end are warned of."""
    day = setting.day
    there = {finding.id for result in judged(run) for finding in standing(result)}
    for mutant in run.mutants:
        if fate(mutant, setting.watched.pythons) in ("survivor", "undecided", "caught only unwatched"):
            there |= {mutant.id, mutant.name}
    entries = setting.policy.accepted
    expired = [entry for entry in entries if entry.days_left(day) < 0]
    unmatched = [entry for entry in entries if entry.id not in there]
    ending = [entry for entry in entries if 0 <= entry.days_left(day) <= WARN_DAYS]
    # What an interpreter that is not here would show cannot be called gone.
    excused = bool(setting.missing) or run.interrupted
    figure = _count(len(entries), "entry").replace("entrys", "entries")
    parts = [
        f"{len(some)} {what}"
        for some, what in ((expired, "expired"), (unmatched, "match nothing"), (ending, "end within 14 days"))
        if some
    ]
    look = [_expired(entry) for entry in expired]
    look += [f"line {entry.line}: {entry.id} matches nothing: remove it" for entry in unmatched]
    look += [f"line {entry.line}: {entry.id} ends on {entry.until}" for entry in ending]
    held = not expired and (not unmatched or excused)
    return RuleResult("accepted", held, ", ".join([figure, *parts]), "; ".join(look[:6]), bool(parts))


def _expired(entry: Accepted) -> str:
    return f"line {entry.line}: {entry.id} was accepted until {entry.until}: {entry.reason}"
