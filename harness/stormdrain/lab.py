"""Spreads campaigns over cells: revision x interpreter x backend, each in a worker of its own environment.

The host never imports a probe script, since only the target's environment has what
the script imports; what must be known before there is an environment (`requires`,
`backends`) is read from the script's syntax tree.
"""

from __future__ import annotations

import ast
import concurrent.futures
import contextlib
import datetime
import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import __version__
from .asking import Exchange, place_of, to_ask
from .errors import UsageError
from .known import Known, key_of
from .model import Cell, CellResult, Field, ProbeSpec, Run, Thrown, Trial, Verdict, from_json, parse_token, to_json
from .remembered import Memory
from .revisions import (
    Cache,
    Environment,
    EnvironmentConfig,
    Interpreter,
    Revision,
    available_interpreters,
    find_interpreters,
    prepare,
    resolve,
)
from .search import Limits, Search
from .workers import Worker

Listen = Callable[[object], None]


@dataclass(frozen=True)
class ProbeRequest:
    """What `stormdrain probe` is asked to do.

    paths: scripts and folders. base, head: revision specs. pythons: versions or
    paths; empty: the newest one found. budget_seconds, confirm_seconds: real
    seconds for each probe and cell. jobs: trials at a time. with_: further requirements.
    """

    paths: tuple[Path, ...]
    base: str | None = None
    head: str = "worktree"
    pythons: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    storms: tuple[str, ...] = ()
    keyword: str = ""
    clock: str = "virtual"
    budget_trials: int | None = None
    budget_seconds: float = 60.0
    confirm: bool = True
    confirm_seconds: float = 60.0
    jobs: int = 2
    reuse: bool = False
    """Whether what an earlier run found is taken, in cells of which nothing has changed."""
    search: Limits | None = None
    """When a search for schedules of several faults has enough, in each probe and cell; None: there is none."""
    with_: tuple[str, ...] = ()
    seed: int = 0
    environment: EnvironmentConfig = EnvironmentConfig()
    project: Path = Path()
    cache: Cache = field(default_factory=Cache)


@dataclass(frozen=True)
class Script:
    """What can be read of a probe script without importing it."""

    path: Path
    requires: tuple[str, ...] = ()
    digest: str = ""


def find_scripts(paths: Sequence[Path]) -> list[Script]:
    """The probe scripts among files and folders.

    Raises:
        UsageError: a path is missing, is no Python, or there is no script at all.
    """
    found: dict[Path, Script] = {}
    for path in paths:
        if not path.exists():
            raise UsageError(
                "There is no such file or folder.",
                where=str(path),
                todo="name a probe script or a folder that holds some",
            )
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        for file in files:
            hidden = any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
            if path.is_dir() and (hidden or file.name == "conftest.py"):
                continue
            script = read_script(file)
            if path.is_file() or script.requires or _has_probe(file):
                found.setdefault(file.resolve(), script)
    if not found:
        raise UsageError(
            "No probe script was found.",
            where=", ".join(map(str, paths)),
            todo="write one (`stormdrain init package.module:Class.close`), or name its path",
        )
    return list(found.values())


def _has_probe(file: Path) -> bool:
    return "stormdrain" in file.read_text(encoding="utf-8", errors="replace")


def read_script(file: Path) -> Script:
    """Read `requires` from a script's decorators.

    Raises:
        UsageError: it is not Python, or its `requires` is no literal list.
    """
    data = file.read_bytes()
    try:
        tree = ast.parse(data, str(file))
    except SyntaxError as error:
        raise UsageError(
            f"The probe script is not Python: {error.msg}.", where=f"{file}:{error.lineno}", todo="mend it"
        ) from error
    requires: list[str] = []
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or getattr(node.func, "id", getattr(node.func, "attr", "")) not in (
            "probe",
            "service",
        ):
            continue
        for keyword in node.keywords:
            if keyword.arg == "requires":
                value = keyword.value
                named = constants.get(value.id, value) if isinstance(value, ast.Name) else value
                requires += _literal(named, file)
    return Script(file, tuple(dict.fromkeys(requires)), hashlib.sha256(data).hexdigest()[:16])


def _literal(node: ast.expr, file: Path) -> list[str]:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = None
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise UsageError(
            "`requires` must be a literal list of requirements, or the name of one: it is read before the script is imported.",
            where=f"{file}:{node.lineno}",
            todo='write it out: requires=["anyio==4.2.0"]',
        )
    return [str(item) for item in value]


@dataclass(frozen=True)
class Post:
    """One worker's work: a script in an environment."""

    script: Script
    environment: Environment
    role: str
    revision: Revision


