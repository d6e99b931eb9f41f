"""What the tests of mutation are made of: a small package, a suite for it, and the phases of a campaign."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stormdrain.model import Baseline, MutantRecord
from stormdrain.mutation import outcomes
from stormdrain.mutation.campaign import Campaign, Ran
from stormdrain.mutation.confirm import confirm
from stormdrain.mutation.mutant import Mutant, mutant, numbered
from stormdrain.mutation.suite import SuiteProcess, SuiteSpec
from stormdrain.splice import read_edits, splices
from stormdrain.symbols import Symbols

PATH = "pond/pipe.py"


@dataclass
class Bench:
    """A package `pond` with one module, and a suite beside it."""

    folder: Path
    source: str
    tests: str
    more: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    jobs: int = 2
    memory: int = 1 << 28
    path: tuple[str, ...] = ()
    """More import roots, behind the layer."""

    def __post_init__(self) -> None:
        self.source = textwrap.dedent(self.source).lstrip("\n")
        self.layer, self.suite = self.folder / "layer", self.folder / "suite"
        files = {
            f"layer/{PATH}": self.source,
            "layer/pond/__init__.py": "",
            "suite/test_pipe.py": textwrap.dedent(self.tests).lstrip("\n"),
            "suite/pytest.ini": "[pytest]\n",
            **self.more,
        }
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text).lstrip("\n"))

    @property
    def sources(self) -> dict[str, bytes]:
        return {PATH: self.source.encode()}

    @property
    def symbols(self) -> dict[str, Symbols]:
        return {PATH: Symbols(self.source.encode())}

    def spec(self) -> SuiteSpec:
        return SuiteSpec(
            python=self.python,
            layers=(str(self.layer), *self.path),
            files=(PATH,),
            tests=("test_pipe.py",),
            cwd=str(self.suite),
            jobs=self.jobs,
            memory=self.memory,
            label="pond",
            environment={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        )

    @contextmanager
    def campaign(self, **options: object) -> Iterator[Campaign]:
        """The suite, collected."""
        said: list[object] = []
        with SuiteProcess(self.spec()) as suite:
            yield Campaign(
                suite,
                self.sources,
                self.symbols,
                said.append,
                label="pond",
                **{"confirm_seconds": 0.0, **options},  # type: ignore[arg-type] # right by name
            )

    def mutant(self, old: str, new: str, name: str = "", **more: object) -> Mutant:
        """A mutant by text."""
        edit = read_edits([{"path": PATH, "old": old, "new": new, **more}], "here")[0]
        found = splices(edit, self.source.encode(), PATH)
        return mutant(found, self.symbols, source="plan", operator=name or new, name=name or new)

    def numbered(self, mutants: Mapping[str, tuple[str, str]]) -> tuple[Mutant, ...]:
        """Mutants by text, under their names."""
        return numbered((self.mutant(old, new, name) for name, (old, new) in mutants.items()), self.sources)

    def run(self, mutants: Mapping[str, tuple[str, str]], **options: object) -> Outcome:
        """All phases."""
        made = self.numbered(mutants)
        with self.campaign(**options) as campaign:
            baseline = campaign.baseline()
            forced = campaign.force(name for one in made for name in one.functions)
            found = campaign.mutate(made)
            confirm(campaign, made, found)
            names = {one.id: one.name for one in made}
            records = {
                one.name: outcomes.record(one, self.sources, [("here", campaign, found[one.id])], names) for one in made
            }
            return Outcome(baseline, forced, records, {one.name: found[one.id] for one in made}, campaign)

    def digest(self) -> str:
        """A hash over every file of the layer and the suite."""
        seen = hashlib.sha256()
        for folder in (self.layer, self.suite):
            for path in sorted(folder.rglob("*")):
                seen.update(str(path.relative_to(self.folder)).encode())
                seen.update(path.read_bytes() if path.is_file() else b"")
        return seen.hexdigest()


@dataclass
class Outcome:
    """What all phases came to."""

    baseline: Baseline
    forced: str
    records: dict[str, MutantRecord]
    ran: dict[str, Ran]
    campaign: Campaign

    def of(self, name: str) -> str:
        """The outcome of a mutant."""
        return self.records[name].outcome["here"]

    def cells(self, name: str) -> dict[str, str]:
        """The tests that did not pass under a mutant, and how they ended."""
        row = self.records[name].matrix["here"]
        return {test.rpartition("::")[2]: result.outcome for test, result in row.items()}

    def text(self, name: str, test: str) -> str:
        """What a test said under a mutant."""
        row = self.records[name].matrix["here"]
        return next(result.message for key, result in row.items() if key.endswith("::" + test))


PURE = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")
"""What pytest consists of, all in plain Python: another interpreter can use this one's."""


def pure_packages(folder: Path) -> Path:
    """A folder of links to pytest and what it needs, for interpreters from 3.11 on."""
    for name in PURE:
        found = importlib.util.find_spec(name)
        assert found is not None
        assert found.origin is not None
        origin = Path(found.origin)
        place = origin.parent if origin.name == "__init__.py" else origin
        (folder / place.name).symlink_to(place)
        for info in place.parent.glob(f"{name}-*.dist-info"):
            (folder / info.name).symlink_to(info)
    return folder
