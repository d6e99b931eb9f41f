"""The expectations, each a pure function of one observation, and the judge that runs them.

A check yields problems, or says why it does not apply. It never decides a
verdict: that is derived here, by one merge function.
"""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from ..model import (
    Exc,
    Finding,
    Left,
    Note,
    Observation,
    Point,
    ProbeSpec,
    Schedule,
    Site,
    Stance,
    Verdict,
    merge,
    suspended_at,
)


@dataclass(frozen=True)
class Context:
    """What a check may know.

    calm: the observation of the calm trial in the same cell; None in calm itself.
    """

    spec: ProbeSpec
    schedule: Schedule
    seen: Observation
    calm: Observation | None = None
    closes: bool = True
    revision: str = ""
    python: str = ""
    token: str = ""

    @property
    def accepted(self) -> int:
        """Cancels that were accepted: the harness's, and those that the probe's operation asked for itself."""
        return self.seen.accepted + self.seen.own_cancels

    @property
    def failed(self) -> bool:
        """Whether a call that was made to raise was reached."""
        return any(times for call, times in self.seen.failures.items() if call not in ("body", "sibling"))

    @property
    def errors(self) -> tuple[str, ...]:
        """The injected errors that must not be lost: those of failing calls, and of a body."""
        return tuple(call for call, times in self.seen.failures.items() if times and call != "sibling")

    @property
    def site(self) -> Site | None:
        """Where the operation was suspended when the first fault landed."""
        for fault in self.seen.faults:
            if fault.chain:
                return fault.site
        if self.seen.outcome.kind == "crashed" and self.calm is not None:  # it took its record along
            return suspended_at(_chain_at(self.schedule, self.calm.points))
        # A timeout's own cancel, say. Libraries cancel tasks of their own too: one of the target's tells more.
        sites = [site for cancel in self.seen.cancels if (site := suspended_at(cancel.chain)) is not None]
        return next((site for site in sites if site.target), sites[0] if sites else None)


def _chain_at(schedule: Schedule, points: tuple[Point, ...]) -> tuple[Site, ...]:
    """Where calm was suspended at the moment of the first fault."""
    for fault in schedule.faults[:1]:
        if fault.when.kind == "point":
            return next((point.chain for point in points if point.n == fault.when.n), ())
        if fault.when.kind in ("after", "every"):
            return next((point.chain for point in reversed(points) if point.at <= fault.when.n), ())
    return ()


@dataclass(frozen=True)
class Problem:
    """Something that did not hold: a sentence, a place, what was seen.

    amount: how much of it there is, where a probe may allow so much (seconds, turns, entries, things).
    mild: the heading of a note that it is, unless the probe tightens the expectation.
    """

    message: str
    site: Site | None = None
    seen: tuple[str, ...] = ()
    amount: float | None = None
    mild: str = ""


class NotApplicable(Exception):
    """The check does not apply to this trial; the text says why."""


@dataclass(frozen=True)
class Check:
    """An expectation: its name, what it demands, how it looks at an operation and at a service (None: not at all)."""

    name: str
    sentence: str
    look: Callable[[Context], Iterator[Problem]] | None = field(compare=False)
    service: Callable[[Context], Iterator[Problem]] | None = field(default=None, compare=False)

    def of(self, kind: str) -> Callable[[Context], Iterator[Problem]] | None:
        """How it looks at what probes of a kind drive (`service`, or an operation); None where it does not."""
        return self.service if kind == "service" else self.look


CHECKS: dict[str, Check] = {}


def _check(name: str, sentence: str) -> Callable[[Callable[[Context], Iterator[Problem]]], None]:
    def put(look: Callable[[Context], Iterator[Problem]]) -> None:
        CHECKS[name] = Check(name, sentence, look)

    return put


def of_services(name: str, sentence: str = "") -> Callable[[Callable[[Context], Iterator[Problem]]], None]:
    """Register how an expectation looks at a service, beside how it looks at an operation if it does."""

    def put(look: Callable[[Context], Iterator[Problem]]) -> None:
        known = CHECKS.get(name)
        CHECKS[name] = replace(known, service=look) if known else Check(name, sentence, None, look)

    return put


def names() -> tuple[str, ...]:
    """The names of all expectations."""
    return tuple(CHECKS)


