"""One trial with its timeline on a terminal, as `replay` prints it."""

from __future__ import annotations

from typing import TextIO

from ..model import Exc, Trial, Verdict
from .escape import block, plain
from .groups import left_over
from .terminal import STYLES, Page


def print_trial(trial: Trial, stream: TextIO, *, colour: bool | None = None) -> None:
    """Print one trial with its timeline, as `replay` does."""
    page = Page(stream, colour=colour)
    page.say((trial.verdict.value, STYLES[trial.verdict]), f" {plain(trial.storm, 60)}")
    page.verbatim(plain(trial.token, 400), "cyan", indent=2)
    if not trial.reached:
        page.say("the operation did not come to this point", indent=2)
    for line in block(trial.error) if trial.error else ():
        page.say((line, "magenta"), indent=2)
    page.gap()
    seen = trial.observation
    if seen is not None:
        _timeline(page, trial)
    for finding in trial.findings:
        page.say(("FAIL ", STYLES[Verdict.FAIL]), (plain(finding.expectation), "bold"))
        page.say(plain(finding.message, 600), indent=2)
        for text in (text for text in finding.seen if text not in finding.message):
            page.say((plain(text, 400), "dim"), indent=2)
    for note in trial.notes:
        page.row("note", plain(f"{note.expectation}: {note.message}"), "dim", indent=0)
    for note in trial.na:
        page.row("N/A", plain(f"{note.expectation}: {note.message}"), "dim", indent=0)


def _timeline(page: Page, trial: Trial) -> None:
    seen = trial.observation
    assert seen is not None
    for event in seen.timeline[:400]:
        page.row(f"{event.at:10.3f} s", plain(f"{event.what}  {event.detail}".rstrip(), 400), indent=0)
    if len(seen.timeline) > 400:
        page.row("", f"and {len(seen.timeline) - 400} events more, in run.json", indent=0)
    page.gap()
    page.row("outcome", plain(_ending(seen.outcome.kind, seen.outcome.chain)), indent=0)
    page.row("took", f"{seen.elapsed:.3f} s ({seen.clock}), {seen.elapsed_real:.3f} s real", indent=0)
    page.row("steps", f"{seen.steps} steps in {seen.turns} turns of the loop", indent=0)
    for number, text in enumerate(left_over(seen)):
        page.row("left" if number == 0 else "", plain(text), "yellow", indent=0)
    if seen.hang is not None:
        page.row("hang", plain(seen.hang.why, 600), "yellow", indent=0)
        for text in (*seen.hang.tasks, *seen.hang.threads, *seen.hang.processes)[:60]:
            for line in block(text):
                page.say(line, indent=2)
    page.gap()


def _ending(kind: str, chain: tuple[Exc, ...]) -> str:
    return " <- ".join([kind, *(_exception(link) for link in chain)])


def _exception(link: Exc) -> str:
    text = f"{link.type}({link.message})" if link.message else link.type
    return f"{link.link}: {text}" if link.link else text
