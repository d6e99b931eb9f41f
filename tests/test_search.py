"""The search: schedules of several faults are drawn by a seed, and what fails comes down to the simplest that does."""

from __future__ import annotations

import concurrent.futures
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from building import failing_cell, finding, passing_cell
from conftest import KEY, Played, Stager
from stormdrain.asking import Exchange, place_of
from stormdrain.compare import compare
from stormdrain.drawing import FAULTS, draw
from stormdrain.model import (
    Cell,
    CellResult,
    Fault,
    Field,
    Schedule,
    Thrown,
    Trial,
    Verdict,
    When,
    from_json,
    parse_schedule,
    to_json,
)
from stormdrain.remembered import REMEMBERED, Memory
from stormdrain.search import Found, Limits, Search
from stormdrain.storms import SEARCH
from stormdrain.workers import Worker

THIRD = """
import asyncio
from stormdrain import probe

class Service:
    '''It goes on waiting after the first cancel and the second, and gives up at the third.'''

    def __init__(self, patience):
        self.patience = patience

    async def start(self):
        self.helper = asyncio.ensure_future(asyncio.sleep(3600))
        await asyncio.sleep(0)

    async def end(self):
        await asyncio.sleep(0.1)
        self.helper.cancel()

    async def close(self):
        task, cancels = asyncio.ensure_future(self.end()), []
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError as error:
                cancels.append(error)
                if len(cancels) == self.patience:
                    task.cancel()
        if cancels:
            raise cancels[0]

@probe(operation="close", parametrize={"impatient": 3, "patient": None})
async def service(case):
    made = Service(case.param)
    await made.start()
    yield made
"""


def points_of(schedule: Schedule) -> tuple[int, ...]:
    return tuple(int(fault.when.n) for fault in schedule.faults)


class Model:
    """A target in a few words: it fails where a rule says so, and is over after `length` points."""

    def __init__(self, fails: Callable[[Schedule], str], length: int = 20) -> None:
        self.fails = fails
        self.length = length
        self.thrown: list[str] = []

    def __call__(self, texts: Sequence[str], again: bool) -> list[Thrown]:
        self.thrown += texts
        return [self.one(parse_schedule(text)) for text in texts]

    def one(self, schedule: Schedule) -> Thrown:
        if any(fault.when.n > self.length for fault in schedule.faults):
            return Thrown(str(schedule), Verdict.NA, self.length)
        found = self.fails(schedule)
        return Thrown(str(schedule), Verdict.FAIL if found else Verdict.PASS, self.length, (found,) if found else ())

    def search(self, field: Field, seed: int = 0, trials: int = 250, remembered: Sequence[str] = ()) -> Found:
        return Search(field, self, seed=seed, limits=Limits(60, trials)).run(remembered)


def cancels(n: int, first: int = 1) -> Callable[[Schedule], str]:
    """Fails at the n-th cancel from a point on."""

    def fails(schedule: Schedule) -> str:
        late = [fault for fault in schedule.faults if fault.kind == "cancel" and fault.when.n >= first]
        return "no-leaked-tasks at here.py:1" if len(late) >= n else ""

    return fails


FIELD = Field(tuple(range(1, 25)), ("cancel", "gc"), ("", "wait_for=0.05"), ("", "cleanup:RuntimeError"))


# -- drawing -------------------------------------------------------------------


def test_the_same_seed_draws_the_same_schedules_whatever_is_imported_meanwhile(tmp_path: Path) -> None:
    first = draw(FIELD, 7, 40)
    (tmp_path / "numbers_of_ours.py").write_text("NUMBERS = [3, 5, 17, 23, 0.05]\n")
    sys.path.insert(0, str(tmp_path))
    try:
        __import__("numbers_of_ours")
    finally:
        sys.path.remove(str(tmp_path))
    assert draw(FIELD, 7, 40) == first
    assert draw(FIELD, 8, 40) != first
    assert len(first) > 20


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 60), st.sampled_from([("cancel",), ("cancel", "kill", "gc")]))
def test_whatever_is_drawn_is_of_the_field_and_can_be_pasted_back(count: int, kinds: tuple[str, ...]) -> None:
    field = Field(tuple(range(1, count + 1)), kinds, ("", "timeout=0.05"), ("", "close:OSError"))
    for schedule in _drawn(field):
        points = points_of(schedule)
        assert schedule.storm == SEARCH
        assert len(points) <= FAULTS
        assert list(points) == sorted(set(points))
        assert set(points) <= set(field.points)
        assert {fault.kind for fault in schedule.faults} <= set(kinds)
        assert parse_schedule(str(schedule)) == schedule