def _entered(context: Context) -> None:
    if context.seen.outcome.kind == "never-entered":
        raise NotApplicable("the operation never ran")
    if context.seen.outcome.kind == "not-run":
        raise NotApplicable("the operation was not started")


def _no_failures(context: Context) -> None:
    if context.failed:
        raise NotApplicable("a cleanup call was made to fail")


def _ended(context: Context) -> None:
    _entered(context)
    if context.seen.outcome.kind not in ("returned", "raised"):
        raise NotApplicable("the operation did not end")


def _error(context: Context) -> Exc | None:
    return context.seen.outcome.error


# -- resources ---------------------------------------------------------------


@_check("returns", "The operation ends before the hang bound and does not take its process down.")
def _returns(context: Context) -> Iterator[Problem]:
    _entered(context)
    seen = context.seen
    if seen.outcome.kind in ("hung", "deadlock"):
        hang = seen.hang
        waits = next((text.partition(": ")[2] for text in ((*hang.tasks, *hang.threads) if hang else ())), "")
        what = (
            "can never end: nothing is left that could wake it"
            if seen.outcome.kind == "deadlock"
            else (f"has not ended after {seen.bound:g} s")
        )
        if hang and hang.why.startswith("blocked"):
            what = f"blocks its thread and has not ended after {seen.bound:g} real seconds"
        details = (*hang.tasks, *hang.threads, *hang.processes) if hang else seen.notes
        site = context.site or (hang.site if hang else None)
        yield Problem(f"the operation {what}; it waits at {waits or 'an unknown place'}", site, tuple(details))
    elif seen.outcome.kind == "crashed":
        yield Problem(f"the operation took its process down: {seen.outcome.value}", context.site, seen.notes)


def _left(context: Context, *kinds: str) -> tuple[list[Left], str]:
    """What was left of these kinds, and when, if it was not at once.

    Where the operation does not end its subject, what the subject keeps in calm (a connection
    kept alive, a child that was started) goes with dispose. What a disturbed operation lost
    sight of does not: it is there after dispose, where in calm it is not.
    """
    seen, calm = context.seen, context.calm
    items = [item for item in seen.left if item.kind in kinds]
    if calm is None:
        stays = collections.Counter(item.key for item in seen.final)
        left = collections.Counter(item.key for item in seen.left)
        return [item for item in items if context.closes or stays[item.key] >= left[item.key]], ""
    if items or seen.dispose.kind != "returned":
        return items, ""
    allowed = collections.Counter(item.key for item in calm.final)
    for item in seen.final:
        allowed[item.key] -= 1
        if item.kind in kinds and allowed[item.key] < 0:
            items.append(item)
    return items, " even after dispose"


def _processes(context: Context, orphans: bool) -> tuple[list[Left], str]:
    state = {str(fact.pid): fact.state for fact in context.seen.processes}
    items, when = _left(context, "process")
    return [item for item in items if (state.get(_pid(item)) == "orphaned") == orphans], when


def _pid(item: Left) -> str:
    return item.what.partition("pid ")[2].partition(" ")[0]


@_check("child-reaped", "No child of the target is left beyond calm, alive or as a zombie.")
def _child_reaped(context: Context) -> Iterator[Problem]:
    _entered(context)
    _no_failures(context)
    items, when = _processes(context, orphans=False)
    if items:
        yield Problem(
            f"left a child{when}: {items[0].what}" + (f", and {len(items) - 1} more" if len(items) > 1 else ""),
            context.site or items[0].site,
            tuple(item.what + (f" (started at {item.site})" if item.site else "") for item in items),
            len(items),
        )
    yield from _late(context, "process")


def _late(context: Context, *kinds: str) -> Iterator[Problem]:
    """What was left when the operation ended, and went away by itself a little later."""
    for item in context.seen.late:
        if item.kind in kinds:
            yield Problem(f"gone only while settling: {item.what}", context.site or item.site, mild="late")


@_check("no-orphans", "No process whose parent is gone is left beyond calm.")
def _no_orphans(context: Context) -> Iterator[Problem]:
    _entered(context)
    _no_failures(context)
    if context.schedule.storm == "child-grandchild":
        raise NotApplicable("the grandchild is the storm's own: a target need not know of it")
    items, when = _processes(context, orphans=True)
    if items:
        told = tuple(item.what for item in items)
        yield Problem(f"left an orphan{when}: {items[0].what}", context.site, told, len(items))


