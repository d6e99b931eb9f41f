"""The rules of the house: imports run one way, the worker's side needs nothing, nothing of one machine is kept."""

from __future__ import annotations

import ast
import configparser
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import stormdrain
from stage import run_python
from stormdrain.errors import UsageError
from stormdrain.revisions import Interpreter, available_interpreters
from stormdrain.workers import link_folder

ROOT = Path(__file__).parents[1]
HARNESS = ROOT / "harness"
PACKAGE = HARNESS / "stormdrain"

LAYERS = (
    {"cli"},
    {"gate", "reporting", "compare"},
    {"lab", "search", "remote"},
    {"store", "stored", "mutation", "revisions", "workers", "drawing", "asking", "remembered", "known"},
    {"splice", "symbols"},
    {"pytest_plugin"},
    {"worker", "__init__"},
    {"storms", "expectations"},
    {"model", "errors"},
)
"""Each may import its own layer and those below; everything has its place."""
TARGETS_SIDE = {"worker", "__init__", "pytest_plugin", "storms", "expectations", "model", "errors"}
"""What runs in the target's interpreter: standard library only, 3.10 and up."""
GUESTS = {
    "worker/drive/trio_": {"trio", "outcome"},
    "worker/trio_": {"trio"},
    "worker/drive/uv": {"uvloop"},
    "worker/suite/": {"pytest", "_pytest", "trio"},
    "pytest_plugin/": {"pytest"},
}
"""Modules that are only imported where their guest is there, by how their path begins."""


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def place(path: Path) -> str:
    """The part of the package that a module belongs to."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def runs(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree that run: what stands under `if TYPE_CHECKING` does not."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        for other in node.orelse:
            yield from runs(other)
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from runs(child)


def imported(path: Path) -> Iterator[str]:
    """Full names that a module imports, wherever in it."""
    package = path.relative_to(HARNESS).parent.parts
    for node in runs(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            base += [node.module] if node.module else []
            yield from (".".join([*base, alias.name]) for alias in node.names)


def test_imports_run_one_way() -> None:
    depth = {name: index for index, layer in enumerate(LAYERS) for name in layer}
    assert {place(path) for path in modules()} <= set(depth), "a new part of the package needs its place in LAYERS"
    upward = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in modules()
        for name in imported(path)
        if name.startswith("stormdrain.") and depth.get(name.split(".")[1], len(LAYERS)) < depth[place(path)]
    ]
    assert upward == []


def test_what_runs_beside_the_target_is_standard_library_and_of_3_10() -> None:
    strange = []
    for path in modules():
        if place(path) not in TARGETS_SIDE:
            continue
        inner = str(path.relative_to(PACKAGE))
        tree = ast.parse(path.read_bytes(), inner, feature_version=(3, 10))
        allowed = {guest for start, names in GUESTS.items() if inner.startswith(start) for guest in names}
        allowed |= {*sys.stdlib_module_names, "stormdrain"}
        # What is imported late is imported where it is there.
        strange += [(inner, name) for node in tree.body for name in names_of(node) if name not in allowed]
    assert strange == []


def names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level and node.module:
        return [node.module.partition(".")[0]]
    return []


BARE = """
import sys
before = set(sys.modules)
import stormdrain
import stormdrain.expectations, stormdrain.storms, stormdrain.model, stormdrain.errors
import stormdrain.worker.__main__, stormdrain.worker.serve, stormdrain.worker.campaign, stormdrain.worker.canaries
import stormdrain.worker.drive.aio, stormdrain.worker.service_canaries
stormdrain.worker.canaries.canaries("asyncio")
print(sorted({name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))
"""


@pytest.mark.parametrize("interpreter", available_interpreters(), ids=lambda interpreter: interpreter.version)
def test_the_worker_runs_on_a_bare_interpreter(interpreter: Interpreter) -> None:
    done = run_python(interpreter.path, BARE)
    assert done.stderr == ""
    assert done.stdout == "['stormdrain']\n"


def test_every_module_says_why_it_exists() -> None:
    tests = [path for path in (ROOT / "tests").rglob("*.py") if "targets" not in path.parts]
    silent = [
        str(path.relative_to(ROOT))
        for path in (*modules(), *tests)
        if not ast.get_docstring(ast.parse(path.read_bytes()))
    ]
    assert silent == []


# -- nothing of one machine --------------------------------------------------------


def kept() -> Iterator[tuple[str, str]]:
    """Every text file that is under version control: its path and its text."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("this is no checkout")
    for name in listed.stdout.decode().split("\0"):
        path = ROOT / name
        if name and path.is_file():
            yield name, path.read_text(encoding="utf-8", errors="replace")


def registries() -> set[str]:
    """Hosts of package registries: the public ones, and whatever this machine is set up with."""
    hosts = {"pypi" + ".org", "python" + "hosted.org"}
    settings = [value for key, value in os.environ.items() if re.search("INDEX|REGISTRY|PROXY", key.upper())]
    for file in (Path("/etc/pip.conf"), Path.home() / ".config/pip/pip.conf", Path.home() / ".pip/pip.conf"):
        parser = configparser.RawConfigParser()
        parser.read(file)
        settings += [value for name in parser.sections() for _, value in parser.items(name)]
    for value in settings:
        hosts |= {urlsplit(word).hostname or "" for word in value.split() if "://" in word}
    return {host for host in hosts if "." in host and not host.startswith("127.")}


def test_no_path_of_a_machine_is_kept() -> None:
    homes = re.compile(r"/(?:root|home/(?!user\b|you\b|me\b)[a-z]\w*|Users/(?!you\b|me\b)\w+)/")
    own = [str(ROOT) + "/"] if len(ROOT.parts) > 2 else []
    found = [
        (name, number)
        for name, text in kept()
        for number, line in enumerate(text.splitlines(), 1)
        if homes.search(line) or any(part in line for part in own)
    ]
    assert found == []


def test_no_host_of_a_registry_is_kept() -> None:
    hosts = registries()
    found = [(name, host) for name, text in kept() for host in hosts if host in text]
    assert found == []


# -- the link ----------------------------------------------------------------------


def test_two_installations_do_not_share_a_link(tmp_path: Path) -> None:
    """A worker imports late: it must find the package that it began with, whoever else has started one since."""
    other = tmp_path / "other"
    (other / "stormdrain").mkdir(parents=True)
    for name in ("__init__.py", "errors.py", "workers.py"):
        text = (PACKAGE / name).read_text() if name != "__init__.py" else '"""A copy."""\n'
        (other / "stormdrain" / name).write_text(text)
    program = "import sys; sys.path.insert(0, sys.argv[1])\nfrom pathlib import Path\n"
    program += "from stormdrain.workers import link_folder\nprint(link_folder(Path(sys.argv[2])))"
    theirs = subprocess.run(
        [sys.executable, "-S", "-c", program, str(other), str(tmp_path / "links")],
        capture_output=True,
        text=True,
        check=True,
    )
    ours = link_folder(tmp_path / "links")
    assert Path(theirs.stdout.strip()) != ours
    assert (ours / "stormdrain").resolve() == Path(stormdrain.__file__).parent
    assert os.listdir(ours) == ["stormdrain"]


def test_links_that_are_made_at_once_do_not_collide(tmp_path: Path) -> None:
    found: list[Path] = []
    barrier = threading.Barrier(8)

    def make() -> None:
        barrier.wait()
        found.append(link_folder(tmp_path / "links"))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert os.listdir(found[0]) == ["stormdrain"]


def test_a_link_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links").chmod(0o777)
    with pytest.raises(UsageError, match="can be written by others"):
        link_folder(tmp_path / "links")


def test_every_error_that_a_user_meets_says_what_to_do_next() -> None:
    errors = {"UsageError", "BaselineError", "CannotWrite", "StormdrainError"}
    silent = []
    for path in modules():
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in errors:
                given = {keyword.arg: keyword.value for keyword in node.keywords}
                said = given.get("todo")
                if said is None or (isinstance(said, ast.Constant) and not said.value):
                    silent.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert not silent
