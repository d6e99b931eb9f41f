"""`stormdrain doctor`: what this machine offers for proving something, and what it lacks."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import __version__, store
from ..errors import StormdrainError
from .options import ManyCommand, is_python, listed, project_root
from .show import quietly

if TYPE_CHECKING:
    from ..reporting.terminal import Page
    from ..revisions import Interpreter

GUESTS = ("trio", "uvloop")
"""Backends that an interpreter has only where a project brings them."""


@dataclass(frozen=True)
class Finding:
    """One line: whether it is well (`ok`), a limit (`limit`) or prevents work (`bad`)."""

    state: str
    what: str
    text: str


@click.command(
    "doctor",
    cls=ManyCommand,
    many={"--python": is_python},
    short_help="What this machine offers, and what it lacks.",
)
@click.option("--python", "pythons", multiple=True, metavar="3.12|PATH", help="Interpreters (default: all found).")
@click.option("--canaries/--no-canaries", default=True, help="Run them on each interpreter (about 5 s each).")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write doctor.json into this folder too.",
)
def command(pythons: tuple[str, ...], canaries: bool, out: Path | None) -> int:
    """Look at interpreters, tools, the kernel's help, the cache and this project.

    On each interpreter the canaries are run, subjects with a known fault each:
    what is not flagged there would not be seen in your code either.

    Exit code 0 if probes can run here, else 2.
    """
    found: list[Finding] = []

    def show() -> None:
        from ..reporting.terminal import Page

        page = Page(sys.stdout)
        for finding in examine(listed(pythons), canaries=canaries):
            found.append(finding)
            _row(page, finding)
            sys.stdout.flush()

    quietly(show)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        rows = [vars(finding) for finding in found]
        store.write_atomically(out / "doctor.json", json.dumps(rows, indent=2) + "\n")
    return 2 if any(finding.state == "bad" for finding in found) else 0


def examine(pythons: tuple[str, ...] = (), *, canaries: bool = True) -> Iterator[Finding]:
    """Every line of the report, as it is known."""
    yield Finding("ok", "stormdrain", f"{__version__} on Python {platform.python_version()}, {platform.platform()}")
    yield from _libraries()
    yield from _tools()
    yield from _kernel()
    yield from _room()
    yield from _project()
    yield from _interpreters(pythons, canaries)


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


def _interpreters(pythons: tuple[str, ...], canaries: bool) -> Iterator[Finding]:
    from ..revisions import available_interpreters, find_interpreters

    try:
        found = find_interpreters(pythons) if pythons else available_interpreters()
    except StormdrainError as error:
        yield Finding("bad", "interpreters", f"{error.what}; {error.todo}")
        return
    for one in found:
        yield Finding("ok", f"python {one.version}", f"{one.full} at {one.path}")
    if not found:
        yield Finding("bad", "interpreters", "none of 3.10 or newer; name one in STORMDRAIN_PYTHONS")
    have = {one.version for one in found}
    missing = [f"3.{minor}" for minor in range(10, 15) if f"3.{minor}" not in have]
    if missing and found and not pythons:
        text = f"not found: {', '.join(missing)}; what only they show is not shown (name them in STORMDRAIN_PYTHONS)"
        yield Finding("limit", "interpreters", text)
    if canaries:
        yield from _canaries(found)


def _canaries(found: Sequence[Interpreter]) -> Iterator[Finding]:
    from .checkup import check_up

    guests: dict[str, bool] = {}
    for seen in check_up(found):
        name = f"canaries {seen.python.version}"
        if seen.backend in GUESTS:
            guests[seen.backend] = guests.get(seen.backend, False) or not seen.missing
        if seen.missing:
            continue
        told = f"{seen.backend}: {seen.flagged} of {seen.of} flagged" + "".join(f"; {one}" for one in seen.limits)
        if seen.trouble:
            yield Finding("bad", name, f"{seen.backend}: {seen.trouble.splitlines()[0]}")
        else:
            yield Finding("ok", name, told)
    for guest, there in guests.items():
        if not there:
            text = f"{guest} is beside no interpreter: its canaries run where a probe brings it (backends, requires)"
            yield Finding("limit", "canaries", text)


def _project() -> Iterator[Finding]:
    """What the folder that this runs in is, and what it lacks for a gate."""
    root = project_root()
    scripts = sorted(Path("probes").glob("*.py")) if Path("probes").is_dir() else []
    if scripts:
        yield Finding("ok", "probes", ", ".join(script.name for script in scripts[:6]))
    else:
        yield Finding(
            "limit", "probes", "none in probes/ here; `stormdrain init package.module:Class.close` writes one"
        )
    file = root / "pyproject.toml"
    try:
        there = "[tool.stormdrain" in file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        yield Finding("limit", "project", f"no pyproject.toml in {root}: probe released packages with --head pypi:...")
    else:
        text = f"{file} has " + ("a [tool.stormdrain]" if there else "no [tool.stormdrain]; `stormdrain init` adds one")
        yield Finding("ok" if there else "limit", "project", text)
    if (root / ".git" / "shallow").exists():
        yield Finding("limit", "history", "shallow: no merge base can be found; fetch it all (fetch-depth: 0)")
    if os.environ.get("GITHUB_EVENT_NAME") == "pull_request_target":
        yield Finding("bad", "event", "pull_request_target: stormdrain runs no code here; use on: pull_request")


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
    yield from _processes()
    cpus = len(os.sched_getaffinity(0))
    yield Finding("ok" if cpus > 1 else "limit", "processors", str(cpus))


def _processes() -> Iterator[Finding]:
    from ..worker.linux import fix_addresses

    try:
        os.close(os.pidfd_open(os.getpid()))
        yield Finding("ok", "pidfd", "ends of processes are told by the kernel")
    except (OSError, AttributeError) as error:
        yield Finding("limit", "pidfd", f"pidfd_open is refused ({error}): ends of processes are polled for")
    if os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        yield Finding("ok", "descendants", "/proc names the children of a process")
    else:
        yield Finding("bad", "descendants", "/proc does not name the children of a process: they would be missed")
    pid = os.fork()
    if pid == 0:
        os._exit(0 if fix_addresses() or _fixed() else 1)
    if os.waitpid(pid, 0)[1] == 0:
        yield Finding("ok", "addresses", "can be fixed: what depends on the order of a set replays")
    else:
        yield Finding("limit", "addresses", "personality(2) is refused: a token may replay another order of tasks")


def _fixed() -> bool:
    """Whether address randomisation is off for this process already."""
    try:
        return bool(int(Path("/proc/self/personality").read_text(), 16) & 0x40000)
    except (OSError, ValueError):
        return False


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


_STYLES = {"ok": "green", "limit": "yellow", "bad": "bold red"}


def _row(page: Page, finding: Finding) -> None:
    page.row(f"{finding.state:<6}{finding.what}", finding.text, _STYLES[finding.state], indent=0, label=20)
