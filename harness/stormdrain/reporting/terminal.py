"""The report on a terminal: 80 columns, plain words, the same text with and without colour.

rich does the colour and the wrapping; a token or a command that is meant to be
pasted is never wrapped.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.text import Text

from ..model import CellResult, Run, Verdict
from . import digest
from .escape import block, console, plain
from .groups import Group, confirmed, group_findings

WIDTH = 80
FULL = 20
"""Groups of findings that are shown in full; the rest get a line each."""

STYLES = {
    Verdict.PASS: "bold green",
    Verdict.FAIL: "bold red",
    Verdict.ERROR: "bold magenta",
    Verdict.UNRESOLVED: "bold yellow",
    Verdict.NA: "dim",
}
_CHANGES = {
    "regressed": "red",
    "new": "red",
    "fixed": "green",
    "inconclusive": "yellow",
    "N/A on base": "yellow",
}
_LABEL = 14
_LONGEST = 1200
"""Characters of one paragraph, whoever wrote it."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Say that nobody reads any more; rich would end the program with 1."""
        raise BrokenPipeError


class Page:
    """Writes rows to a stream, with colour where the stream is a terminal."""

    def __init__(self, stream: TextIO, *, colour: bool | None = None) -> None:
        self._console = _Console(
            file=stream,
            width=WIDTH,
            highlight=False,
            markup=False,
            emoji=False,
            soft_wrap=False,
            force_terminal=colour,
            legacy_windows=False,
        )

    def say(self, *parts: tuple[str, str] | str, indent: int = 0) -> None:
        """A paragraph, wrapped and indented."""
        safe = [
            plain(part, _LONGEST) if isinstance(part, str) else (plain(part[0], _LONGEST), part[1]) for part in parts
        ]
        for line in Text.assemble(*safe).wrap(self._console, WIDTH - indent):
            self._line(Text(" " * indent) + line)

    def row(self, name: str, text: str, style: str = "", *, indent: int = 2, label: int = _LABEL) -> None:
        """A label (`label` columns wide) and a paragraph beside it."""
        self.beside((" " * indent + plain(name, 40).ljust(label), "dim"), text=text, style=style)

    def beside(self, *lead: tuple[str, str], text: str, style: str = "") -> None:
        """Words in columns, and a paragraph beside them."""
        width = sum(len(part) for part, _ in lead)
        paragraph = Text(plain(text, _LONGEST), style).wrap(self._console, WIDTH - width)
        for number, line in enumerate(paragraph or [Text("")]):
            self._line((Text.assemble(*lead) if number == 0 else Text(" " * width)) + line)

    def verbatim(self, text: str, style: str = "", *, indent: int = 0) -> None:
        """A line that is not wrapped, whatever its length: it is there to be pasted."""
        self._line(Text(" " * indent) + Text(plain(text, _LONGEST), style))

    def _line(self, line: Text) -> None:
        line.rstrip()
        safe = console(line.plain)
        if safe != line.plain:
            line = Text(safe, line.style)
        self._console.print(line, no_wrap=True, overflow="ignore", crop=False)

    def gap(self) -> None:
        """An empty line."""
        self._console.print()


def print_report(run: Run, stream: TextIO, folder: Path | None = None, *, colour: bool | None = None) -> None:
    """Print a run.

    Args:
        run: the run.
        stream: where to; colour only where it is a terminal, unless `colour` says.
        folder: where its record is.
    """
    page = Page(stream, colour=colour)
    _head(page, run)
    _cells(page, run)
    _findings(page, run)
    _comparison(page, run)
    _mutants(page, run)
    if run.redgreen or run.slack:
        from .suites import print_suites

        print_suites(page, run)
    _coverage(page, run)
    _rules(page, run)
    _foot(page, run, folder)


def _head(page: Page, run: Run) -> None:
    name = run.command[1] if len(run.command) > 1 else "run"
    page.say(
        f"stormdrain {plain(name, 20)}: ",
        (run.verdict.value, STYLES[run.verdict]),
        f" - {plain(digest.headline(run), 240)}",
    )
    for label, text in digest.facts(run):
        page.row(label, plain(digest.short_paths(text), 400))
    for error in run.errors:
        for line in block(error, lines=12):
            page.row("error", line, "magenta")
    page.gap()


def _cells(page: Page, run: Run) -> None:
    if not run.cells:
        return
    for result in run.cells:
        cell = result.cell
        where = " ".join(part for part in (cell.role, cell.python, cell.backend) if part)
        number = digest.counts([result])
        page.say(
            (result.verdict.value.ljust(11), "dim" if cell.role == "base" else STYLES[result.verdict]),
            (plain(cell.probe, 60), "bold"),
            f" ({plain(where, 60)})",
        )
        if result.error:
            for line in block(result.error, lines=12):
                page.say((line, "magenta"), indent=11)
            if result.error_todo:
                page.say(f"to do: {plain(result.error_todo)}", indent=11)
        for caution in digest.cautions(result)[:3]:
            page.say(("caution: ", STYLES[Verdict.UNRESOLVED]), (plain(caution), "yellow"), indent=11)
        for trouble in digest.troubles(run, cell.key)[:3]:
            page.say((plain(trouble), "yellow"), indent=11)
        if result.verdict is Verdict.ERROR and not result.storms:
            continue
        said = [*_speed(result), number.sentence()]
        if number.canaries:
            said.append(f"canaries {number.flagged} of {number.canaries} flagged")
        if result.confirmed_passes and not result.confirmed_passes.endswith(" 0"):
            said.append(f"PASS also in real time: {plain(result.confirmed_passes, 40)}")
        page.say(("; ".join(said), "dim"), indent=11)
    page.gap()


