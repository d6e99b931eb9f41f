"""JUnit XML, which every CI system shows: a suite for each cell, one for the mutants, one for the gate.

A storm without findings is one test case; each expectation that fails under it is
one of its own, since some readers take only one failure from a case. What base
fails too is skipped, as it does not decide the exit code.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from ..compare import untried
from ..model import CellResult, MutantRecord, Run, Site, StormTally, Verdict
from . import digest
from .escape import xml
from .groups import Group, confirmed, group_findings
from .kills import by_outcome, catchers, ordered
from .places import place


def junit_report(run: Run, root: Path | None = None) -> str:
    """The run as JUnit XML.

    Args:
        run: the run.
        root: the project's tree, in which files are looked up.
    """
    top = ElementTree.Element("testsuites", {"name": "stormdrain"})
    groups = group_findings(run)
    for result in run.cells:
        if result.cell.role != "base":
            _cell(top, result, groups, root)
    _mutants(top, run, root)
    _new_tests(top, run)
    _rules(top, run)
    for suite in [top, *top]:
        cases = list(suite.iter("testcase"))
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(name, str(sum(case.find(tag) is not None for case in cases)))
        suite.set("tests", str(len(cases)))
    top.set("time", f"{run.seconds:.3f}")
    del top.attrib["skipped"]
    ElementTree.indent(top)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(top, encoding="unicode") + "\n"


def _suite(top: ElementTree.Element, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(top, "testsuite", {"name": xml(name)})


def _case(suite: ElementTree.Element, name: str, seconds: float = 0.0) -> ElementTree.Element:
    values = {"classname": suite.get("name", ""), "name": xml(name), "time": f"{seconds:.3f}"}
    return ElementTree.SubElement(suite, "testcase", values)


def _say(case: ElementTree.Element, tag: str, message: str, text: str = "", kind: str = "") -> None:
    values = {"message": xml(message, 600)} | ({"type": xml(kind)} if kind else {})
    ElementTree.SubElement(case, tag, values).text = text or None


def _cell(top: ElementTree.Element, result: CellResult, groups: tuple[Group, ...], root: Path | None) -> None:
    cell = result.cell
    suite = _suite(top, f"{cell.probe} [{cell.python} {cell.backend}]")
    if result.verdict is Verdict.ERROR:
        text = "\n".join(part for part in (xml(result.error, 4000), xml(result.error_todo)) if part)
        _say(_case(suite, "baseline", result.seconds), "error", result.error or "broken", text, "ERROR")
    mine = [group for group in groups if any(one.key == cell.key for one in group.cells)]
    for tally in result.storms:
        loud = [group for group in mine if tally.storm in group.storms]
        for group in loud:
            case = _case(suite, f"{tally.storm}: {group.lead.expectation}")
            if group.kind == "still failing":
                _say(case, "skipped", f"still failing, as on base: {group.sentence}")
            else:
                _say(case, "failure", group.sentence, _details(group, root), group.lead.expectation)
        if not loud:
            _quiet(suite, tally)


def _quiet(suite: ElementTree.Element, tally: StormTally) -> None:
    case = _case(suite, tally.storm)
    if untried(tally):
        _say(case, "skipped", f"not tried within the budget ({tally.not_tried} schedules)")
    elif tally.verdict is Verdict.NA:
        _say(case, "skipped", f"N/A: {tally.why or 'does not apply'}")
    elif tally.verdict in (Verdict.UNRESOLVED, Verdict.ERROR):
        _say(case, "error", f"{tally.verdict.value}: {tally.why or f'{tally.unresolved} trials'}")
    text = f"{tally.trials} trials, {tally.not_reached} not reached, {tally.not_tried} not tried"
    ElementTree.SubElement(case, "system-out").text = text


def _details(group: Group, root: Path | None) -> str:
    lead = group.lead
    rows = [*group.seen]
    if lead.site is not None:
        rows.append(f"suspended at {_at(lead.site, root)}")
    rows += [f"left: {text}" for text in group.left[:10]]
    rows += [
        f"real time: {confirmed(lead)}",
        f"schedules: {group.under}",
        f"id: {' '.join(group.ids)}",
    ]
    return "\n".join(xml(row, 400) for row in [*rows, digest.replay_command(lead.token)])


def _at(site: Site, root: Path | None) -> str:
    """The site as it is found in the tree. Not an attribute: the schema has none for a case's file or line."""
    file, line = place(site, root) or (site.file, site.line)
    return str(Site(file, line, site.function))


def _change(mutant: MutantRecord, root: Path | None) -> str:
    """Why a survivor matters, where it is, and its diff."""
    at = _at(mutant.site or Site(mutant.path, 1, mutant.symbol), root)
    rows = [mutant.why, f"at {at}", *mutant.diff.splitlines()[:60], mutant.id]
    return "\n".join(xml(row, 300) for row in rows)


def _mutants(top: ElementTree.Element, run: Run, root: Path | None) -> None:
    if not run.mutants:
        return
    suite = _suite(top, "mutants")
    for kind, mutant in ordered(run):
        case = _case(suite, f"{mutant.symbol or mutant.path}: {mutant.name}")
        if kind == "survivor":
            _say(case, "failure", f"survives: {by_outcome(mutant)}", _change(mutant, root), "survivor")
        elif kind == "undecided":
            _say(case, "error", f"undecided: {by_outcome(mutant) or mutant.error}")
        elif kind == "none":
            _say(case, "skipped", mutant.error or by_outcome(mutant) or "no mutant")
        else:
            caught = f"{by_outcome(mutant)}: {', '.join(catchers(mutant))}"
            ElementTree.SubElement(case, "system-out").text = xml(caught, 2000)


def _new_tests(top: ElementTree.Element, run: Run) -> None:
    if not run.redgreen:
        return
    suite = _suite(top, "new tests on base")
    for one in run.redgreen:
        case = _case(suite, f"{one.test} [{one.python}]")
        text = f"{one.kind}: {one.message or one.reason}"
        if one.kind in ("decorative", "wrong reason"):
            _say(case, "failure", text, kind=one.kind)
        elif one.kind != "red":
            _say(case, "error", text, kind=one.kind)


def _rules(top: ElementTree.Element, run: Run) -> None:
    if not run.rules:
        return
    suite = _suite(top, "gate")
    if run.notes:
        properties = ElementTree.SubElement(suite, "properties")
        for note in run.notes[:40]:
            ElementTree.SubElement(properties, "property", {"name": "note", "value": xml(note)})
    for rule in run.rules:
        case = _case(suite, rule.rule)
        if rule.held:
            ElementTree.SubElement(case, "system-out").text = xml(rule.figure)
        else:
            _say(case, "failure", rule.figure, xml(rule.look, 600), "rule")
