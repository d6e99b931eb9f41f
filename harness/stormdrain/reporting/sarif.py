"""SARIF 2.1.0, for code scanning: a result at the line on which the operation was suspended.

Each result carries the finding's id as its fingerprint, so that a code host
follows it from run to run, and says how it compares with base.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .. import __version__
from ..gate.coverage import sentence
from ..model import Run, Site
from . import coverage, digest
from .escape import plain
from .groups import confirmed, group_findings
from .kills import by_outcome, ordered
from .places import place

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
_STATE = {"still failing": "unchanged"}


def sarif_report(run: Run, root: Path | None = None) -> str:
    """The run as a SARIF log.

    Args:
        run: the run.
        root: the project's tree, in which files are looked up.
    """
    results = [*_findings(run, root), *_survivors(run, root), *_gaps(run)]
    used = sorted({result["ruleId"] for result in results})
    for result in results:
        result["ruleIndex"] = used.index(result["ruleId"])
    driver = {
        "name": "stormdrain",
        "semanticVersion": __version__,
        "rules": [{"id": name, "shortDescription": {"text": _sentence(name)}} for name in used],
    }
    invocation = {
        "executionSuccessful": run.exit_code in (0, 1, 3) and not run.interrupted,
        "exitCode": run.exit_code,
        "toolExecutionNotifications": [
            {"level": "error", "message": {"text": plain(error, 1000)}} for error in _errors(run)
        ],
        "toolConfigurationNotifications": [
            {"level": "note", "message": {"text": plain(note, 1000)}} for note in run.notes[:40]
        ],
    }
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "invocations": [invocation],
                "columnKind": "unicodeCodePoints",
                "results": results,
            }
        ],
    }
    return json.dumps(log, ensure_ascii=True, allow_nan=False, indent=2) + "\n"


def _errors(run: Run) -> list[str]:
    cells = [f"{one.cell.probe} ({one.cell.python}): {one.error}" for one in run.cells if one.error]
    return [*run.errors, *cells]


def _sentence(rule: str) -> str:
    from .. import expectations

    if rule == "survivor":
        return "A change of the code that no test notices."
    if rule == "uncovered":
        return "A line that the change touches and that not every cell runs."
    check = expectations.CHECKS.get(rule)
    return check.sentence if check else rule


def _findings(run: Run, root: Path | None) -> list[dict[str, Any]]:
    out = []
    for group in group_findings(run):
        lead = group.lead
        rows = [f"{group.sentence} ({group.probe}; {group.where}; under {group.under})"]
        rows += [f"left: {text}" for text in group.left[:5]]
        rows += [f"In real time {confirmed(lead)}.", f"Replay: {digest.replay_command(lead.token)}"]
        result: dict[str, Any] = {
            "ruleId": plain(lead.expectation, 80),
            "level": "note" if group.kind == "still failing" else "error",
            "message": {"text": "\n".join(plain(row, 800) for row in rows)},
            "locations": _locations(lead.site, root),
            "partialFingerprints": {"stormdrainFinding/v1": plain(lead.id, 80)},
            "properties": {
                "token": plain(lead.token, 400),
                "storms": sorted(plain(storm, 80) for storm in group.storms),
            },
        }
        if group.kind:
            result["baselineState"] = _STATE.get(group.kind, "new")
        out.append(result)
    return out


def _survivors(run: Run, root: Path | None) -> list[dict[str, Any]]:
    out = []
    for kind, mutant in ordered(run):
        if kind not in ("survivor", "caught only unwatched"):
            continue
        rows = [
            f"No test notices {mutant.name}: {by_outcome(mutant)}.",
            mutant.why,
            *mutant.diff.splitlines()[:40],
        ]
        site = mutant.site or Site(mutant.path, 1, mutant.symbol)
        out.append(
            {
                "ruleId": "survivor",
                "level": "error" if kind == "survivor" else "warning",
                "message": {"text": "\n".join(plain(row, 400) for row in rows if row)},
                "locations": _locations(site, root),
                "partialFingerprints": {"stormdrainMutant/v1": plain(mutant.id, 80)},
            }
        )
    return out


def _gaps(run: Run) -> list[dict[str, Any]]:
    out = []
    for gap in coverage.ordered(run):
        lines = f"line {gap.first}" if gap.first == gap.last else f"lines {gap.first} to {gap.last}"
        text = f"The change touches {lines}: {sentence(gap)}"
        location = {
            "artifactLocation": {"uri": quote(plain(gap.place or gap.path, 400), safe="/")},
            "region": {"startLine": gap.first, "endLine": gap.last},
        }
        out.append(
            {
                "ruleId": "uncovered",
                "level": "error" if coverage.loud(run, gap) else "note",
                "message": {"text": plain(text, 600)},
                "locations": [{"physicalLocation": location}],
            }
        )
    return out


def _locations(site: Site | None, root: Path | None) -> list[dict[str, Any]]:
    found = place(site, root)
    if found is None or site is None:
        return []
    file, line = found
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(plain(file, 400), safe="/")},
            "region": {"startLine": line},
        }
    }
    if site.function:
        name = plain(site.function, 200)
        location["logicalLocations"] = [{"fullyQualifiedName": name, "kind": "function"}]
    return [location]