def _leak_check(*kinds: str) -> Callable[[Context], Iterator[Problem]]:
    def look(context: Context) -> Iterator[Problem]:
        _ended(context)
        _no_failures(context)
        items, when = _left(context, *kinds)
        if items:
            more = f", and {len(items) - 1} more" if len(items) > 1 else ""
            yield Problem(
                f"left a {items[0].kind}{when}: {items[0].what}{more}",
                context.site or items[0].site,
                tuple(item.what + (f" (from {item.site})" if item.site else "") for item in items),
                len(items),
            )
        yield from _late(context, *kinds)

    return look


_check("no-leaked-tasks", "No task is left beyond calm.")(_leak_check("task"))
_check("no-leaked-threads", "No thread is left beyond calm.")(_leak_check("thread"))
_check("no-leaked-descriptors", "No descriptor, socket, pipe or temporary file is left beyond calm.")(
    _leak_check("descriptor", "socket", "pipe", "file")
)


# -- cancellation --------------------------------------------------------------

_RAW_TIMEOUTS = ("wait_for", "timeout")
_TIMEOUTS = (*_RAW_TIMEOUTS, "fail_after")


@_check(
    "cancellation-delivered", "An accepted cancel comes out of the operation, and no cleanup error takes its place."
)
def _cancellation_delivered(context: Context) -> Iterator[Problem]:
    _ended(context)
    wrap = context.schedule.wrap
    if wrap is not None and wrap.kind == "group":
        yield from _abort_swallowed(context)
        return
    if wrap is not None and wrap.kind == "body":
        raise NotApplicable("the body's error comes out; see cleanup-error-kept")
    if wrap is not None and wrap.kind != "scope":
        _thrown(context)
        if wrap.kind in _TIMEOUTS and context.failed and context.seen.elapsed > (wrap.seconds or 0.0):
            yield from _timeout_eaten(context)
            return
        raise NotApplicable("it is a timeout that cancels here")
    if not context.accepted:
        raise NotApplicable("no cancel was accepted")
    _thrown(context)
    if context.spec.victim:
        yield from _victim_swallows(context)
        return
    error = context.seen.operation.error if context.seen.thrown else _error(context)
    if error is None:
        if wrap is not None and not context.seen.thrown:
            raise NotApplicable("a scope absorbs its own cancellation")
        if context.spec.absorbs_cancel:
            raise NotApplicable(f"the probe says that it absorbs cancellation: {context.spec.absorbs_cancel}")
        yield Problem("the cancel was accepted, and the operation returned as if nothing had happened", context.site)
    elif context.failed and not error.cancelled and error.injected:
        yield Problem(
            f"the cancel was accepted, but {error.type} of the failing cleanup came out instead of the cancellation",
            context.site,
            tuple(f"{one.link or 'raised'}: {one.type}: {one.message}" for one in context.seen.outcome.chain),
        )
    elif not error.cancelled and not error.injected:
        yield Problem(
            f"the cancel was accepted, and {error.type} of the target's own came out",
            context.site,
            tuple(f"{one.link or 'raised'}: {one.type}: {one.message}" for one in context.seen.outcome.chain),
            mild="cancellation-delivered",
        )


def _victim_swallows(context: Context) -> Iterator[Problem]:
    """The faults were for another task than the operation's: it must end in them."""
    end, name = context.seen.victim, context.spec.victim
    if end.kind == "returned" and not context.spec.absorbs_cancel:
        yield Problem(f"the cancel was accepted by {name!r}, and it returned as if nothing had happened", context.site)


def _abort_swallowed(context: Context) -> Iterator[Problem]:
    """A task group aborts: where its cancel was accepted inside the operation, the operation must end in it."""
    inside = [
        c
        for c in context.seen.cancels
        if c.accepted
        and c.caller
        and _of_group(c.caller)
        and any(site.target and not _of_group(site) for site in c.chain)
    ]
    if not context.seen.failures.get("sibling") or not inside:
        raise NotApplicable("the group did not abort while the operation was under way")
    if context.seen.operation.kind == "returned" and not context.spec.absorbs_cancel:
        yield Problem(
            "the group's abort was accepted, and the operation returned as if nothing had happened", inside[0].site
        )


