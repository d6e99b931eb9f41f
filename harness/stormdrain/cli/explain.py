"""`stormdrain explain NAME`: what a name that a report prints stands for."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import click

from .. import store
from .show import quietly

_VERDICTS = {
    "PASS": "Every expectation that applies held.",
    "FAIL": "An expectation did not hold. Each kind of FAIL was run again in real time; k of n says how "
    "often it failed there.",
    "UNRESOLVED": "The point was reached, but it could not be decided: real time did not show again what "
    "virtual time showed, or the mechanism failed. Exit code 3 unless the policy lets it pass.",
    "ERROR": "The baseline or the harness is broken: calm does not behave alike twice, or a canary was not "
    "flagged. Nothing may be concluded.",
    "N/A": "It does not apply here, for a reason that is printed. Counted, and never decides the exit code.",
}
_CHANGES = {
    "fixed": "Base fails and head passes.",
    "regressed": "Base passes and head fails. Counts.",
    "still failing": "Both fail. Counts only under the base rule `all`.",
    "still passing": "Neither fails.",
    "new": "Base did not run this probe. What fails on head counts.",
    "N/A on base": "It does not apply on base, so base excuses nothing. What fails on head counts.",
    "inconclusive": "One side could not be decided. A failure on head counts; nothing is called fixed.",
}
_OUTCOMES = {
    "caught": "A test failed under the mutant, with the same message when it was repeated.",
    "missed": "Every covering test passed under the mutant.",
    "timed out": "A test hung, deadlocked, spun or ran out of memory under the mutant. Counts as caught.",
    "unviable": "The changed source does not compile or import, or is the original again.",
    "uncovered": "Of a mutant: no test executes the changed lines. Of a line that the diff touches: no cell runs it.",
    "unstable": "A test failed in some runs only.",
    "not executed": "Even a forced failure at that place was not seen: the mutant never ran.",
    "survivor": "A mutant that no test catches on the interpreters named.",
}
_NEW_TESTS = {
    "red": "The new test fails on base, by an assertion: it proves what the change is for.",
    "decorative": "The new test is green without the change: it proves nothing of it. Counts.",
    "wrong reason": "The new test fails on base since something is not there yet (ImportError, AttributeError): "
    "that says nothing of behaviour. Counts.",
    "broken": "The new test is not green on head. Exit code 4.",
}
_TESTS = {
    "broken by head": "A test of the project that is green on base and red on head. Counts.",
    "new and red": "A test that base does not have and that is red on head. Counts.",
    "pre-existing": "A test that is not green on base either: named, and never blamed on head.",
}
_CODES = {
    "0": "The gate holds.",
    "1": "Findings or survivors beyond the policy.",
    "2": "The call, the configuration, a probe, a revision or a plan is wrong.",
    "3": "Could not conclude: UNRESOLVED beyond the policy, or nothing was run.",
    "4": "The baseline is broken: calm does not behave alike, or tests are red before any mutant.",
    "70": "stormdrain's own fault; the traceback is in the run's folder.",
    "130": "Interrupted; what was found so far is kept.",
}
_RULES = {
    "baseline": "Holds if calm behaves alike in every cell and no canary was missed; otherwise nothing may be "
    "concluded, exit code 4.",
    "findings": 'Holds if no finding counts: with base only those that base does not have (base_rule = "new"), else '
    "all; accepted ones are left out.",
    "unresolved": 'Holds if nothing was left undecided, or the policy lets it pass (unresolved = "pass").',
    "survivors": "Holds if no more mutants survive than max_survivors (default 0), accepted ones left out.",
    "unwatched": "Mutants that are caught only on an interpreter which your CI does not run. A warning, unless "
    'unwatched = "fail".',
    "interpreters": "Holds if something ran; names those that were asked for and not found.",
    "watched": "Which interpreters your CI runs, read from its files or from watched = [...]; a warning where it "
    "runs fewer than the project says it supports.",
    "accepted": "Holds if every [[tool.stormdrain.accepted]] still matches something and is not past its date.",
    "tests": "Holds if head broke none of the project's own tests; those that are red on base too are named "
    "and never blamed on head.",
    "redgreen": "New tests on base's source: a warning where one is green there or red for another reason than an "
    'assertion; a failure with redgreen = "fail".',
    "coverage": "Holds if so many of the lines that the change touches run in some cell, an interpreter here or a job "
    "whose --coverage-data were given, as union in [tool.stormdrain.gate.coverage] says; lines that only one platform "
    "can run are named with a reason.",
    "cell coverage": "The same in each cell by itself (per_cell); lines of one platform only count where they run.",
}
_SOURCES = {
    "plan": "A mutant that a plan (a TOML file) names.",
    "revert": "A hunk of the change taken back, or one statement of it dropped. If it survives, no test needs the change.",
    "general": "One of mutmut's general operators.",
    "neutral": "The same program written otherwise: a test that notices it reads the source instead of running it.",
    "forced": "The function raises, put first to the tests: proves that mutants of it are executed at all.",
}
_WORDS = {
    "probe": "A function in a script under probes/ that builds a subject and names the operation to drive.",
    "subject": "The object under test.",
    "operation": "What is driven: close(), any async function of the subject.",
    "fault": "One disturbance: a cancel, a timeout, a signal, an error that a call raises.",
    "step": "One executed callback of the event loop; on trio one step of a task.",
    "turn": "One pass of the event loop.",
    "point": "The gap after a step, counted from the operation's start.",
    "schedule": "An ordered list of points and faults; the second part of a token.",
    "token": "The key of a cell, a slash and a schedule: it replays one trial exactly.",
    "cell": "A revision, an interpreter and a backend.",
    "trial": "One operation under one schedule in one cell, in a process of its own.",
    "canary": "A built-in subject with a known fault, driven first: a check must be able to fail.",
    "kill matrix": "Mutant by test by interpreter.",
}


def known() -> dict[str, tuple[str, str]]:
    """Every name that is explained: what it is, and the text."""
    from .. import expectations, storms
    from ..mutation.operators import OPERATORS

    found = {name: ("word", text) for name, text in _WORDS.items()}
    found |= {name: ("source of mutants", text) for name, text in _SOURCES.items()}
    found |= {name: ("operator", f"If its mutant survives: {one.why}") for name, one in OPERATORS.items()}
    found |= {name: ("rule of the gate", text) for name, text in _RULES.items()}
    found |= {name: ("exit code", text) for name, text in _CODES.items()}
    found |= {name: ("test of the project", text) for name, text in _TESTS.items()}
    found |= {name: ("new test", text) for name, text in _NEW_TESTS.items()}
    found |= {name: ("outcome of a mutant", text) for name, text in _OUTCOMES.items()}
    found |= {name: ("base against head", text) for name, text in _CHANGES.items()}
    found |= {name: ("verdict", text) for name, text in _VERDICTS.items()}
    found |= {name: ("expectation", check.sentence) for name, check in expectations.CHECKS.items()}
    found |= {name: ("storm", family.sentence) for name, family in storms.FAMILIES.items()}
    found["search"] = (
        "storm",
        "Schedules of several faults, drawn by a seed (--search 30s) and shrunk to the fewest faults at the "
        "earliest points that fail; what failed before is thrown first.",
    )
    found["calm"] = ("storm", "The baseline, always first: the operation without any fault, twice.")
    return found


@click.command(
    "explain",
    short_help="What a name that a report prints stands for.",
)
@click.argument("name", nargs=-1, metavar="[NAME]")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write explain.txt into this folder too.",
)
def command(name: tuple[str, ...], out: Path | None) -> int:
    """Explain NAME: a storm, an expectation, an operator, a rule, a verdict, a change, an outcome, an exit code, a word.

    Without NAME all names are listed.
    """
    wanted = " ".join(name)
    names = known()
    if not wanted:
        text = listing(names)
    else:
        keys = [key for key in names if key == wanted] or [key for key in names if key.lower() == wanted.lower()]
        # A verdict and a rule may differ in case alone: both are told where neither is written as it is.
        keys += [key for key in names if key.lower() == wanted.lower() and key not in keys]
        if not keys:
            from ..gate.nearest import unknown

            raise unknown("explanation of", wanted, names)
        text = "\n".join(explained(key, *names[key]) for key in keys)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        store.write_atomically(out / "explain.txt", text)
    quietly(lambda: print(text, end="", file=sys.stdout))
    return 0


def explained(name: str, kind: str, sentence: str) -> str:
    """A name, what it is, and what it means; for an operator also what it does to code."""
    from .advice import more

    def filled(paragraph: str) -> str:
        return textwrap.fill(paragraph, 78, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False) + "\n"

    text = f"{name} ({kind})\n{filled(sentence)}" + "".join(map(filled, more(kind, name).splitlines()))
    if kind == "operator":
        from ..mutation.operators import OPERATORS

        before, after = OPERATORS[name].examples[0]
        text += "\n" + textwrap.indent(before.rstrip("\n"), "  - ", lambda _: True) + "\n"
        text += textwrap.indent(after.rstrip("\n"), "  + ", lambda _: True) + "\n"
    return text


def listing(names: dict[str, tuple[str, str]]) -> str:
    """All names by what they are."""
    kinds = dict.fromkeys(kind for kind, _ in names.values())
    rows = []
    for kind in reversed(list(kinds)):
        row = ", ".join(name for name, (what, _) in names.items() if what == kind)
        rows.append(textwrap.fill(f"{kind}: {row}", 78, subsequent_indent="  ", break_on_hyphens=False))
    return "\n".join(rows) + "\n"