def _drawn(field: Field) -> list[Schedule]:
    """Drawn on another thread: Hypothesis does not like to be called from a test of its own."""
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        return executor.submit(draw, field, 1, 12).result()


# -- shrinking -----------------------------------------------------------------


@pytest.mark.parametrize(("n", "first"), [*itertools.product((1, 2, 3, 4), (1, 6))])
def test_what_fails_comes_down_to_the_fewest_faults_at_the_earliest_points(n: int, first: int) -> None:
    found = Model(cancels(n, first)).search(FIELD)
    assert found.schedules == (
        Schedule(SEARCH, None, tuple(Fault("cancel", When("point", first + k)) for k in range(n))),
    )


def test_two_kinds_of_findings_come_down_each_to_its_own(tmp_path: Path) -> None:
    def fails(schedule: Schedule) -> str:
        if any(fault.kind == "gc" and fault.when.n >= 9 for fault in schedule.faults):
            return "no-loop-reports at there.py:9"
        return cancels(3)(schedule)

    found = Model(fails).search(FIELD)
    assert {str(schedule) for schedule in found.schedules} == {
        "search/f:gc@9",
        "search/f:cancel@1/f:cancel@2/f:cancel@3",
    }


def test_what_the_storms_have_found_already_is_not_found_again() -> None:
    known = Field(FIELD.points, known=("no-leaked-tasks at here.py:1",))
    assert Model(cancels(1)).search(known).schedules == ()


def test_nothing_is_thrown_twice_and_nothing_past_the_point_that_is_known_to_be_the_last() -> None:
    model = Model(lambda schedule: "", length=3)
    found = model.search(Field(tuple(range(1, 5))), trials=1000)
    assert found.exhausted
    assert len(model.thrown) == len(set(model.thrown)) == found.tried
    late = [str(one) for one in found.drawn if 4 in points_of(one)]
    assert 0 < len(set(late) & set(model.thrown)) < len(late)


def test_where_the_budget_ends_too_early_the_simplest_that_was_drawn_is_told() -> None:
    model = Model(cancels(2))
    found = model.search(FIELD, trials=8)
    failing = [schedule for schedule in found.drawn if model.fails(schedule) and str(schedule) in model.thrown]
    assert found.tried <= 8
    assert len(found.schedules) == (1 if failing else 0)
    assert all(model.fails(schedule) for schedule in found.schedules)


def test_the_same_seed_throws_the_same_schedules() -> None:
    one, other, third = Model(cancels(3)), Model(cancels(3)), Model(cancels(3))
    assert one.search(FIELD, seed=4) == other.search(FIELD, seed=4)
    assert one.thrown == other.thrown
    third.search(FIELD, seed=5)
    assert third.thrown != one.thrown


# -- what is remembered --------------------------------------------------------


def cell_of(role: str = "", script: str = "/probes/service.py") -> Cell:
    return Cell(KEY, "service[impatient]", "here", "3.11.7", "asyncio", role, script=script)


def test_what_failed_is_thrown_first_the_next_time(tmp_path: Path) -> None:
    memory, cell = Memory(tmp_path / "search"), cell_of()
    assert memory.read(cell) == ()
    found = Model(cancels(3)).search(FIELD)
    memory.add(cell, found.schedules)
    next_time = Model(cancels(3))
    again = next_time.search(FIELD, trials=2, remembered=memory.read(cell))
    assert next_time.thrown[0] == str(found.schedules[0])
    assert again.schedules == again.again == found.schedules
    mended = Model(lambda schedule: "").search(FIELD, trials=2, remembered=memory.read(cell))
    assert (mended.schedules, mended.again) == ((), found.schedules)
    assert memory.read(cell_of(script="/probes/other.py")) == ()


