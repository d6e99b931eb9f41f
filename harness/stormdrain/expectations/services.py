"""The expectations of services: what must be true once a service was told to go.

Each is a pure function of one observation, as those of operations are. In calm nothing
was asked of the service, so only what it printed is looked at there.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Fault
from .checks import Context, NotApplicable, Problem, of_services

EOF = "EOF"


def _disturbed(context: Context) -> None:
    if context.schedule.storm == "calm":
        raise NotApplicable("nothing was asked of it in calm")
    if context.seen.outcome.kind == "not-run":
        raise NotApplicable("no fault was delivered")


def _went(context: Context) -> None:
    _disturbed(context)
    if context.seen.outcome.kind != "returned":
        raise NotApplicable("it did not end")
    if context.seen.exit_status is None:
        raise NotApplicable("it was not asked to end: the signal went to its child alone")


def _was_ready(context: Context) -> bool:
    return "ready" in context.seen.moments


def _asked(context: Context) -> list[str]:
    """What told it to go, in order: names of signals, `EOF`."""
    return [
        EOF if fault.kind == "close-stdin" else fault.arg.partition(".")[0]
        for fault in context.schedule.faults
        if fault.kind in ("signal", "close-stdin")
    ]


def _to_child(fault: Fault) -> bool:
    return fault.kind == "kill" or fault.arg.endswith(".child")


@of_services("returns")
def _returns(context: Context) -> Iterator[Problem]:
    _disturbed(context)
    seen = context.seen
    if seen.outcome.kind == "crashed":
        yield Problem(f"the trial was taken down: {seen.outcome.value}", None, seen.notes)
    if seen.outcome.kind != "hung":
        return
    hang = seen.hang
    asked = " and ".join(dict.fromkeys(_asked(context))) or "the fault"
    second = next((f"; {note}" for note in seen.notes if note.startswith("a second")), "")
    waits = f": {seen.outcome.value}" if seen.outcome.value else ""
    details = (*hang.tasks, *hang.threads, *hang.processes) if hang else ()
    message = f"the service has not ended {seen.bound:g} s after {asked}{waits}{second}"
    yield Problem(message, (hang.site if hang else None) or context.site, details)


@of_services("exit-code", "A service leaves with the exit code that its probe gives for the signal.")
def _exit_code(context: Context) -> Iterator[Problem]:
    _went(context)
    if any(_to_child(fault) for fault in context.schedule.faults):
        raise NotApplicable("its child was disturbed: what it makes of that is its own affair")
    seen, asked = context.seen, _asked(context)
    status = seen.exit_status or 0
    # The end of stdin after a signal changes nothing; a signal after the end of stdin may.
    telling = [name for name in asked if name != EOF] if asked and asked[0] != EOF else asked
    right = {code for name in telling for code in context.spec.exits.get(name, ())}
    if not right:
        raise NotApplicable(f"the probe gives no exit code for {' and '.join(asked) or 'this'}")
    if status in right:
        return
    how = f"was ended by signal {-status}" if status < 0 else f"left with {status}"
    if not _was_ready(context):
        raise NotApplicable(f"it {how} before it was ready: nothing was in place yet")
    if status < 0 and seen.delivered > 1 and seen.artefacts.kind != "raised" and not seen.left:
        whole = " and its files are whole" if seen.artefacts.kind == "returned" else ""
        raise NotApplicable(f"it {how}, not the first one, when its cleanup was over: nothing is left{whole}")
    codes = " or ".join(map(str, sorted(right)))
    yield Problem(
        f"the service {_left(status)}; the probe expects {codes} after {' and '.join(dict.fromkeys(telling))}",
        context.site,
    )


def _left(status: int) -> str:
    return f"was killed by signal {-status}" if status < 0 else f"left with exit code {status}"


@of_services("artefacts-complete", "The files of a service are whole once it has gone, as its probe's check says.")
def _artefacts_complete(context: Context) -> Iterator[Problem]:
    _went(context)
    said = context.seen.artefacts
    if said.kind == "not-run":
        raise NotApplicable("the probe looks at no files (artefacts=...)")
    if not _was_ready(context):
        raise NotApplicable("it was not ready yet")
    if said.kind == "raised":
        error = said.error
        yield Problem(said.value or (f"{error.type}: {error.message}" if error else "they are not whole"), context.site)


@of_services("prompt", "A service has ended within the seconds that its probe gives, from the first signal on.")
def _prompt(context: Context) -> Iterator[Problem]:
    _went(context)
    allowed = context.spec.prompt
    if allowed is None:
        raise NotApplicable("the probe asks for no promptness (prompt=...)")
    if context.seen.elapsed > allowed:
        yield Problem(
            f"the service took {context.seen.elapsed:.2f} s to end; the probe allows {allowed:g} s", context.site
        )


@of_services("nothing-left", "When a service has gone, no process that descends from it is left.")
def _nothing_left(context: Context) -> Iterator[Problem]:
    _disturbed(context)
    seen = context.seen
    if seen.outcome.kind == "returned" and seen.exit_status is None:
        raise NotApplicable("it was not asked to end: the signal went to its child alone")
    items = [item for item in seen.left if item.kind == "process"]
    if items:
        facts = {str(fact.pid): fact for fact in seen.processes}
        details = []
        for item in items:
            fact = facts.get(item.what.split()[1])
            blocked = f", blocks signals {', '.join(map(str, fact.blocked))}" if fact and fact.blocked else ""
            orphan = ", its parent is gone" if fact and fact.state == "orphaned" else ""
            details.append(f"{' '.join(item.what.split())}{orphan}{blocked}")
        more = f", and {len(items) - 1} more" if len(items) > 1 else ""
        site = seen.hang.site if seen.hang else None
        yield Problem(f"left behind: {details[0]}{more}", site or context.site, tuple(details))


@of_services("quiet-output", "A service prints nothing that its probe forbids.")
def _quiet_output(context: Context) -> Iterator[Problem]:
    seen = context.seen
    if context.schedule.storm != "calm":
        _disturbed(context)
        if not _was_ready(context):
            raise NotApplicable("it was not ready yet")
    if seen.printed:
        yield Problem(
            f"printed: {seen.printed[0].strip()[:200]}", context.site, (*seen.printed, *seen.output.splitlines()[-20:])
        )


@of_services("child-reaped")
def _child_reaped(context: Context) -> Iterator[Problem]:
    _disturbed(context)
    seen = context.seen
    if not seen.target:
        raise NotApplicable("no child was signalled; what is left in the end is nothing-left")
    note = next((fault.note for fault in seen.faults if fault.kind == "signal"), "")
    if "which ignores it" in note:
        raise NotApplicable(f"{note}: that may be meant so")
    fact = next((fact for fact in seen.processes if fact.pid == seen.target), None)
    if fact is not None and fact.state != "gone":
        yield Problem(
            f"the child is still there ({fact.state}) after {note}", context.site, (f"{fact.command}: {fact.state}",)
        )
