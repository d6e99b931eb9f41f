"""Hand-built runs for the tests of the store, the comparison, the reports and the gate."""

from __future__ import annotations

from stormdrain.model import (
    Cell,
    CellResult,
    Event,
    Exc,
    FaultRecord,
    Finding,
    Observation,
    Outcome,
    ProcessFact,
    Run,
    Site,
    StormTally,
    Trial,
    Verdict,
    merge,
)

CLOSE = Site("claude_agent_sdk/_internal/transport/subprocess_cli.py", 412, "SubprocessCLITransport.close", True)
CHILD = ProcessFact(4711, "cli --output-format stream-json", "alive", None, CLOSE, "cli", (), "S")


def cell(key: str = "aaaaaaaa", role: str = "", **over: object) -> Cell:
    values: dict[str, object] = {
        "probe": "transport",
        "revision": "pypi:claude-agent-sdk==0.2.143",
        "python": "3.11.7",
        "backend": "asyncio",
        "freeze": ("anyio==4.15.0", "claude-agent-sdk==0.2.143"),
    }
    return Cell(key=key, role=role, **{**values, **over})  # type: ignore[arg-type] # values are right by name


def finding(
    key: str = "aaaaaaaa",
    point: int = 3,
    expectation: str = "child-reaped",
    storm: str = "cancel-sweep",
    **over: object,
) -> Finding:
    values: dict[str, object] = {
        "id": f"{expectation}-{storm}",
        "message": "the child was still alive 2.0 s after close() ended",
        "token": f"{key}/{storm}/f:cancel@{point}",
        "site": CLOSE,
        "seen": ("close() raised CancelledError after 0.0 s",),
        "failed": 3,
        "runs": 3,
    }
    return Finding(expectation=expectation, storm=storm, **{**values, **over})  # type: ignore[arg-type] # as above


def observation(*events: str, **over: object) -> Observation:
    values: dict[str, object] = {
        "outcome": Outcome("raised", (Exc("CancelledError", "", cancelled=True, injected=True),)),
        "faults": (FaultRecord("cancel", 3, 0.0, True, (CLOSE,)),),
        "processes": (CHILD,),
        "timeline": tuple(Event(float(n), what) for n, what in enumerate(events)),
    }
    return Observation("virtual", **{**values, **over})  # type: ignore[arg-type] # as above


def failing_trial(key: str = "aaaaaaaa", point: int = 3, *events: str, **over: object) -> Trial:
    hit = finding(key, point)
    values: dict[str, object] = {"observation": observation(*(events or ("close() starts", "cancel lands")))}
    return Trial(key, hit.storm, hit.token, Verdict.FAIL, (hit,), **{**values, **over})  # type: ignore[arg-type] # as above


def passing_trial(key: str = "aaaaaaaa", point: int = 3, *events: str) -> Trial:
    return Trial(
        key,
        "cancel-sweep",
        f"{key}/cancel-sweep/f:cancel@{point}",
        Verdict.PASS,
        observation=observation(*(events or ("close() starts", "SIGTERM to the child")), processes=()),
    )


def failing_cell(key: str = "aaaaaaaa", role: str = "", *hits: Finding, **over: object) -> CellResult:
    hits = hits or (finding(key),)
    tally = StormTally("cancel-sweep", Verdict.FAIL, 12, len(hits), 2, 4)
    return CellResult(
        cell(key, role, **over),
        Verdict.FAIL,
        storms=(StormTally("calm", Verdict.PASS, 2), tally),
        findings=hits,
        trials=14,
        canaries={"child-reaped": Verdict.FAIL},
    )


def passing_cell(key: str = "aaaaaaaa", role: str = "", **over: object) -> CellResult:
    storms = (StormTally("calm", Verdict.PASS, 2), StormTally("cancel-sweep", Verdict.PASS, 12, 0, 2))
    return CellResult(cell(key, role, **over), Verdict.PASS, storms=storms, trials=14)


def run(*cells: CellResult, trials: tuple[Trial, ...] = (), **over: object) -> Run:
    values: dict[str, object] = {
        "command": ("stormdrain", "probe"),
        "verdict": merge(one.verdict for one in cells),
        "exit_code": 0,
        "started": "2026-01-02T03:04:05Z",
        "head": "worktree",
    }
    return Run(cells=cells, trials=trials, **{**values, **over})  # type: ignore[arg-type] # as above
