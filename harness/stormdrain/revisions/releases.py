"""Released packages: the source distribution of one version, fetched once and unpacked in the cache.

uv knows the user's indexes and credentials, so it is asked where the files are
(it has no command that downloads one). The source distribution is taken where
there is one: it has the tests, and wheels may carry large binaries. A release
never changes, so its record is never asked for twice.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib

from ..errors import UsageError
from .cache import Cache, digest
from .interpreters import Interpreter, available_interpreters
from .tool import refused, uv
from .trees import make_files_read_only

DOWNLOAD_SECONDS = 120.0

_PLACES = ("package registry", "provided package locations")


@dataclass(frozen=True)
class Release:
    """What is known of a release.

    digest: identity of its code.
    tree: the unpacked source distribution, relative to the entry; empty where only wheels were to be had.
    has_sdist, has_wheel: what the index has.
    """

    name: str
    version: str
    digest: str
    tree: str = ""
    has_sdist: bool = False
    has_wheel: bool = False
    note: str = ""


def fetch_release(name: str, version: str, cache: Cache) -> tuple[Release, Path | None]:
    """The release, and its unpacked source distribution where there is one.

    Args:
        name: normalised name of the package.
        version: as written after `==`.

    Raises:
        UsageError: no such package or version, or the index cannot be reached.
    """
    key = f"{name}-{version}"
    release = cache.make(
        "releases", key, Release, lambda folder: _fetch(name, version, folder), f"fetching {name} {version}"
    )
    return release, cache.entry("releases", key) / release.tree if release.tree else None


def _fetch(name: str, version: str, folder: Path) -> Release:
    files = _ask_index(name, version)
    sdist: dict[str, Any] | None = files.get("sdist")
    has_wheel = bool(files.get("wheels"))
    if sdist is None:
        return Release(name, version, digest("wheel", name, version), has_wheel=has_wheel)
    archive, note = _download(sdist, folder, f"{name} {version}")
    if archive is None:
        # An index that asks for credentials, which uv knows and does not tell: uv itself installs from it.
        return Release(name, version, digest("uv", name, version), has_sdist=True, has_wheel=has_wheel, note=note)
    known = hashlib.sha256(archive.read_bytes()).hexdigest()
    expected = sdist.get("hashes", {}).get("sha256", known)
    if known != expected:
        raise UsageError(
            f"the source distribution of {name} {version} is not what the index says it is",
            where=f"sha256 {known}, {expected} was expected",
            todo="run this again; if it stays so, ask who runs the index",
        )
    tree = _unpack(archive, folder / "tree")
    archive.unlink()
    make_files_read_only(tree)
    return Release(name, version, digest("sdist", known), str(tree.relative_to(folder)), True, has_wheel)


def _ask_index(name: str, version: str) -> dict[str, Any]:
    """Where the files of a release are, as a lock file of uv's says it."""
    asker = _newest()
    done = uv(
        "pip", "compile", "--no-deps", "--no-header", "--format", "pylock.toml", "--python", asker.path, "-",
        given=f"{name}=={version}\n",
    )  # fmt: skip
    where = f"pypi:{name}=={version}"
    if done.code == 0:
        for package in tomllib.loads(done.out).get("packages", ()):
            if package.get("name") == name:
                return dict(package)
    if any(f"{name} was not found in the {place}" in done.says for place in _PLACES):
        raise UsageError(f"there is no package {name}", where=where, todo="look at the spelling, or set UV_INDEX_URL")
    if "there is no version of" in done.says:
        raise UsageError(
            f"there is no release {version} of {name}",
            where=where,
            todo="look at the package's list of releases",
        )
    raise refused(done, f"{name} {version} cannot be fetched", where=where, todo="look at what uv says above")


def _newest() -> Interpreter:
    found = available_interpreters()
    if not found:
        raise UsageError(
            "no interpreter of Python 3.10 or newer was found",
            where="PATH, pyenv's versions and uv's interpreters",
            todo="name one in STORMDRAIN_PYTHONS",
        )
    return found[-1]


def _download(sdist: dict[str, Any], folder: Path, what: str) -> tuple[Path | None, str]:
    """The archive in `folder`; None and a note where the index does not hand it to us."""
    # Half of the time that importing this package would take, for what is rarely done.
    import http.client
    import urllib.error
    import urllib.request

    url = Path(sdist["path"]).absolute().as_uri() if "path" in sdist else str(sdist["url"])
    target = folder / url.rsplit("/", 1)[-1].partition("#")[0]
    request = urllib.request.Request(url, headers={"User-Agent": "stormdrain"})
    try:
        with urllib.request.urlopen(request, timeout=DOWNLOAD_SECONDS) as answer, open(target, "wb") as out:
            while block := answer.read(1 << 16):
                out.write(block)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        target.unlink(missing_ok=True)
        return (
            None,
            f"the source distribution of {what} could not be downloaded ({error}); its tests are not at hand",
        )
    return target, ""


def _unpack(archive: Path, target: Path) -> Path:
    """Unpack a source distribution; returns the one directory in it."""
    import tarfile
    import zipfile

    target.mkdir()
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as bundle:
                bundle.extractall(target)
        else:
            with tarfile.open(archive) as bundle:
                bundle.extractall(target, filter="data")
    except (tarfile.TarError, zipfile.BadZipFile) as error:
        raise UsageError(
            f"the source distribution cannot be unpacked: {error}",
            where=archive.name,
            todo="ask for another release, or unpack it by hand and use path:DIR",
        ) from error
    inside = [entry for entry in target.iterdir() if entry.is_dir()]
    return inside[0] if len(inside) == 1 else target