def test_it_remembers_only_so_much_and_reads_nothing_from_a_file_that_is_broken(tmp_path: Path) -> None:
    memory, cell = Memory(tmp_path), cell_of()
    for n in range(1, REMEMBERED + 20):
        memory.add(cell, [Schedule(SEARCH, None, (Fault("cancel", When("point", n)),))])
    assert len(memory.read(cell)) == REMEMBERED
    assert memory.read(cell)[0] == f"search/f:cancel@{REMEMBERED + 19}"
    (file,) = tmp_path.iterdir()
    for text in ("", "[]", '{"schedules": 3}', '{"schedules": [3, null]}'):
        file.write_text(text)
        assert memory.read(cell) == ()
    assert Model(cancels(9)).search(FIELD, trials=4, remembered=("nonsense", "search/f:no")).schedules == ()


def test_a_folder_that_cannot_be_written_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "search").write_text("a file")
    memory = Memory(tmp_path / "search")
    memory.add(cell_of(), [Schedule(SEARCH, None, (Fault("cancel", When("point", 1)),))])
    assert memory.read(cell_of()) == ()


def test_base_waits_for_what_head_fails_in_and_for_no_head_that_has_gone() -> None:
    exchange: Exchange[str] = Exchange()
    base, head = cell_of("base"), cell_of("head")
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        answer = executor.submit(exchange.ask, place_of(base), lambda: False)
        exchange.tell(place_of(head), ["search/f:cancel@1"])
        assert answer.result(10) == ("search/f:cancel@1",)
    gone, never, stopped = Exchange[str](), Exchange[str](), threading.Event()
    gone.end(base.script, base.python)
    assert gone.ask(place_of(base), lambda: False) == ()
    stopped.set()
    assert never.ask(place_of(base), stopped.is_set) == ()


# -- in a real worker ----------------------------------------------------------


class Session:
    """A campaign that is in the middle of its search: calm once, then as many schedules as one likes."""

    def __init__(
        self,
        campaign: Stager,
        worker: Worker,
        probe: str,
        source: str = THIRD,
        backend: str = "asyncio",
        **options: object,
    ) -> None:
        self.worker = worker
        cell = Cell(KEY, probe, "here", ".".join(map(str, sys.version_info[:3])), backend)
        request = {"do": "campaign", "file": campaign.write(source), "probe": probe, "roots": [], "search": True}
        rest = {"canaries": False, "confirm": False, "storms": ["calm"], "cell": to_json(cell), **options}
        self.answers: Iterator[tuple[str, object]] = worker.ask({**request, **rest})
        self.trials: list[Trial] = []
        for kind, body in self.answers:
            if kind == "field":
                self.field = from_json(Field, body)
                break
            self.trials.append(from_json(Trial, body))

    def throw(self, texts: Sequence[str], again: bool = False) -> list[Thrown]:
        self.worker.send({"throw": list(texts), "again": again})
        return [from_json(Thrown, body) for _, body in self.worker.hear("caught")]

    def keep(self, *schedules: Schedule) -> Played:
        self.worker.send({"keep": [str(schedule) for schedule in schedules]})
        cells = []
        for kind, body in self.answers:
            if kind == "trial":
                self.trials.append(from_json(Trial, body))
            else:
                cells.append(from_json(CellResult, body))
        return Played(cells[0], tuple(self.trials))


