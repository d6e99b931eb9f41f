"""The public face has types: a probe script that is right passes `mypy --strict`, and what is wrong is refused where it is."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import stormdrain
from stormdrain.worker.props.child import child_script
from stormdrain.worker.props.keywords import ChildKeywords, PeerKeywords
from stormdrain.worker.props.peer import peer_script

HERE = Path(__file__).parent
SCRIPT = HERE / "typing_probe.py"


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """What mypy says of the script: the code of the error on each line."""
    cache = tmp_path_factory.mktemp("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--python-version", "3.11", "--config-file", ""]
    done = subprocess.run(
        [*command, "--cache-dir", str(cache), "--no-error-summary", "--follow-imports", "silent", str(SCRIPT)],
        cwd=HERE.parent / "harness",
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"typing_probe\.py:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert len(found) == len(errors), done.stdout + done.stderr
    return {int(line): code for line, code in found}


def test_a_script_that_is_right_passes_and_every_wrong_line_is_refused(refused: dict[int, str]) -> None:
    expected = {
        number: match[1]
        for number, line in enumerate(SCRIPT.read_text().splitlines(), 1)
        if (match := re.search(r"# wrong: ([a-z-]+)$", line))
    }
    assert refused == expected


def test_every_public_name_is_in_the_script() -> None:
    text = SCRIPT.read_text()
    assert [name for name in stormdrain.__all__ if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize(("keywords", "script"), [(ChildKeywords, child_script), (PeerKeywords, peer_script)])
def test_the_types_of_scripted_processes_are_those_of_what_checks_them(
    keywords: type, script: Callable[..., object]
) -> None:
    taken = {name: value for name, value in script.__annotations__.items() if name not in ("where", "return")}
    assert {name: value.__forward_arg__ for name, value in keywords.__annotations__.items()} == taken


def test_the_package_says_that_it_has_types() -> None:
    assert (Path(stormdrain.__file__).parent / "py.typed").is_file()