def _of_group(site: Site) -> bool:
    """Whether a line is the task group's own: it may itself be code of the target (the standard library)."""
    return site.file.endswith("taskgroups.py")


def _thrown(context: Context) -> None:
    if context.seen.thrown == 0:
        raise NotApplicable("the cancelled scope found the operation at no checkpoint outside of its shields")


def _timeout_eaten(context: Context) -> Iterator[Problem]:
    error = _error(context)
    if error is not None and error.injected and not error.timeout:
        yield Problem(
            f"the timeout of {context.schedule.wrap} ended in {error.type} of the failing cleanup instead of TimeoutError",
            context.site,
            tuple(f"{one.link or 'raised'}: {one.type}: {one.message}" for one in context.seen.outcome.chain),
        )


@_check("timeout-converts", "A timeout around the operation ends in TimeoutError once it has struck.")
def _timeout_converts(context: Context) -> Iterator[Problem]:
    _ended(context)
    wrap = context.schedule.wrap
    if wrap is None or wrap.kind not in _TIMEOUTS or wrap.seconds is None:
        raise NotApplicable("no timeout was put around it")
    if context.failed:
        raise NotApplicable("a cleanup call was made to fail; see cancellation-delivered")
    if context.accepted:
        raise NotApplicable("somebody cancelled it, too: then that is what comes out")
    if context.seen.elapsed <= wrap.seconds + 0.001:
        calm = context.calm
        early = context.seen.elapsed < wrap.seconds - 0.001
        if early or calm is None or calm.elapsed <= wrap.seconds + 0.001:
            raise NotApplicable("it ended before the timeout")
    error = _error(context)
    if error is None:
        if wrap.kind == "fail_after" and not context.seen.thrown:
            raise NotApplicable("the scope had nothing left to cancel: the operation is shielded and ended")
        if context.spec.absorbs_cancel:
            raise NotApplicable(f"the probe says that it absorbs cancellation: {context.spec.absorbs_cancel}")
        after = f"{context.seen.elapsed:g} s"
        yield Problem(f"{wrap} struck, and the operation returned after {after} without TimeoutError", context.site)
    elif error.cancelled:
        yield Problem(f"{wrap} struck, and a bare {error.type} came out instead of TimeoutError", context.site)


@_check(
    "cleanup-error-kept", "The error of a failing cleanup surfaces alone, and rides as cause or context under a cancel."
)
def _cleanup_error_kept(context: Context) -> Iterator[Problem]:
    _ended(context)
    if not context.errors:
        raise NotApplicable("no call was made to fail")
    chain = context.seen.outcome.chain
    if any(one.injected and not one.cancelled and one.link != "suppressed" for one in chain):
        return
    calls = ", ".join(context.errors)
    if context.seen.outcome.kind == "returned" or not chain:
        if _swallows(context):
            raise NotApplicable("it swallows this error in calm too")
        yield Problem(f"the error of {calls} is lost: the operation returned", context.site)
    elif _swallows(context):
        raise NotApplicable("it swallows this error when nobody cancels, too")
    elif context.errors == ("body",) and chain[0].cancelled and not any(one.link == "suppressed" for one in chain):
        raise NotApplicable("the interpreter hangs no context on a cancellation that was caught and awaited over")
    else:
        yield Problem(
            f"the error of {calls} is lost: {chain[0].type} came out with no trace of it",
            context.site,
            tuple(f"{one.link or 'raised'}: {one.type}: {one.message}" for one in chain),
        )


def _swallows(context: Context) -> bool:
    """A target may suppress an error by design; then it does so whether or not anybody cancels."""
    return context.spec.expect.get("cleanup-error-kept", Stance("", "")).kind == "relax"


@_check(
    "bystander-unharmed", "A caller that nobody cancelled is not cancelled, and does not hang, because another one was."
)
def _bystander(context: Context) -> Iterator[Problem]:
    seen = context.seen
    if context.schedule.storm != "concurrent":
        raise NotApplicable("nobody else calls the operation meanwhile")
    if seen.hang is not None and "other callers" in seen.hang.why:
        waits = next((line for line in seen.hang.tasks if line.startswith("actor")), "")
        yield Problem(f"another caller of the operation never comes back: {waits}", context.site, seen.hang.tasks)
    for other in seen.others:
        if other.error is not None and other.error.cancelled:
            yield Problem(
                f"another caller of the operation, whom nobody cancelled, got {other.error.type}", context.site
            )


