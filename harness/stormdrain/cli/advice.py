"""What usually is behind an expectation that did not hold, for `stormdrain explain`."""

from __future__ import annotations

USUALLY = {
    "returns": "A wait without a bound in the cleanup, or a wait for something that the cancelled code was to do. "
    "`stormdrain replay` prints where every task and thread waits.",
    "child-reaped": "The cancel lands between terminate() and wait(), and nothing finishes the job: do both in a task "
    "of their own and shield it, or wait again in a finally.",
    "no-orphans": "The child was killed and its own children were not: start it in a session of its own and kill the "
    "group.",
    "no-leaked-tasks": "A task that close() cancels last is not cancelled if a cancel lands before: cancel first, "
    "await then.",
    "no-leaked-threads": "An executor or a thread that is joined only at the end of an undisturbed close().",
    "no-leaked-descriptors": "A socket, pipe or file that is closed behind an await that was cancelled: close in a "
    "finally, or before the first await.",
    "cancellation-delivered": "`except BaseException`, `suppress(CancelledError)` or a return in a finally took the "
    "cancellation away, or an error of the cleanup took its place.",
    "timeout-converts": "The code under the timeout swallowed its cancel, or called uncancel() too often.",
    "cleanup-error-kept": "An error of the cleanup was suppressed, or replaced without `from`.",
    "bystander-unharmed": "Two callers await one task without a shield: cancelling one of them cancels the task.",
    "cancel-count-balanced": "CancelledError was caught and not raised again, without uncancel().",
    "no-loop-reports": "A future whose exception nobody took, a coroutine that was never awaited, an error in a "
    "callback or a __del__.",
    "no-hot-spin": "A loop that retries at once on CancelledError, or asks `sleep(0)` until something is done.",
    "no-blocked-loop": "A call that blocks (wait(), join(), a lock of threads) on the loop.",
    "entered-once": "A guard that is set behind an await lets a second caller in.",
    "within-deadline": "Several bounded waits in a row; the sum is what callers see.",
    "follow-up-works": "State that is half taken down: the second call finds a handle that is closed, or never one.",
    "exits-cleanly": "A thread that is no daemon, or an atexit function that waits for what is gone.",
    "exit-code": "The handler ends the process itself, or a second signal arrives while the first one is handled.",
    "artefacts-complete": "A file is written in place: write another one and rename it.",
    "prompt": "A wait at the end that no signal interrupts.",
    "nothing-left": "The service ends before its children do, or does not end them.",
    "quiet-output": "A traceback or a destroyed task at the end: tasks are left to the loop's closing.",
}


def more(kind: str, name: str) -> str:
    """What to do next about a name of this kind; empty where there is nothing to add."""
    if kind == "expectation":
        allow = f'expect={{"{name}": na("why")}} in the probe says that it does not apply; relax() allows so much.'
        return f"Usually: {USUALLY[name]}\n{allow}"
    if kind == "storm" and name != "calm":
        return "Alone: stormdrain probe --search 30s" if name == "search" else f"Alone: stormdrain probe --storm {name}"
    if kind == "operator":
        return "Put to the lines of a diff: stormdrain mutate --base main --tests tests"
    return ""
