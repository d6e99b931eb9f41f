"""Running uv and git: bounded, out of reach of the caller's environment, and killed as a group.

Both tools are steered by dozens of environment variables, some of which are set
exactly when stormdrain is called from a git hook or an activated environment.
What they said last goes into the error that the user sees.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..errors import UsageError
from ..worker.linux import die_with_parent
from .cache import full_disk

NETWORK_SECONDS = 900.0
"""Bound on a call that may download or build."""

_UV_DROPPED = (
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "__PYVENV_LAUNCHER__",
)
_UV_KEPT = (
    "UV_INDEX",
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_OFFLINE",
    "UV_CACHE_DIR",
)
_UV_KEPT_STARTS = ("UV_INDEX_", "UV_HTTP_", "UV_KEYRING", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "UV_INSECURE")


@dataclass(frozen=True)
class Done:
    """How a call ended: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def says(self) -> str:
        """Standard error in one line: uv breaks its sentences to the width of a terminal."""
        return " ".join(self.err.split())

    def last(self, lines: int = 12) -> str:
        """The last lines of what it said, blank ones left out."""
        said = [line.rstrip() for line in (self.err + "\n" + self.out).splitlines() if line.strip()]
        return "\n".join(said[-lines:])


def call(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    given: str = "",
    seconds: float = NETWORK_SECONDS,
) -> Done:
    """Run a program to its end; it and its descendants are killed when that takes too long or is interrupted.

    It is killed as well when this process dies, so that no build goes on for nobody.

    Args:
        argv: the program and its arguments.
        env: its whole environment.
        cwd: where it runs.
        given: its standard input.
        seconds: the bound, in real seconds.

    Raises:
        UsageError: it does not start, does not end in time, or the disk is full.
    """
    words = [str(word) for word in argv]
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
    except OSError as error:
        raise UsageError(
            f"{words[0]} does not start: {error.strerror}", where=" ".join(words[:4]), todo="install it again"
        ) from error
    try:
        out, err = process.communicate(given, timeout=seconds)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise UsageError(
                f"{Path(words[0]).name} did not end within {seconds:.0f} s",
                where=" ".join(words),
                todo="look at the network and the package's build, then run this again",
            ) from None
        raise
    done = Done(process.returncode, out, err)
    if done.code and "No space left on device" in done.says:
        raise full_disk(str(cwd or words[-1]))
    return done


def uv_program() -> str:
    """The path of uv: the one that the package `uv` ships, else the one on PATH.

    Raises:
        UsageError: there is neither.
    """
    try:
        import uv
    except ImportError:
        pass
    else:
        with contextlib.suppress(FileNotFoundError):
            return os.fsdecode(uv.find_uv_bin())
    if found := shutil.which("uv"):
        return found
    raise UsageError(
        "uv is needed to build environments and is not installed",
        where="PATH and this interpreter's packages",
        todo="pip install 'stormdrain[cli]'",
    )


def uv_env() -> dict[str, str]:
    """The caller's environment without what would make uv act on something else than it is told.

    What says where packages come from stays: indexes, credentials, proxies, certificates.
    """
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in _UV_DROPPED
        and (not name.startswith("UV_") or name in _UV_KEPT or name.startswith(_UV_KEPT_STARTS))
    }
    return env | {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1", "COLUMNS": "200"}


def uv(*arguments: str | Path, cwd: Path | None = None, given: str = "", seconds: float = NETWORK_SECONDS) -> Done:
    """Run uv. The caller looks at the exit code; see :func:`refused`."""
    return call([uv_program(), *arguments], env=uv_env(), cwd=cwd, given=given, seconds=seconds)


_OFFLINE = (
    "error sending request",
    "dns error",
    "network was disabled",
    "Connection refused",
    "Failed to connect",
    "timed out",
    "Could not resolve host",
    "Could not read from remote",
    "Network is unreachable",
    "Temporary failure in name resolution",
)


def is_offline(done: Done) -> bool:
    """Whether it failed because nothing could be reached."""
    return any(sign in done.says for sign in _OFFLINE)


_CONNECT = "connect, or name an index that can be reached in UV_INDEX_URL; what is cached still runs"


def refused(done: Done, what: str, *, where: str, todo: str, offline: str = _CONNECT) -> UsageError:
    """The error for a call that failed: no network is told as such, anything else with its last lines."""
    if is_offline(done):
        return UsageError(f"{what}: the network cannot be reached\n{_indent(done.last(4))}", where=where, todo=offline)
    return UsageError(f"{what}\n{_indent(done.last())}", where=where, todo=todo)


def _indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


_GIT_LOCAL = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_REPLACE_REF_BASE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_QUARANTINE_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_LITERAL_PATHSPECS",
)

# No hook, no filter, no housekeeping and no question: a checkout in the cache
# must be the bytes of the commit, and must not wait for anybody. Filters are
# made to pass content through, since git-lfs would download.
_GIT_CONFIG = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "core.autocrlf=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
    "filter.lfs.smudge=",
    "filter.lfs.clean=",
    "filter.lfs.process=",
    "filter.lfs.required=false",
    "protocol.file.allow=always",
)


def git(
    *arguments: str | Path,
    cwd: Path,
    settings: Mapping[str, str] | None = None,
    seconds: float = NETWORK_SECONDS,
) -> Done:
    """Run git in `cwd`, in English, without hooks, LFS filters, prompts or the caller's GIT_* variables.

    `settings` are further configuration, handed over where no list of processes shows it.
    """
    program = shutil.which("git")
    if program is None:
        raise UsageError("git is needed for this revision and is not installed", where="PATH", todo="install git")
    env = {name: value for name, value in os.environ.items() if name not in _GIT_LOCAL}
    env |= {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ADVICE": "0",
        "LC_ALL": "C",
    }
    env.setdefault("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
    if settings:
        given = int(env.get("GIT_CONFIG_COUNT") or 0)
        for number, (name, value) in enumerate(settings.items(), given):
            env |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        env["GIT_CONFIG_COUNT"] = str(given + len(settings))
    options = [word for setting in _GIT_CONFIG for word in ("-c", setting)]
    return call([program, *options, *arguments], env=env, cwd=cwd, seconds=seconds)
