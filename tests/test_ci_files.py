"""What a maintainer's CI takes from here: valid by the published schemas, and its shell steps run as they are written."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from building import failing_cell, failing_trial, finding, run
from published import check_yaml
from revising import pond, write
from stormdrain import store
from test_cli_end_to_end import GATE, LEAKY, PROBE, TIDY, VERSION
from test_reporting_escape import HOSTILE

ROOT = Path(__file__).parents[1]
ACTION = ROOT / "action.yml"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
COMMENT = ROOT / ".github" / "workflows" / "stormdrain-comment.yml"


def steps_of(path: Path) -> list[dict[str, Any]]:
    """Every step of an action or a workflow."""
    data = yaml.safe_load(path.read_text())
    if "runs" in data:
        return list(data["runs"]["steps"])
    return [step for job in data["jobs"].values() for step in job["steps"]]


def gitlab_example(folder: Path) -> Path:
    (block,) = re.findall(r"```yaml\n(# \.gitlab-ci\.yml\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    path = folder / ".gitlab-ci.yml"
    path.write_text(block)
    return path


def test_each_file_is_valid_by_the_published_schema(tmp_path: Path) -> None:
    check_yaml(ACTION, "github-actions")
    for path in WORKFLOWS:
        check_yaml(path, "github-workflows")
    check_yaml(gitlab_example(tmp_path), "gitlab-ci")


def test_the_hooks_are_taken_by_what_reads_them() -> None:
    asked = [sys.executable, "-m", "pre_commit", "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_schemas_refuse_what_is_wrong(tmp_path: Path) -> None:
    wrong = tmp_path / "action.yml"
    wrong.write_text(ACTION.read_text().replace("using: composite", "using: compost"))
    with pytest.raises(AssertionError, match="compost"):
        check_yaml(wrong, "github-actions")


@pytest.mark.parametrize("path", [ACTION, *WORKFLOWS], ids=lambda path: path.name)
def test_no_value_is_pasted_into_a_script(path: Path) -> None:
    for step in steps_of(path):
        assert "${{" not in step.get("run", ""), step


def test_what_runs_the_code_of_a_pull_request_has_no_secret_and_can_only_read() -> None:
    for path in WORKFLOWS:
        data = yaml.safe_load(path.read_text())
        on = data[True]  # YAML 1.1 takes `on` for a truth
        assert "pull_request_target" not in on
        text = path.read_text()
        if "pull_request" in on:
            assert data["permissions"] == {"contents": "read"}
            assert "secrets." not in text
            assert "github.token" not in text
        if "workflow_run" in on:
            # Its checkout is the default branch: no ref of the pull request's is named.
            assert all("ref" not in step.get("with", {}) for step in steps_of(path))
        for step in steps_of(path):
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False


# The shell steps, run as a runner runs them


@dataclass
class Runner:
    """Runs the shell steps of a file one after the other, with the files that a runner gives them."""

    folder: Path
    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    event: dict[str, str] = field(default_factory=dict)
    """What other expressions stand for."""
    path: str = ""
    """What comes before the rest of PATH."""

    def __post_init__(self) -> None:
        self.temp = self.folder / "temp"
        there = self.temp / "stormdrain-venv" / "bin"
        there.mkdir(parents=True)
        self.tool = there / "stormdrain"
        self.tool.write_text(f"#!{sys.executable}\nfrom stormdrain.cli import main\nmain()\n")
        self.tool.chmod(0o755)
        self.summary = self.folder / "summary.md"
        self.summary.touch()

    def resolved(self, text: str) -> str:
        def look(match: re.Match[str]) -> str:
            name = match[1].strip()
            if name.startswith("inputs."):
                return self.inputs[name.removeprefix("inputs.")]
            if found := re.fullmatch(r"steps\.([\w-]+)\.outputs\.([\w-]+)", name):
                return self.outputs.get(found[1], {}).get(found[2], "")
            return self.event[name]

        return re.sub(r"\$\{\{(.*?)\}\}", look, text)

    def __call__(self, step: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        out = self.folder / "output"
        out.write_text("")
        script = self.folder / "step.sh"
        script.write_text(step["run"])
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.folder / self.resolved(step.get("working-directory", ".")),
            env={
                **os.environ,
                "PATH": f"{self.path}{self.tool.parent}:{os.environ['PATH']}",
                "RUNNER_TEMP": str(self.temp),
                "GITHUB_OUTPUT": str(out),
                "GITHUB_STEP_SUMMARY": str(self.summary),
                **{name: self.resolved(value) for name, value in step.get("env", {}).items()},
            },
            capture_output=True,
            text=True,
            check=False,
        )
        rows = (line.partition("=") for line in out.read_text().splitlines())
        self.outputs[step.get("id", "")] = {name: value for name, _, value in rows}
        return done


def action(folder: Path, **inputs: str) -> Runner:
    given = yaml.safe_load(ACTION.read_text())["inputs"]
    return Runner(folder, {name: spec["default"] for name, spec in given.items()} | inputs)


def named(path: Path, name: str) -> dict[str, Any]:
    return next(step for step in steps_of(path) if step.get("name") == name)


def test_the_action_says_what_a_gate_says_that_was_refused(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    runner = action(tmp_path, args="--python '3.11' --config-from head")
    gate = runner(named(ACTION, "Gate"))
    assert gate.returncode == 0
    assert "there is no [tool.stormdrain] here" in gate.stderr
    assert runner(named(ACTION, "Reports")).returncode == 0
    assert runner.outputs["reports"] == {}
    assert runner.summary.read_text() == ""
    assert runner(named(ACTION, "Verdict")).returncode == 2


def test_the_arguments_of_the_action_are_words_and_never_a_script(tmp_path: Path) -> None:
    runner = action(tmp_path, args="--jobs 2 '$(touch pwned)' \"a b\"", base="; touch pwned", config="$(touch pwned)")
    runner.tool.write_text(f"#!{sys.executable}\nimport json, sys\njson.dump(sys.argv[1:], open('words.json', 'w'))\n")
    runner(named(ACTION, "Gate"))
    words = json.loads((tmp_path / "words.json").read_text())
    out = str(tmp_path / "temp" / "stormdrain-run")
    fixed = ["gate", "--out", out, "--config", "$(touch pwned)", "--base", "; touch pwned"]
    assert words == [*fixed, "--jobs", "2", "$(touch pwned)", "a b"]
    assert not (tmp_path / "pwned").exists()


def test_the_action_reports_a_run_in_each_format(tmp_path: Path) -> None:
    runner = action(tmp_path)
    folder = runner.temp / "stormdrain-run"
    folder.mkdir()
    kept = run(failing_cell(), trials=(failing_trial(),), exit_code=1)
    store.Writer(folder, run()).finish(kept)
    runner.outputs["gate"] = {"run": str(folder), "exit-code": "1"}
    done = runner(named(ACTION, "Reports"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("::error file=claude_agent_sdk/_internal/transport/subprocess_cli.py,line=412,")
    assert runner.summary.read_text().startswith("### ❌ stormdrain: FAIL")
    reports = Path(runner.outputs["reports"]["reports"])
    files = {"report.md", "junit.xml", "report.sarif", "annotations.txt", "mutation.json"}
    assert {path.name for path in reports.iterdir()} == files
    assert runner(named(ACTION, "Verdict")).returncode == 1


def test_the_example_for_gitlab_leaves_the_reports_that_it_names(tmp_path: Path) -> None:
    job = yaml.safe_load(gitlab_example(tmp_path).read_text())["stormdrain"]
    runner = Runner(tmp_path)
    store.Writer(store.new_folder("gate", tmp_path / "run", tmp_path), run()).finish(run(failing_cell()))
    done = runner({"run": "\n".join(job["after_script"])})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / job["artifacts"]["reports"]["junit"]).exists()
    (gate,) = [line for line in job["script"] if line.startswith("stormdrain gate")]
    (tmp_path / "pyproject.toml").touch()
    refused = runner({"run": gate, "env": {"CI_MERGE_REQUEST_DIFF_BASE_SHA": "abc"}})
    assert refused.returncode == 2
    assert "[tool.stormdrain]" in refused.stderr


GH = """#!{python}
import json, os, subprocess, sys
words = sys.argv[1:]
with open("calls.jsonl", "a") as log:
    print(json.dumps(words), file=log)