@_check("cancel-count-balanced", "Each accepted cancel that comes out is counted once in `cancelling()`.")
def _cancel_count_balanced(context: Context) -> Iterator[Problem]:
    _ended(context)
    if context.spec.victim:
        raise NotApplicable("the cancels are for another task")
    if context.seen.cancelling is None:
        raise NotApplicable("this interpreter or backend does not count cancels")
    error = _error(context)
    before, after = context.seen.cancelling
    cancels = context.accepted
    if cancels and (error is None or not error.cancelled):
        raise NotApplicable("no CancelledError came out")
    wrap = context.schedule.wrap
    if wrap is not None and (wrap.kind in ("scope", "group") or (error is not None and not error.cancelled)):
        raise NotApplicable("what is put around it counts for itself")
    balance = after - before - cancels
    if balance:
        yield Problem(f"cancelling() went from {before} to {after} over {cancels} accepted cancels", context.site)


@_check(
    "no-loop-reports",
    "Nothing is reported to the loop's exception handler, as unraisable, or as never awaited or retrieved.",
)
def _no_loop_reports(context: Context) -> Iterator[Problem]:
    _entered(context)
    known = [report.message for report in context.calm.reports] if context.calm else []
    news = []
    for report in context.seen.reports:
        if report.message in known:
            known.remove(report.message)
        else:
            news.append(report)
    if news:
        yield Problem(
            f"reported through {news[0].channel}: {news[0].message}",
            news[0].site or context.site,
            tuple(f"{report.channel}: {report.message}" for report in news),
        )


@_check("no-hot-spin", "While it waits, the loop sleeps: turns in a row without an event stay few.")
def _no_hot_spin(context: Context) -> Iterator[Problem]:
    _entered(context)
    if context.seen.spin:
        yield Problem(
            f"the loop spins: {context.seen.spin} and more turns in a row in which nothing happened",
            context.seen.spin_site or context.site,
            amount=context.seen.spin,
        )


@_check("no-blocked-loop", "No callback keeps the loop from running.")
def _no_blocked_loop(context: Context) -> Iterator[Problem]:
    _entered(context)
    if context.seen.blocked:
        worst = max(context.seen.blocked, key=lambda blocked: blocked.seconds)
        message = f"a callback blocked the loop for {worst.seconds:.2f} s"
        yield Problem(message, worst.site or context.site, amount=worst.seconds)


@_check("entered-once", "A counted method is entered once, however often the operation is disturbed.")
def _entered_once(context: Context) -> Iterator[Problem]:
    _entered(context)
    counted = {name: times for name, times in context.seen.counts.items() if times is not None}
    if not context.seen.counts:
        raise NotApplicable("the probe counts no method (count=[...])")
    if not counted:
        raise NotApplicable(f"this revision has no {', '.join(context.seen.counts)}")
    callers = 1 + len(context.seen.others)
    for name, times in counted.items():
        if times > callers:
            by = f" by {callers} callers" if callers > 1 else ""
            yield Problem(f"{name} was entered {times} times{by}", context.site, amount=times)


@_check("within-deadline", "The operation ends within the probe's deadline.")
def _within_deadline(context: Context) -> Iterator[Problem]:
    _ended(context)
    deadline = context.spec.deadline
    if deadline is None:
        raise NotApplicable("the probe gives no deadline")
    if context.seen.elapsed > deadline + 1e-6:
        message = f"took {context.seen.elapsed:g} s; the probe allows {deadline:g} s"
        yield Problem(message, context.site, amount=context.seen.elapsed)


@_check("follow-up-works", "The subject is still usable: the follow-up works as it does in calm.")
def _follow_up_works(context: Context) -> Iterator[Problem]:
    follow = context.seen.follow_up
    if context.schedule.storm == "loop-shutdown":
        raise NotApplicable("everything on the loop was cancelled: nobody comes after that")
    if follow.kind == "not-run":
        raise NotApplicable("there is no follow-up")
    _no_failures(context)
    if context.calm is not None and context.calm.follow_up.kind != "returned":
        raise NotApplicable("the follow-up does not work in calm either")
    if context.calm is None and follow.kind == "raised":
        raise NotApplicable("the follow-up does not work in calm")
    if follow.error is not None and follow.error.injected and not follow.error.cancelled:
        raise NotApplicable("the follow-up meets the call that is made to fail")
    if follow.kind != "returned":
        error = follow.error
        hang = context.seen.hang
        how = f"raised {error.type}: {error.message}" if error else "never ends" if hang else follow.kind
        where = tuple(f"{one.link or 'raised'}: {one.type}: {one.message} at {one.site}" for one in follow.chain)
        began = context.site if context.seen.faults else None  # what it stumbles over began at the fault
        site = began or (error.site if error else None) or context.site
        yield Problem(f"the follow-up {how}", site, where or (hang.tasks if hang else ()))


