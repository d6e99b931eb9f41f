"""Environments: the dependencies of a revision in one virtual environment, its code in a layer.

Dependencies are the slow part and rarely differ between base and head, so there
is one environment for each interpreter and set of requirements, shared by every
revision that needs the same set. What was really installed is frozen into the
record: the fault may lie in a dependency.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from ..errors import UsageError
from .cache import Cache, digest
from .interpreters import Interpreter, markers
from .layers import Layer, make_layer
from .metadata import check_requirements, dependencies, group, read_pyproject
from .revision import Revision
from .tool import Done, is_offline, refused, uv

FORMAT = 1

_SECTION = "[tool.stormdrain.environment]"

LAYERS = "STORMDRAIN_LAYERS"
"""Environment variable: import roots that a Python of a prepared environment puts first (see `opening.py`)."""


@dataclass(frozen=True)
class EnvironmentConfig:
    """`[tool.stormdrain.environment]`.

    extras: extras of the package that its tests need.
    groups: dependency groups of its pyproject.toml.
    requires: further requirements, usually pins.
    install: arguments of `uv pip install`, a string each, run in order in the revision's tree after the rest.
    sdist: whether a release must have a source distribution (else a wheel will do where there is none).
    dependencies: `metadata`: what the package says that it needs; `listed`: nothing but what is listed here.
    """

    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    install: tuple[str, ...] = ()
    sdist: bool = False
    dependencies: str = "metadata"


@dataclass(frozen=True)
class Environment:
    """Where a revision runs.

    python: the interpreter of the virtual environment.
    layer: the directory with the revision's own code.
    path: entries for PYTHONPATH.
    freeze: every installed package, the revision first.
    digest: hash over the layer's content and the environment.
    content: hash over the layer's content alone.
    notes: what a reader of the run should know.
    """

    python: str
    interpreter: Interpreter
    layer: Path
    path: tuple[str, ...]
    freeze: tuple[str, ...]
    digest: str
    revision: Revision
    content: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Installed:
    """The record of a virtual environment."""

    freeze: tuple[str, ...]


def prepare(
    revision: Revision,
    interpreter: Interpreter,
    *,
    requires: Sequence[str] = (),
    config: EnvironmentConfig = EnvironmentConfig(),
    cache: Cache,
) -> Environment:
    """Build, or find in the cache, what is needed to run a revision on an interpreter.

    Args:
        revision: a resolved one.
        interpreter: an interpreter of this machine.
        requires: requirements beyond the configuration's (`--with`, a probe's own).
        config: the project's environment section.
        cache: where it is built.

    Raises:
        UsageError: the revision does not build or run there, an overlay does not fit, a requirement cannot
            be had or contradicts another, the network or the disk fails.
    """
    layer, site = make_layer(revision, interpreter, cache)
    lines = _requirements(revision, layer, interpreter, requires, config)
    key = digest(FORMAT, interpreter.key, *lines, *_install_key(revision, config))
    folder = cache.entry("environments", key)
    for attempt in (0, 1):
        installed = cache.make(
            "environments",
            key,
            Installed,
            lambda scratch: _build(scratch / "venv", revision, interpreter, lines, config),
            f"installing {len(lines)} requirements of {revision.label} for {interpreter.full}",
        )
        python = folder / "venv" / "bin" / "python"
        if os.access(python, os.X_OK) or attempt:
            break
        # The interpreter that it links to was removed and is here again elsewhere.
        cache.drop("environments", key)
    _open_to_layers(folder / "venv")
    return Environment(
        python=str(python),
        interpreter=interpreter,
        layer=site,
        path=(str(site),),
        freeze=_freeze(revision, layer, installed),
        digest=digest(layer.content, key),
        revision=revision,
        content=layer.content,
        notes=revision.notes + layer.notes,
    )


def _requirements(
    revision: Revision,
    layer: Layer,
    interpreter: Interpreter,
    requires: Sequence[str],
    config: EnvironmentConfig,
) -> tuple[str, ...]:
    """Everything to install, sorted, so that equal sets share an environment."""
    if config.dependencies not in ("metadata", "listed"):
        raise UsageError(
            f"dependencies = {config.dependencies!r} is neither 'metadata' nor 'listed'",
            where=_SECTION,
            todo="take one of the two",
        )
    values = markers(interpreter)
    base = config.dependencies == "metadata"
    lines = dependencies(layer.metadata, config.extras, values, base=base)
    if config.groups:
        if revision.source is None:
            raise UsageError(
                f"{revision.label} has no source tree, so no dependency groups",
                where=_SECTION,
                todo="list them in requires",
            )
        lines += group(read_pyproject(revision.source), config.groups, f"{_SECTION} groups of {revision.label}")
    lines += check_requirements(config.requires, f"{_SECTION} requires")
    lines += check_requirements(requires, "requirements of the probe or of --with")
    kept = []
    for line in dict.fromkeys(lines):
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate(values):
            requirement.marker = None
            kept.append(str(requirement))
    return tuple(sorted(dict.fromkeys(kept)))


def _install_key(revision: Revision, config: EnvironmentConfig) -> tuple[str, ...]:
    """What else decides what is installed: further installs and uv's own settings are those of the tree."""
    settings = ""
    if revision.source is not None:
        settings = repr(read_pyproject(revision.source).get("tool", {}).get("uv", ""))
    if not config.install:
        return (settings,)
    return (settings, revision.digest, *(overlay.digest for overlay in revision.overlays), *config.install)