def _speed(result: CellResult) -> list[str]:
    """How many points an operation on a loop has, and how many trials a second it got, over the whole campaign."""
    if not result.points or not result.seconds:
        return []
    return [f"{len(result.points)} points, {result.trials / result.seconds:.1f} trials/s"]


def _findings(page: Page, run: Run) -> None:
    found = group_findings(run)
    for group in found[:FULL]:
        _finding(page, group)
    doubts = digest.doubts(run)
    for doubt in doubts[:FULL]:
        page.say(("UNRESOLVED ", STYLES[Verdict.UNRESOLVED]), plain(doubt))
    for text in digest.loose(run)[:FULL]:
        page.say(("FOUND ", STYLES[Verdict.UNRESOLVED]), plain(text))
    if len(doubts) > FULL:
        page.say(f"and {len(doubts) - FULL} more unresolved, in run.json")
    if doubts:
        page.gap()
    for group in found[FULL:]:
        page.say(("FAIL ", STYLES[Verdict.FAIL]), f"{plain(group.lead.expectation, 40)} ({plain(group.under)}):")
        page.verbatim(digest.replay_command(plain(group.lead.token, 400)), indent=2)
    if found[FULL:]:
        page.gap()


def _finding(page: Page, group: Group) -> None:
    lead = group.lead
    page.say(
        ("FAIL ", STYLES[Verdict.FAIL]),
        (plain(lead.expectation, 60), "bold"),
        f" under {plain(lead.storm, 60)}",
        (f" - {group.kind}" if group.kind else "", _CHANGES.get(group.kind, "")),
    )
    page.say(f"{plain(group.probe, 200)} ({plain(group.where, 200)})", indent=2)
    page.say(plain(digest.short_paths(group.sentence), 600), indent=2)
    for seen in group.seen[:6]:
        page.say((plain(digest.short_paths(seen), 400), "dim"), indent=2)
    if lead.site is not None:
        page.row("suspended at", plain(f"{lead.site.file}:{lead.site.line}"))
        if lead.site.function:
            page.row("", plain(f"in {lead.site.function}"))
    left = group.left
    for number, text in enumerate(left[:6]):
        page.row("left" if number == 0 else "", plain(digest.short_paths(text)), "yellow")
    if len(left) > 6:
        page.row("", f"and {len(left) - 6} more, in run.json")
    page.row("real time", confirmed(lead))
    if lead.drift:
        page.row("", "the points of this operation drift between two calm runs")
    if group.others:
        page.row("schedules", plain(group.under))
    if group.differs:
        page.row("differs from", plain(group.differs, 400))
    page.row("id", plain(" ".join(group.ids), 160))
    page.verbatim(digest.replay_command(plain(lead.token, 400)), "cyan", indent=2)
    page.gap()


def _comparison(page: Page, run: Run) -> None:
    shown = digest.changed(run, ("inconclusive", "fixed"))
    for group in shown[:FULL]:
        lead = group.lead
        page.say((f"{lead.kind} ", _CHANGES[lead.kind]), (plain(group.what, 60), "bold"))
        page.say(plain(f"{', '.join(group.probes)} ({group.where})", 300), indent=2)
        if group.storms:
            page.row("under", plain(", ".join(group.storms)))
        if lead.message:
            page.row("was" if lead.kind == "fixed" else "why", plain(digest.short_paths(lead.message)))
        if lead.differs_from:
            page.row("from", plain(digest.short_paths(lead.differs_from), 400), "dim")
    if len(shown) > FULL:
        page.say(f"and {len(shown) - FULL} more, in run.json")
    passing = sum(change.kind == "still passing" for change in run.comparison)
    if passing:
        page.say((f"still passing: {passing} storm{'' if passing == 1 else 's'}", "dim"))
    if shown or passing:
        page.gap()


def _mutants(page: Page, run: Run) -> None:
    if not run.mutants and not run.baselines:
        return
    from .mutants import print_mutants

    print_mutants(page, run)


def _coverage(page: Page, run: Run) -> None:
    if not run.gaps:
        return
    from .coverage import rows

    for word, place, text in rows(run, FULL):
        page.say((word.ljust(14), "bold red" if word.isupper() else "yellow"), plain(place, 200))
        page.say((plain(text, 400), "dim"), indent=_LABEL)
    if len(run.gaps) > FULL:
        page.say(f"and {len(run.gaps) - FULL} more gaps in the coverage of the diff, in run.json")
    page.gap()


def _rules(page: Page, run: Run) -> None:
    for rule in run.rules:
        word, style = ("held", "green") if rule.held else ("BROKEN", "bold red")
        if rule.held and rule.warning:
            word, style = "warning", "yellow"
        page.beside((word.ljust(8), style), (plain(rule.rule, 30).ljust(14), "bold"), text=rule.figure)
        if rule.look and (not rule.held or rule.warning):
            page.say((plain(rule.look, 400), "dim"), indent=22)
    if run.rules:
        page.gap()


def _foot(page: Page, run: Run, folder: Path | None) -> None:
    _limited(page, "N/A", digest.not_applicable(run))
    _limited(page, "note", digest.remarks(run))
    for label, text in run.unwatched.items():
        page.row(plain(label, 12), plain(text))
    if folder is not None:
        page.verbatim(f"run.json: {folder / 'run.json'}", "dim")


def _limited(page: Page, label: str, rows: Iterable[str], limit: int = 12) -> None:
    rows = list(rows)
    for row in rows[:limit]:
        page.row(label, plain(row), "dim", indent=0)
    if len(rows) > limit:
        page.row(label, f"and {len(rows) - limit} more, in run.json", "dim", indent=0)
