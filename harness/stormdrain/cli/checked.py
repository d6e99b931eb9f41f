"""What the configuration names, looked at before anything runs: each mistake with its file, line and key."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ..errors import UsageError
from ..gate.config import Config
from ..gate.located import line_of
from ..gate.names import storm_names
from ..gate.nearest import check

BACKENDS = ("asyncio", "trio", "uvloop")
_GATE = "tool.stormdrain.gate"


@contextlib.contextmanager
def blamed(config: Config, key: str, table: str = _GATE) -> Iterator[None]:
    """Say of an error that comes out of here which key of the configuration it is about."""
    try:
        yield
    except UsageError as error:
        text = config.file.read_text(encoding="utf-8", errors="replace") if config.file.is_file() else ""
        place = f"{config.file}:{line_of(text, table, key)} ({key} in [{table}])"
        own = error.where if error.where and not error.where.startswith("--") else ""
        error.where = f"{place}: {own}" if own else place
        raise


def check_names(config: Config, project: Path) -> None:
    """Look at the names and values of a configuration, without running or fetching anything.

    Raises:
        UsageError: a budget, storm, backend, kind of mutant, interpreter or revision is none.
    """
    from ..mutation.request import SOURCES
    from ..revisions import find_interpreters
    from ..revisions.spec import parse_spec
    from .options import budget

    plan = config.plan
    with blamed(config, "budget"):
        budget(plan.budget)
    with blamed(config, "storms"):
        check("storm", plan.storms, storm_names())
    with blamed(config, "backends"):
        check("backend", plan.backends, BACKENDS)
    with blamed(config, "mutants"):
        check("kind of mutant", plan.mutants, SOURCES)
    with blamed(config, "pythons"):
        find_interpreters(tuple(one for one in plan.pythons if one not in plan.optional_pythons))
    for key, spec in (("base", config.base), ("head", config.head)):
        with blamed(config, key, "tool.stormdrain"):
            if spec is not None:
                parse_spec(spec, project=project)


def check_files(config: Config, head: str, project: Path) -> None:
    """Look whether the files that a configuration names are there.

    Raises:
        UsageError: a plan is not, or no test of a working tree is.
    """
    plan = config.plan
    with blamed(config, "plans"):
        for name in plan.plans:
            if not config.path(name).is_file():
                raise UsageError(f"there is no plan {name}", todo="name a plan file, from the configuration's folder")
    if head.partition("+")[0] != "worktree":
        return  # tests are looked up in head's tree when it is there
    with blamed(config, "tests"):
        for name in plan.tests:
            file = name.partition("::")[0]
            if not any((folder / file).exists() for folder in (project, Path.cwd())):
                raise UsageError(f"there are no tests {name}", todo="name a file or folder, from the project's folder")