def _build(
    venv: Path, revision: Revision, interpreter: Interpreter, lines: Sequence[str], config: EnvironmentConfig
) -> Installed:
    cwd = revision.source
    done = uv("venv", "--quiet", "--relocatable", "--no-project", "--python", interpreter.path, venv)
    if done.code:
        raise refused(
            done,
            f"no environment can be made with Python {interpreter.full}",
            where=interpreter.path,
            todo="look at what uv says above",
        )
    python = venv / "bin" / "python"
    install = ("pip", "install", "--python", python, "--compile-bytecode")
    if lines:
        done = uv(*install, "-r", "-", given="\n".join(lines) + "\n", cwd=cwd)
        if done.code:
            raise _not_installed(done, revision, interpreter, lines)
    for more in config.install:
        done = uv(*install, *shlex.split(more), cwd=cwd)
        if done.code:
            raise refused(
                done,
                f"`uv pip install {more}` fails for {revision.label} on Python {interpreter.full}",
                where=f"{_SECTION} install",
                todo="correct it; paths are relative to the revision's tree",
            )
    done = uv("pip", "freeze", "--python", python)
    return Installed(tuple(line for line in done.out.splitlines() if line.strip()))


def _open_to_layers(venv: Path) -> None:
    """Put `opening.py` where each Python of this environment runs it as it starts."""
    files = {
        "stormdrain_layers.py": Path(__file__).with_name("opening.py").read_text(),
        "stormdrain_layers.pth": f"import os; os.environ.get('{LAYERS}') and __import__('stormdrain_layers')\n",
    }
    for site in venv.glob("lib/python*/site-packages"):
        for name, text in files.items():
            file = site / name
            if not file.exists() or file.read_text() != text:
                scratch = site / f"{name}.{os.getpid()}"
                scratch.write_text(text)
                scratch.replace(file)


def _not_installed(done: Done, revision: Revision, interpreter: Interpreter, lines: Sequence[str]) -> UsageError:
    what = f"the dependencies of {revision.label} cannot be installed for Python {interpreter.full}"
    if is_offline(done) or "No solution found" not in done.says:
        return refused(done, what, where=", ".join(lines), todo="look at what uv says above")
    return refused(
        done,
        what,
        where=", ".join(lines),
        todo=f"change the pins, or set dependencies = 'listed' in {_SECTION} and list what is needed",
    )


def _freeze(revision: Revision, layer: Layer, installed: Installed) -> tuple[str, ...]:
    name, version = layer.metadata.name, layer.metadata.version
    own = f"{name}=={version}" if name else "(plain source)"
    others = (line for line in installed.freeze if not _names(line, name))
    return (f"{own}  # {revision.spec}, layer {layer.content[:12]}", *others)


def _names(line: str, name: str) -> bool:
    try:
        return bool(name) and canonicalize_name(Requirement(line).name) == name
    except InvalidRequirement:
        return False