answers = {{"pulls": json.loads(os.environ["PULLS"]), "comments": json.loads(os.environ["COMMENTS"])}}
if "--jq" in words:
    answer = answers[next(word for word in words if word.startswith("repos/")).rpartition("/")[2]]
    program = words[words.index("--jq") + 1]
    sys.exit(subprocess.run(["jq", "-r", program], input=json.dumps(answer), text=True).returncode)
body = next(word for word in words if word.startswith("body=@")).removeprefix("body=@")
open("posted.md", "w").write(open(body).read())
"""


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq, in the place of the one in gh")
@pytest.mark.parametrize(
    ("pulls", "comments", "path"),
    [
        ([7], [], "repos/o/r/issues/7/comments"),
        ([7], [("someone", "<!-- stormdrain -->"), ("github-actions[bot]", "x")], "repos/o/r/issues/7/comments"),
        ([7], [("github-actions[bot]", "<!-- stormdrain -->\nold")], "repos/o/r/issues/comments/100"),
        ([], [], ""),
    ],
)
def test_the_comment_is_made_here_and_replaces_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pulls: list[int], comments: list[tuple[str, str]], path: str
) -> None:
    runner = Runner(tmp_path, path=f"{tmp_path}/fake:")
    (tmp_path / "fake").mkdir()
    (tmp_path / "fake" / "gh").write_text(GH.format(python=sys.executable))
    (tmp_path / "fake" / "gh").chmod(0o755)
    (runner.temp / "run").mkdir()
    victim = run(failing_cell("aaaaaaaa", "", *[finding(message=text) for text in HOSTILE]), notes=tuple(HOSTILE))
    store.Writer(runner.temp / "run", run()).finish(victim)
    branch = "$(touch pwned)&head=evil"
    runner.event = {
        "github.token": "t",
        "github.repository": "o/r",
        "github.event.workflow_run.head_repository.owner.login": "fork",
        "github.event.workflow_run.head_branch": branch,
        "github.event.workflow_run.head_sha": "abc",
    }
    other = {"number": 6, "head": {"sha": "another"}}
    monkeypatch.setenv("PULLS", json.dumps([other, *({"number": n, "head": {"sha": "abc"}} for n in pulls)]))
    rows = [{"id": 100 + n, "user": {"login": who}, "body": text} for n, (who, text) in enumerate(comments)]
    monkeypatch.setenv("COMMENTS", json.dumps(rows))
    done = runner(named(COMMENT, "Comment"))
    assert done.returncode == 0, done.stderr
    calls = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    assert f"head=fork:{branch}" in calls[0]
    assert not (tmp_path / "pwned").exists()
    if not path:
        assert len(calls) == 1
        return
    assert path in calls[-1]
    posted = (tmp_path / "posted.md").read_text()
    assert posted.startswith("<!-- stormdrain -->\n### ❌ stormdrain: FAIL")
    assert len(posted) < 65_536


@pytest.mark.long
def test_the_action_runs_a_gate_from_its_installation_to_its_verdict(tmp_path: Path) -> None:
    pond(tmp_path / "leaky", files={"src/pond/pump.py": LEAKY})
    pond(tmp_path / "tidy", files={"src/pond/pump.py": TIDY})
    write(tmp_path, {"probes/pump.py": PROBE, "gate.toml": GATE.replace("PYTHON", VERSION)})
    runner = action(tmp_path, config="gate.toml", base="path:tidy", args="--head path:leaky")
    shutil.rmtree(runner.tool.parent.parent)
    runner.event["github.action_path"] = str(ROOT)
    runner.path = f"{Path(sys.executable).parent}:"
    installed = runner(named(ACTION, "Install stormdrain"))
    assert installed.returncode == 0, installed.stderr
    assert runner(named(ACTION, "Gate")).returncode == 0
    assert runner(named(ACTION, "Reports")).returncode == 0
    assert "no&#45;leaked&#45;tasks" in runner.summary.read_text()
    assert runner(named(ACTION, "Verdict")).returncode == 1


@pytest.mark.long
def test_the_hook_runs_the_probes_that_it_is_given(tmp_path: Path) -> None:
    pond(tmp_path, files={"src/pond/pump.py": LEAKY, "probes/pump.py": PROBE})
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    asked = [sys.executable, "-m", "pre_commit", "try-repo", str(ROOT), "stormdrain-probe", "--files", "probes/pump.py"]
    env = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "hooks")}
    done = subprocess.run(asked, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert "FAIL no-leaked-tasks under cancel-storm" in done.stdout, done.stdout + done.stderr
    assert "exit code: 1" in done.stdout
