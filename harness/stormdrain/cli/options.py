"""What the commands' options have in common: their declarations, and how their values are read."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ..errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
Fits = Callable[[str], bool]


def out_option(function: F) -> F:
    """`--out DIR`, which every command takes."""
    return click.option(
        "--out",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Write the run here (default: reports/<UTC time>-<command>).",
    )(function)


def cell_options(function: F) -> F:
    """`--python`, `--with`, `--jobs`, `--seed`: what decides the cells of a run."""
    for option in (
        click.option("--seed", type=int, default=0, show_default=True, help="Seed of what is sampled."),
        click.option("--jobs", type=click.IntRange(1), default=None, metavar="N", help="Trials at a time."),
        click.option("--with", "with_", multiple=True, metavar="REQ", help="A requirement to add."),
        click.option(
            "--python",
            "pythons",
            multiple=True,
            metavar="3.12|PATH",
            help="Interpreters (default: the newest).",
        ),
    ):
        function = option(function)
    return function


def revision_options(function: F) -> F:
    """`--base REV` and `--head REV`."""
    revisions = (
        "worktree, a git ref, pr/N, pypi:name==version, path:DIR, stdlib; each with +overlay.toml or +file.patch"
    )
    for option in (
        click.option("--head", default=None, metavar="REV", help=f"Default: worktree. One of {revisions}."),
        click.option("--base", default=None, metavar="REV", help="What head is compared with."),
    ):
        function = option(function)
    return function


def is_python(token: str) -> bool:
    """Whether a bare word is meant as an interpreter."""
    return bool(re.fullmatch(r"\d+(\.\d+){1,2}", token)) or bool(re.search(r"python[\d.]*$", token))


def is_name(token: str) -> bool:
    """Whether a bare word is meant as a name (of a storm or a backend) and not as a path."""
    return bool(re.fullmatch(r"[a-z][a-z0-9-]*", token)) and not os.path.exists(token)


def anything(token: str) -> bool:
    """Every bare word belongs to the option (commands without arguments of their own)."""
    return True


class ManyCommand(click.Command):
    """A command whose options take several values after one name: `--python 3.11 3.12`.

    Args:
        many: for each option, which bare words that follow are its values.
    """

    def __init__(self, *args: Any, many: Mapping[str, Fits], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.many = many

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the option's name before each further value, then parse as usual."""
        return super().parse_args(ctx, spread(args, self.many))


def spread(args: Sequence[str], many: Mapping[str, Fits]) -> list[str]:
    """`--python 3.11 3.12` as `--python 3.11 --python 3.12`."""
    out: list[str] = []
    option, values = "", 0
    for index, token in enumerate(args):
        if token == "--":
            return out + list(args[index:])
        if token.startswith("-"):
            name, equals, _ = token.partition("=")
            option, values = (name, 1 if equals else 0) if name in many else ("", 0)
        elif option:
            if values and not many[option](token):
                option = ""
            elif values:
                out.append(option)
            values += 1
        out.append(token)
    return out


def listed(values: Iterable[str]) -> tuple[str, ...]:
    """Values given one by one or with commas, in order, each once."""
    return tuple(dict.fromkeys(part.strip() for value in values for part in value.split(",") if part.strip()))


def budget(text: str, option: str = "--budget") -> tuple[int | None, float]:
    """`200` (trials) or `30s`, `2m` (time) as (trials or None, seconds).

    Raises:
        UsageError: it is neither.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h)?", text.strip())
    if match is None or float(match[1]) == 0 or (match[2] is None and "." in match[1]):
        raise UsageError(
            f"the budget {text!r} is neither trials nor a time",
            where=option,
            todo=f"give trials ({option} 200) or a time ({option} 30s, {option} 2m)",
        )
    if match[2] is None:
        return int(match[1]), 3600.0
    return None, float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


def coverage_option(function: F) -> F:
    """`--coverage-data [NAME=]FILE`, as often as there are jobs."""
    return click.option(
        "--coverage-data",
        "coverage_data",
        multiple=True,
        metavar="[NAME=]FILE",
        help="Coverage data of another job (.coverage); its paths are found again here.",
    )(function)


def repository_root(start: Path | None = None) -> Path:
    """The git work tree around a directory (the current one), else the directory."""
    here = (start or Path.cwd()).resolve()
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--show-toplevel"], cwd=here, capture_output=True, text=True, check=False
        )
    except OSError:
        return here
    top = found.stdout.strip()
    return Path(top) if found.returncode == 0 and top else here


def project_root(start: Path | None = None) -> Path:
    """The project under test: the nearest folder of the repository, from here upwards, that is a Python project.

    Where none is, the repository's top; outside of a repository, the directory itself.
    """
    here = (start or Path.cwd()).resolve()
    top = repository_root(here)
    for folder in (here, *here.parents):
        if any((folder / name).is_file() for name in _PROJECT_FILES) or folder == top:
            return folder if folder.is_relative_to(top) else top
    return top


def jobs_or_default(jobs: int | None) -> int:
    """The number of cells at a time: what was asked, else the processors this process may use."""
    if jobs:
        return jobs
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
