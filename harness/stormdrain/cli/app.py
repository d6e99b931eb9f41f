"""The group of commands and the one place where errors become exit codes.

Commands are named in a table with their module and their line of help, so that
`stormdrain --help` imports none of them; a command whose engine is not part of
this installation is not in the list at all.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

import click

from .. import __version__
from ..errors import StormdrainError
from .show import let_go_of_stdout, quietly


@dataclass(frozen=True)
class Entry:
    """One command: the line `--help` shows, the modules without which it cannot work, and examples: what, and why."""

    help: str
    needs: tuple[str, ...] = ()
    examples: tuple[tuple[str, str], ...] = ()


COMMANDS: dict[str, Entry] = {
    "probe": Entry(
        "Drive probes through storms; base against head.",
        ("stormdrain.lab",),
        (
            ("probe", "all of probes/, on the working tree"),
            ("probe --base main", "against main: what is new?"),
            ("probe probes/pool.py --storm cancel-sweep -k pool", "one storm"),
            ("probe --head pypi:httpx==0.28.1 --python 3.11 3.13", "a release"),
            ("probe --search 30s", "then several faults at once"),
        ),
    ),
    "mutate": Entry(
        "Break the changed lines one at a time; which tests notice?",
        ("stormdrain.mutation.runner",),
        (
            ("mutate --base main --tests tests", "what the branch changed"),
            ("mutate --plan mutants.toml --python 3.11 3.14", "named mutants"),
            ("mutate --base main --tests tests --shard 1/4", "a quarter of them"),
        ),
    ),
    "redgreen": Entry(
        "Run head's new tests on base's source.",
        ("stormdrain.mutation.redgreen",),
        (("redgreen --base main --tests tests", "do they fail without the change?"),),
    ),
    "slack": Entry(
        "How much delay each test bears before it fails.",
        ("stormdrain.mutation.slack",),
        (("slack --base main --tests tests/test_close.py", "margins of its tests"),),
    ),
    "gate": Entry(
        "All of it, by [tool.stormdrain]; one exit code.",
        ("stormdrain.lab",),
        (
            ("gate", "by pyproject.toml"),
            ("gate --base origin/main --out run", "in CI; then `stormdrain report run`"),
            ("gate --config probes/gate.toml", "by another file"),
        ),
    ),
    "replay": Entry(
        "One trial again by its token, with its timeline.",
        ("stormdrain.lab",),
        (("replay '95590155/cancel-storm/f:cancel~0.02s'", "as a report prints it"),),
    ),
    "merge": Entry(
        "Shards and other jobs' runs into one.",
        (),
        (("merge run-3.11 run-3.14 --config pyproject.toml --out whole", "and hold it against the gate"),),
    ),
    "report": Entry(
        "Show a stored run in other formats.",
        (),
        (
            ("report", "the newest run again"),
            ("report --format markdown", "for a comment"),
            ("report run --format sarif junit --out ci", "for a code host"),
            ("report --format stryker --python 3.12", "mutants of one interpreter"),
            ("report --schema", "the JSON schema of run.json"),
        ),
    ),
    "init": Entry(
        "Write a first probe for a class or function.",
        (),
        (
            ("init package.module:Pool.aclose", "an operation of a class"),
            ("init package.module:Transport", "its close()"),
            ("init package.module:fetch", "a function"),
        ),
    ),
    "doctor": Entry(
        "What this machine offers, and what it lacks.",
        (),
        (
            ("doctor", "all of it"),
            ("doctor --python 3.13", "the canaries on one interpreter"),
            ("doctor --no-canaries", "at once"),
        ),
    ),
    "explain": Entry(
        "What a name that a report prints stands for.",
        (),
        (
            ("explain", "all names"),
            ("explain child-reaped", "an expectation"),
            ("explain cancel-sweep", "a storm"),
            ("explain drop-shield", "an operator of mutants"),
            ("explain survivors", "a rule of the gate"),
        ),
    ),
}


def epilog(examples: tuple[tuple[str, str], ...]) -> str:
    """Examples under a command's help, as they are typed; what each is for beside it, or above where that is too wide."""
    room = max((len(line) for line, _ in examples), default=0)
    if room + max((len(why) for _, why in examples), default=0) < 64:
        rows = [f"  stormdrain {line.ljust(room)}  {why}" for line, why in examples]
    else:
        rows = [row for line, why in examples for row in (f"  # {why}", f"  stormdrain {line}")]
    return "\n".join(["\b", "Examples:", *rows])


def _there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


class Commands(click.Group):
    """A group that knows its commands by name and imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands that can work here, in the order of the table."""
        here = __name__.rpartition(".")[0]
        return [
            name
            for name, entry in COMMANDS.items()
            if all(_there(module) for module in (f"{here}.{name}", *entry.needs))
        ]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, or None."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{__name__.rpartition('.')[0]}.{cmd_name}")
        command = module.command
        assert isinstance(command, click.Command)
        command.epilog = epilog(COMMANDS[cmd_name].examples)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, but an unknown name gets the nearest one."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            from ..gate.nearest import unknown

            raise unknown("command", name, self.list_commands(ctx))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        rows = [(name, COMMANDS[name].help) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog=epilog(
        (
            ("init package.module:Class.close", "a first probe"),
            ("probe", "drive it through storms"),
            ("gate --base main", "a branch against its base"),
            ("doctor", "where something does not work"),
        )
    )
    + "\n\nExit codes: 0 holds, 1 findings, 2 usage, 3 inconclusive, 4 baseline broken, "
    "70 stormdrain's own fault, 130 interrupted.",
)
@click.version_option(__version__, prog_name="stormdrain")
def stormdrain() -> None:
    """Prove that asynchronous Python code shuts down correctly."""


def run(args: Sequence[str]) -> int:
    """Run one command line; returns its exit code. Never raises, never shows a traceback."""
    try:
        code = stormdrain.main(list(args), prog_name="stormdrain", standalone_mode=False)
        quietly(lambda: None)
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return 130
    except StormdrainError as error:
        say_error(error)
        return error.exit_code
    except BrokenPipeError:
        let_go_of_stdout()
        return 0
    except Exception as error:
        return own_fault(error)


def say_error(error: StormdrainError) -> None:
    """The three lines of an error on stderr: what, where, to do."""
    from ..reporting.escape import block, console

    print("\n".join(map(console, block(f"error: {error}"))), file=sys.stderr)


def own_fault(error: BaseException, folder: str | os.PathLike[str] | None = None) -> int:
    """Keep the traceback in a file (the run's folder, if there is one), say so in one message; returns 70."""
    from ..reporting.escape import plain

    text = "".join(traceback.format_exception(error))
    where = "the traceback could not be written"
    with contextlib.suppress(OSError):
        if folder is None:
            import tempfile

            folder = tempfile.mkdtemp(prefix="stormdrain-")
        path = os.path.join(folder, "traceback.txt")
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
        where = path
    print(
        f"error: stormdrain itself failed: {type(error).__name__}: {plain(error)}\n"
        f"  where: {where}\n"
        "  to do: report it with that file; nothing may be concluded from this run",
        file=sys.stderr,
    )
    return 70
