"""`stormdrain doctor`: what this machine offers for proving something, and what it lacks."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from .. import __version__, store
from ..errors import StormdrainError
from .show import quietly


@dataclass(frozen=True)
class Finding:
    """One line: whether it is well (`ok`), a limit (`limit`) or prevents work (`bad`)."""

    state: str
    what: str
    text: str


@click.command("doctor", short_help="What this machine offers, and what it lacks.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write doctor.json into this folder too.",
)
def command(out: Path | None) -> int:
    """Look at interpreters, tools, the kernel's help and the cache.

    Exit code 0 if probes can run here, else 2.
    """
    found = list(examine())
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        rows = [vars(finding) for finding in found]
        store.write_atomically(out / "doctor.json", json.dumps(rows, indent=2) + "\n")
    quietly(lambda: _show(found))
    return 2 if any(finding.state == "bad" for finding in found) else 0


def examine() -> Iterator[Finding]:
    """Every line of the report."""
    yield Finding("ok", "stormdrain", f"{__version__} on Python {platform.python_version()}, {platform.platform()}")
    yield from _libraries()
    yield from _interpreters()
    yield from _tools()
    yield from _kernel()
    yield from _room()


def _libraries() -> Iterator[Finding]:
    needed = ("click", "rich", "psutil", "uv", "unidiff", "packaging", "tomlkit")
    optional = {
        "coverage": "mutation on interpreters before 3.12",
        "pytest": "mutation",
        "mutmut": "general operators",
    }
    there, missing = [], []
    for name in needed:
        try:
            there.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        yield Finding("bad", "libraries", f"missing: {', '.join(missing)}; pip install 'stormdrain[cli]'")
    yield Finding("ok", "libraries", ", ".join(there))
    for name, use in optional.items():
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Finding("limit", "libraries", f"{name} is missing ({use}); pip install 'stormdrain[mutation]'")


def _interpreters() -> Iterator[Finding]:
    from ..revisions import available_interpreters

    try:
        found = available_interpreters()
    except StormdrainError as error:
        yield Finding("bad", "interpreters", error.what)
        return
    for one in found:
        yield Finding("ok", f"python {one.version}", f"{one.full} at {one.path}")
    if not found:
        yield Finding("bad", "interpreters", "none of 3.10 or newer; name one in STORMDRAIN_PYTHONS")
    have = {one.version for one in found}
    missing = [f"3.{minor}" for minor in range(10, 15) if f"3.{minor}" not in have]
    if missing and found:
        yield Finding("limit", "interpreters", f"not found: {', '.join(missing)}; what only they show is not shown")


def _tools() -> Iterator[Finding]:
    git = shutil.which("git")
    yield Finding("ok", "git", git) if git else Finding("limit", "git", "not found: no git refs, no pr/N")


def _kernel() -> Iterator[Finding]:
    from ..worker.linux import become_subreaper

    if sys.platform != "linux":
        yield Finding("limit", "kernel", f"{sys.platform}: orphans are found by session and start time only")
        return
    pid = os.fork()
    if pid == 0:
        os._exit(0 if become_subreaper() else 1)
    _, status = os.waitpid(pid, 0)
    if status == 0:
        yield Finding("ok", "subreaper", "orphans come to the trial")
    else:
        yield Finding("bad", "subreaper", "prctl(PR_SET_CHILD_SUBREAPER) is refused: orphans would be missed")
    if os.path.exists(f"/proc/{os.getpid()}/schedstat"):
        yield Finding("ok", "schedstat", "quietness of children can be read")
    else:
        yield Finding("limit", "schedstat", "missing: children that are not scripted hold the clock")
    cpus = len(os.sched_getaffinity(0))
    yield Finding("ok" if cpus > 1 else "limit", "processors", str(cpus))


def _room() -> Iterator[Finding]:
    from ..revisions import Cache

    root = Cache().root
    there = root
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free / 2**30
    writable = os.access(there, os.W_OK)
    text = f"{root}, {free:.1f} GiB free" + ("" if writable else ", not writable")
    yield Finding("ok" if free > 2 and writable else "limit" if writable else "bad", "cache", text)


def _show(found: list[Finding]) -> None:
    from ..reporting.escape import plain
    from ..reporting.terminal import Page

    page = Page(sys.stdout)
    styles = {"ok": "green", "limit": "yellow", "bad": "bold red"}
    for finding in found:
        page.row(
            f"{finding.state:<6}{finding.what}",
            plain(finding.text),
            styles[finding.state],
            indent=0,
            label=20,
        )
