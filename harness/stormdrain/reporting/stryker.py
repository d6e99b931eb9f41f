"""The mutants in the schema of mutation-testing-elements, which its viewer and dashboards read.

That schema wants whole source files. A run keeps the diffs of its mutants, not
the files, so a file is given as far as the diffs show it, at the right line
numbers, with empty lines between. Mutants of other designs of the same file, whose
lines contradict, get a file of their own.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from .. import __version__
from ..model import MutantRecord, Run
from .escape import plain
from .kills import by_outcome, ordered, short_test

_STATUS = {
    "caught": "Killed",
    "caught only unwatched": "Killed",
    "survivor": "Survived",
    "undecided": "Ignored",
}
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


@dataclass
class Sheet:
    """What is known of one file: its lines by number, and the mutants in it."""

    lines: dict[int, str] = field(default_factory=dict)
    mutants: list[dict[str, Any]] = field(default_factory=list)

    def takes(self, lines: dict[int, str]) -> bool:
        """Whether these lines do not contradict what is known."""
        return all(self.lines.get(number, text) == text for number, text in lines.items())

    def source(self) -> str:
        """The file as far as it is known."""
        return "\n".join(self.lines.get(number, "") for number in range(1, max(self.lines, default=0) + 1)) + "\n"


def stryker_report(run: Run) -> str:
    """The run's mutants as a mutation-testing-elements report."""
    tests = {test: str(number) for number, test in enumerate(_tests(run), 1)}
    sheets: dict[str, list[Sheet]] = {}
    for kind, mutant in ordered(run):
        if mutant.source in ("forced", "neutral"):
            continue
        lines, first, last = old_lines(mutant.diff)
        known = sheets.setdefault(plain(mutant.path, 400), [])
        sheet = next((sheet for sheet in known if sheet.takes(lines)), None)
        if sheet is None:
            sheet = Sheet()
            known.append(sheet)
        sheet.lines |= lines
        sheet.mutants.append(_mutant(mutant, kind, tests, first, last, lines))
    report = {
        "schemaVersion": "2.0",
        "thresholds": {"high": 100, "low": 80},
        "framework": {"name": "stormdrain", "version": __version__},
        "files": {
            path if number == 0 else f"{path} ({number + 1})": {
                "language": "python",
                "source": sheet.source(),
                "mutants": sheet.mutants,
            }
            for path, known in sheets.items()
            for number, sheet in enumerate(known)
        },
        "testFiles": _test_files(tests),
    }
    return json.dumps(report, ensure_ascii=True, allow_nan=False, indent=2) + "\n"


def _tests(run: Run) -> list[str]:
    found = [test for baseline in run.baselines for test in baseline.tests]
    found += [test for mutant in run.mutants for tests in mutant.matrix.values() for test in tests]
    return list(dict.fromkeys(found))


def _test_files(tests: dict[str, str]) -> dict[str, Any]:
    files: dict[str, Any] = {}
    for test, number in tests.items():
        name = plain(test.partition("::")[0], 400)
        files.setdefault(name, {"tests": []})["tests"].append({"id": number, "name": plain(short_test(test))})
    return files


def old_lines(diff: str) -> tuple[dict[int, str], int, int]:
    """The original's lines that a unified diff shows, by number, and the first and last that it changes."""
    lines: dict[int, str] = {}
    changed: list[int] = []
    number = 0
    for line in diff.splitlines():
        hunk = _HUNK.match(line)
        if hunk:
            # A hunk that takes nothing away names the line before it.
            number = int(hunk[1]) + (1 if hunk[2] == "0" else 0)
        elif number and line[:1] in (" ", "-", ""):
            lines[number] = plain(line[1:], 400)
            if line[:1] == "-":
                changed.append(number)
            number += 1
        elif number and line[:1] == "+":
            changed.append(max(number - 1, 1))
    return lines, min(changed, default=1), max(changed, default=1)


def _mutant(
    mutant: MutantRecord, kind: str, tests: dict[str, str], first: int, last: int, lines: dict[int, str]
) -> dict[str, Any]:
    failed = {test: result for row in mutant.matrix.values() for test, result in row.items()}
    added = "\n".join(
        line[1:] for line in mutant.diff.splitlines() if line.startswith("+") and not line.startswith("+++")
    )
    reason = [by_outcome(mutant), mutant.error, *(result.message for result in failed.values())]
    return {
        "id": plain(mutant.id, 80),
        "mutatorName": plain(f"{mutant.source}: {mutant.operator}", 120),
        "description": plain(f"{mutant.name}: {mutant.why}".rstrip(": "), 600),
        "replacement": "\n".join(plain(line, 400) for line in added.split("\n")),
        "location": {
            "start": {"line": first, "column": 1},
            "end": {"line": last, "column": len(lines.get(last, "")) + 1},
        },
        "status": status(mutant, kind),
        "statusReason": plain("; ".join(text for text in reason if text), 1000),
        "killedBy": [tests[test] for test in failed if kind.startswith("caught")],
        "testsCompleted": sum(mutant.ran.values()),
    }


def status(mutant: MutantRecord, kind: str) -> str:
    """The schema's word for what became of a mutant."""
    outcomes = set(mutant.outcome.values())
    if kind == "survivor" and outcomes <= {"uncovered", "unviable"}:
        return "NoCoverage"
    if kind.startswith("caught") and "caught" not in outcomes:
        return "Timeout"
    if kind == "none":
        return "CompileError" if "unviable" in outcomes else "Ignored"
    return _STATUS[kind]
