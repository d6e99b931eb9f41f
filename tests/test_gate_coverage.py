"""The lines that a diff touches: covered over all cells, in each cell, and by what other CI jobs measured."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import passing_cell, run
from revising import write
from stormdrain.errors import UsageError
from stormdrain.gate.config import load_config
from stormdrain.gate.coverage import coverage_rules, gaps_of, place_of, sentence
from stormdrain.gate.coverage_data import read_data, split_name
from stormdrain.gate.policy import CoveragePolicy, Policy
from stormdrain.model import Baseline, JobCoverage, OnePlatform, RuleResult, Run, Touched, numbers, ranges
from stormdrain.mutation.campaign import Campaign
from stormdrain.mutation.touched import Settings, covered, settings_of, touched_files
from stormdrain.reporting.formats import FILES, render
from stormdrain.revisions import available_interpreters
from suites import PATH, Bench, pure_packages

OLD = """
import sys

def drain():
    return 1
"""
NEW = """
import sys

def drain(fast=False, *,
          wide=0):
    \"\"\"Drain it.\"\"\"
    if sys.platform == "win32" and fast:
        return close(
            "pipe",
            wide)
    if fast:  # pragma: no cover
        return 3
    return 2

def close(name, wide):
    return name
"""
PLACE = "src/pond/pipe.py"


def layers(folder: Path, old: Mapping[str, str], new: Mapping[str, str]) -> tuple[Path, Path]:
    return write(folder / "old", dict(old)), write(folder / "new", dict(new))


def touch(folder: Path, *only: OnePlatform, settings: Settings | None = None, **files: str) -> dict[str, Touched]:
    base, head = layers(folder, {"pond/pipe.py": OLD}, {"pond/pipe.py": NEW, **files})
    found, unread = touched_files(base, head, settings or settings_of(None), only, lambda path: f"src/{path}")
    assert unread == ()
    return {one.path: one for one in found}


@given(st.sets(st.integers(1, 60)))
def test_ranges_of_lines_are_read_back(lines: set[int]) -> None:
    assert numbers(ranges(lines)) == lines


def test_statements_that_the_diff_touches_are_counted_by_their_first_line(tmp_path: Path) -> None:
    touched = touch(tmp_path, **{"pond/more.py": "import os\n\nPLACE = (\n    os.sep\n)\n"})
    pipe = touched["pond/pipe.py"]
    # Neither `import sys`, which base has, nor the docstring, nor the second lines of what takes several.
    assert pipe == Touched("pond/pipe.py", PLACE, "4,7-8,13,15-16", "11-12")
    assert touched["pond/more.py"].lines == "1,3"


def test_a_file_that_is_the_same_on_base_is_not_touched(tmp_path: Path) -> None:
    base, head = layers(tmp_path, {"pond/a.py": OLD, "pond/gone.py": OLD}, {"pond/a.py": OLD})
    assert touched_files(base, head, Settings()) == ((), ())


def test_a_file_that_this_interpreter_cannot_parse_is_named(tmp_path: Path) -> None:
    base, head = layers(tmp_path, {}, {"pond/a.py": "def f(:\n"})
    assert touched_files(base, head, Settings()) == ((), ("pond/a.py",))


def test_what_runs_on_one_platform_only_is_marked_by_its_condition_or_its_name(tmp_path: Path) -> None:
    windows = OnePlatform("the job windows brings it", condition="sys.platform=='win32'")
    named = OnePlatform("only Windows closes so", symbol="pond.pipe:close")
    other = OnePlatform("elsewhere", symbol="pond.nowhere:close")
    marked = touch(tmp_path, windows, named, other)["pond/pipe.py"]
    assert marked.only == {"8": windows.reason, "15-16": named.reason}


def test_base_s_coverage_settings_say_what_is_left_out(tmp_path: Path) -> None:
    text = "[tool.coverage.report]\nexclude_also = ['return name']\nomit = ['*/more.py']\n"
    write(tmp_path / "base", {"pyproject.toml": text})
    write(tmp_path / "head", {".coveragerc": "[report]\nexclude_also = .*\n"})
    settings = settings_of(tmp_path / "base", tmp_path / "head")
    touched = touch(tmp_path / "t", settings=settings, **{"pond/more.py": "import os\n"})
    assert list(touched) == ["pond/pipe.py"]
    assert touched["pond/pipe.py"].lines == "4,7-8,13,15"
    only_head = touch(tmp_path / "h", settings=settings_of(tmp_path / "nothing", tmp_path / "head"))
    assert only_head["pond/pipe.py"].lines == ""


def test_coverage_settings_that_cannot_be_read_are_a_clear_error(tmp_path: Path) -> None:
    write(tmp_path, {"setup.cfg": "[coverage:run]\nbranch = perhaps\n"})
    with pytest.raises(UsageError, match="coverage settings cannot be read") as caught:
        settings_of(tmp_path)
    assert "setup.cfg" in caught.value.where


# -- what our own tests run ------------------------------------------------------

SUITE = """
from pond.pipe import VALUE, Pipe, lazy