def test_a_subject_that_breaks_only_at_the_third_cancel_is_found_at_the_earliest_three_points(
    campaign: Stager,
) -> None:
    with Worker(sys.executable, errors=campaign.errors) as worker:
        session = Session(campaign, worker, "service[impatient]", confirm=True)
        search = Search(session.field, session.throw, seed=1, limits=Limits(120, 160))
        found = search.run()
        (simplest,) = found.schedules
        assert [fault.kind for fault in simplest.faults] == ["cancel"] * 3
        assert simplest.wrap is None
        points = points_of(simplest)
        earlier = [triple for triple in itertools.combinations(range(1, points[-1] + 1), 3) if triple < points]
        simpler = [*earlier, *itertools.combinations(range(1, points[-1] + 4), 2)]
        texts = ["search" + "".join(f"/f:cancel@{n}" for n in chosen) for chosen in simpler]
        assert {thrown.verdict for thrown in session.throw(texts)} <= {Verdict.PASS, Verdict.NA}
        played = session.keep(simplest)
    assert played.flagged == {"no-leaked-tasks"}, played.told()
    assert [trial.token for trial in played.of(SEARCH)[0:1]] == [f"{KEY}/{simplest}"]
    (finding,) = played.cell.findings
    assert (finding.storm, finding.failed, finding.runs) == (SEARCH, 3, 3)
    assert played.calm.verdict is Verdict.PASS
    (tally,) = [tally for tally in played.cell.storms if tally.storm == SEARCH]
    assert (tally.verdict, tally.failed) == (Verdict.FAIL, 1)
    assert tally.trials == found.tried + len(texts)


def test_its_patient_twin_bears_whatever_is_drawn(campaign: Stager) -> None:
    with Worker(sys.executable, errors=campaign.errors) as worker:
        session = Session(campaign, worker, "service[patient]")
        found = Search(session.field, session.throw, seed=1, limits=Limits(120, 80)).run()
        played = session.keep()
    assert found.schedules == ()
    assert found.tried > 50
    assert played.flagged == set(), played.told()
    assert played.cell.verdict is Verdict.PASS


def test_what_was_thrown_again_is_kept_though_it_passes_now(campaign: Stager) -> None:
    before = parse_schedule("search/f:cancel@1/f:cancel@5")
    with Worker(sys.executable, errors=campaign.errors) as worker:
        session = Session(campaign, worker, "service[impatient]")
        search = Search(session.field, session.throw, seed=1, limits=Limits(120, 200))
        found = search.run([str(before)], drawing=False)
        played = session.keep(*found.again)
    assert (found.tried, found.drawn, found.schedules) == (1, (), ())
    assert [trial.verdict for trial in played.of(SEARCH)] == [Verdict.PASS]


ON_TRIO = """
import subprocess
import trio
from stormdrain import probe

class Service:
    '''That its child is killed is borne, and so is a cancel; both together leave the helper.'''

    def __init__(self, process, careful):
        self.process, self.careful, self.closed = process, careful, False

    async def start(self):
        self.scope = trio.CancelScope()
        trio.lowlevel.spawn_system_task(self.help)
        await trio.lowlevel.checkpoint()

    async def help(self):
        with self.scope:
            await trio.sleep_forever()

    async def close(self):
        if self.closed:
            return
        self.closed = True
        try:
            await trio.sleep(0.1)
        finally:
            killed = self.process.poll() == -9
            self.process.kill()
            with trio.CancelScope(shield=True):
                await self.process.wait()
            if self.careful or not killed or trio.current_effective_deadline() != -float("inf"):
                self.scope.cancel()

@probe(operation="close", backends=["trio"], parametrize={"careless": False, "careful": True})
async def service(case):
    child = case.child("tool", on_eof="stay")
    process = await trio.lowlevel.open_process([child.path], stdin=subprocess.PIPE)
    await child.ready()
    subject = Service(process, case.param)
    await subject.start()
    yield subject
    subject.scope.cancel()
"""


@pytest.mark.long
def test_on_trio_what_needs_two_faults_is_drawn_and_comes_down_to_the_fewest_and_replays(campaign: Stager) -> None:
    with Worker(sys.executable, errors=campaign.errors) as worker:
        session = Session(campaign, worker, "service[careless]", ON_TRIO, "trio", confirm=True)
        assert session.field.kinds[:2] == ("scope", "kill")
        found = Search(session.field, session.throw, seed=1, limits=Limits(120, 160)).run()
        simplest = found.schedules[0]  # another one for each line on which a cancel may land
        assert sorted(fault.kind for fault in simplest.faults) == ["kill", "scope"]
        last = max(points_of(simplest))
        texts = [f"search/w:scope/f:{kind}@{n}" for kind in ("scope", "kill") for n in range(1, last + 3)]
        assert {thrown.verdict for thrown in session.throw(texts)} <= {Verdict.PASS, Verdict.NA}
        played = session.keep(simplest)
        again = campaign(ON_TRIO, "service[careless]", schedules=[str(simplest)], worker=worker, backend="trio")
    assert played.flagged == {"no-leaked-tasks"}, played.told()
    (finding,) = played.cell.findings
    assert (finding.storm, finding.failed, finding.runs) == (SEARCH, 3, 3)
    assert [one.token for one in again.findings] == [finding.token] == [f"{KEY}/{simplest}"]


