"""mutmut on the same module and the same tests: its rate, and where its verdicts differ from ours.

mutmut writes its folder `mutants/` where it stands, so it gets a copy of the release
in a temporary folder. What both make is found by what the function comes to, as a
syntax tree; names and numbers of mutants mean nothing across the two.
"""

from __future__ import annotations

import ast
import json
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from stormdrain.mutation.campaign import Ran
from stormdrain.mutation.mutant import Mutant
from stormdrain.mutation.request import MutationRequest
from stormdrain.revisions import Interpreter, prepare, resolve

VERSION = "3.8.1"
Key = tuple[str, str]
"""The function's qualified name, and what it comes to as text."""

_EXITS = {0: "missed", 1: "caught", 3: "caught", 5: "uncovered", 33: "uncovered", 36: "timed out", -24: "timed out"}
_NAME = re.compile(r"x(?:ǁ(?P<owner>\w+)ǁ|_)(?P<name>\w+)__mutmut_(?P<number>\d+|orig)")


@dataclass
class Theirs:
    """One run of mutmut.

    rate: mutants a second that it ran, by its own account, with what comes before left out.
    seconds, cpu: of the whole run, real and of all cores.
    verdicts: what each mutant came to, in our words.
    """

    rate: float
    seconds: float
    cpu: float
    verdicts: dict[Key, str]


def run(request: MutationRequest, module: str, tests: str, interpreter: Interpreter, jobs: int) -> Theirs:
    """Run mutmut.

    Args:
        request: its head and its environment are used.
        module: the module, relative to the release's `src`.
        tests: what of the suite is run, as pytest's `-k` takes it.
        interpreter: what it runs on; jobs: how many mutants at once.
    """
    config = replace(request.environment, requires=(*request.environment.requires, f"mutmut=={VERSION}"))
    revision = resolve(request.head, project=request.project, cache=request.cache, sdist=config.sdist)
    environment = prepare(revision, interpreter, config=config, cache=request.cache)
    with tempfile.TemporaryDirectory(prefix="stormdrain-mutmut-") as scratch:
        tree = Path(scratch) / "tree"
        shutil.copytree(str(revision.source), tree)
        selection = f'pytest_add_cli_args = ["-o", "addopts=", "-k", "{tests}"]\n'
        with open(tree / "pyproject.toml", "a", encoding="utf-8") as file:
            file.write(f'\n[tool.mutmut]\nsource_paths = ["src"]\nonly_mutate = ["src/{module}"]\n{selection}')
        for info in environment.layer.glob("*.dist-info"):  # the package asks for its own version
            shutil.copytree(info, Path(scratch) / "path" / info.name)
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(
            [str(Path(environment.python).parent / "mutmut"), "run", "--max-children", str(jobs)],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": f"{scratch}/path"},
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        rate = re.search(r"([\d.]+) mutations/second", done.stdout)
        if done.returncode or rate is None:
            raise RuntimeError(f"mutmut failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        verdicts = _verdicts(tree / "mutants" / "src" / module)
        return Theirs(float(rate[1]), took, cpu, verdicts)


def _verdicts(path: Path) -> dict[Key, str]:
    exits: Mapping[str, int] = json.loads(Path(f"{path}.meta").read_text())["exit_code_by_key"]
    by_name = {name.rpartition(".")[2]: code for name, code in exits.items()}
    found = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in by_name:
            match = _NAME.fullmatch(node.name)
            assert match is not None
            name = f"{match['owner']}.{match['name']}" if match["owner"] else match["name"]
            found[name, _text(node)] = _EXITS.get(by_name[node.name], f"exit {by_name[node.name]}")
    return found


def _text(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The function without its name and its decorators, which mutmut takes elsewhere."""
    bare = type(node)("f", node.args, node.body, [], node.returns)
    return ast.unparse(ast.fix_missing_locations(ast.copy_location(bare, node)))


def keys(mutants: Iterable[Mutant], sources: Mapping[str, bytes]) -> dict[Key, Mutant]:
    """Ours by what the function comes to."""
    found: dict[Key, Mutant] = {}
    for one in mutants:
        text = one.texts(sources).get(one.path)
        if text is None or one.source == "neutral":
            continue
        for name, node in _functions(ast.parse(text)):
            if name == one.symbol:
                found.setdefault((name, _text(node)), one)
    return found


def _functions(tree: ast.AST, prefix: str = "") -> Iterable[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        else:
            yield from _functions(node, prefix)


def why(ours: str, theirs: str, ran: Ran) -> str:
    """Why the two verdicts on one mutant differ; empty where that is not known."""
    failed = [one for one in ran.results.values() if one.get("out") == "failed"]
    hung = [one for one in failed if one.get("verdict")]
    if {ours, theirs} == {"caught", "timed out"} and 0 < len(hung) < len(failed):
        rest = len(failed) - len(hung)
        return f"{len(hung)} tests hang, {rest} fail: mutmut stops at its first, ours runs all and a failure decides"
    if (ours, theirs) == ("timed out", "caught") and all(one["verdict"] == "deadlock" for one in hung):
        return "nothing can end it: said at once by ours, a failure by mutmut where the interpreter gives up"
    if ours == "unviable" and ran.same_as:
        return "same bytecode as the original or a sibling: not run by ours"
    return ""
