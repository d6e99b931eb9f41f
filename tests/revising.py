"""What the tests of revisions are made of: small projects that build without a network, and repositories."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

BACKEND = """
import os, zipfile

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with open("project.txt") as file:
        name, version, *lines = file.read().splitlines()
    stem = name.replace("-", "_")
    tag = f"{stem}-{version}-py3-none-any.whl"
    info = f"{stem}-{version}.dist-info"
    top = "src" if os.path.isdir("src") else "."
    with zipfile.ZipFile(os.path.join(wheel_directory, tag), "w") as wheel:
        names = []
        for folder, _, files in sorted(os.walk(os.path.join(top, stem))):
            for file in sorted(files):
                if file.endswith(".py"):
                    path = os.path.join(folder, file)
                    names.append(os.path.relpath(path, top))
                    wheel.write(path, names[-1])
        wheel.writestr(f"{info}/METADATA", "\\n".join([
            "Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines, "", ""]))
        wheel.writestr(f"{info}/WHEEL", "\\n".join([
            "Wheel-Version: 1.0", "Generator: here", "Root-Is-Purelib: true", "Tag: py3-none-any", ""]))
        names += [f"{info}/METADATA", f"{info}/WHEEL", f"{info}/RECORD"]
        wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\\n" for name in names))
    return tag
"""
"""A build backend of the project's own, which needs nothing installed."""

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""


TEST = "from pond.pipe import drain\n\n\ndef test_it():\n    assert drain() == '{}'\n"
PIPE = "def drain():\n    return '{}'\n"


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write files, given by relative path, under `folder`."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def pond(folder: Path, version: str = "1.0", *lines: str, more: str = "", files: dict[str, str] | None = None) -> Path:
    """A project `pond` whose module says its depth.

    Args:
        folder: where to write it.
        version: of the package.
        lines: further lines of METADATA.
        more: further text of pyproject.toml.
        files: further files, or others in place of these.
    """
    return write(
        folder,
        {
            "pyproject.toml": PYPROJECT + more,
            "backend.py": BACKEND,
            "project.txt": "\n".join(["pond", version, *lines]) + "\n",
            "src/pond/__init__.py": "DEPTH = 1\n",
            "src/pond/pipe.py": PIPE.format("slow"),
            "tests/test_pond.py": TEST.format("slow"),
        }
        | (files or {}),
    )


def git(folder: Path, *arguments: str) -> str:
    """Run git as a user without any configuration would."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }
    settings = ["-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"]
    done = subprocess.run(
        ["git", *settings, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(folder: Path, message: str = "change") -> str:
    """Commit everything; the commit's id."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def repository(folder: Path, **files: str) -> Path:
    """A repository whose first commit is the project `pond`."""
    pond(folder)
    git(folder, "init", "--quiet")
    commit(folder, "first")
    return folder