def test_value():
    assert VALUE == 3

def test_red():
    assert Pipe().shut() == 2
"""
PIPE = """
def once():
    return 3

class Pipe:
    kind = "x"

    def close(self):
        return 1

    def shut(self):
        return 1

def lazy():
    return 4

VALUE = once()
"""


def test_lines_that_run_while_the_suite_is_imported_count_and_those_of_red_tests_do_not(tmp_path: Path) -> None:
    bench = Bench(tmp_path, PIPE, SUITE)
    with bench.campaign() as campaign:
        campaign.baseline()
        assert ran(campaign) == "1-2,4-5,7,10,13,16"


def test_from_3_12_on_it_is_the_same_by_sys_monitoring(tmp_path: Path) -> None:
    newer = [one for one in available_interpreters() if tuple(map(int, one.version.split(".")[:2])) >= (3, 12)]
    if not newer:
        pytest.skip("no Python 3.12 or newer is on this machine")
    (tmp_path / "pure").mkdir()
    path = (str(pure_packages(tmp_path / "pure")),)
    bench = Bench(tmp_path, PIPE, SUITE, python=newer[-1].path, path=path)
    with bench.campaign() as campaign:
        campaign.baseline()
        assert ran(campaign) == "1-2,4-5,7,10,13,16"


def ran(campaign: Campaign) -> str:
    return covered(campaign, [Touched(PATH, "", "1-20")])[PATH]


# -- other jobs' data ------------------------------------------------------------


def measured(folder: Path, *, call: str = "drain()", prefix: str = "a/pond", source: str = NEW) -> Path:
    """A data file that coverage itself wrote, of the same code under another prefix."""
    root = folder / prefix
    write(root, {"src/pond/__init__.py": "", "src/pond/pipe.py": source})
    write(root, {"go.py": f"import sys\nsys.path.insert(0, 'src')\nfrom pond.pipe import *\n{call}\n"})
    data = folder / "data" / ".coverage.windows"
    data.parent.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "coverage", "run", "--rcfile=", f"--data-file={data}", "go.py"]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    shutil.rmtree(root)
    return data


def read(folder: Path, text: str, settings: Settings | None = None, **places: str) -> JobCoverage:
    touched = touch(folder / "layers")
    head = folder / "layers" / "new"
    files = places or {"pond/pipe.py": PLACE, "pond/__init__.py": "src/pond/__init__.py"}
    return read_data(text, list(touched.values()), files, lambda one: (head / one.path).read_bytes(), settings)


def test_data_made_under_another_prefix_are_found_again(tmp_path: Path) -> None:
    data = measured(tmp_path)
    before = data.read_bytes()
    job = read(tmp_path, str(data))
    assert job == JobCoverage("windows", str(data), {"pond/pipe.py": "4,7,13,15"})
    assert read(tmp_path, f"other={data}").name == "other"
    assert data.read_bytes() == before


def test_data_of_an_installed_package_and_of_windows_paths_are_found_again(tmp_path: Path) -> None:
    from coverage import CoverageData

    for name in ("/venv/lib/python3.12/site-packages/pond/pipe.py", "C:\\a\\pond\\src\\pond\\pipe.py"):
        file = tmp_path / ".coverage"
        file.unlink(missing_ok=True)
        data = CoverageData(basename=str(file))
        data.add_lines({name: [4, 9]})
        data.write()
        assert read(tmp_path, str(file)).lines == {"pond/pipe.py": "4,8"}  # line 9 is the second of 8


def test_data_of_a_branch_run_are_taken_as_lines(tmp_path: Path) -> None:
    from coverage import CoverageData

    data = CoverageData(basename=str(tmp_path / ".coverage"))
    data.add_arcs({"/x/src/pond/pipe.py": [(-4, 7), (7, 13), (13, -4)]})
    data.write()
    assert read(tmp_path, str(tmp_path / ".coverage")).lines == {"pond/pipe.py": "7,13"}


def test_folders_of_another_name_are_found_by_the_project_s_own_paths(tmp_path: Path) -> None:
    from coverage import CoverageData

    data = CoverageData(basename=str(tmp_path / ".coverage"))
    data.add_lines({"/app/code/pipe.py": [4]})
    data.write()
    with pytest.raises(UsageError, match="of no file of this project"):
        read(tmp_path, str(tmp_path / ".coverage"))
    settings = Settings(paths=(("src/pond", "/app/code"),))
    assert read(tmp_path, str(tmp_path / ".coverage"), settings).lines == {"pond/pipe.py": "4"}


def test_a_test_file_of_the_same_name_is_not_the_module(tmp_path: Path) -> None:
    from coverage import CoverageData

    touched = [Touched("pipe.py", "pipe.py", "1-3")]
    data = CoverageData(basename=str(tmp_path / ".coverage"))
    data.add_lines({"/x/proj/tests/pipe.py": [1, 2, 3], "/x/proj/pipe.py": [1]})
    data.write()
    job = read_data(str(tmp_path / ".coverage"), touched, {"pipe.py": "pipe.py"}, lambda one: None)
    assert job.lines == {"pipe.py": "1"}


def broken(folder: Path, kind: str) -> Path:
    file = folder / ".coverage"
    if kind == "text":
        file.write_text("not a database")
    elif kind == "empty":
        file.write_bytes(b"")
    elif kind == "cut":
        whole = measured(folder).read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
    elif kind == "another database":
        with sqlite3.connect(file) as other:
            other.execute("create table a (b)")
    return file


@pytest.mark.parametrize("kind", ["missing", "text", "empty", "cut", "another database", "a folder"])
def test_data_that_are_broken_are_a_clear_error(tmp_path: Path, kind: str) -> None:
    file = tmp_path if kind == "a folder" else broken(tmp_path, kind)
    with pytest.raises(UsageError) as caught:
        read(tmp_path, str(file))
    assert "coverage data" in caught.value.what
    assert str(file) in caught.value.where
    assert caught.value.exit_code == 2
    assert caught.value.todo


def test_data_of_another_version_of_the_code_are_refused(tmp_path: Path) -> None:
    data = measured(tmp_path, source=NEW + "\n\n# more\n\nVALUE = 3\n")
    with pytest.raises(UsageError, match="of another version of src/pond/pipe"):
        read(tmp_path, str(data))


def test_a_job_s_name_is_given_or_taken_from_the_file(tmp_path: Path) -> None:
    assert split_name("windows=ci/.coverage") == ("windows", Path("ci/.coverage"))
    assert split_name("ci/.coverage.mac-3.12") == ("mac-3.12", Path("ci/.coverage.mac-3.12"))
    assert split_name(".coverage") == (".coverage", Path(".coverage"))
    odd = tmp_path / "a=b"
    odd.write_text("")
    assert split_name(str(odd)) == ("a=b", odd)


# -- the rules -------------------------------------------------------------------


def covering(only: Mapping[str, str] | None = None, **cells: str) -> Run:
    """A run whose diff touches lines 1 to 10 of a file; `py3_11="1-4"` is what an interpreter ran."""
    return run(
        passing_cell(),
        base="main",
        touched=(Touched("pond/pipe.py", PLACE, "1-10", "12", dict(only or {})),),
        baselines=tuple(
            Baseline(name[2:].replace("_", "."), lines={"pond/pipe.py": text})
            for name, text in cells.items()
            if name.startswith("py")
        ),
        coverage=tuple(
            JobCoverage(name, lines={"pond/pipe.py": text}) for name, text in cells.items() if not name.startswith("py")
        ),
    )


def judged(whole: Run, **policy: int) -> dict[str, RuleResult]:
    rules = coverage_rules(whole, Policy(coverage=CoveragePolicy(**policy)), gaps_of(whole))
    return {one.rule: one for one in rules}


def test_a_line_that_any_cell_runs_is_covered() -> None:
    rules = judged(covering(py3_11="1-4", py3_12="4-9", windows="10"), union=100)
    assert rules["coverage"].held
    assert rules["coverage"].figure.startswith("10 of 10 touched lines run in some cell (100 %); all wanted")
    assert "1 left out by the project's coverage settings" in rules["coverage"].figure


def test_lines_that_no_cell_runs_break_the_rule_and_are_named_with_their_place() -> None:
    rules = judged(covering(py3_11="1-4", py3_12="4-6,10"), union=100)
    assert not rules["coverage"].held
    assert rules["coverage"].look == f"{PLACE}:7-9 (no cell runs it)"
    assert judged(covering(py3_11="1-4", py3_12="4-6,10"), union=70)["coverage"].held
    assert not judged(covering(py3_11="1-4", py3_12="4-6,10"), union=71)["coverage"].held


def test_no_minimum_breaks_nothing_and_still_names_the_lines() -> None:
    rule = judged(covering(py3_11="1-9"))["coverage"]
    assert (rule.held, rule.warning) == (True, True)
    assert rule.look == f"{PLACE}:10 (no cell runs it)"
    assert "90 %" in rule.figure


def test_each_cell_has_a_floor_of_its_own() -> None:
    rules = judged(covering(py3_11="1-10", py3_12="1-8"), union=100, per_cell=90)
    assert rules["coverage"].held
    assert not rules["cell coverage"].held
    assert rules["cell coverage"].figure == "3.11 100 %, 3.12 80 %; 90 % wanted in each"
    assert rules["cell coverage"].look == f"{PLACE}:9-10 (runs only on 3.11)"


def test_lines_of_one_platform_only_are_named_with_their_reason_and_lower_no_other_cell_s_figure() -> None:
    only = {"9-10": "Windows has no signals"}
    here = covering(only, py3_11="1-8")
    rules = judged(here, union=100, per_cell=100)
    assert all(rule.held for rule in rules.values())
    assert rules["coverage"].figure.startswith("8 of 8 touched lines")
    assert "2 more of one platform only" in rules["coverage"].figure
    assert rules["coverage"].look == f"{PLACE}:9-10 (no cell runs it: Windows has no signals)"
    both = covering(only, py3_11="1-8", windows="1-9")
    rules = judged(both, union=100, per_cell=100)
    assert all(rule.held for rule in rules.values())
    assert rules["coverage"].figure.startswith("9 of 9 touched lines")
    assert "runs only on windows: Windows has no signals" in rules["cell coverage"].look
    without = judged(covering(None, py3_11="1-8", windows="1-10"), union=100, per_cell=100)
    assert not without["cell coverage"].held


def test_percents_are_rounded_down() -> None:
    nearly = Touched("a.py", "a.py", "1-1000")
    whole = run(passing_cell(), base="b", touched=(nearly,), coverage=(JobCoverage("x", lines={"a.py": "1-999"}),))
    assert "(99 %)" in judged(whole, union=100)["coverage"].figure
    assert not judged(whole, union=100)["coverage"].held


def test_where_nothing_was_measured_a_rule_that_asks_for_it_is_broken() -> None:
    nothing = run(passing_cell(), base="b", touched=(Touched("a.py", "", "1"),))
    assert not judged(nothing, union=1)["coverage"].held
    assert judged(nothing)["coverage"].held
    assert judged(run(passing_cell()), union=100)["coverage"].figure == "there is no base, so no line is touched"
    assert judged(run(passing_cell(), base="b"), union=100)["coverage"].held
    assert judged(run(passing_cell(), base="b")) == {}


@given(st.dictionaries(st.sampled_from(["py3_11", "py3_12", "win"]), st.sets(st.integers(1, 10)), min_size=1))
def test_gaps_are_exactly_the_lines_that_not_every_cell_runs(cells: dict[str, set[int]]) -> None:
    whole = covering({"3-4": "why"}, **{name: ranges(lines) for name, lines in cells.items()})
    gaps = gaps_of(whole)
    told = [line for gap in gaps for line in range(gap.first, gap.last + 1)]
    # A baseline that ran nothing has an entry all the same, so it is a cell.
    assert sorted(told) == [line for line in range(1, 11) if not all(line in lines for lines in cells.values())]
    for gap in gaps:
        assert (gap.kind == "uncovered") == (not gap.cells and not gap.reason)
        assert place_of(gap)
        assert sentence(gap)


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("stryker", "junit")])
def test_every_format_names_the_line(name: str) -> None:
    whole = covering(py3_11="1-9")
    whole = whole.__class__(**{**whole.__dict__, "gaps": gaps_of(whole)})
    text = render(name, whole)
    assert PLACE in text
    assert "10" in text
    assert "no cell runs it" in text or name == "json"


# -- the configuration -----------------------------------------------------------

CONFIG = """\
[tool.stormdrain.gate.coverage]
union = 90
per_cell = "all"

