"""Environments: a revision's own code in a layer, its dependencies beside it, both cached and told."""

from __future__ import annotations

import base64
import dataclasses
import functools
import http.server
import multiprocessing
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from revising import pond, repository, write
from stormdrain.errors import UsageError
from stormdrain.revisions import (
    Cache,
    Environment,
    EnvironmentConfig,
    Interpreter,
    Revision,
    find_interpreters,
    prepare,
    resolve,
)
from stormdrain.revisions.metadata import Metadata, dependencies, group
from stormdrain.revisions.releases import Release

NOTHING = EnvironmentConfig(dependencies="listed")


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared") / "cache"


@pytest.fixture
def cache(place: Path, said: list[str]) -> Cache:
    """A cache that the tests share: what they build is known by its content."""
    return Cache(place, progress=said.append)


@pytest.fixture
def fresh(tmp_path: Path, said: list[str]) -> Cache:
    """A cache in which nothing is."""
    return Cache(tmp_path / "cache", progress=said.append)


@pytest.fixture(scope="module")
def here() -> Interpreter:
    return find_interpreters([sys.executable])[0]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return pond(tmp_path / "pond")


def of(project: Path, cache: Cache, overlay: str = "") -> Revision:
    return resolve(f"path:{project}{overlay}", project=project, cache=cache)


