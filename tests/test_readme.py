"""README.md does what it says: its commands are commands, its scripts are scripts, its outputs are what is printed."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from stormdrain.gate.config import load_config
from test_cli import stormdrain

README = (Path(__file__).parents[1] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language; the empty one for those of a terminal."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


def commands() -> list[list[str]]:
    """Every call of stormdrain in a block, and in running text where it stands alone."""
    found = [line.removeprefix("$ ") for block in blocks("") + blocks("yaml") for line in block.splitlines()]
    found += [line.strip().removeprefix("- ") for line in found]
    found += re.findall(r"`(stormdrain [^`\n]+)`", README)
    words = [shlex.split(line, comments=True) for line in found if re.match(r"stormdrain [a-z]+( |$)", line)]
    return [one for one in words if not one[1].endswith(":")]  # the head of a report


def test_every_command_is_one() -> None:
    assert len(commands()) > 15
    for _, name, *words in commands():
        command = importlib.import_module(f"stormdrain.cli.{name}").command
        if words and not {"NAME", "TOKEN"} & set(words):
            command.make_context(name, list(words), resilient_parsing=False)


def test_every_script_compiles_and_every_table_is_read(tmp_path: Path) -> None:
    for text in blocks("python"):
        if not text.startswith(" "):
            compile(text, "README.md", "exec", flags=0, dont_inherit=True)
    for number, text in enumerate(blocks("toml")):
        file = tmp_path / f"{number}.toml"
        file.write_text(text)
        assert load_config(file).found


def test_what_is_said_to_be_explained_is(tmp_path: Path) -> None:
    from stormdrain.cli.explain import known

    names = known()
    for row in re.findall(r"^\| (`[^|]+`) \| ", README, re.MULTILINE):
        for name in re.findall(r"`([a-z-]+)`", row):
            name = name if not name.startswith("-") else f"no-leaked{name}"
            if name.count("-") or name in ("timeout", "scope", "fail", "returns", "gc"):
                assert name in names or "_" in name, name


def alike(text: str) -> list[str]:
    """Lines without what differs from run to run and from machine to machine."""
    text = re.sub(r"^(  schedules .*|  id  .*|                (?!in ).*)\n", "", text, flags=re.MULTILINE)
    for pattern, value in (
        (r"\d+\.\d+\.\d+\.\d+:\d+", "ADDRESS"),
        (r"reports/\S+", "REPORTS"),
        (r"\b[0-9a-f]{8}(?=/)", "KEY"),
        (r"\b3\.\d+\.\d+\b", "PYTHON"),
        (r"\b\d+(\.\d+)?\b", "N"),
    ):
        text = re.sub(pattern, value, text)
    return [" ".join(line.split()) for line in text.splitlines()]


def shown(command: str, nth: int = 0) -> str:
    """What README.md shows below a command."""
    found = [block.partition("\n")[2] for block in blocks("") if block.startswith(f"$ {command}")]
    return found[nth]


def assert_shown(told: str, printed: str) -> None:
    missing = [line for line in alike(told) if line not in alike(printed)]
    assert not missing, printed


@pytest.mark.long
def test_the_service_of_the_readme_passes_as_it_shows(tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text(next(text for text in blocks("python") if "@service" in text))
    done = stormdrain("probe", "service.py", "--head", "stdlib", cwd=tmp_path)
    assert_shown(shown("stormdrain probe service.py"), done.stderr + done.stdout)


@pytest.mark.long
def test_the_first_report_comes_as_it_shows(tmp_path: Path) -> None:
    # What `pip install aiosmtplib` is for: `init` looks for the package beside itself.
    site = tmp_path / "site"
    asked = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--target",
        str(site),
        "aiosmtplib==5.1.3",
    ]
    subprocess.run(asked, check=True)
    start = next(block for block in blocks("") if "$ stormdrain init aiosmtplib" in block)
    said = stormdrain("init", "aiosmtplib:SMTP.quit", cwd=tmp_path, PYTHONPATH=str(site)).stdout
    assert start.endswith(said)
    script = tmp_path / "probes" / "smtp.py"
    template = next(text for text in blocks("python") if 'operation="quit"' in text)
    assert script.read_text().endswith(template)
    words = shlex.split(said.split("`")[1])[1:]
    first = stormdrain(*words, cwd=tmp_path, code=4)
    assert_shown(shown("stormdrain probe probes/smtp.py", 0), first.stderr + first.stdout)
    line = next(text for text in blocks("python") if text.startswith("    peer = case.peer(says"))
    script.write_text(script.read_text().replace("    peer = case.peer()\n", line))
    second = stormdrain(*words, cwd=tmp_path, code=1)
    assert_shown(shown("stormdrain probe probes/smtp.py", 1), second.stderr + second.stdout)
    (command,) = [row.strip() for row in second.stdout.splitlines() if row.startswith("  stormdrain replay ")]
    again = stormdrain(*shlex.split(command)[1:], cwd=tmp_path, code=1)
    assert_shown(shown("stormdrain replay '"), again.stdout)