@_check("exits-cleanly", "The interpreter leaves once the loop is closed.")
def _exits_cleanly(context: Context) -> Iterator[Problem]:
    exit_ = context.seen.exit
    if exit_.kind == "not-run":
        raise NotApplicable("the trial did not come so far")
    hang = context.seen.hang
    if exit_.kind == "crashed":
        yield Problem(f"the interpreter's exit was cut short: {exit_.value}", context.site)
    elif exit_.kind != "returned":
        threads = exit_.value or "; ".join(hang.threads if hang else ()) or "its threads were not seen"
        yield Problem(f"the interpreter does not leave: {threads}", context.site, hang.tasks if hang else ())


# -- the judge -----------------------------------------------------------------


@dataclass(frozen=True)
class Judgement:
    """What all checks say of one observation."""

    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    notes: tuple[Note, ...] = ()
    na: tuple[Note, ...] = ()


def judge(context: Context, only: tuple[str, ...] = ()) -> Judgement:
    """Put every expectation (or `only` some) to an observation.

    A check that raises anything but NotApplicable is broken: the verdict is ERROR.
    """
    findings: list[Finding] = []
    notes: list[Note] = []
    na: list[Note] = []
    verdicts: list[Verdict] = []
    for name, check in CHECKS.items():
        look = check.of(context.spec.kind)
        if look is None or (only and name not in only):
            continue
        stance = _stance(context, name)
        if stance is not None and stance.kind == "na":
            na.append(Note(name, stance.reason))
            continue
        try:
            problems = list(look(context))
        except NotApplicable as why:
            na.append(Note(name, str(why)))
            verdicts.append(Verdict.NA)
            continue
        except Exception as error:
            notes.append(Note(name, f"the check itself failed: {type(error).__name__}: {error}"))
            verdicts.append(Verdict.ERROR)
            continue
        said = [(problem, _noted(name, problem, stance)) for problem in problems]
        notes += [note for _, note in said if note is not None]
        problems = [problem for problem, note in said if note is None]
        verdicts.append(Verdict.FAIL if problems else Verdict.PASS)
        findings += [_finding(context, name, problem) for problem in problems]
    if context.spec.kind == "service":
        notes += [Note("late", f"gone only while settling: {item.what}") for item in context.seen.late]
    notes += [Note("trial", text) for text in context.seen.notes]
    return Judgement(merge(verdicts), tuple(findings), tuple(notes), tuple(na))


def _noted(name: str, problem: Problem, stance: Stance | None) -> Note | None:
    """The note that a problem is, where it is no finding: it is mild, or the probe allows it."""
    if problem.mild:
        return None if stance is not None and stance.kind == "tighten" else Note(problem.mild, problem.message)
    if stance is None or stance.kind != "relax":
        return None
    if stance.value is not None and (problem.amount is None or problem.amount > stance.value):
        return None
    return Note(name, f"{problem.message} (allowed: {stance.reason})")


def _stance(context: Context, name: str) -> Stance | None:
    stance = context.spec.expect.get(name)
    if stance is None:
        return None
    if stance.revisions and not any(part in context.revision for part in stance.revisions):
        return None
    if stance.pythons and not any(context.python.startswith(version) for version in stance.pythons):
        return None
    return stance


def _finding(context: Context, name: str, problem: Problem) -> Finding:
    site = problem.site
    where = f"{site.file} {site.function}" if site else ""
    what = f"{context.spec.name}|{name}|{context.schedule.storm}|{where}"
    return Finding(
        id=hashlib.sha256(what.encode()).hexdigest()[:10],
        expectation=name,
        message=problem.message,
        storm=context.schedule.storm,
        token=context.token,
        site=site,
        seen=problem.seen[:40],
    )