class Lab:
    """Runs a request; what came of it is in `results` and `trials`."""

    def __init__(self, request: ProbeRequest, listen: Listen) -> None:
        self.request = request
        self._listen = listen
        self._lock = threading.Lock()
        self._workers: set[Worker] = set()
        self._stopped = False
        self.results: list[CellResult] = []
        self.trials: list[Trial] = []
        self.matched = 0
        self._searched: Exchange[str] = Exchange()
        """The schedules that head's search found."""
        self._stormed: Exchange[Trial] = Exchange()
        """The trials of head's storms."""
        self._listed: Exchange[ProbeSpec] = Exchange()
        """What head's probes say of themselves, by script and interpreter."""
        self._known = Known(request.cache, datetime.date.today().isoformat())
        self._sides: dict[tuple[str, str], list[str]] = {}

    def listen(self, item: object) -> None:
        with self._lock:
            if isinstance(item, CellResult):
                self.results.append(item)
            elif isinstance(item, Trial):
                self.trials.append(item)
            self._listen(item)

    def run(self) -> None:
        """All cells, `jobs` workers at a time."""
        posts = list(self.posts())
        for post in posts:
            self._sides.setdefault(_work_of(post), []).append(post.environment.digest)
        # More than there are jobs: calm and confirmation in real time mostly wait.
        with concurrent.futures.ThreadPoolExecutor(max(1, self.request.jobs) + 2) as executor:
            futures = [executor.submit(self._work, post) for post in posts]
            try:
                for future in concurrent.futures.as_completed(futures):
                    future.result()
            except BaseException:
                self.stop()
                for future in futures:
                    future.cancel()
                raise
        if not self.matched:
            raise UsageError(
                "No probe matched.",
                where=f"-k {self.request.keyword}"
                if self.request.keyword
                else f"--backend {' '.join(self.request.backends)}",
                todo="leave the filter out to see the names of all probes",
            )

    def stop(self) -> None:
        """End all workers now."""
        self._stopped = True
        with self._lock:
            workers = list(self._workers)
        for worker in workers:
            worker.close()

    def posts(self) -> Iterator[Post]:
        """Every script in every environment; environments are built on the way."""
        request = self.request
        scripts = find_scripts(request.paths)
        interpreters = find_interpreters(request.pythons) if request.pythons else (newest(),)
        sides = [("base", request.base)] if request.base else []
        sides.append(("head" if request.base else "", request.head))
        revisions = []
        for role, spec in sides:
            self.listen(f"resolving {spec}")
            revision = resolve(
                spec or "", project=request.project, cache=request.cache, sdist=request.environment.sdist
            )
            revisions.append((role, revision))
        revisions.reverse()  # head is first: base is asked about what head fails in
        for interpreter in interpreters:
            for role, revision in revisions:
                for script in scripts:
                    self.listen(f"preparing {revision.label} on {interpreter.version}")
                    requires = (*script.requires, *request.with_)
                    environment = prepare(
                        revision, interpreter, requires=requires, config=request.environment, cache=request.cache
                    )
                    yield Post(script, environment, role, revision)

    def _work(self, post: Post) -> None:
        try:
            self._drive(post)
        finally:
            if post.role != "base":
                for exchange in (self._searched, self._stormed, self._listed):
                    exchange.end(*_work_of(post))

    def _drive(self, post: Post) -> None:
        """Every probe of a script on every backend."""
        with self._worker(post) as worker:
            roots = _roots(post)
            file = str(post.script.path.resolve())
            try:
                specs = self._specs(worker, post, file, roots)
            except UsageError as error:
                if post.role != "base":
                    raise
                self._not_on_base(post, error)
                return
            if post.role != "base":
                self._listed.tell(_work_of(post), specs)
            first: set[str] = set()
            for spec, backend in self._chosen(specs):
                self.matched += 1
                cell = self._cell(post, spec, backend)
                asked = self._asked(cell, spec, file, roots, canaries=backend not in first)
                first.add(backend)
                if not self.request.reuse or self.request.search is not None:
                    self._campaign(worker, cell, spec, asked)
                else:
                    self._unless_known(worker, cell, spec, asked, post)
                if post.role != "base":  # where it told nothing before, there is nothing to tell
                    self._stormed.tell(place_of(cell), ())

    def _chosen(self, specs: Sequence[ProbeSpec]) -> Iterator[tuple[ProbeSpec, str]]:
        """The probes and backends that were asked for."""
        for spec in specs:
            if self.request.keyword and self.request.keyword not in spec.name:
                continue
            for backend in spec.backends:
                if not self.request.backends or backend in self.request.backends:
                    yield spec, backend

    def _not_on_base(self, post: Post, error: UsageError) -> None:
        """Say of each cell that head has and base cannot have that base could not be asked.

        Where the script does not work with head either, that is head's error, and head's to tell.
        """
        for spec, backend in self._chosen(self._listed.ask(_work_of(post), lambda: self._stopped)):
            why = f"base could not be asked: {error.what.rstrip('.')} ({error.where})"
            todo = "nothing, if only head has it: all that fails on head counts; else import it inside the probe"
            self.listen(CellResult(self._cell(post, spec, backend), Verdict.NA, spec, error=why, error_todo=todo))

    def _asked(self, cell: Cell, spec: ProbeSpec, file: str, roots: list[str], *, canaries: bool) -> dict[str, Any]:
        """The request for a campaign."""
        request = self.request
        return {
            "do": "campaign",
            "file": file,
            "probe": spec.name,
            "roots": roots,
            "cell": to_json(cell),
            "storms": list(request.storms),
            "budget_trials": request.budget_trials,
            "budget_seconds": request.budget_seconds,
            "confirm": request.confirm,
            "confirm_seconds": request.confirm_seconds,
            "jobs": request.jobs,
            "seed": request.seed,
            "clock": request.clock,
            "canaries": canaries,
            "search": request.search is not None,
            "compared": request.base is not None,
        }

    def _unless_known(self, worker: Worker, cell: Cell, spec: ProbeSpec, asked: Mapping[str, Any], post: Post) -> None:
        """Run a campaign, or take what an earlier run of the same content found."""
        key = key_of(asked, post.script.path, self._sides[_work_of(post)])
        kept = self._known.get(key)
        if kept is not None and not self._also(cell, kept.trials):
            for trial in kept.trials:
                self.listen(trial)
            self.listen(kept.result)
            return
        trials, results = self._campaign(worker, cell, spec, asked)
        for result in results:
            self._known.put(key, result, trials)

    def _campaign(
        self, worker: Worker, cell: Cell, spec: ProbeSpec, asked: Mapping[str, Any]
    ) -> tuple[list[Trial], list[CellResult]]:
        """Run a campaign; its trials and its result (one)."""
        self.listen(f"{cell.role or cell.revision} {cell.python} {cell.backend}: {spec.name}")
        trials: list[Trial] = []
        results: list[CellResult] = []
        for kind, body in worker.ask(asked):
            if kind == "field":
                self._search(worker, cell, spec, from_json(Field, body))
                continue
            if kind == "stormed":
                worker.send({"also": list(self._also(cell, trials))})
                continue
            if kind == "trial":
                trials.append(from_json(Trial, body))
                self.listen(trials[-1])
            else:
                results.append(from_json(CellResult, body))
                self.listen(results[-1])
        return trials, results

    def _also(self, cell: Cell, trials: Sequence[Trial]) -> tuple[str, ...]:
        """Schedules that are to be run once a cell's storms are over: base's, in which head fails."""
        if cell.role != "base":
            self._stormed.tell(place_of(cell), trials)
            return ()
        return to_ask(self._stormed.ask(place_of(cell), lambda: self._stopped), trials)

    def _search(self, worker: Worker, cell: Cell, spec: ProbeSpec, field: Field) -> None:
        """Search in the middle of a campaign: throw what was drawn or remembered, and have the best kept."""
        request = self.request
        assert request.search is not None

        def throw(texts: Sequence[str], again: bool) -> list[Thrown]:
            worker.send({"throw": list(texts), "again": again})
            return [from_json(Thrown, body) for _, body in worker.hear("caught")]

        search = Search(field, throw, seed=request.seed, limits=request.search, say=self.listen)
        memory = Memory(request.cache.root / "search")
        if cell.role == "base":
            told = self._searched.ask(place_of(cell), lambda: self._stopped)
            found = search.run(tuple(dict.fromkeys((*told, *memory.read(cell)))), drawing=False)
        else:
            found = search.run(memory.read(cell))
            memory.add(cell, found.schedules)
            self._searched.tell(place_of(cell), map(str, (*found.schedules, *found.again)))
        kept = dict.fromkeys(str(schedule) for schedule in (*found.schedules, *found.again))
        worker.send({"keep": list(kept), "note": found.told(request.seed)})

    def _specs(self, worker: Worker, post: Post, file: str, roots: list[str]) -> list[ProbeSpec]:
        """What the script's probes say of themselves, on this revision and interpreter."""
        try:
            answers = list(worker.ask({"do": "list", "file": file, "roots": roots}))
        except UsageError as error:
            error.where += f" (with {post.revision.spec} on {post.environment.interpreter.version})"
            raise
        return [from_json(ProbeSpec, body) for _, body in answers]

    @contextlib.contextmanager
    def _worker(self, post: Post) -> Iterator[Worker]:
        worker = Worker(post.environment.python, post.environment.path, folder=self.request.cache.root / "link")
        with self._lock:
            self._workers.add(worker)
        try:
            if self._stopped:
                raise KeyboardInterrupt
            yield worker
        finally:
            worker.close()
            with self._lock:
                self._workers.discard(worker)

    def _cell(self, post: Post, spec: ProbeSpec, backend: str) -> Cell:
        environment = post.environment
        parts = (
            __version__,
            post.script.digest,
            environment.digest,
            environment.interpreter.full,
            spec.name,
            backend,
            self.request.clock,
        )
        return Cell(
            key=hashlib.sha256("|".join(parts).encode()).hexdigest()[:8],
            probe=spec.name,
            revision=post.revision.spec,
            python=environment.interpreter.full,
            backend=backend,
            role=post.role,
            clock=self.request.clock,
            freeze=environment.freeze,
            files={"script": post.script.digest, "layer": environment.content},
            script=str(post.script.path),
            requires=tuple(self.request.with_),
            interpreter=environment.interpreter.path,
            environment=to_json(self.request.environment),
        )


