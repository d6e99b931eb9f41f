"""What a probe says of itself is looked at when its script is imported: a mistake is named, with what could be meant."""

from __future__ import annotations

import pytest

from conftest import Stager
from stormdrain.errors import UsageError

SCRIPT = """
from stormdrain import na, probe, relax, tighten

async def act(subject, case):
    pass

@probe({})
async def subject(case):
    yield object()
"""

MISTAKES = {
    'operation=act, storms=["cancl-sweep"]': ("There is no storm 'cancl-sweep'.", "did you mean 'cancel-sweep'?"),
    'operation=act, storms="calm"': ("'calm' is no list of names.", "write storms=[...]"),
    'operation=act, backends=["asynco"]': ("There is no backend 'asynco'.", "did you mean 'asyncio'?"),
    "operation=act, backends=[]": ("The probe runs nowhere.", 'name one, backends=["asyncio"]'),
    'operation=act, expect={"no-leaks": na("x")}': ("There is no expectation 'no-leaks'.", "did you mean"),
    'operation=act, expect={"returns": "never"}': ("returns is given 'never'.", 'use na("why")'),
    'operation=act, expect={"returns": na("")}': ("A stance needs its reason", "write it"),
    'operation=act, expect={"returns": relax(3)}': ("A stance needs its reason", "write it"),
    'operation=act, expect={"returns": tighten(" ")}': ("A stance needs its reason", "write it"),
    "operation=act, actors=0": ("0 is no number above 0.", "give a positive number"),
    "operation=act, deadline=-1": ("-1 is no number above 0.", "give a positive number"),
    "operation=act, deadline=True": ("True is no number above 0.", "give a positive number"),
    'operation=act, fail=["cleanup:OSErorr"]': ("is no call with a built-in exception.", 'write "process.kill'),
    'operation=act, fail=[":OSError"]': ("is no call with a built-in exception.", 'write "process.kill'),
    'operation=act, follow_up="close"': ("'close' is no function.", "give an async function"),
    'operation="close", body=act': ("Only an async context manager has a body.", 'write operation="__aexit__"'),
    "operation=3": ("3 is no operation.", "give a method's name or an async function"),
    'operation=""': ("'' is no operation.", "give a method's name or an async function"),
    'operation=act, trigger="it is over"': ("cannot be the name of an event.", "use letters"),
    'operation=act, requires=["a", 3]': ("is no list of names.", "write requires=[...]"),
}


@pytest.mark.parametrize("said", MISTAKES)
def test_a_value_that_cannot_be_meant_is_refused_with_what_to_write(campaign: Stager, said: str) -> None:
    what, todo = MISTAKES[said]
    with pytest.raises(UsageError) as refused:
        campaign.specs(SCRIPT.format(said))
    assert what in refused.value.what
    assert todo in refused.value.todo
    if "(" not in said.partition("expect=")[2] or "no-leaks" in said:
        assert "@probe of subject, " in refused.value.where
        assert refused.value.where.rpartition(", ")[2].rstrip("=") in said


def test_a_probe_that_is_no_coroutine_is_refused(campaign: Stager) -> None:
    with pytest.raises(UsageError, match="builds its subject on a loop"):
        campaign.specs(SCRIPT.format("operation=act").replace("async def subject", "def subject"))


def test_what_is_right_is_taken_as_it_is(campaign: Stager) -> None:
    said = (
        'operation="__aexit__", body=act, storms=["calm"], actors=2, deadline=0.5, fail=["a.b", "c:OSError"], '
        'trigger="given", victim="reader", expect={"returns": na("it serves for ever", pythons=["3.10"])}'
    )
    (spec,) = campaign.specs(SCRIPT.format(said))
    assert (spec.operation, spec.closes, spec.actors, spec.deadline) == ("__aexit__", True, 2, 0.5)
    assert (spec.fail, spec.trigger, spec.victim) == (("a.b", "c:OSError"), "given", "reader")
    assert spec.expect["returns"].reason == "it serves for ever"
