"""How a revision is written, and what is laid over it: edits and patches."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from revising import PIPE, TEST, commit, git, pond, repository, write
from stormdrain.errors import UsageError
from stormdrain.revisions import Cache, resolve
from stormdrain.revisions.overlays import overlay_site
from stormdrain.revisions.patches import Misfit, read_patch
from stormdrain.revisions.spec import Overlay, parse_spec


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


# How it is written.


@pytest.mark.parametrize(
    ("text", "kind", "name", "version"),
    [
        ("worktree", "worktree", "", ""),
        ("main", "git", "main", ""),
        ("origin/topic", "git", "origin/topic", ""),
        ("HEAD~2", "git", "HEAD~2", ""),
        ("v1.0+build", "git", "v1.0+build", ""),
        ("pr/17", "pr", "17", ""),
        ("pr/next", "git", "pr/next", ""),
        ("pypi:claude_Agent.SDK==0.2.143", "release", "claude-agent-sdk", "0.2.143"),
        ("pypi:torch == 2.0+cpu", "release", "torch", "2.0+cpu"),
    ],
)
def test_each_form_is_read(tmp_path: Path, text: str, kind: str, name: str, version: str) -> None:
    spec = parse_spec(text, project=tmp_path)
    assert (spec.kind, spec.name, spec.version, spec.overlays) == (kind, name, version, ())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "+a.toml",
        "pypi:pond",
        "pypi:pond>=1",
        "pypi:pond==1.*",
        "pypi:pond[x]==1",
        "pypi:==1",
        "-x",
        "a b",
        "path:no",
    ],
)
def test_what_has_none_of_the_forms_is_refused(tmp_path: Path, text: str) -> None:
    write(tmp_path, {"a.toml": ""})
    with pytest.raises(UsageError) as caught:
        parse_spec(text, project=tmp_path)
    assert caught.value.todo


BASES = st.sampled_from(["worktree", "main", "pr/3", "pypi:pond==1.0", "pypi:pond==1.0+local.1", "v1+2"])
FILES = st.lists(st.sampled_from(["a.toml", "b.patch", "sub/c.diff"]), max_size=4)


@given(base=BASES, files=FILES)
def test_any_number_of_overlays_follows_any_form(
    tmp_path_factory: pytest.TempPathFactory, base: str, files: list[str]
) -> None:
    project = write(
        tmp_path_factory.getbasetemp() / "overlaid", dict.fromkeys(["a.toml", "b.patch", "sub/c.diff"], "x")
    )
    alone = parse_spec(base, project=project)
    spec = parse_spec("+".join([base, *files]), project=project)
    assert (spec.kind, spec.name, spec.version) == (alone.kind, alone.name, alone.version)
    assert [str(overlay.path.relative_to(project)) for overlay in spec.overlays] == files


def test_an_overlay_is_looked_for_here_and_then_in_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = write(tmp_path / "project", {"both.toml": "project", "there.toml": "project"})
    here = write(tmp_path / "here", {"both.toml": "here"})
    monkeypatch.chdir(here)
    spec = parse_spec("main+both.toml+there.toml", project=project)
    assert [overlay.body for overlay in spec.overlays] == [b"here", b"project"]
    with pytest.raises(UsageError, match="not there") as caught:
        parse_spec("main+gone.toml", project=project)
    assert str(here / "gone.toml") in caught.value.where
    assert str(project / "gone.toml") in caught.value.where


# Patches.

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "  d", "é", "x\r", "-- y", "+++ z"]), max_size=12)


def diff(old: str, new: str, name: str = "f.py") -> bytes:
    """What `diff -u` writes, markers for missing newlines included."""
    out = []
    for line in difflib.unified_diff(
        old.splitlines(True) if "\r" not in old else lines_of(old), lines_of(new), f"a/{name}", f"b/{name}"
    ):
        out.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(out).encode()


def lines_of(text: str) -> list[str]:
    return [line + "\n" for line in text.split("\n")[:-1]] + ([text.split("\n")[-1]] if text.split("\n")[-1] else [])


@given(old=LINES, new=LINES, end_old=st.booleans(), end_new=st.booleans())
def test_a_patch_makes_the_new_file_out_of_the_old(
    old: list[str], new: list[str], end_old: bool, end_new: bool
) -> None:
    before = "\n".join(old) + ("\n" if end_old and old else "")
    after = "\n".join(new) + ("\n" if end_new and new else "")
    assume(before != after)
    (patch,) = read_patch(diff(before, after), "here")
    assert patch.apply(before.encode()) == after.encode()


@given(above=st.lists(st.sampled_from(["m", "n"]), max_size=5))
def test_a_patch_finds_its_place_where_lines_were_added_above(above: list[str]) -> None:
    before = "".join(f"line {number}\n" for number in range(20))
    after = before.replace("line 10", "changed")
    more = "".join(f"{line}\n" for line in above)
    (patch,) = read_patch(diff(before, after), "here")
    assert patch.apply((more + before).encode()) == (more + after).encode()


def test_a_patch_whose_text_is_not_there_says_which_hunk() -> None:
    before = "".join(f"line {number}\n" for number in range(40))
    after = before.replace("line 5\n", "five\n").replace("line 30\n", "thirty\n")
    (patch,) = read_patch(diff(before, after), "here")
    with pytest.raises(Misfit, match="hunk 2 of 2"):
        patch.apply(before.replace("line 30", "other").encode())


@pytest.mark.parametrize("body", [b"", b"no diff at all\n", b"--- a/x\n+++ b/x\n@@ -1,9 +1 @@\n-a\n"])
def test_what_is_no_patch_is_refused(body: bytes) -> None:
    with pytest.raises(UsageError, match="patch") as caught:
        read_patch(body, "some.patch")
    assert caught.value.where == "some.patch"


# Over a layer.


def site(folder: Path) -> Path:
    return write(
        folder,
        {
            "pond/__init__.py": "DEPTH = 1\n",
            "pond/pipe.py": "def drain():\n    return 'slow'\n",
            "pond-1.0.dist-info/METADATA": "Name: pond\n",
        },
    )


def overlay(folder: Path, name: str, text: str) -> Overlay:
    write(folder, {name: text})
    return Overlay(Path(name).stem, folder / name, text.encode())


CHANGE = diff("def drain():\n    return 'slow'\n", PIPE.format("fast"), "{}").decode()


@pytest.mark.parametrize("name", ["pond/pipe.py", "src/pond/pipe.py", "packages/pond/src/pond/pipe.py"])
def test_a_patch_finds_its_file_without_the_folders_above_the_package(tmp_path: Path, name: str) -> None:
    layer = site(tmp_path / "site")
    laid = overlay_site(overlay(tmp_path, "fast.patch", CHANGE.replace("{}", name)), layer, "rev")
    assert laid.changed == ("pond/pipe.py",)
    assert (layer / "pond/pipe.py").read_text() == "def drain():\n    return 'fast'\n"


def test_a_patch_adds_removes_and_renames(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "mv", "src/pond/pipe.py", "src/pond/tube.py")
    write(repo, {"src/pond/new/deep.py": "NEW = 1\n", "src/pond/tube.py": "def drain():\n    return 'tube'\n"})
    (repo / "src/pond/__init__.py").unlink()
    commit(repo)
    text = git(repo, "diff", "--find-renames=30%", "HEAD~1") + "\n"
    assert "rename from" in text
    layer = site(tmp_path / "site")
    overlay_site(overlay(tmp_path, "all.patch", text), layer, "rev")
    assert sorted(path.name for path in (layer / "pond").iterdir()) == ["new", "tube.py"]
    assert (layer / "pond/tube.py").read_text() == "def drain():\n    return 'tube'\n"
    assert (layer / "pond/new/deep.py").read_text() == "NEW = 1\n"


def test_what_of_a_patch_has_no_place_in_the_layer_is_noted(tmp_path: Path) -> None:
    layer = site(tmp_path / "site")
    text = CHANGE.replace("{}", "src/pond/pipe.py") + CHANGE.replace("{}", "tests/pond/pipe.py")
    laid = overlay_site(overlay(tmp_path, "fast.patch", text), layer, "rev")
    assert laid.changed == ("pond/pipe.py",)
    assert laid.notes == ("fast.patch: not in the layer: tests/pond/pipe.py",)


def test_a_patch_that_does_not_apply_names_file_and_revision(tmp_path: Path) -> None:
    layer = site(tmp_path / "site")
    write(layer, {"pond/pipe.py": "def drain():\n    return 'other'\n"})
    with pytest.raises(UsageError, match=r"fast.patch does not apply to pond/pipe.py: hunk 1 of 1") as caught:
        overlay_site(overlay(tmp_path, "fast.patch", CHANGE.replace("{}", "pond/pipe.py")), layer, "rev")
    assert caught.value.where == f"{tmp_path / 'fast.patch'} on rev"


def test_edits_are_laid_on_by_module_or_by_path(tmp_path: Path) -> None:
    layer = site(tmp_path / "site")
    text = (
        "[[edit]]\nmodule = 'pond'\nold = 'DEPTH = 1'\nnew = 'DEPTH = 2'\n"
        "[[edit]]\npath = 'pond/pipe.py'\nsymbol = 'drain'\n"
        f"replace = '''\n{PIPE.format('fast')}'''\n"
    )
    laid = overlay_site(overlay(tmp_path, "deep.toml", text), layer, "rev")
    assert set(laid.changed) == {"pond/__init__.py", "pond/pipe.py"}
    assert (layer / "pond/__init__.py").read_text() == "DEPTH = 2\n"
    assert "fast" in (layer / "pond/pipe.py").read_text()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[[edit", "cannot be read"),
        ("edits = 1", r"no \[\[edit\]\] table"),
        (
            "[[edit]]\nmodule = 'pond.gone'\nold = 'a'\nnew = 'b'",
            "pond/gone.py, which the revision does not have",
        ),
        ("[[edit]]\nmodule = 'pond.pipe'\nold = 'nowhere'\nnew = 'b'", "nowhere"),
        ("[[edit]]\nmodule = 'pond.pipe'\nsymbol = 'gone'\nreplace = 'x = 1'", "gone"),
    ],
)
def test_edits_that_do_not_fit_are_told(tmp_path: Path, text: str, match: str) -> None:
    layer = site(tmp_path / "site")
    with pytest.raises(UsageError, match=match) as caught:
        overlay_site(overlay(tmp_path, "deep.toml", text), layer, "rev")
    assert "deep.toml" in f"{caught.value.what} {caught.value.where}"


# Over a tree.


def test_a_tree_has_the_overlays_applied_tests_too_and_the_plain_one_stays(tmp_path: Path, cache: Cache) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "checkout", "--quiet", "-b", "topic")
    write(
        repo,
        {
            "src/pond/pipe.py": PIPE.format("fast"),
            "tests/test_pond.py": TEST.format("fast"),
            "tests/test_new.py": "",
        },
    )
    commit(repo)
    write(tmp_path, {"topic.patch": git(repo, "diff", "main", "topic") + "\n"})
    git(repo, "checkout", "--quiet", "main")
    plain = resolve("main", project=repo, cache=cache)
    changed = resolve(f"main+{tmp_path / 'topic.patch'}", project=repo, cache=cache)
    topic = resolve("topic", project=repo, cache=cache)
    assert changed.label == plain.label + "+topic"
    assert changed.root == plain.root
    assert plain.source is not None
    assert changed.source is not None
    assert topic.source is not None
    for name in ("src/pond/pipe.py", "tests/test_pond.py", "tests/test_new.py"):
        assert (changed.source / name).read_bytes() == (topic.source / name).read_bytes()
    assert "slow" in (plain.source / "src/pond/pipe.py").read_text()
    assert not (plain.source / "tests/test_new.py").exists()


def test_a_changelog_that_does_not_fit_is_passed_over_and_a_test_is_not(tmp_path: Path, cache: Cache) -> None:
    project = pond(tmp_path / "pond", files={"CHANGES.md": "another line\n"})
    fits = CHANGE.replace("{}", "src/pond/pipe.py")
    write(tmp_path, {"a.patch": fits + CHANGE.replace("{}", "CHANGES.md")})
    write(tmp_path, {"b.patch": fits + CHANGE.replace("{}", "tests/test_pond.py")})
    revision = resolve(f"path:{project}+{tmp_path / 'a.patch'}", project=tmp_path, cache=cache)
    assert revision.notes == ("a.patch: does not fit, passed over: CHANGES.md",)
    with pytest.raises(UsageError, match=r"does not apply to tests/test_pond.py"):
        resolve(f"path:{project}+{tmp_path / 'b.patch'}", project=tmp_path, cache=cache)


def test_another_content_of_an_overlay_is_another_revision(tmp_path: Path, cache: Cache) -> None:
    project = pond(tmp_path / "pond")
    texts = []
    for depth in (2, 3):
        write(tmp_path, {"deep.toml": f"[[edit]]\nmodule = 'pond'\nold = '1'\nnew = '{depth}'\n"})
        revision = resolve(f"path:{project}+{tmp_path / 'deep.toml'}", project=tmp_path, cache=cache)
        assert revision.source is not None
        texts.append((revision.source / "src/pond/__init__.py").read_text())
    assert texts == ["DEPTH = 2\n", "DEPTH = 3\n"]
