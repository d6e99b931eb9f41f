"""Laws of the model: what crosses the wire comes back as it was, texts read back, verdicts merge."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import types
import typing
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import stormdrain.model as model
from stormdrain.model import (
    Failure,
    Fault,
    Observation,
    Outcome,
    Run,
    Schedule,
    Site,
    Token,
    Trial,
    Verdict,
    When,
    Wrap,
    from_json,
    merge,
    parse_schedule,
    parse_token,
    suspended_at,
    to_json,
)

KINDS = [kind for name in model.__all__ if dataclasses.is_dataclass(kind := getattr(model, name))]
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=8),
    int: st.integers(),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    type(None): st.none(),
    Any: st.none() | st.booleans() | st.lists(st.text(max_size=4), max_size=2),  # what JSON has
}


@functools.cache
def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type as the model's fields have them; dataclasses with a few fields set and the rest default."""
    if kind in PLAIN:
        return PLAIN[kind]
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([values(option) for option in inner])
    if origin is tuple:
        if inner[1:] == (Ellipsis,):
            return st.lists(st.deferred(lambda: values(inner[0])), max_size=2).map(tuple)
        return st.tuples(*map(values, inner))
    if origin is dict:
        return st.dictionaries(values(str), st.deferred(lambda: values(inner[1])), max_size=2)
    if issubclass(kind, enum.Enum):
        return st.sampled_from(kind)
    return st.deferred(lambda: made(kind))


@functools.cache
def made(kind: Any) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind)
    needed, free = {}, {}
    for field in dataclasses.fields(kind):
        given = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        (needed if given else free)[field.name] = values(hints[field.name])
    return st.fixed_dictionaries(needed, optional=free).map(lambda fields: kind(**fields))


def crossed(value: Any) -> Any:
    """What the other side of the wire gets."""
    return from_json(type(value), json.loads(json.dumps(to_json(value))))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_dataclass_crosses_the_wire_unchanged(kind: Any, data: st.DataObject) -> None:
    value = data.draw(made(kind))
    assert crossed(value) == value


def test_a_lone_surrogate_of_a_file_name_crosses_too() -> None:
    site = Site("caf\udce9.py", 1)
    assert crossed(site) == site


def test_what_is_default_is_left_out() -> None:
    assert to_json(Observation("virtual", Outcome("returned"))) == {
        "clock": "virtual",
        "outcome": {"kind": "returned"},
    }


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        (Site, {"file": "a", "line": 1, "colour": "red"}, "unknown field 'colour'"),
        (Site, {"file": "a"}, "line"),
        (Site, {"file": "a", "line": "1"}, "Site.line"),
        (Site, {"file": "a", "line": True}, "Site.line"),
        (Site, [], "an object was expected"),
        (Trial, {"cell": "a", "storm": "b", "token": "c", "verdict": "FINE"}, "FINE"),
        (Run, {"command": "probe", "verdict": "PASS", "exit_code": 0}, "a list was expected"),
    ],
)
def test_what_has_another_form_is_refused(kind: Any, data: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_json(kind, data)


# -- schedules ------------------------------------------------------------------

NUMBERS = st.floats(min_value=0, max_value=1e12, allow_subnormal=False)
COUNTS = st.integers(min_value=0, max_value=10**9)
WHENS = st.one_of(
    st.sampled_from([When("start"), When("with")]),
    st.builds(When, st.sampled_from(["point", "turns"]), COUNTS),
    st.builds(When, st.sampled_from(["after", "every"]), NUMBERS),
    st.builds(When, st.just("event"), st.just(0), st.from_regex(r"[A-Za-z0-9_.-]+", fullmatch=True)),
)
FAULTS = st.builds(
    Fault,
    st.from_regex(r"[a-z-]+", fullmatch=True),
    WHENS,
    st.from_regex(r"[A-Za-z0-9_.-]*", fullmatch=True),
)
WRAPS = st.builds(Wrap, st.from_regex(r"[a-z_.]+", fullmatch=True), st.none() | NUMBERS)
FAILURES = st.builds(
    Failure,
    st.from_regex(r"[A-Za-z0-9_.]+", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9_]+", fullmatch=True),
)
SCHEDULES = st.builds(
    Schedule,
    st.from_regex(r"[a-z][a-z0-9-]*", fullmatch=True),
    st.none() | WRAPS,
    st.lists(FAULTS, max_size=4).map(tuple),
    st.lists(FAILURES, max_size=2).map(tuple),
    st.from_regex(r"[A-Za-z0-9_.:=-]*", fullmatch=True),
)


@given(SCHEDULES)
@example(Schedule("timeout", Wrap("wait_for", 1234.5678)))
@example(Schedule("cancel-storm", None, (Fault("cancel", When("every", 1e-7)),)))
def test_a_schedule_reads_back_from_its_text(schedule: Schedule) -> None:
    assert parse_schedule(str(schedule)) == schedule


@given(st.from_regex(r"[0-9a-f]{8}", fullmatch=True), SCHEDULES)
def test_a_token_reads_back_from_its_text_and_the_blanks_around_it(key: str, schedule: Schedule) -> None:
    token = Token(key, schedule)
    assert parse_token(f"  {token}\n") == token


@settings(max_examples=40)
@given(SCHEDULES, SCHEDULES)
def test_schedules_that_differ_have_texts_that_differ(one: Schedule, other: Schedule) -> None:
    assert (str(one) == str(other)) == (one == other)


@given(st.text() | st.from_regex(r"[0-9a-f]{8}/[a-z-]+(/[wfx]:[a-z@+~*!:.0-9s=-]*){0,3}"))
@example("0badcafe/timeout/w:wait_for=1..2")
@example("0badcafe/fail/x:a:b:c")
@example("0badcafe//")
def test_any_other_text_is_refused_as_no_token(text: str) -> None:
    try:
        token = parse_token(text)
    except ValueError:
        return
    assert parse_token(str(token)) == token


# -- verdicts and places -----------------------------------------------------------

VERDICTS = st.sampled_from(Verdict)


@given(st.lists(VERDICTS), st.lists(VERDICTS))
def test_verdicts_merge_in_any_grouping_and_order(some: list[Verdict], more: list[Verdict]) -> None:
    whole = merge([*some, *more])
    assert merge([merge(some), merge(more)]) is whole
    assert merge([*more, *some]) is whole
    assert merge([whole, whole]) is whole
    assert merge([whole, Verdict.NA]) is whole


@given(st.lists(VERDICTS))
def test_the_weightiest_verdict_wins_and_nothing_is_no_pass(verdicts: list[Verdict]) -> None:
    order = (Verdict.ERROR, Verdict.FAIL, Verdict.UNRESOLVED, Verdict.PASS, Verdict.NA)
    assert merge(verdicts) is next((one for one in order if one in verdicts), Verdict.NA)


@given(st.lists(st.builds(Site, st.just("f.py"), st.integers(), st.just("f"), st.booleans())).map(tuple))
def test_an_operation_is_suspended_at_the_innermost_line_of_the_target(chain: tuple[Site, ...]) -> None:
    site = suspended_at(chain)
    targets = [one for one in chain if one.target]
    assert site == (targets[-1] if targets else chain[-1] if chain else None)