def _roots(post: Post) -> list[str]:
    """Where the code of the target lies; the worker knows where its interpreter's own library is."""
    return ["stdlib"] if post.revision.kind == "stdlib" else list(post.environment.path)


def _work_of(post: Post) -> tuple[str, str]:
    """What base's worker and head's for the same script have in common, and find each other by."""
    return str(post.script.path), post.environment.interpreter.full


def newest() -> Interpreter:
    """The newest interpreter that was found.

    Raises:
        UsageError: none was.
    """
    found = available_interpreters()
    if not found:
        raise UsageError("No interpreter was found.", todo="name one with --python PATH, or in STORMDRAIN_PYTHONS")
    return max(found, key=lambda interpreter: tuple(int(part) for part in interpreter.version.split(".")))


def run_probes(request: ProbeRequest, listen: Listen) -> tuple[tuple[CellResult, ...], tuple[Trial, ...]]:
    """Run probes in all cells.

    Args:
        request: what to run.
        listen: gets each Trial and CellResult as it comes, and progress lines (str).

    Raises:
        StormdrainError: a user's mistake; what was found before is with `listen`.
    """
    lab = Lab(request, listen)
    lab.run()
    order = {"base": 0, "head": 1, "": 1}
    results = sorted(
        lab.results, key=lambda r: (r.cell.probe, r.cell.backend, _version(r.cell.python), order[r.cell.role])
    )
    return tuple(results), tuple(lab.trials)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in text.split("."))


