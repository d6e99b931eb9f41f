"""`stormdrain init TARGET`: a first probe script for a class or a function, ready to be filled in."""

from __future__ import annotations

import re
from pathlib import Path

import click

from .. import store
from ..errors import UsageError
from .options import project_root
from .target import Target, names_of, read

_HEAD = '''\
"""{name}{what}: what must hold however it is disturbed."""

from stormdrain import probe

from {module} import {name}

'''
_CHILD = """\
    # A real process that misbehaves to order: it stays when its input ends. README.md has the keywords.
    child = case.child(on_eof="stay")
"""
_PEER = """\
    # A real server on 127.0.0.1. What it says is up to you: says=["220 here"], replies={"QUIT": ["221 bye"]}.
    peer = case.peer()
"""
_BARE = """\
    # Give it something to close: case.child() is a process to start, case.peer() a server to connect to.
"""


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

    The target's source is read, not run: how it is built and opened, and whether
    it starts a process or connects to a server.

    A [tool.stormdrain.gate] that runs it is added to pyproject.toml if there is
    a pyproject.toml without one. Nothing that exists is overwritten.
    """
    module, name, operation = read_target(target)
    found = read(module, name)
    if found is None:
        known_name(module, name)
    if found is not None and found.methods:
        operation = known_operation(found, name, operation, explicit="." in target.partition(":")[2])
    configured = configuration(Path("pyproject.toml"), out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the folder cannot be made: {error.strerror}", where=str(out), todo="name another folder with --out"
        ) from error
    function = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    path = out / f"{function}.py"
    if path.exists():
        raise UsageError("there is a script here already", where=str(path), todo="name another folder with --out")
    text = script(module, name, operation, function if operation else f"{function}_probe", found)
    store.write_atomically(path, text)
    print(path)
    if configured:
        store.write_atomically(Path("pyproject.toml"), configured)
        print("pyproject.toml: [tool.stormdrain.gate] added")
    if found is None:
        print(f"the source of {module}:{name} was not found here or installed: fill in how it is built")
    for missing in (*found.build.missing, *found.open.missing) if found else ():
        print(f"fill in: {missing}")
    head = ""
    if found is not None and found.release:
        head = f" --head pypi:{found.release}"
    elif not (project_root() / ".git").exists():
        head = " --head path:."
    print(f"next: look at how the subject is built, then `stormdrain probe {path}{head}`")
    return 0


def known_name(module: str, name: str) -> None:
    """See that a module that is here has the name.

    Raises:
        UsageError: it is here, and does not.
    """
    from ..gate.nearest import nearest

    there = names_of(module)
    if there is None or name in there[1]:
        return
    file, names = there
    near = nearest(name, names)
    raise UsageError(
        f"{module} has no {name!r}",
        where=str(file),
        todo=f"did you mean {module}:{near}?" if near else "name a class or a function that it defines",
    )


def known_operation(found: Target, name: str, operation: str, *, explicit: bool) -> str:
    """The operation, if the class has it; the one that most likely ends it, where none was named.

    Raises:
        UsageError: the class does not have it.
    """
    if not explicit:
        return found.closer or operation
    if operation in found.methods or not found.whole:  # a base class that is out of sight may have it
        return operation
    from ..gate.nearest import nearest

    near = nearest(operation, found.methods) or found.closer
    raise UsageError(
        f"{name} has no method {operation!r}",
        where=str(found.file),
        todo=f"did you mean {name}.{near}?" if near else f"name one of {', '.join(sorted(found.methods))}",
    )


def script(module: str, name: str, operation: str, function: str, found: Target | None) -> str:
    """The text of a probe for a class's operation, or for a function where `operation` is empty."""
    build = found.build.text if found is not None else f"{name}()"
    props = "".join(text for there, text in ((found and found.child, _CHILD), (found and found.peer, _PEER)) if there)
    head = _HEAD.format(name=name, what=f".{operation}()" if operation else "()", module=module)
    if not operation:
        call = f"\nasync def call(subject, case):\n    return await {build}\n\n\n"
        if "child." in build or "peer." in build:
            call = call.replace("child.", "subject.").replace("peer.", "subject.")
        given = "child" if "child." in build else "peer" if "peer." in build else "None"
        body = props or "    # The subject is what `call` gets; build here what it needs.\n"
        return f"{head}{call}@probe(operation=call)\nasync def {function}(case):\n{body}    yield {given}\n"
    entered = operation == "__aexit__"
    opened = "" if entered or found is None or not found.opener else f"    await {found.open.text}\n"
    if opened and "child." in build + opened:
        opened += "    await child.ready()\n"
    later = "" if opened or entered else "    # await subject.connect()\n"
    return (
        f'{head}\n@probe(operation="{operation}")\nasync def {function}(case):\n{props or _BARE}'
        f"    subject = {build}\n{opened}{later}    yield subject\n"
        "    # What follows the yield disposes of what the operation must not end.\n"
    )


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


def configuration(file: Path, folder: Path) -> str:
    """The text of a pyproject.toml with a gate added; empty where there is no such file, or a configuration in it.

    Raises:
        UsageError: it is not TOML.
    """
    if not file.exists():
        return ""
    import tomlkit
    from tomlkit.exceptions import ParseError

    text = file.read_text(encoding="utf-8")
    try:
        tables = tomlkit.parse(text)
    except ParseError as error:
        what = str(error).replace("'\\x00'", "the end of the file")
        raise UsageError(f"the file is not TOML: {what}", where=str(file), todo="mend that line") from error
    if "stormdrain" in tables.get("tool", {}):
        return ""
    # Appended, so that the rest of the file stays byte for byte.
    return text.rstrip("\n") + "\n" + _CONFIG.format(folder=folder.as_posix())
