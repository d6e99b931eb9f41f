"""One suite on one interpreter: baseline, forced failures, mutants, confirmation.

Every phase keeps its raw results; what they come to is derived in `outcomes`. The
order matters: what a test needs unmutated bounds what it gets under a mutant, and
what a forced failure shows decides whether "missed" may be said at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ..model import Baseline
from ..symbols import Symbols
from .assertions import tests_of
from .baseline import establish
from .facts import Facts, Ran, Record
from .forced import forced
from .mutant import Mutant
from .suite import SuiteProcess

__all__ = ["Campaign", "Facts", "Ran", "Record"]


class Campaign:
    """The phases over one collected suite.

    Args:
        suite: the worker.
        sources: the files under test; symbols: their definitions.
        listen: gets progress lines.
        label: what to call it in them.
        confirm_seconds: how much real time confirmation may take (as estimated from the baseline).
        first: stop at the first test that catches a mutant.
    """

    def __init__(
        self,
        suite: SuiteProcess,
        sources: Mapping[str, bytes],
        symbols: Mapping[str, Symbols],
        listen: Callable[[object], None],
        *,
        label: str,
        confirm_seconds: float = 60.0,
        first: bool = False,
    ) -> None:
        self.suite, self.sources, self.symbols, self.listen = suite, sources, symbols, listen
        self.label, self.confirm_seconds, self.first = label, confirm_seconds, first
        self.facts = Facts()
        self.raw: dict[str, Record] = {}
        """The first failure of each test that was left out."""
        self.executed: dict[str, bool] = {}
        """Function -> whether its forced failure left its mark."""
        self.noticed: dict[str, bool] = {}
        self.forced_catchers: dict[str, set[int]] = {}

    # -- running jobs --------------------------------------------------------

    def run(self, jobs: Sequence[Record]) -> dict[str, Ran]:
        """Run jobs of the worker and gather what comes back."""
        found = {job["id"]: Ran(chosen=list(job["items"])) for job in jobs}
        for kind, key, what in self.suite.run(jobs):
            one = found[key]
            if kind == "planned":
                one.how = what
            elif kind == "done":
                one.results = dict(what["results"])
                one.left, one.seconds, one.broken = what["left"], what["seconds"], what["broken"]
        return found

    def decoded(self, mutant: Mutant) -> dict[str, str]:
        """The mutated files as text."""
        return {path: text.decode("utf-8-sig") for path, text in mutant.texts(self.sources).items()}

    def baseline(self) -> Baseline:
        """Run everything unmutated: which tests may be used, in which clock, and which lines they run."""
        return establish(self)

    # -- forced failures -------------------------------------------------------

    def force(self, functions: Iterable[str]) -> str:
        """Make each function raise; learn which are executed. Returns what `Baseline.forced` says."""
        names = list(dict.fromkeys(functions))
        jobs = []
        for number, name in enumerate(names):
            mark = self.suite.scratch(f"forced-{number}")
            open(mark, "wb").close()
            one = replace(forced(name, self.symbols, mark), id=name)
            chosen = set(self.covering(one)) | self.facts.spawners
            jobs.append(self.job(one, sorted(chosen), marker=mark, first=False))
        ran = self.run([job for job in jobs if job["items"]])
        for job in jobs:
            name = job["id"]
            results = ran[name].results if name in ran else {}
            self.noticed[name] = any(record.get("out") == "failed" for record in results.values())
            self.executed[name] = os.path.getsize(job["marker"]) > 0
            self.forced_catchers[name] = {index for index, record in results.items() if record.get("seen")}
        return self._forced_summary(names)

    def _forced_summary(self, names: Sequence[str]) -> str:
        short = {name: name.partition(":")[2] for name in names}
        absent = [short[name] for name in names if not self.executed[name]]
        silent = [short[name] for name in names if self.executed[name] and not self.noticed[name]]
        parts = [f"not executed: {', '.join(absent)}" if absent else "seen"]
        if silent:
            parts.append(f"no test fails when it raises: {', '.join(silent)}")
        return "; ".join(parts)

    # -- mutants -----------------------------------------------------------------

    def covering(self, mutant: Mutant) -> list[int]:
        """The tests that can notice a mutant, in the order of the suite."""
        if mutant.source == "assertion":
            real = self.suite.spec.test_files[mutant.path]
            own = tests_of(mutant, self.suite.tests, self.suite.facts["paths"], real)
            return [index for index in own if index in self.facts.lines]
        if not mutant.regions or mutant.source == "neutral" or self._ran_at_import(mutant):
            return list(self.facts.kept)
        found = set()
        for index in self.facts.kept:
            lines = self.facts.lines[index]
            if any(lines.get(path, set()) & set(range(first, last + 1)) for path, first, last in mutant.regions):
                found.add(index)
        for function in mutant.functions:
            found |= self.forced_catchers.get(function, set())
        return sorted(found)

    def _ran_at_import(self, mutant: Mutant) -> bool:
        """Whether one of its functions is called while the suite is imported: then no test's lines tell."""
        ran = {(self.suite.relative[path], line) for path, line in self.suite.facts["imported"]}
        lines = {
            (path, symbol.line)
            for path, table in self.symbols.items()
            for symbol in table.all
            if f"{path}:{symbol.name}" in mutant.functions
        }
        return bool(ran & lines)

    def mutate(
        self,
        mutants: Sequence[Mutant],
        known: Callable[[Mutant, list[int]], Ran | None] = lambda one, tests: None,
        wanted: Collection[str] | None = None,
    ) -> dict[str, Ran]:
        """Run mutants. What does not compile, or is the same as the original or a sibling, is not run.

        Args:
            mutants: the mutants.
            known: gives what is known of a mutant under its tests already, or None.
            wanted: ids of those to run, of all that are compared with each other; None for all.
        """
        texts = {one.id: self.decoded(one) for one in mutants}
        compiled = self.suite.compile(texts)
        found: dict[str, Ran] = {}
        twins: dict[str, str] = {}
        jobs: list[Record] = []
        for one in mutants:
            print_, error = compiled[one.id]
            ran = Ran(unviable=error)
            if wanted is None or one.id in wanted:
                found[one.id] = ran
            if error:
                continue
            if one.source != "neutral":
                ran.same_as = "the original" if print_ == "same" else twins.setdefault(print_, one.id)
                if ran.same_as not in ("", one.id):
                    continue
                ran.same_as = ""
            if one.id not in found:
                continue
            ran.chosen = self.covering(one)
            if (old := known(one, ran.chosen)) is not None:
                found[one.id] = old
            elif ran.chosen:
                jobs.append(self.job(one, ran.chosen))
        self.listen(f"{self.label}: {len(jobs)} mutants to run")
        for key, ran in self.run(jobs).items():
            ran.left_behind = max(0, len(ran.left) - self.facts.left)
            found[key] = ran
        return found

    def job(self, one: Mutant, chosen: Iterable[int], *, key: str = "", **more: object) -> Record:
        """What the worker is asked for to run tests under a mutant."""
        order = sorted(chosen, key=self.facts.seconds.__getitem__) if self.first else list(chosen)
        mirror = bool(self.facts.spawners.intersection(order))
        texts = self.decoded(one)
        job = {"id": key or one.id, "items": order, "files": texts, "mirror": mirror, "first": self.first}
        if one.source == "neutral":
            job.update(on_disk=True, cold=True, first=False)
        return {**job, **more}

    def cost(self, index: int, record: Record) -> float:
        """About how long a test takes when it is run again as a confirmation, in seconds."""
        return self.facts.real_seconds[index] if record.get("company") else self.facts.seconds[index]

    def real_cost(self, chosen: Iterable[int]) -> float:
        """About how long tests take in real time, in seconds."""
        return 1.0 + sum(self.facts.real_seconds[index] for index in chosen)
