"""Annotations of a GitHub workflow: `::error file=...,line=...::message` on stdout of a step.

GitHub shows ten annotations of each level for a step and drops the rest
silently, so the tenth says how many there are.
"""

from __future__ import annotations

from pathlib import Path

from ..gate.coverage import sentence
from ..model import Run, Site
from . import coverage, digest
from .escape import github, github_property
from .groups import group_findings
from .kills import by_outcome, ordered
from .places import place

SHOWN = 10


def github_report(run: Run, root: Path | None = None) -> str:
    """The run as workflow commands, a line each; a notice with the headline comes last."""
    errors: list[str] = []
    warnings: list[str] = []
    for group in group_findings(run):
        lead = group.lead
        title = f"{lead.expectation} under {lead.storm} ({group.probe}; {group.where})"
        text = f"{group.sentence}; {digest.replay_command(lead.token)}"
        still = group.kind == "still failing"
        (warnings if still else errors).append(
            _command(
                "warning" if still else "error",
                f"still failing: {title}" if still else title,
                text,
                lead.site,
                root,
            )
        )
    for kind, mutant in ordered(run):
        if kind in ("survivor", "caught only unwatched"):
            site = mutant.site or Site(mutant.path, 1)
            level, rows = ("error", errors) if kind == "survivor" else ("warning", warnings)
            rows.append(_command(level, f"no test notices {mutant.name}", by_outcome(mutant), site, root))
    for gap in coverage.ordered(run):
        site = Site(gap.place or gap.path, gap.first)
        level, rows = ("error", errors) if coverage.loud(run, gap) else ("warning", warnings)
        if gap.kind != "in some cells" or level == "error":
            rows.append(_command(level, "touched line does not run", sentence(gap), site, root))
    for one in run.redgreen:
        if one.kind != "red":
            text = f"{one.kind} on {one.python}: {one.message or one.reason}"
            errors.append(_command("error", f"new test {one.test}", text, None, root))
    for result in run.cells:
        if result.error:
            title = f"{result.cell.probe} ({result.cell.python})"
            errors.append(_command("error", title, result.error, None, root))
        elif result.cell.role != "base":
            for text in digest.cautions(result):
                warnings.append(_command("warning", f"caution: {result.cell.probe}", text, None, root))
    errors += [_command("error", "stormdrain", error, None, root) for error in run.errors]
    errors += [
        _command("error", f"gate: {rule.rule}", f"{rule.figure}; {rule.look}".rstrip("; "), None, root)
        for rule in run.rules
        if not rule.held
    ]
    warnings += [_command("warning", "stormdrain: unresolved", text, None, root) for text in digest.doubts(run)]
    notes = [_command("notice", "stormdrain", note, None, root) for note in run.notes]
    last = _command("notice", "stormdrain", f"{run.verdict.value}: {digest.headline(run)}", None, root)
    return (
        "\n".join(
            (
                *_bounded("error", errors, root),
                *_bounded("warning", warnings, root),
                *notes[: SHOWN - 1],
                last,
            )
        )
        + "\n"
    )


def _bounded(level: str, rows: list[str], root: Path | None) -> list[str]:
    if len(rows) <= SHOWN:
        return rows
    more = len(rows) - SHOWN + 1
    return [*rows[: SHOWN - 1], _command(level, "stormdrain", f"and {more} more, in run.json", None, root)]


def _command(level: str, title: str, text: str, site: Site | None, root: Path | None) -> str:
    values = [f"title={github_property(title, 160)}"]
    found = place(site, root)
    if found is not None:
        values = [f"file={github_property(found[0], 400)}", f"line={found[1]}", *values]
    return f"::{level} {','.join(values)}::{github(text, 600)}"