def replay(
    token: str, run: Run, listen: Listen, *, project: Path = Path(), clock: str = "", cache: Cache | None = None
) -> Trial:
    """Run one trial again.

    Args:
        token: of a trial of `run`.
        run: the run that it comes from.
        clock: `virtual` or `real`; by default the cell's.

    Raises:
        UsageError: the token is none, or is of another probe, revision or version.
    """
    try:
        wanted = parse_token(token)
    except ValueError as error:
        raise UsageError(f"{error}.", where=token, todo="copy the whole token of a finding") from error
    result = next((result for result in run.cells if result.cell.key == wanted.key), None)
    if result is None:
        raise UsageError(
            "The token belongs to no cell of this run.", where=token, todo="name the run that it comes from"
        )
    cell = result.cell
    request = ProbeRequest(
        paths=(Path(cell.script),),
        head=cell.revision,
        pythons=(cell.interpreter if Path(cell.interpreter).is_file() else cell.python,),
        environment=from_json(EnvironmentConfig, cell.environment),
        backends=(cell.backend,),
        clock=cell.clock if cell.clock_why == "" else "virtual",
        with_=cell.requires,
        project=project,
        cache=cache or Cache(),
        jobs=1,
        seed=run.seed,
    )
    lab = Lab(request, listen)
    post = next(lab.posts())
    spec = result.spec or ProbeSpec(cell.probe, cell.script, "")
    now = lab._cell(post, spec, cell.backend)
    if now.key != cell.key:
        changed = [what for what in ("script", "layer") if now.files.get(what) != cell.files.get(what)]
        raise UsageError(
            "The token is of another version: "
            + (", ".join(changed) or "the environment or stormdrain")
            + " changed since.",
            where=token,
            todo="run the probe again and use a new token",
        )
    trials: list[Trial] = []
    with lab._worker(post) as worker:
        file = str(post.script.path.resolve())
        asked = {
            "do": "campaign",
            "file": file,
            "probe": cell.probe,
            "roots": _roots(post),
            "cell": to_json(replace(now, role=cell.role)),
            "schedules": [str(wanted.schedule)],
            "clock": clock or cell.clock,
            "seed": run.seed,
            "jobs": 1,
            "canaries": False,
        }
        for kind, body in worker.ask(asked):
            if kind == "trial":
                trials.append(from_json(Trial, body))
            elif error_text := from_json(CellResult, body).error:
                raise UsageError(f"The trial cannot be run: {error_text}", where=token, todo="run the probe again")
    return trials[-1]