def run(environment: Environment, code: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env["PYTHONPATH"] = os.pathsep.join(environment.path)
    done = subprocess.run(
        [environment.python, "-c", code], env=env, capture_output=True, text=True, check=False, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_revisions_code_runs_from_its_layer(project: Path, cache: Cache, here: Interpreter) -> None:
    environment = prepare(of(project, cache), here, config=NOTHING, cache=cache)
    told = run(environment, "import pond, sys, importlib.metadata as m; print(pond.__file__, m.version('pond'))")
    assert told == f"{environment.layer}/pond/__init__.py 1.0"
    assert run(environment, "import sys; print(sys.prefix != sys.base_prefix)") == "True"
    assert environment.path == (str(environment.layer),)
    assert environment.freeze[0].startswith("pond==1.0  # path:")


def test_nothing_in_a_layer_can_be_written_and_it_is_compiled(project: Path, cache: Cache, here: Interpreter) -> None:
    layer = prepare(of(project, cache), here, config=NOTHING, cache=cache).layer
    paths = [layer, *layer.rglob("*")]
    assert not [path for path in paths if path.stat().st_mode & 0o222]
    assert list(layer.glob(f"pond/__pycache__/pipe.{sys.implementation.cache_tag}.pyc"))


def test_a_changed_copy_of_a_layer_never_runs_the_old_code(
    tmp_path: Path, project: Path, cache: Cache, here: Interpreter
) -> None:
    environment = prepare(of(project, cache), here, config=NOTHING, cache=cache)
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-rp", environment.layer, copy], check=True)
    subprocess.run(["chmod", "-R", "u+w", copy], check=True)
    file = copy / "pond/__init__.py"
    before = file.stat()
    file.write_text("DEPTH = 2\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    changed = dataclasses.replace(environment, path=(str(copy),))
    assert run(changed, "import pond; print(pond.DEPTH)") == "2"


def test_a_second_time_nothing_is_built_and_no_program_is_started(
    project: Path, fresh: Cache, here: Interpreter, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project.parent, {"deep.toml": "[[edit]]\nmodule = 'pond'\nold = '1'\nnew = '2'\n"})
    specs = ("", f"+{project.parent / 'deep.toml'}")
    first = [prepare(of(project, fresh, spec), here, config=NOTHING, cache=fresh) for spec in specs]
    said.clear()
    started: list[object] = []
    watched = [True]
    sys.addaudithook(lambda event, args: started.append(args) if event == "subprocess.Popen" and watched else None)
    second = [prepare(of(project, fresh, spec), here, config=NOTHING, cache=fresh) for spec in specs]
    watched.clear()
    assert second == first
    assert said == []
    assert started == []


def test_an_overlay_is_in_the_layer_and_the_plain_layer_stays_as_it_was(
    tmp_path: Path, project: Path, cache: Cache, here: Interpreter
) -> None:
    write(tmp_path, {"deep.toml": "[[edit]]\nmodule = 'pond'\nold = '1'\nnew = '2'\n"})
    plain = prepare(of(project, cache), here, config=NOTHING, cache=cache)
    changed = prepare(of(project, cache, f"+{tmp_path / 'deep.toml'}"), here, config=NOTHING, cache=cache)
    assert run(changed, "import pond; print(pond.DEPTH)") == "2"
    assert run(plain, "import pond; print(pond.DEPTH)") == "1"
    assert changed.python == plain.python
    assert changed.content != plain.content
    assert changed.digest != plain.digest
    assert (changed.layer / "pond/pipe.py").samefile(plain.layer / "pond/pipe.py")


def test_an_overlay_that_changes_nothing_of_the_layer_is_noted(
    tmp_path: Path, project: Path, cache: Cache, here: Interpreter
) -> None:
    name = "tests/test_pond.py"
    patch = f"--- a/{name}\n+++ b/{name}\n@@ -1 +1,2 @@\n from pond.pipe import drain\n+# more\n"
    write(tmp_path, {"test.patch": patch})
    environment = prepare(of(project, cache, f"+{tmp_path / 'test.patch'}"), here, config=NOTHING, cache=cache)
    assert environment.notes == ("test.patch: not in the layer: tests/test_pond.py",)


def test_the_same_code_reached_by_two_ways_has_the_same_content(
    tmp_path: Path, cache: Cache, here: Interpreter
) -> None:
    repo = repository(tmp_path / "repo")
    specs = ("main", "worktree", f"path:{repo}")
    made = [prepare(resolve(spec, project=repo, cache=cache), here, config=NOTHING, cache=cache) for spec in specs]
    assert len({environment.content for environment in made}) == 1
    assert len({environment.digest for environment in made}) == 1


def test_a_tree_that_says_nothing_of_how_it_is_built_is_the_layer_itself(
    tmp_path: Path, cache: Cache, here: Interpreter
) -> None:
    write(tmp_path / "flat", {"pool.py": "SIZE = 1\n", "pyproject.toml": "[tool.other]\n"})
    write(tmp_path / "sourced", {"src/pool/__init__.py": "SIZE = 2\n", "README": ""})
    for name, size in (("flat", "1"), ("sourced", "2")):
        environment = prepare(of(tmp_path / name, cache), here, config=EnvironmentConfig(), cache=cache)
        assert run(environment, "import pool; print(pool.SIZE)") == size
        assert environment.freeze[0].startswith("(plain source)  # path:")


def test_a_build_that_fails_shows_its_last_lines(project: Path, cache: Cache, here: Interpreter) -> None:
    write(project, {"backend.py": "def build_wheel(*_):\n    raise RuntimeError('the pump is missing')\n"})
    with pytest.raises(UsageError, match="does not build on Python") as caught:
        prepare(of(project, cache), here, config=NOTHING, cache=cache)
    assert "the pump is missing" in caught.value.what
    assert caught.value.where == f"path:{project}"


def test_an_interpreter_that_the_revision_does_not_support_is_refused(
    tmp_path: Path, cache: Cache, here: Interpreter
) -> None:
    built = pond(tmp_path / "built", "1.0", "Requires-Python: >=4")
    with pytest.raises(UsageError, match="does not run on Python"):
        prepare(of(built, cache), here, config=NOTHING, cache=cache)
    more = "[project]\nname = 'pond'\nversion = '1.0'\nrequires-python = '>=4'\n"
    said = of(pond(tmp_path / "said", more=more), cache)
    assert not said.runs_on(here)
    with pytest.raises(UsageError, match="needs Python >=4"):
        prepare(said, here, config=NOTHING, cache=cache)
    assert of(pond(tmp_path / "pond"), cache).runs_on(here)


def test_no_source_tree_is_written_to_by_a_build(project: Path, cache: Cache, here: Interpreter) -> None:
    backend = (project / "backend.py").read_text()
    write(
        project,
        {"backend.py": backend.replace("    return tag", "    open('litter', 'w').close()\n    return tag")},
    )
    revision = of(project, cache)
    prepare(revision, here, config=NOTHING, cache=cache)
    assert revision.source is not None
    assert not (revision.source / "litter").exists()
    assert not (project / "litter").exists()


# Dependencies, from a folder of wheels: no index is asked.


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is all that uv can install from."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name, version, *lines in (
        ("reed", "1.0"),
        ("reed", "2.0"),
        ("frog", "1.0", "Requires-Dist: reed>=1"),
        ("pond", "0.1"),
        ("heron", "1.0", "Requires-Dist: pond"),
    ):
        source = pond(
            tmp_path / f"{name}-{version}",
            files={"project.txt": "\n".join([name, version, *lines]) + "\n", f"src/{name}/__init__.py": ""},
        )
        code = f"import backend; backend.build_wheel({str(folder)!r})"
        subprocess.run([sys.executable, "-c", code], cwd=source, check=True)
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_DEFAULT_INDEX", folder.as_uri())
    return folder


def names(environment: Environment) -> list[str]:
    return [line.partition("  #")[0] for line in environment.freeze]


def test_dependencies_come_from_the_metadata_and_the_whole_of_them_is_frozen(
    tmp_path: Path, cache: Cache, here: Interpreter, wheels: Path
) -> None:
    project = pond(tmp_path / "pond", "1.0", "Requires-Dist: frog", "Requires-Dist: nowhere; python_version < '3'")
    environment = prepare(of(project, cache), here, requires=["reed==1.0"], cache=cache)
    assert names(environment) == ["pond==1.0", "frog==1.0", "reed==1.0"]
    assert run(environment, "import frog, pond; print(pond.__file__)").startswith(str(environment.layer))


def test_listed_dependencies_are_all_that_is_installed(
    tmp_path: Path, cache: Cache, here: Interpreter, wheels: Path
) -> None:
    project = pond(tmp_path / "pond", "1.0", "Requires-Dist: frog")
    config = EnvironmentConfig(requires=("reed==2.0",), dependencies="listed")
    assert names(prepare(of(project, cache), here, config=config, cache=cache)) == ["pond==1.0", "reed==2.0"]


def test_extras_groups_and_further_installs_are_taken_from_the_revision(
    tmp_path: Path, cache: Cache, here: Interpreter, wheels: Path
) -> None:
    lines = ("Provides-Extra: test", "Requires-Dist: reed==1.0; extra == 'test'")
    groups = "[dependency-groups]\nwild = ['frog']\nall = [{include-group = 'wild'}]\n"
    project = pond(tmp_path / "pond", "1.0", *lines, more=groups, files={"more.txt": "heron\n"})
    config = EnvironmentConfig(extras=("Test",), groups=("all",), install=("-r more.txt",))
    environment = prepare(of(project, cache), here, config=config, cache=cache)
    assert names(environment) == ["pond==1.0", "frog==1.0", "heron==1.0", "reed==1.0"]
    # Something that needs the package brought a release of it along: the layer comes first.
    assert run(environment, "import importlib.metadata as m; print(m.version('pond'))") == "1.0"


def test_revisions_that_need_the_same_share_an_environment(
    tmp_path: Path, fresh: Cache, here: Interpreter, wheels: Path, said: list[str]
) -> None:
    made = []
    for version in ("1.0", "2.0"):
        project = pond(tmp_path / version, version, "Requires-Dist: reed")
        made.append(prepare(of(project, fresh), here, cache=fresh))
    assert made[0].python == made[1].python
    assert made[0].layer != made[1].layer
    assert len([line for line in said if line.startswith("installing")]) == 1


def test_an_environment_whose_interpreter_is_gone_is_built_again(
    project: Path, fresh: Cache, here: Interpreter
) -> None:
    first = prepare(of(project, fresh), here, config=NOTHING, cache=fresh)
    Path(first.python).unlink()
    Path(first.python).symlink_to("/gone/python")
    again = prepare(of(project, fresh), here, config=NOTHING, cache=fresh)
    assert run(again, "print(1)") == "1"


def test_requirements_that_contradict_each_other_are_told(
    tmp_path: Path, cache: Cache, here: Interpreter, wheels: Path
) -> None:
    project = pond(tmp_path / "pond", "1.0", "Requires-Dist: reed>=2")
    with pytest.raises(UsageError, match="cannot be installed for Python") as caught:
        prepare(of(project, cache), here, requires=["reed==1.0"], cache=cache)
    assert "reed==1.0" in caught.value.where
    assert "listed" in caught.value.todo


@pytest.mark.parametrize(
    ("config", "match"),
    [
        (EnvironmentConfig(requires=("not a requirement!",)), "is no requirement"),
        (EnvironmentConfig(extras=("gone",)), "has no extra 'gone'"),
        (EnvironmentConfig(groups=("gone",)), "dependency group 'gone' is not there"),
        (EnvironmentConfig(dependencies="guessed"), "neither 'metadata' nor 'listed'"),
        (EnvironmentConfig(install=("-r gone.txt",)), r"uv pip install -r gone.txt"),
    ],
)
def test_a_configuration_that_cannot_be_followed_is_told(
    project: Path, cache: Cache, here: Interpreter, config: EnvironmentConfig, match: str
) -> None:
    with pytest.raises(UsageError, match=match):
        prepare(of(project, cache), here, config=config, cache=cache)


def test_variables_that_steer_uv_elsewhere_change_nothing(
    tmp_path: Path, project: Path, cache: Cache, here: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "other"))
    monkeypatch.setenv("UV_PYTHON", "2.7")
    monkeypatch.setenv("UV_TARGET", str(tmp_path / "target"))
    monkeypatch.setenv("UV_PROJECT", str(tmp_path / "nothing"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    environment = prepare(of(project, cache), here, config=NOTHING, cache=cache)
    assert run(environment, "import pond; print(pond.DEPTH)") == "1"
    assert not (tmp_path / "target").exists()


def prepare_and_tell(project: Path, cache: Cache, here: Interpreter, tell: multiprocessing.Queue[str]) -> None:
    tell.put(prepare(of(project, cache), here, config=NOTHING, cache=cache).digest)


def test_two_processes_prepare_the_same_at_once(project: Path, fresh: Cache, here: Interpreter) -> None:
    fork = multiprocessing.get_context("fork")
    told: multiprocessing.Queue[str] = fork.Queue()
    both = [fork.Process(target=prepare_and_tell, args=(project, fresh, here, told)) for _ in range(2)]
    for process in both:
        process.start()
    digests = {told.get(timeout=120) for _ in both}
    for process in both:
        process.join()
    assert len(digests) == 1
    assert list((fresh.root / "tmp").iterdir()) == []
    assert len(list((fresh.root / "layers").iterdir())) == 1


# What a package says that it needs.

LINUX = {"python_version": "3.12", "python_full_version": "3.12.1", "sys_platform": "linux"}


def test_an_extra_that_names_the_package_with_other_extras_brings_theirs() -> None:
    metadata = Metadata(
        "pond",
        "1.0",
        "",
        (
            "reed",
            "frog>=1; extra == 'wild'",
            "pond[wild,deep]; extra == 'all'",
            "pond[all]; extra == 'deep'",
            "eel; extra == 'deep' and python_version < '3.12'",
            "pike; extra == 'deep' and python_version >= '3.12'",
        ),
        ("wild", "deep", "all"),
    )
    assert dependencies(metadata, [], LINUX) == ("reed",)
    assert set(dependencies(metadata, ["all"], LINUX)) == {"reed", "frog>=1", "pike"}
    assert set(dependencies(metadata, ["all"], LINUX, base=False)) == {"frog>=1", "pike"}


def test_a_group_that_includes_itself_is_told() -> None:
    table = {"dependency-groups": {"a": [{"include-group": "b"}], "b": ["reed", {"include-group": "A"}]}}
    with pytest.raises(UsageError, match="includes itself"):
        group(table, ["a"], "here")


# Releases: the one place that asks the real index, for a package of ten kilobytes.


def test_a_release_is_taken_from_its_source_distribution(fresh: Cache, here: Interpreter, said: list[str]) -> None:
    revision = resolve("pypi:aiolimiter==1.3.0", project=Path.cwd(), cache=fresh, sdist=True)
    assert revision.label == "aiolimiter 1.3.0"
    assert revision.source is not None
    assert (revision.source / "PKG-INFO").exists()
    environment = prepare(revision, here, cache=fresh)
    assert run(environment, "import aiolimiter; print(aiolimiter.__version__)") == "1.3.0"
    assert environment.freeze == (f"aiolimiter==1.3.0  # pypi:aiolimiter==1.3.0, layer {environment.content[:12]}",)
    said.clear()
    resolve("pypi:aiolimiter==1.3.0", project=Path.cwd(), cache=fresh)
    assert said == []


def test_a_release_that_is_a_wheel_only_is_taken_as_it_is(fresh: Cache, here: Interpreter, wheels: Path) -> None:
    revision = resolve("pypi:frog==1.0", project=wheels, cache=fresh)
    assert revision.source is None
    environment = prepare(revision, here, cache=fresh)
    assert names(environment) == ["frog==1.0", "reed==2.0"]
    with pytest.raises(UsageError, match="no source distribution"):
        resolve("pypi:frog==1.0", project=wheels, cache=fresh, sdist=True)
    with pytest.raises(UsageError, match="no dependency groups"):
        prepare(revision, here, config=EnvironmentConfig(groups=("a",)), cache=fresh)


def sdist(project: Path, folder: Path, stem: str) -> None:
    with tarfile.open(folder / f"{stem}.tar.gz", "w:gz") as bundle:
        bundle.add(project, stem)


def test_where_the_source_does_not_build_the_wheel_is_taken_and_that_is_noted(
    tmp_path: Path, fresh: Cache, here: Interpreter, wheels: Path
) -> None:
    project = pond(tmp_path / "broken", files={"backend.py": "", "PKG-INFO": "Metadata-Version: 2.2\n"})
    sdist(project, wheels, "frog-1.0")
    revision = resolve("pypi:frog==1.0", project=wheels, cache=fresh)
    assert revision.source is not None
    assert (revision.source / "tests/test_pond.py").exists()
    environment = prepare(revision, here, cache=fresh)
    assert names(environment)[0] == "frog==1.0"
    assert environment.notes == ("frog 1.0: its source distribution does not build here, the index's wheel was taken",)
    with pytest.raises(UsageError, match="does not build"):
        prepare(resolve("pypi:frog==1.0", project=wheels, cache=fresh, sdist=True), here, cache=fresh)


class Index(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; what is below `private` only to who says the password."""

    word = "Basic " + base64.b64encode(b"me:secret").decode()

    def do_GET(self) -> None:
        if self.path.startswith("/private") and self.headers.get("Authorization") != self.word:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.end_headers()
            return
        super().do_GET()

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder with the source distribution of `newt`, served on this machine, and its address."""
    project = pond(
        tmp_path / "newt",
        files={
            "project.txt": "newt\n1.0\n",
            "src/newt/__init__.py": "",
            "PKG-INFO": "Metadata-Version: 2.2\nName: newt\nVersion: 1.0\n",
        },
    )
    folder = tmp_path / "index"
    for place in ("open", "private"):
        write(folder, {f"{place}/newt/index.html": '<a href="newt-1.0.tar.gz">newt-1.0.tar.gz</a>'})
        sdist(project, folder / place / "newt", "newt-1.0")
    handler = functools.partial(Index, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield folder, f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_file_that_is_not_what_the_index_says_is_refused(
    tmp_path: Path, fresh: Cache, index: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = index
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://{address}/open")
    other = f'<a href="newt-1.0.tar.gz#sha256={64 * "0"}">newt-1.0.tar.gz</a>'
    write(folder, {"open/newt/index.html": other})
    with pytest.raises(UsageError, match="is not what the index says"):
        resolve("pypi:newt==1.0", project=tmp_path, cache=fresh)


def test_from_a_private_index_uv_installs_what_we_cannot_download(
    tmp_path: Path, fresh: Cache, here: Interpreter, index: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://me:secret@{index[1]}/private")
    revision = resolve("pypi:newt==1.0", project=tmp_path, cache=fresh, sdist=True)
    assert revision.source is None
    environment = prepare(revision, here, cache=fresh)
    assert names(environment) == ["newt==1.0"]
    assert len(environment.notes) == 1
    assert "401" in environment.notes[0]
    assert "secret" not in environment.notes[0]


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ("pypi:aiolimiter==99.9", "there is no release 99.9 of aiolimiter"),
        (
            "pypi:stormdrain-there-is-no-such-package==1.0",
            "there is no package stormdrain-there-is-no-such-package",
        ),
    ],
)
def test_a_release_that_is_not_there_is_told(cache: Cache, spec: str, what: str) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        resolve(spec, project=Path.cwd(), cache=cache)
    assert caught.value.where == spec


def test_an_index_that_cannot_be_reached_is_told(fresh: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    with pytest.raises(UsageError, match="network cannot be reached"):
        resolve("pypi:aiolimiter==1.3.0", project=Path.cwd(), cache=fresh)
    assert fresh.read("releases", "aiolimiter-1.3.0", Release) is None
