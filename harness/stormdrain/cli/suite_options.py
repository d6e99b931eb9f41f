"""Options and request of the commands that run a suite of tests without mutants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .options import jobs_or_default, listed, project_root

if TYPE_CHECKING:
    from ..mutation.runner import MutationRequest

F = TypeVar("F", bound=Callable[..., Any])


def tests_options(function: F) -> F:
    """`--tests PATH...` and `--plan FILE...`."""
    for option in (
        click.option(
            "--plan",
            "plans",
            multiple=True,
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Takes head, base, tests and requirements from a plan.",
        ),
        click.option("--tests", multiple=True, metavar="PATH", help="In head's tree, else in the current directory."),
    ):
        function = option(function)
    return function


def suite_request(
    base: str | None,
    head: str | None,
    tests: Sequence[str],
    plans: Sequence[Path],
    pythons: Sequence[str],
    with_: Sequence[str],
    jobs: int | None,
    seed: int,
) -> MutationRequest:
    """The request of a command, completed by its plans and the project's configuration.

    Raises:
        UsageError: no tests are named, or a plan or the configuration is wrong.
    """
    from ..gate.config import load_config
    from ..mutation.runner import MutationRequest, completed

    project = project_root()
    config = load_config(project / "pyproject.toml", must_exist=False)
    request, _ = completed(
        MutationRequest(
            head=head or "",
            base=base or "",
            tests=tuple(tests),
            plans=tuple(plans),
            pythons=listed(pythons),
            environment=config.environment,
            requires=tuple(with_),
            jobs=jobs_or_default(jobs),
            seed=seed,
            project=project,
        )
    )
    return request
