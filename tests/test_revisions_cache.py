"""The cache: whole entries or none, one builder at a time, nothing left by what was killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormdrain.errors import UsageError
from stormdrain.revisions import Cache
from stormdrain.revisions.cache import default_root, digest, make_read_only, remove_tree


@dataclass(frozen=True)
class Made:
    by: int
    names: tuple[str, ...] = ()


FORK = multiprocessing.get_context("fork")


def build_and_tell(cache: Cache, tell: Connection, go: Connection) -> None:
    """Build an entry in a process of its own: say that it began, and end when told to."""

    def build(folder: Path) -> Made:
        (folder / "half").write_text("half of it")
        tell.send(str(folder))
        go.recv()
        (folder / "whole").write_text("all of it")
        return Made(os.getpid())

    tell.send(cache.make("things", "one", Made, build).by)


def started(cache: Cache) -> tuple[multiprocessing.process.BaseProcess, Connection, Connection]:
    tell, heard = FORK.Pipe()
    go, gone = FORK.Pipe()
    process = FORK.Process(target=build_and_tell, args=(cache, tell, go), daemon=True)
    process.start()
    return process, heard, gone


def test_an_entry_is_built_once_and_then_read(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    calls: list[Path] = []

    def build(folder: Path) -> Made:
        calls.append(folder)
        return Made(1, ("a", "b"))

    assert cache.read("things", "one", Made) is None
    assert cache.make("things", "one", Made, build) == Made(1, ("a", "b"))
    assert cache.make("things", "one", Made, build) == Made(1, ("a", "b"))
    assert len(calls) == 1


def test_two_processes_that_need_one_entry_build_it_once(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    first, heard_first, go_first = started(cache)
    heard_first.recv()
    second, heard_second, go_second = started(cache)
    go_second.send("you need not wait for me")
    assert not cache.entry("things", "one").exists()
    go_first.send("end")
    builder = heard_first.recv()
    assert builder == first.pid
    assert heard_second.recv() == builder
    for process in (first, second):
        process.join()
    assert (cache.entry("things", "one") / "whole").exists()


def test_two_threads_that_need_one_entry_build_it_once(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    calls: list[int] = []
    both = threading.Barrier(2)

    def need() -> Made:
        both.wait()
        return cache.make("things", "one", Made, lambda folder: calls.append(1) or Made(len(calls)))

    with ThreadPoolExecutor(2) as pool:
        made = [pool.submit(need), pool.submit(need)]
    assert [one.result() for one in made] == [Made(1), Made(1)]


def test_what_was_killed_leaves_nothing_half_and_is_swept_by_the_next(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    process, heard, _ = started(cache)
    half = Path(heard.recv())
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert (half / "half").exists()
    assert cache.read("things", "one", Made) is None
    assert cache.make("things", "one", Made, lambda folder: Made(2)) == Made(2)
    assert not half.exists()


def test_what_is_being_built_is_never_swept(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    process, heard, go = started(cache)
    half = Path(heard.recv())
    cache.make("things", "another", Made, lambda folder: Made(3))
    assert (half / "half").exists()
    go.send("end")
    assert heard.recv() == process.pid
    process.join()


def test_a_build_that_fails_leaves_nothing_and_can_be_tried_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")

    def fail(folder: Path) -> Made:
        (folder / "half").write_text("half")
        make_read_only(folder)
        raise UsageError("no")

    with pytest.raises(UsageError, match="no"):
        cache.make("things", "one", Made, fail)
    assert list((cache.root / "tmp").iterdir()) == []
    assert cache.make("things", "one", Made, lambda folder: Made(4)) == Made(4)


@pytest.mark.parametrize("damage", ["", "{", '{"by": "x"}', '{"by": 1, "more": 2}'])
def test_a_record_that_cannot_be_read_is_made_again(tmp_path: Path, damage: str) -> None:
    cache = Cache(tmp_path / "cache")
    cache.make("things", "one", Made, lambda folder: Made(5))
    (cache.entry("things", "one") / "record.json").write_text(damage)
    assert cache.make("things", "one", Made, lambda folder: Made(6)) == Made(6)


def test_an_entry_that_was_dropped_is_gone_even_where_it_was_read_only(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")

    def build(folder: Path) -> Made:
        (folder / "site" / "deep").mkdir(parents=True)
        (folder / "site" / "deep" / "file").write_text("")
        make_read_only(folder / "site")
        return Made(7)

    cache.make("things", "one", Made, build)
    assert (cache.entry("things", "one") / "site").stat().st_mode & 0o222 == 0
    cache.drop("things", "one")
    assert not cache.entry("things", "one").exists()


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    def build(folder: Path) -> Made:
        with open("/dev/full", "w") as full:
            full.write("x")
        return Made(8)

    with pytest.raises(UsageError, match="disk is full") as caught:
        Cache(tmp_path / "cache").make("things", "one", Made, build)
    assert "STORMDRAIN_CACHE" in caught.value.todo


def test_something_else_in_the_caches_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(UsageError, match="directory cannot be made") as caught:
        Cache(tmp_path / "cache").make("things", "one", Made, lambda folder: Made(9))
    assert str(tmp_path / "cache") in caught.value.where


def as_nobody(act: Callable[[], object]) -> str:
    """What `act` raised in a process that has no rights beyond anybody's."""
    heard, tell = FORK.Pipe(duplex=False)

    def run() -> None:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        try:
            act()
            tell.send("nothing")
        except UsageError as error:
            tell.send(str(error))
        except BaseException as error:
            tell.send(repr(error))

    process = FORK.Process(target=run)
    process.start()
    said = str(heard.recv())
    process.join()
    return said


def test_no_write_access_is_told(tmp_path: Path) -> None:
    for parent in (tmp_path, *list(tmp_path.parents)[:2]):
        os.chmod(parent, 0o755)
    (tmp_path / "cache").mkdir(mode=0o555)
    cache = Cache(tmp_path / "cache")
    said = as_nobody(lambda: cache.make("things", "one", Made, lambda folder: Made(10)))
    assert said.startswith("no write access to the cache: Permission denied")
    assert str(tmp_path / "cache") in said
    assert "STORMDRAIN_CACHE" in said


def test_an_error_about_something_else_is_not_blamed_on_the_cache(tmp_path: Path) -> None:
    def build(folder: Path) -> Made:
        return Made(len((tmp_path / "elsewhere").read_text()))

    with pytest.raises(FileNotFoundError):
        Cache(tmp_path / "cache").make("things", "one", Made, build)


def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORMDRAIN_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    assert default_root() == tmp_path / "own"
    monkeypatch.delenv("STORMDRAIN_CACHE")
    assert default_root() == tmp_path / "shared" / "stormdrain"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_root() == tmp_path / "home" / ".cache" / "stormdrain"


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_a_digest_is_equal_exactly_where_its_parts_are(one: list[str], other: list[str]) -> None:
    assert (digest(*one) == digest(*other)) == (one == other)


def test_removing_what_is_not_there_does_nothing(tmp_path: Path) -> None:
    remove_tree(tmp_path / "nothing")
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    remove_tree(tmp_path / "link")
    assert (tmp_path / "target").exists()