def test_its_careful_twin_on_trio_bears_whatever_is_drawn(campaign: Stager) -> None:
    with Worker(sys.executable, errors=campaign.errors) as worker:
        session = Session(campaign, worker, "service[careful]", ON_TRIO, "trio")
        found = Search(session.field, session.throw, seed=1, limits=Limits(120, 80)).run()
        played = session.keep()
    assert found.schedules == (), found
    assert found.tried > 10
    assert played.flagged == set(), played.told()


# -- from the command line -----------------------------------------------------

PACKAGE = """
import asyncio

async def close(helper, patience={patience}):
    async def end():
        await asyncio.sleep(0.1)
        helper.cancel()
    task, cancels = asyncio.ensure_future(end()), []
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancels.append(error)
            if len(cancels) == patience:
                task.cancel()
    if cancels:
        raise cancels[0]
"""

SCRIPT = """
import asyncio
from pond import close
from stormdrain import probe

async def shut(helper, case):
    await close(helper)

@probe(operation=shut, closes=False)
async def helper(case):
    task = asyncio.ensure_future(asyncio.sleep(3600))
    await asyncio.sleep(0)
    yield task
    task.cancel()
"""


def stormdrain(*args: str, cwd: Path, code: int, **env: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", "from stormdrain.cli import main; main()", *args],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_a_search_that_is_no_budget_is_refused(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(SCRIPT)
    done = stormdrain("probe", "probe.py", "--search", "long", cwd=tmp_path, code=2)
    assert "the budget 'long' is neither trials nor a time" in done.stderr
    assert "--search 30s" in done.stderr


def test_without_hypothesis_the_search_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(SCRIPT)
    (tmp_path / "hypothesis.py").write_text("raise ModuleNotFoundError('No module named hypothesis')")
    done = stormdrain("probe", "probe.py", "--search", "9", cwd=tmp_path, code=2, PYTHONPATH=str(tmp_path))
    assert "pip install 'stormdrain[search]'" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(("patience", "change"), [(None, "regressed"), (3, "still failing")])
def test_base_is_asked_about_the_schedule_that_head_fails_in(tmp_path: Path, patience: int | None, change: str) -> None:
    for name, value in (("base", patience), ("head", 3)):
        folder = tmp_path / name
        (folder / "pond").mkdir(parents=True)
        (folder / "pond" / "__init__.py").write_text(PACKAGE.format(patience=value))
        (folder / "pyproject.toml").write_text('[project]\nname = "pond"\nversion = "1"\n')
    (tmp_path / "probe.py").write_text(SCRIPT)
    revisions = ("--base", f"path:{tmp_path / 'base'}", "--head", f"path:{tmp_path / 'head'}")
    options = ("--python", sys.executable, "--storm", "cancel-sweep", "--search", "250", "--seed", "1")
    stormdrain(
        "probe", "probe.py", *revisions, *options, "--out", "out", cwd=tmp_path, code=1 if patience is None else 0
    )
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    (found,) = [one for one in run["comparison"] if one["expectation"] == "no-leaked-tasks"]
    assert (found["kind"], found["storm"]) == (change, SEARCH)
    assert not (tmp_path / ".hypothesis").exists()


def test_what_base_was_not_asked_is_inconclusive() -> None:
    head = failing_cell("bbbbbbbb", "head", finding("bbbbbbbb", storm=SEARCH))
    (change,) = [one for one in compare([passing_cell("aaaaaaaa", "base"), head], []) if one.expectation]
    assert change.kind != "regressed"
