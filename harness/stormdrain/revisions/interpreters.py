"""The interpreters of this machine: found, asked once who they are, never downloaded.

A cell needs a real CPython of a given minor version. They are looked for where
people have them: what STORMDRAIN_PYTHONS names comes first, then PATH, pyenv's
versions (not its shims, which answer for whatever is configured) and uv's. An
interpreter inside a virtual environment counts as the one that it was made from.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..model import from_json, to_json
from .cache import Cache, digest

OLDEST = (3, 10)
"""The oldest Python that the worker runs on."""

IDENTIFY_SECONDS = 20.0

_ASK = """
import json, os, sys, sysconfig
free = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
path = getattr(sys, "_base_executable", None) or sys.executable
level = {"alpha": "a", "beta": "b", "candidate": "rc"}.get(sys.version_info.releaselevel, "")
full = "%d.%d.%d" % sys.version_info[:3] + (level + str(sys.version_info.serial) if level else "")
import platform
print(json.dumps({
    "path": path,
    "version": "%d.%d" % sys.version_info[:2] + ("t" if free else ""),
    "full": full + ("t" if free else ""),
    "implementation": sys.implementation.name,
    "markers": {
        "implementation_name": sys.implementation.name,
        "implementation_version": full,
        "os_name": os.name,
        "platform_machine": platform.machine(),
        "platform_python_implementation": platform.python_implementation(),
        "platform_release": platform.release(),
        "platform_system": platform.system(),
        "platform_version": platform.version(),
        "python_full_version": platform.python_version(),
        "python_version": "%d.%d" % sys.version_info[:2],
        "sys_platform": sys.platform,
    },
}))
"""


@dataclass(frozen=True)
class Interpreter:
    """One interpreter of this machine.

    path: its executable, outside any virtual environment.
    version: `3.11` (`3.13t` where it is free-threaded).
    full: `3.11.7`.
    """

    path: str
    version: str
    full: str
    implementation: str = "cpython"

    @property
    def key(self) -> str:
        """What tells its environments from another's."""
        return digest(self.path, self.full, self.implementation)

    def __str__(self) -> str:
        return f"{self.full} ({self.path})"


@dataclass(frozen=True)
class Identity:
    """What an executable said of itself: the interpreter, and its values for environment markers."""

    path: str
    version: str
    full: str
    implementation: str
    markers: dict[str, str]


def markers(interpreter: Interpreter) -> dict[str, str]:
    """The interpreter's values for environment markers (`python_version`, `sys_platform`, ...)."""
    identity = _identify(interpreter.path)
    if identity is None:
        raise _does_not_run(interpreter.path)
    return identity.markers


def available_interpreters() -> tuple[Interpreter, ...]:
    """The newest released CPython of each minor version that is found here, oldest minor first.

    What STORMDRAIN_PYTHONS names wins over a newer one found elsewhere.

    Raises:
        UsageError: STORMDRAIN_PYTHONS names something that is no usable interpreter.
    """
    chosen: dict[str, tuple[bool, Interpreter]] = {}
    for interpreter, named in _found():
        if not _is_plain(interpreter):
            continue
        held = chosen.get(interpreter.version)
        if held is None or (named, _order(interpreter)) > (held[0], _order(held[1])):
            chosen[interpreter.version] = (named, interpreter)
    return tuple(sorted((interpreter for _, interpreter in chosen.values()), key=_order))


def find_interpreters(wanted: Sequence[str] = ()) -> tuple[Interpreter, ...]:
    """The interpreters that are asked for, in that order, each once.

    Args:
        wanted: `3.12`, `3.12.1`, `3.13t`, or the path of an executable; empty: all that are available.

    Raises:
        UsageError: one of them is not here (what was found is listed), or none is found at all.
    """
    if not wanted:
        if found := available_interpreters():
            return found
        raise _missing("no interpreter of Python 3.10 or newer was found", ())
    chosen: dict[Interpreter, None] = {}
    for text in wanted:
        chosen[_find(text.strip())] = None
    return tuple(chosen)


def _find(text: str) -> Interpreter:
    if os.sep in text or text.startswith("~"):
        return _at(text, "--python")
    release = text.removeprefix("python")
    if not re.fullmatch(r"3\.\d+(\.\d+\w*)?t?", release):
        raise UsageError(
            f"{text!r} names no interpreter",
            where="--python",
            todo="give a version such as 3.12 or 3.12.1, or the path of an executable",
        )
    for interpreter in available_interpreters():
        if interpreter.version == release:
            return interpreter
    everything = [interpreter for interpreter, _ in _found()]
    matching = [one for one in everything if release in (one.version, one.full)]
    if not matching:
        raise _missing(f"Python {text} was not found on this machine", everything)
    return max(matching, key=lambda one: (one.implementation == "cpython", _order(one)))


def _missing(what: str, found: Sequence[Interpreter]) -> UsageError:
    listed = ", ".join(str(one) for one in sorted(set(found), key=_order)) or "none"
    return UsageError(
        f"{what}; found: {listed}",
        where="STORMDRAIN_PYTHONS, PATH, pyenv's versions and uv's interpreters",
        todo=f"install it, or name its executable in STORMDRAIN_PYTHONS (paths joined by {os.pathsep!r})",
    )


