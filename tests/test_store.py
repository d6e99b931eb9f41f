"""What a run recorded can be read back, whatever became of the host."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from building import failing_cell, failing_trial, passing_cell, passing_trial, run
from stormdrain import store, stored
from stormdrain.errors import UsageError
from stormdrain.model import Verdict


def test_a_finished_run_reads_back_equal(tmp_path: Path) -> None:
    whole = run(failing_cell(), trials=(failing_trial(), passing_trial(point=4)))
    writer = store.Writer(tmp_path, run())
    path = writer.finish(whole)
    assert path == tmp_path / "run.json"
    assert store.load_run(tmp_path) == whole
    assert store.load_run(path) == whole
    assert os.listdir(tmp_path) == ["run.json"]


def test_text_that_no_encoding_can_carry_reads_back_equal(tmp_path: Path) -> None:
    whole = run(passing_cell(), notes=("\udc80 \x00 \u202e",))
    store.Writer(tmp_path, run()).finish(whole)
    assert store.load_run(tmp_path) == whole


def test_a_folder_without_an_end_reads_as_an_interrupted_run(tmp_path: Path) -> None:
    writer = store.Writer(tmp_path, run(base="pypi:a==1"))
    writer.add(failing_trial())
    writer.add(failing_cell())
    partial = store.load_run(tmp_path)
    assert partial == writer.so_far()
    assert partial.interrupted
    assert partial.exit_code == 130
    assert partial.verdict is Verdict.FAIL
    assert partial.base == "pypi:a==1"
    assert partial.trials == (failing_trial(),)


def test_a_run_cut_off_is_never_a_pass(tmp_path: Path) -> None:
    writer = store.Writer(tmp_path, run())
    writer.add(passing_cell())
    assert store.load_run(tmp_path).verdict is Verdict.UNRESOLVED


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    writer = store.Writer(tmp_path, run())
    writer.add(failing_trial())
    journal = tmp_path / store.JOURNAL
    journal.write_bytes(journal.read_bytes() + b'["trial",{"cell":"aaa')
    assert store.load_run(tmp_path).trials == (failing_trial(),)


def test_a_damaged_line_in_the_middle_is_an_error(tmp_path: Path) -> None:
    writer = store.Writer(tmp_path, run())
    writer.add(failing_trial())
    journal = tmp_path / store.JOURNAL
    journal.write_bytes(journal.read_bytes() + b"garbage\n")
    with pytest.raises(UsageError, match="damaged"):
        store.load_run(tmp_path)


def test_a_host_that_is_killed_leaves_what_it_recorded(tmp_path: Path) -> None:
    script = (
        "import sys, os, signal; sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path\n"
        "from building import run, failing_trial\n"
        "from stormdrain import store\n"
        "writer = store.Writer(Path(sys.argv[1]), run())\n"
        "for point in range(5): writer.add(failing_trial('aaaaaaaa', point))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path), str(Path(__file__).parent)], check=False)
    assert done.returncode == -signal.SIGKILL
    partial = store.load_run(tmp_path)
    assert partial.trials == tuple(failing_trial("aaaaaaaa", point) for point in range(5))


def test_threads_may_write_at_once(tmp_path: Path) -> None:
    writer = store.Writer(tmp_path, run())

    def work() -> None:
        for point in range(20):
            writer.add(failing_trial("aaaaaaaa", point))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.load_run(tmp_path).trials) == 80


def test_the_second_run_into_a_folder_keeps_the_first(tmp_path: Path) -> None:
    folder = store.new_folder("probe", tmp_path / "out", tmp_path)
    store.Writer(folder, run()).finish(run(passing_cell()))
    assert store.new_folder("probe", tmp_path / "out", tmp_path) == folder
    store.Writer(folder, run())
    assert store.load_run(folder).interrupted
    assert store.load_run(folder / "run.before.json") == run(passing_cell())


def test_runs_that_start_in_one_second_get_folders_of_their_own(tmp_path: Path) -> None:
    folders = {store.new_folder("probe", None, tmp_path / "reports") for _ in range(5)}
    assert len(folders) == 5
    assert all(folder.name.split("-")[1] == "probe" for folder in folders)


def test_a_folder_that_cannot_be_made_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(store.CannotWrite) as caught:
        store.new_folder("probe", tmp_path / "file" / "out", tmp_path)
    assert str(tmp_path / "file") in str(caught.value)
    assert "--out" in caught.value.todo


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / store.JOURNAL).symlink_to("/dev/full")
    with pytest.raises(store.CannotWrite, match="No space left"):
        store.Writer(tmp_path, run())


def test_no_run_and_another_version_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run here"):
        store.load_run(tmp_path)
    (tmp_path / "run.json").write_text('{"schema": 99}')
    with pytest.raises(UsageError, match="schema 99"):
        store.load_run(tmp_path)
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(UsageError, match="schema None"):
        store.load_run(tmp_path)


def keep(folder: Path, key: str, when: int) -> Path:
    folder.mkdir(parents=True)
    store.Writer(folder, run()).finish(run(failing_cell(key), trials=(failing_trial(key),)))
    os.utime(folder / "run.json", (when, when))
    return folder


def test_the_latest_run_is_the_one_written_last(tmp_path: Path) -> None:
    keep(tmp_path / "b", "aaaaaaaa", 100)
    newest = keep(tmp_path / "a", "aaaaaaaa", 200)
    assert stored.latest(tmp_path) == newest
    with pytest.raises(UsageError, match="no run is stored"):
        stored.latest(tmp_path / "nowhere")


def test_a_token_finds_the_run_that_has_its_cell(tmp_path: Path) -> None:
    wanted = keep(tmp_path / "a", "aaaaaaaa", 100)
    keep(tmp_path / "b", "bbbbbbbb", 200)
    found, folder = stored.find_token("aaaaaaaa/cancel-sweep/f:cancel@3", tmp_path)
    assert folder == wanted
    assert found.cells[0].cell.key == "aaaaaaaa"
    with pytest.raises(UsageError, match="cccccccc"):
        stored.find_token("cccccccc/calm", tmp_path)
    with pytest.raises(UsageError, match="not a token"):
        stored.find_token("calm", tmp_path)
    elsewhere = keep(tmp_path / "deep" / "c", "cccccccc", 300)
    assert stored.find_token("cccccccc/calm", tmp_path, also=[elsewhere])[1] == elsewhere
