"""Where interpreters are looked for, and what they say of themselves.

People have them on PATH, in pyenv's versions (not its shims, which answer for
whatever is configured) and among uv's. Each is run once, for a bounded time; an
interpreter inside a virtual environment says which one it was made from.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
class Identity:
    """What an executable said of itself: the interpreter, and its values for environment markers."""

    path: str
    version: str
    full: str
    implementation: str
    markers: dict[str, str]


def too_old(full: str) -> bool:
    """Whether a version is older than the worker runs on."""
    return tuple(int(number) for number in re.findall(r"\d+", full)[:2]) < OLDEST


def candidates() -> Iterator[str]:
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


def identify(path: str) -> Identity | None:
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