[[tool.stormdrain.gate.coverage.only]]
condition = "sys.platform == 'win32'"
reason = "no job runs Windows"
"""


def test_the_section_is_read_and_all_is_wanted_where_it_says_nothing_of_the_union(tmp_path: Path) -> None:
    file = tmp_path / "gate.toml"
    file.write_text(CONFIG)
    policy = load_config(file).policy.coverage
    entry = OnePlatform("no job runs Windows", condition="sys.platform == 'win32'")
    assert policy == CoveragePolicy(90, 100, (entry,))
    file.write_text("[tool.stormdrain.gate.coverage]\n")
    assert load_config(file).policy.coverage == CoveragePolicy(100)
    file.write_text("[tool.stormdrain.gate]\n")
    assert load_config(file).policy.coverage == CoveragePolicy()


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("union = 90", "unoin = 90", 2, "has no key 'unoin'"),
        ("union = 90", "union = 101", 2, 'union in [tool.stormdrain.gate.coverage] must be "all" or'),
        ("union = 90", "union = 'most'", 2, "from 0 to 100"),
        ('per_cell = "all"', "per_cell = true", 3, "from 0 to 100"),
        ("condition =", "conditon =", 6, "has no key 'conditon'"),
        ("reason = ", "symbol = 'a.b:c'\n#", 5, "has no reason"),
        ("condition =", "#", 5, "either a condition or a symbol"),
        ("== 'win32'", "==", 6, "is no Python expression"),
        ("[[tool.stormdrain.gate.coverage.only]]", "[tool.stormdrain.gate.coverage.only]", 5, "an array of tables"),
    ],
)
def test_a_mistake_in_the_section_is_told_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, what: str
) -> None:
    file = tmp_path / "gate.toml"
    assert old in CONFIG
    file.write_text(CONFIG.replace(old, new))
    with pytest.raises(UsageError) as caught:
        load_config(file)
    assert what in caught.value.what
    assert caught.value.where == f"{file}:{line}"