def _order(interpreter: Interpreter) -> tuple[tuple[int, ...], bool, str]:
    numbers = tuple(int(number) for number in re.findall(r"\d+", interpreter.full)[:3])
    return numbers, not _is_preview(interpreter), interpreter.full


def _is_plain(interpreter: Interpreter) -> bool:
    """Whether it is one that is used without being asked for: a released CPython with its lock."""
    cpython = interpreter.implementation == "cpython"
    return cpython and not _is_preview(interpreter) and not interpreter.version.endswith("t")


def _is_preview(interpreter: Interpreter) -> bool:
    return re.search(r"(a|b|rc)\d", interpreter.full) is not None


def _at(text: str, where: str) -> Interpreter:
    path = os.path.abspath(os.path.expanduser(text))
    if not os.path.isfile(path):
        raise UsageError(
            f"there is no interpreter at {path}", where=where, todo="give the path of a Python executable"
        )
    identity = _identify(path)
    if identity is None:
        raise _does_not_run(path)
    if _too_old(identity.full):
        raise UsageError(
            f"{path} is Python {identity.full}; 3.10 is the oldest that the worker runs on",
            where=where,
            todo="name a newer one",
        )
    return _interpreter(identity)


def _does_not_run(path: str) -> UsageError:
    return UsageError(
        f"{path} does not run as a Python interpreter",
        where=path,
        todo="name one that answers to `-c 'print(1)'` within 20 s",
    )


def _interpreter(identity: Identity) -> Interpreter:
    return Interpreter(identity.path, identity.version, identity.full, identity.implementation)


def _too_old(full: str) -> bool:
    return tuple(int(number) for number in re.findall(r"\d+", full)[:2]) < OLDEST


def _named() -> tuple[Interpreter, ...]:
    entries = os.environ.get("STORMDRAIN_PYTHONS", "").split(os.pathsep)
    return tuple(_at(entry, "STORMDRAIN_PYTHONS") for entry in entries if entry.strip())


def _found() -> Iterator[tuple[Interpreter, bool]]:
    """Every usable interpreter, each once; whether STORMDRAIN_PYTHONS names it."""
    seen: set[str] = set()
    for interpreter in _named():
        if interpreter.path not in seen:
            seen.add(interpreter.path)
            yield interpreter, True
    for path in _candidates():
        identity = _identify(path)
        if identity is None or _too_old(identity.full) or identity.path in seen:
            continue
        seen.add(identity.path)
        yield _interpreter(identity), False


def _candidates() -> Iterator[str]:
    """Executables that may be interpreters, each file once."""
    seen: set[str] = set()
    for path in (*_on_path(), *_in_versions(_pyenv() / "versions"), *_in_versions(_uv_pythons())):
        real = os.path.realpath(path)
        if real not in seen and os.access(real, os.X_OK):
            seen.add(real)
            yield path


def _on_path() -> Iterator[str]:
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if not folder or Path(folder).name == "shims":
            continue
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(folder)):
                match = re.fullmatch(r"python3(?:\.(\d+)t?)?", name)
                if match and (match[1] is None or int(match[1]) >= OLDEST[1]):
                    yield os.path.join(folder, name)


def _pyenv() -> Path:
    return Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")


def _uv_pythons() -> Path:
    if own := os.environ.get("UV_PYTHON_INSTALL_DIR"):
        return Path(own)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "uv" / "python"


def _in_versions(folder: Path) -> Iterator[str]:
    """The interpreters of a directory of installations; entries that say an old version are passed over."""
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(folder)):
            match = re.match(r"(?:cpython-)?(\d+)\.(\d+)", name)
            if match and (int(match[1]), int(match[2])) < OLDEST:
                continue
            for program in ("python", "python3"):
                path = folder / name / "bin" / program
                if path.is_file():
                    yield str(path)
                    break


def _identify(path: str) -> Identity | None:
    """What the executable says of itself, or None where it does not answer.

    It is run once; the answer is kept by path, size and time of change.
    """
    try:
        facts = os.stat(path)
    except OSError:
        return None
    key = digest(1, path, os.path.realpath(path), facts.st_size, facts.st_mtime_ns, _ASK)
    note = Cache().root / "interpreters" / f"{key}.json"
    with contextlib.suppress(OSError, ValueError):
        return from_json(Identity, json.loads(note.read_bytes()))
    identity = _ask(path)
    if identity is not None:
        # Without a cache that can be written it is asked again next time.
        with contextlib.suppress(OSError):
            note.parent.mkdir(parents=True, exist_ok=True)
            fresh = note.with_suffix(f".{os.getpid()}")
            fresh.write_text(json.dumps(to_json(identity)))
            os.replace(fresh, note)
    return identity


def _ask(path: str) -> Identity | None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "__PYVENV"))}
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        answer = subprocess.run(
            [path, "-I", "-S", "-c", _ASK],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            timeout=IDENTIFY_SECONDS,
            check=True,
        )
        return from_json(Identity, json.loads(answer.stdout))
    return None
