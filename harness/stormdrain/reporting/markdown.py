"""The report as a comment on a pull request: the changes first, each failure folded, everything bounded.

What the code under test says goes through :mod:`.escape`; a comment is never
longer than the place it goes to takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..compare import KINDS
from ..model import CellResult, Run, Verdict
from . import coverage, digest
from .escape import code, fenced, markdown, plain
from .groups import Group, confirmed, group_findings
from .kills import by_outcome, change_lines, ordered, readers, short_test, unwatched_sentence, watched_of
from .suites import ordered as ordered_tests
from .suites import seconds, tightest

LIMIT = 60_000
"""Characters of a whole comment (GitHub refuses more than 65,536)."""
ROWS = 40

MARKS = {
    Verdict.PASS: "✅",
    Verdict.FAIL: "❌",
    Verdict.ERROR: "💥",
    Verdict.UNRESOLVED: "❓",
    Verdict.NA: "⚪",
}


def markdown_report(run: Run) -> str:
    """The comment."""
    parts = [
        f"### {MARKS[run.verdict]} stormdrain: {run.verdict.value} - {markdown(digest.headline(run))}",
        _facts(run),
        _rules(run),
        _cells(run),
        _changes(run),
        *_findings(run),
        *_mutants(run),
        _coverage(run),
        _new_tests(run),
        _slack(run),
        _foot(run),
    ]
    return _bounded([part for part in parts if part])


def _bounded(parts: list[str]) -> str:
    """Whole parts as long as they fit, then how many were left out."""
    out: list[str] = []
    room = LIMIT
    for number, part in enumerate(parts):
        if len(part) + 2 > room:
            out.append(f"*{len(parts) - number} more sections did not fit; run.json has everything.*")
            break
        out.append(part)
        room -= len(part) + 2
    return "\n\n".join(out) + "\n"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    lines = [head, tuple("---" for _ in head), *rows[:ROWS]]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return text + (f"\n\n*and {len(rows) - ROWS} more rows*" if len(rows) > ROWS else "")


def _facts(run: Run) -> str:
    rows = [f"- {label}: {code(text, 400)}" for label, text in digest.facts(run)]
    return "\n".join([*rows, *(f"- error: {code(error, 600)}" for error in run.errors)])


def _rules(run: Run) -> str:
    rows = []
    for rule in run.rules:
        state = ("⚠️ held" if rule.warning else "✅ held") if rule.held else "❌ broken"
        look = markdown(rule.look) if not rule.held or rule.warning else ""
        rows.append((state, markdown(rule.rule), markdown(rule.figure), look))
    return _table(("rule", "", "figure", "where to look"), rows)


def _cells(run: Run) -> str:
    rows = []
    for result in run.cells:
        cell, number = result.cell, digest.counts([result])
        rows.append(
            (
                f"{MARKS[result.verdict]} {result.verdict.value}",
                code(cell.probe, 80),
                markdown(cell.role, 20),
                code(f"{cell.python} {cell.backend}", 60),
                markdown(result.error, 200) if result.error else _looked_at(result, number.sentence()),
            )
        )
    return _table(("verdict", "probe", "side", "cell", "what was looked at"), rows)


def _looked_at(result: CellResult, counts: str) -> str:
    return "; ".join([counts, *(f"**caution**: {markdown(text, 200)}" for text in digest.cautions(result)[:3])])


def _changes(run: Run) -> str:
    rows = []
    for group in digest.changed(run, KINDS[:-1]):
        lead = group.lead
        rows.append(
            (
                f"**{lead.kind}**" if lead.kind in ("regressed", "new") else markdown(lead.kind, 40),
                code(group.what, 60),
                code(", ".join(group.storms), 160),
                code(f"{', '.join(group.probes)} ({group.where})", 200),
                markdown(lead.differs_from or lead.message, 240),
            )
        )
    return _table(("change", "expectation", "storms", "where", "from the first difference"), rows)


def _findings(run: Run) -> list[str]:
    found = group_findings(run)
    out = [_finding(group) for group in found[:ROWS]]
    if len(found) > ROWS:
        out.append(f"*and {len(found) - ROWS} more findings, in run.json*")
    return out


def _finding(group: Group) -> str:
    lead = group.lead
    title = f"FAIL {lead.expectation} under {lead.storm}: {group.probe} ({group.where})"
    rows = [plain(group.sentence, 600), *(plain(seen, 400) for seen in group.seen[:6])]
    if lead.site is not None:
        rows.append(plain(f"suspended at: {lead.site}"))
    rows += [plain(f"left: {text}") for text in group.left[:8]]
    rows.append(f"real time: {confirmed(lead)}")
    if group.others:
        rows.append(plain(f"schedules: {group.under}"))
    if group.differs:
        rows.append(plain(f"differs from base: {group.differs}", 400))
    rows.append(f"id: {plain(' '.join(group.ids), 160)}")
    replay = fenced([digest.replay_command(plain(lead.token, 400))], "sh")
    kind = f" ({markdown(group.kind, 40)})" if group.kind else ""
    body = f"{fenced(rows, 'text')}\n\n{replay}"
    return f"<details><summary>{markdown(title)}{kind}</summary>\n\n{body}\n\n</details>"


def _mutants(run: Run) -> list[str]:
    loud = [(kind, mutant) for kind, mutant in ordered(run) if kind not in ("caught", "none")]
    out = []
    for kind, mutant in loud[:ROWS]:
        body = fenced([plain(line, 160) for line in change_lines(mutant, 30)], "diff")
        said = [markdown(mutant.why, 400)] if mutant.why else []
        if kind == "caught only unwatched":
            said.append(markdown(unwatched_sentence(mutant, watched_of(run) or ()), 200))
        text = "\n\n".join([*said, body, f"id: {code(mutant.id, 80)}"])
        where = markdown(by_outcome(mutant), 200)
        title = f"{kind}: {markdown(mutant.name, 120)} - {where}"
        out.append(f"<details><summary>{title}</summary>\n\n{text}\n\n</details>")
    if len(loud) > ROWS:
        out.append(f"*and {len(loud) - ROWS} more mutants, in run.json*")
    return out


def _new_tests(run: Run) -> str:
    rows = [
        (
            markdown(one.kind, 20),
            code(short_test(one.test), 160),
            code(one.python, 20),
            code(one.message or one.reason, 200),
        )
        for one in ordered_tests(run)
    ]
    return _table(("new test is", "test", "python", "on base"), rows)


def _coverage(run: Run) -> str:
    rows = [
        (f"**{word}**" if word == "UNCOVERED" else markdown(word, 40), code(place, 200), markdown(text, 300))
        for word, place, text in coverage.rows(run, ROWS)
    ]
    return _table(("touched lines", "where", ""), rows)


def _slack(run: Run) -> str:
    rows = [
        (
            code(short_test(one.test), 160),
            code(one.python, 20),
            *map(seconds, (one.waits, one.work, one.margin, one.of, one.child_start, one.turn)),
        )
        for one in tightest(run)
    ]
    return _table(("test", "python", "waits", "work", "margin", "of", "bears at start", "bears a turn"), rows)


def _foot(run: Run) -> str:
    rows = [f"- UNRESOLVED: {markdown(text)}" for text in digest.doubts(run)[:20]]
    rows += [f"- N/A: {markdown(text)}" for text in digest.not_applicable(run)[:20]]
    rows += [f"- reads the source instead of running it: {code(test, 160)}" for test in readers(run.mutants)[:20]]
    rows += [f"- {markdown(note)}" for note in digest.remarks(run)[:20]]
    rows += [f"- {markdown(label)}: {markdown(text)}" for label, text in run.unwatched.items()]
    return "\n".join(rows)
