"""Layers: a revision's own code, installed without its dependencies into a read-only directory.

What is on the import path of a trial is exactly one revision, byte for byte,
with its overlays applied. It is never editable and never the user's checkout, so
base and head cannot mix and nothing changes while a run lasts. The wheel is
built once and serves every interpreter where it is pure Python; the layer itself
is one for each interpreter, since it carries that interpreter's compiled code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from .cache import Cache, digest, make_read_only, remove_tree
from .interpreters import Interpreter
from .metadata import Metadata, read_metadata, read_pyproject, requires_python, runs_on
from .overlays import overlay_site
from .revision import Revision
from .tool import call, refused, uv, uv_env
from .trees import copy_files, copy_tree, link_tree, tree_digest, walk

FORMAT = 1
"""Part of every key, so that another way of building makes new entries."""

COMPILE_SECONDS = 600.0

_DROPPED = ("direct_url.json", "uv_build.json", "uv_cache.json")


@dataclass(frozen=True)
class Layer:
    """The record of a layer.

    content: hash over its files, compiled code and the installer's own notes left out.
    metadata: of the package in it; empty for plain source.
    notes: what a reader of the run should know, such as parts of a patch that have no place here.
    """

    content: str
    metadata: Metadata
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wheel:
    """The record of a built wheel: its file's name, and whether it is the same for every interpreter."""

    file: str
    pure: bool
    note: str = ""


def make_layer(revision: Revision, interpreter: Interpreter, cache: Cache) -> tuple[Layer, Path]:
    """The layer of a revision for an interpreter, and the directory to put on the import path.

    Raises:
        UsageError: the revision does not build, does not run on the interpreter, or an overlay does not fit.
    """
    key = digest(FORMAT, revision.digest, interpreter.key, revision.sdist)
    overlaid = digest(key, *(overlay.digest for overlay in revision.overlays))
    if revision.overlays and (layer := cache.read("layers", overlaid, Layer)) is not None:
        return layer, cache.entry("layers", overlaid) / "site"
    plain = dataclasses.replace(revision, overlays=())
    final = cache.entry("layers", key) / "site"
    layer = cache.make(
        "layers",
        key,
        Layer,
        lambda folder: _build(plain, interpreter, cache, folder / "site", final),
        f"building {revision.label} for {interpreter.full}",
    )
    check_python(layer.metadata.requires_python, revision, interpreter)
    if not revision.overlays:
        return layer, final
    place = cache.entry("layers", overlaid) / "site"
    below = layer
    layer = cache.make(
        "layers",
        overlaid,
        Layer,
        lambda folder: _lay_over(revision, interpreter, below, final, folder / "site", place),
    )
    return layer, place


def check_python(wanted: str, revision: Revision, interpreter: Interpreter) -> None:
    """Raises UsageError where the revision says (`wanted`) that it does not run on the interpreter."""
    if wanted and not runs_on(wanted, interpreter.full):
        raise UsageError(
            f"{revision.label} needs Python {wanted}; {interpreter.full} was asked for",
            where=revision.spec,
            todo="leave this interpreter out",
        )


def _build(revision: Revision, interpreter: Interpreter, cache: Cache, site: Path, final: Path) -> Layer:
    notes: list[str] = []
    if revision.root is not None:
        # Said before a build by the wrong interpreter fails in some way of its own.
        check_python(requires_python(revision.root), revision, interpreter)
    if revision.root is None:
        form = "--no-binary" if revision.has_sdist else "--only-binary"
        _install(revision.requirement, revision, interpreter, site, form, revision.name)
    elif is_plain(revision.root):
        start = _import_root(revision.root)
        copy_files(start, walk(start), site)
    else:
        wheel = _wheel(revision, interpreter, cache, notes)
        if wheel is None:
            _install(revision.requirement, revision, interpreter, site, "--only-binary", revision.name)
        else:
            _install(wheel, revision, interpreter, site)
    _compile(interpreter, site, final, [site])
    return _finish(site, notes)


def _lay_over(revision: Revision, interpreter: Interpreter, below: Layer, base: Path, site: Path, final: Path) -> Layer:
    """The layer of a revision with overlays: the one without, and anew the files that the overlays change."""
    link_tree(base, site)
    notes = list(below.notes)
    changed: dict[str, None] = {}
    for overlay in revision.overlays:
        laid = overlay_site(overlay, site, revision.spec)
        changed |= dict.fromkeys(laid.changed)
        notes += laid.notes
    if not changed and revision.source is None:
        raise UsageError(
            f"the overlays of {revision.label} change nothing of it",
            where=revision.spec,
            todo="give paths relative to the import root, or as in the revision's repository",
        )
    files = [site / name for name in changed if name.endswith(".py") and (site / name).is_file()]
    for file in files:
        for stale in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            stale.unlink()
    _compile(interpreter, site, final, files)
    return _finish(site, notes)


