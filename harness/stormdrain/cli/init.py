"""`stormdrain init TARGET`: a first probe script for a class or a function, ready to be filled in."""

from __future__ import annotations

import re
from pathlib import Path

import click

from .. import store
from ..errors import UsageError

_CLASS = '''\
"""{name}.{operation}(): what must hold however it is disturbed."""

from stormdrain import probe

from {module} import {name}


@probe(operation="{operation}")
async def {function}(case):
    # A scripted child stays after its input has ended, unless told otherwise:
    #     cli = case.child("cli", on_eof="stay", sigterm="ignore")
    # Hand cli.path to the subject as the program to start, and wait with `await cli.ready()`.
    subject = {name}()
    # await subject.connect()
    yield subject
    # What follows the yield disposes of what the operation must not end.
'''

_FUNCTION = '''\
"""{name}(): what must hold however it is disturbed."""

from stormdrain import probe

from {module} import {name}


async def call(subject, case):
    return await {name}()


@probe(operation=call)
async def {function}(case):
    # The subject is what `call` gets; build here what {name} needs.
    yield None
'''

_CONFIG = """
[tool.stormdrain.gate]
probes = ["{folder}"]
"""


@click.command("init", short_help="Write a first probe for a class or function.")
@click.argument("target", metavar="TARGET")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("probes"),
    show_default=True,
    metavar="DIR",
    help="Folder of the script.",
)
def command(target: str, out: Path) -> int:
    """Write a probe for TARGET: package.module:Class, package.module:Class.method or package.module:function.

    A [tool.stormdrain.gate] that runs it is added to pyproject.toml if there is
    a pyproject.toml without one. Nothing that exists is overwritten.
    """
    module, name, operation = read_target(target)
    out.mkdir(parents=True, exist_ok=True)
    function = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    path = out / f"{function}.py"
    if path.exists():
        raise UsageError("there is a script here already", where=str(path), todo="name another folder with --out")
    template = _CLASS if operation else _FUNCTION
    text = template.format(module=module, name=name, operation=operation, function=f"{function}_probe")
    store.write_atomically(path, text)
    print(path)
    if configure(Path("pyproject.toml"), out):
        print("pyproject.toml: [tool.stormdrain.gate] added")
    print(f"next: fill in how the subject is built, then `stormdrain probe {path}`")
    return 0


def read_target(target: str) -> tuple[str, str, str]:
    """Module, name and operation (empty for a function) of a target.

    Raises:
        UsageError: it has none of the forms.
    """
    dotted = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
    match = re.fullmatch(rf"({dotted}):([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?", target)
    if match is None:
        raise UsageError(
            f"{target!r} names no class or function",
            where="TARGET",
            todo="write package.module:Class, package.module:Class.method or package.module:function",
        )
    module, name, operation = match[1], match[2], match[3] or ""
    if not operation and name[0].isupper():
        operation = "close"
    return module, name, operation


def configure(file: Path, folder: Path) -> bool:
    """Add a gate to a pyproject.toml that has none; returns whether it was added."""
    if not file.exists():
        return False
    import tomlkit
    from tomlkit.exceptions import ParseError

    text = file.read_text(encoding="utf-8")
    try:
        tables = tomlkit.parse(text)
    except ParseError as error:
        raise UsageError(f"the file is not TOML: {error}", where=str(file), todo="mend that line") from error
    if "stormdrain" in tables.get("tool", {}):
        return False
    # Appended, so that the rest of the file stays byte for byte.
    store.write_atomically(file, text.rstrip("\n") + "\n" + _CONFIG.format(folder=folder.as_posix()))
    return True
