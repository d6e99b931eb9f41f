"""Makes the files that a scripted process is started from.

The process must be up in hardly more time than a bare interpreter, so its code
is compiled once, here, and loaded from a marshalled file; the executable itself
is a few lines. It runs on the base interpreter of the trial, isolated (`-I -S -E`):
what the environment or site-packages of the target do must not reach it, nor slow
it down.
"""

from __future__ import annotations

import functools
import marshal
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

SHEBANG_MAX = 127
"""Bytes of a first line that every kernel in use reads in full."""

_INSIDE = __name__.rpartition(".")[0] + ".inside"

_BOOT = """\
import marshal, sys
with open({program!r}, "rb") as file:
    parts = marshal.loads(file.read())
for name, code in parts:
    module = sys.modules[name] = type(sys)(name)
    exec(code, module.__dict__)
module.main({script!r})
"""


@functools.cache
def program(*modules: str) -> bytes:
    """Modules of `inside`, compiled, each after those that it needs; the last one has `main`."""
    parts = []
    for module in modules:
        path = Path(__file__).parent / "inside" / f"{module}.py"
        code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True, optimize=2)
        parts.append((f"{_INSIDE}.{module}", code))
    return marshal.dumps(parts)


def interpreter() -> str:
    """The interpreter that scripted processes run on: the one below the trial's virtual environment."""
    return getattr(sys, "_base_executable", None) or sys.executable


def write_program(folder: str, *modules: str) -> str:
    """Write the compiled modules into the folder, once. Returns the path."""
    path = os.path.join(folder, f"{modules[-1]}.program")
    if not os.path.exists(path):
        Path(path).write_bytes(program(*modules))
    return path


def write_executable(path: str, program_path: str, script: Mapping[str, object], python: str = "") -> None:
    """Write an executable file that follows the script.

    Args:
        path: the file to write.
        program_path: what `write_program` returned.
        script: plain literals only.
        python: the interpreter (default: `interpreter()`). Where its path does not fit
            into a first line, a line of `sh` starts it on a second file beside the first.
    """
    python = python or interpreter()
    boot = _BOOT.format(program=program_path, script=dict(script))
    shebang = f"#!{python} -ISE\n"
    if len(os.fsencode(shebang)) <= SHEBANG_MAX and not any(char.isspace() for char in python):
        text = shebang + boot
    else:
        Path(f"{path}.boot").write_text(boot, encoding="utf-8")
        text = f'#!/bin/sh\nexec {shlex.quote(python)} -ISE {shlex.quote(path + ".boot")} "$@"\n'
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
