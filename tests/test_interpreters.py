"""Interpreters: found where people have them, asked once, never downloaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stormdrain.errors import UsageError
from stormdrain.revisions import Interpreter, available_interpreters, find_interpreters
from stormdrain.revisions.interpreters import markers

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
BASE = getattr(sys, "_base_executable", sys.executable)


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nothing is found but what a test puts there."""
    for name in ("STORMDRAIN_PYTHONS", "UV_PYTHON_INSTALL_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("STORMDRAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def pretend(path: Path, full: str, *, implementation: str = "cpython", calls: Path | None = None) -> Path:
    """An executable that says of itself what it is told to, and notes each time that it is asked."""
    version = ".".join(full.split(".")[:2]) + ("t" if full.endswith("t") else "")
    answer = (
        f'{{"path": "{path}", "version": "{version}", "full": "{full}", '
        f'"implementation": "{implementation}", "markers": {{}}}}'
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    note = f"echo asked >> {calls}\n" if calls else ""
    path.write_text(f"#!/bin/sh\n{note}echo '{answer}'\n")
    path.chmod(0o755)
    return path


def found() -> list[tuple[str, str]]:
    return [(one.full, one.path) for one in available_interpreters()]


def test_a_real_interpreter_says_who_it_is() -> None:
    (one,) = find_interpreters([sys.executable])
    assert (one.version, one.implementation) == (HERE, "cpython")
    assert one.full.startswith(HERE + ".")
    assert os.path.samefile(one.path, BASE)
    assert markers(one)["python_version"] == HERE
    assert markers(one)["sys_platform"] == sys.platform


def test_an_interpreter_of_a_virtual_environment_counts_as_the_one_it_was_made_from(bare: Path) -> None:
    subprocess.run([BASE, "-m", "venv", "--without-pip", bare / "venv"], check=True)
    (one,) = find_interpreters([str(bare / "venv/bin/python")])
    assert os.path.realpath(one.path) == os.path.realpath(BASE)
    assert str(bare / "venv") not in one.path


def test_they_are_looked_for_on_path_in_pyenvs_versions_and_in_uvs(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = pretend(bare / "bin/python3.10", "3.10.2")
    of_pyenv = pretend(bare / "pyenv/versions/3.11.4/bin/python", "3.11.4")
    of_uv = pretend(bare / "home/.local/share/uv/python/cpython-3.12.3-linux/bin/python3", "3.12.3")
    named = pretend(bare / "own/python", "3.13.1")
    monkeypatch.setenv("STORMDRAIN_PYTHONS", str(named))
    assert found() == [
        ("3.10.2", str(on_path)),
        ("3.11.4", str(of_pyenv)),
        ("3.12.3", str(of_uv)),
        ("3.13.1", str(named)),
    ]


def test_of_each_minor_version_the_newest_is_taken(bare: Path) -> None:
    for full in ("3.12.9", "3.12.10", "3.12.1"):
        pretend(bare / f"pyenv/versions/{full}/bin/python", full)
    assert [full for full, _ in found()] == ["3.12.10"]


def test_one_that_is_named_wins_over_a_newer_one_that_is_found(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(bare / "pyenv/versions/3.12.9/bin/python", "3.12.9")
    older = pretend(bare / "own/python", "3.12.1")
    newer = pretend(bare / "own/python3", "3.12.2")
    monkeypatch.setenv("STORMDRAIN_PYTHONS", os.pathsep.join(["", str(older)]))
    assert [full for full, _ in found()] == ["3.12.1"]
    assert find_interpreters(["3.12"])[0].path == str(older)
    assert find_interpreters(["3.12.9"])[0].full == "3.12.9"
    monkeypatch.setenv("STORMDRAIN_PYTHONS", os.pathsep.join([str(older), str(newer)]))
    assert [full for full, _ in found()] == ["3.12.2"]


def test_shims_old_versions_and_what_does_not_answer_are_passed_over(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = bare / "calls"
    pretend(bare / "pyenv/shims/python3.12", "3.12.1", calls=calls)
    pretend(bare / "pyenv/versions/2.7.18/bin/python", "2.7.18", calls=calls)
    pretend(bare / "pyenv/versions/mine/bin/python", "3.9.1")
    broken = pretend(bare / "bin/python3.13", "3.13.0")
    broken.write_text("#!/bin/sh\nexit 1\n")
    folders = [os.environ["PATH"], str(bare / "pyenv/shims"), str(bare / "gone")]
    monkeypatch.setenv("PATH", os.pathsep.join(folders))
    assert found() == []
    assert not calls.exists()


def test_previews_free_threaded_ones_and_other_implementations_must_be_asked_for(bare: Path) -> None:
    for name, full, implementation in [
        ("3.15.0a1", "3.15.0a1", "cpython"),
        ("3.13.0t", "3.13.0t", "cpython"),
        ("3.11.2", "3.11.2", "pypy"),
    ]:
        pretend(bare / f"pyenv/versions/{name}/bin/python", full, implementation=implementation)
    assert found() == []
    wanted = ["3.15", "3.13t", "3.11"]
    assert [one.full for one in find_interpreters(wanted)] == ["3.15.0a1", "3.13.0t", "3.11.2"]


def test_each_is_asked_once_until_it_changes(bare: Path) -> None:
    calls = bare / "calls"
    path = pretend(bare / "bin/python3.12", "3.12.1", calls=calls)
    for _ in range(3):
        assert [full for full, _ in found()] == ["3.12.1"]
    assert calls.read_text() == "asked\n"
    pretend(path, "3.12.22", calls=calls)
    assert [full for full, _ in found()] == ["3.12.22"]
    assert calls.read_text() == "asked\nasked\n"


def test_they_are_found_where_the_cache_cannot_be_written(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(bare / "bin/python3.12", "3.12.1")
    monkeypatch.setenv("STORMDRAIN_CACHE", "/dev/null/cache")
    assert [full for full, _ in found()] == ["3.12.1"]


def test_the_wanted_ones_come_in_the_order_asked_for_and_each_once(bare: Path) -> None:
    for full in ("3.11.4", "3.12.1"):
        pretend(bare / f"pyenv/versions/{full}/bin/python", full)
    wanted = find_interpreters(["3.12", "3.11.4", "python3.12", str(bare / "pyenv/versions/3.12.1/bin/python")])
    assert [one.full for one in wanted] == ["3.12.1", "3.11.4"]
    assert [one.full for one in find_interpreters()] == ["3.11.4", "3.12.1"]


def test_a_missing_one_is_told_with_those_that_were_found(bare: Path) -> None:
    with pytest.raises(UsageError, match="found: none"):
        find_interpreters()
    pretend(bare / "bin/python3.12", "3.12.1")
    with pytest.raises(UsageError, match=r"Python 3.14 was not found on this machine; found: 3.12.1") as caught:
        find_interpreters(["3.12", "3.14"])
    assert "STORMDRAIN_PYTHONS" in caught.value.todo


@pytest.mark.parametrize("wanted", ["three", "3", "", "2.7", "3.12;rm"])
def test_what_names_no_interpreter_is_refused(wanted: str) -> None:
    with pytest.raises(UsageError, match="names no interpreter"):
        find_interpreters([wanted])


def test_a_path_that_is_no_usable_interpreter_is_refused(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no interpreter at"):
        find_interpreters([str(bare / "gone")])
    with pytest.raises(UsageError, match="does not run as a Python"):
        find_interpreters(["/bin/true"])
    with pytest.raises(UsageError, match=r"3.10 is the oldest"):
        find_interpreters([str(pretend(bare / "old/python", "3.9.1"))])
    monkeypatch.setenv("STORMDRAIN_PYTHONS", str(bare / "gone"))
    with pytest.raises(UsageError, match="no interpreter at") as caught:
        available_interpreters()
    assert caught.value.where == "STORMDRAIN_PYTHONS"


def test_two_interpreters_never_share_an_environment() -> None:
    one = Interpreter("/a/python", "3.12", "3.12.1")
    others = [
        Interpreter("/b/python", "3.12", "3.12.1"),
        Interpreter("/a/python", "3.12", "3.12.2"),
        Interpreter("/a/python", "3.12", "3.12.1", "pypy"),
    ]
    assert len({one.key, *(other.key for other in others)}) == 4
