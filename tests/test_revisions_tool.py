"""Running uv and git: bounded, killed as a group, told in words."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import stormdrain
from stormdrain.errors import UsageError
from stormdrain.revisions.tool import call, refused, uv_program

ENV = {"PATH": os.environ.get("PATH", os.defpath)}

STAYS = """
import os, sys, signal
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[1], "w") as pipe:
    pipe.write("here")
    pipe.flush()
    signal.pause()
"""


def test_what_does_not_end_is_killed_with_everything_that_it_started(tmp_path: Path) -> None:
    held = tmp_path / "held"
    os.mkfifo(held)
    reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(UsageError, match="did not end within 2 s"):
            call([sys.executable, "-c", STAYS, held], env=ENV, seconds=2)
        # The pipe ends when nobody holds it any more: neither the program nor its child.
        os.set_blocking(reader, True)
        ready, _, _ = select.select([reader], [], [], 30)
        assert ready
        text = b""
        while block := os.read(reader, 100):
            text += block
        assert text in (b"here", b"herehere")
    finally:
        os.close(reader)


def test_what_does_not_start_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not start"):
        call([tmp_path / "gone"], env=ENV)


def test_a_disk_that_is_full_for_a_program_is_told() -> None:
    code = "import sys; sys.exit('error: failed to write: No space left on device (os error 28)')"
    with pytest.raises(UsageError, match="disk is full"):
        call([sys.executable, "-c", code], env=ENV)


def test_the_last_lines_of_what_failed_are_told() -> None:
    code = "import sys\nfor n in range(50): print('line', n, file=sys.stderr)\nsys.exit(3)"
    done = call([sys.executable, "-c", code], env=ENV)
    error = refused(done, "it fails", where="here", todo="nothing")
    assert done.code == 3
    assert "line 49" in error.what
    assert "line 9\n" not in error.what


def test_many_calls_at_once_do_not_mix(tmp_path: Path) -> None:
    said: dict[int, str] = {}

    def say(number: int) -> None:
        said[number] = call([sys.executable, "-c", "print(input())"], env=ENV, given=str(number)).out

    threads = [threading.Thread(target=say, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {number: f"{number}\n" for number in range(4)}


def test_uv_is_the_one_that_its_package_ships() -> None:
    program = Path(uv_program())
    assert program.is_file()
    assert shutil.which("uv", path=str(program.parent)) == str(program)


HOST = """
import sys
sys.path.insert(0, sys.argv[2])
from stormdrain.revisions.tool import call
call([sys.executable, "-c", sys.argv[3], sys.argv[1]], env={}, seconds=600)
"""
WAITS = """
import sys, signal
with open(sys.argv[1], "w") as pipe:
    pipe.write("here")
    pipe.flush()
    signal.pause()
"""


def test_a_program_is_killed_when_the_host_is(tmp_path: Path) -> None:
    held = tmp_path / "held"
    os.mkfifo(held)
    reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    package = str(Path(stormdrain.__file__).parents[1])
    host = subprocess.Popen([sys.executable, "-c", HOST, held, package, WAITS])
    try:
        os.set_blocking(reader, True)
        assert select.select([reader], [], [], 60)[0]
        assert os.read(reader, 100) == b"here"
        host.kill()
        host.wait()
        assert select.select([reader], [], [], 30)[0]
        assert os.read(reader, 100) == b""  # nobody holds it any more
    finally:
        host.kill()
        host.wait()
        os.close(reader)