def _compile(interpreter: Interpreter, site: Path, final: Path, what: Sequence[Path]) -> None:
    """Compile what is in a layer that will be at `final`.

    Checked by the source's hash: a copy of the layer in which a file was
    changed never runs the old code, whatever its time stamps.
    """
    if not what:
        return
    flags = ("--invalidation-mode", "checked-hash", "-s", site, "-p", final)
    call(
        [interpreter.path, "-I", "-m", "compileall", "-q", *flags, *what],
        env=uv_env(),
        seconds=COMPILE_SECONDS,
    )


def _finish(site: Path, notes: Sequence[str]) -> Layer:
    content = tree_digest(site, (name for name in walk(site) if _counts(name)))
    make_read_only(site)
    return Layer(content, read_metadata(site), tuple(notes))


def _counts(name: str) -> bool:
    _, _, file = name.partition(".dist-info/")
    return not file or file in ("METADATA", "entry_points.txt")


def is_plain(tree: Path) -> bool:
    """Whether a tree is plain source: nothing in it says how to build it."""
    if (tree / "setup.py").exists() or (tree / "setup.cfg").exists():
        return False
    return not {"project", "build-system"} & read_pyproject(tree).keys()


def _import_root(tree: Path) -> Path:
    return tree / "src" if (tree / "src").is_dir() and not (tree / "src" / "__init__.py").exists() else tree


def _wheel(revision: Revision, interpreter: Interpreter, cache: Cache, notes: list[str]) -> Path | None:
    """The revision's wheel; None where its source does not build and the index has a wheel instead."""
    shared = digest(FORMAT, revision.digest, revision.sdist)
    own = digest(shared, interpreter.key)
    with cache.locked(f"wheels-of-{shared}"):
        wheel = cache.read("wheels", shared, Wheel)
        if wheel is None:
            wheel = cache.make("wheels", own, Wheel, lambda folder: _build_wheel(revision, interpreter, folder))
            if wheel.pure:
                # The first one that is built serves all the other interpreters.
                record = Wheel(f"../{own}/{wheel.file}", True)
                cache.make("wheels", shared, Wheel, lambda folder: record)
                wheel = record
    if wheel.note:
        notes.append(wheel.note)
    if not wheel.file:
        return None
    return (cache.entry("wheels", shared if wheel.pure else own) / wheel.file).resolve()


def _build_wheel(revision: Revision, interpreter: Interpreter, folder: Path) -> Wheel:
    assert revision.root is not None
    assert revision.checkout is not None
    copy = folder / "tree"
    copy_tree(revision.checkout, copy)
    source = copy / revision.root.relative_to(revision.checkout)
    done = uv(
        "build", "--wheel", "--no-create-gitignore", "--python", interpreter.path,
        "--out-dir", folder / "out", source, cwd=source,
    )  # fmt: skip
    remove_tree(copy)
    built = sorted((folder / "out").glob("*.whl"))
    if done.code == 0 and built:
        python, abi, platform = built[0].stem.split("-")[-3:]
        pure = "py3" in python.split(".") and abi == "none" and platform == "any"
        return Wheel(f"out/{built[0].name}", pure)
    if revision.kind == "release" and revision.has_wheel and not revision.sdist:
        note = f"{revision.label}: its source distribution does not build here, the index's wheel was taken"
        return Wheel("", False, note)
    raise refused(
        done,
        f"{revision.label} does not build on Python {interpreter.full}",
        where=revision.spec,
        todo="see the build's last lines above; build tools that it needs must be installed on this machine",
    )


def _install(what: str | Path, revision: Revision, interpreter: Interpreter, site: Path, *more: str) -> None:
    """Install one package without dependencies into a new directory, as copies of the files in uv's cache."""
    done = uv(
        "pip", "install", "--no-deps", "--target", site, "--python", interpreter.path, "--link-mode", "copy",
        *more, "--", what,
    )  # fmt: skip
    if done.code:
        if "does not satisfy Python" in done.says:
            raise UsageError(
                f"{revision.label} does not run on Python {interpreter.full}:\n    {done.last(3)}",
                where=revision.spec,
                todo="leave this interpreter out",
            )
        raise refused(
            done,
            f"{revision.label} cannot be installed for Python {interpreter.full}",
            where=revision.spec,
            todo="look at what uv says above",
        )
    for name in _DROPPED:
        for file in site.glob(f"*.dist-info/{name}"):
            file.unlink()
    (site / ".lock").unlink(missing_ok=True)
