"""Whatever the code under test says, in every text of a run at once: each format stays what it is."""

from __future__ import annotations

import dataclasses
import html
import io
import itertools
import json
import re
import types
import typing
import unicodedata
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree
from markdown_it import MarkdownIt

from building import failing_trial
from stormdrain import store
from stormdrain.errors import UsageError
from stormdrain.model import Exc, Gap, Hang, Left, Outcome, Report, Run
from stormdrain.reporting.formats import FILES, render
from stormdrain.reporting.replayed import print_trial
from stormdrain.reporting.terminal import WIDTH
from test_reporting import terminal, whole
from test_reporting_escape import HOSTILE

COMMENT = 65_536
"""Characters that GitHub takes in a comment."""
hostile = st.lists(
    st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=()), max_size=30)),
    min_size=3,
    max_size=8,
)
laws = settings(max_examples=16, suppress_health_check=[HealthCheck.too_slow])


def poisoned(of: Run, texts: list[str], keep: frozenset[str] = frozenset()) -> Run:
    """The run with every text in it replaced, names in its tables too; only fields named in `keep` stay."""
    turn = itertools.cycle(texts)
    numbers = itertools.count()

    def change(value: Any, kind: Any) -> Any:
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Union or origin is types.UnionType:
            return None if value is None else change(value, inner[0])
        if dataclasses.is_dataclass(value):
            hints = typing.get_type_hints(type(value))
            names = [field.name for field in dataclasses.fields(value) if field.name not in keep]
            return dataclasses.replace(value, **{n: change(getattr(value, n), hints[n]) for n in names})
        if isinstance(value, tuple):
            ends = len(inner) == 2 and inner[1] is Ellipsis
            return tuple(change(one, inner[0] if ends else inner[n]) for n, one in enumerate(value))
        if isinstance(value, dict):
            return {next(turn) + str(next(numbers)): change(one, inner[1]) for one in value.values()}
        return next(turn) if kind is str else value

    return change(of, Run)


WORDS = frozenset({"outcome", "kind", "role", "phase", "source", "storm", "python", "started", "command"})
"""Fields whose words are ours, by which reports choose what they show; a stored run may have others there, too."""


@st.composite
def victims(draw: st.DrawFn) -> Run:
    """A run with hostile text in all that the target has a say in, or in everything."""
    return poisoned(rich(), draw(hostile), draw(st.sampled_from([WORDS, frozenset()])))


def rich() -> Run:
    """A run that has something in every place in which a report looks."""
    trial = failing_trial("bbbbbbbb")
    assert trial.observation is not None
    seen = dataclasses.replace(
        trial.observation,
        outcome=Outcome("raised", (Exc("E", "no"), Exc("F", "why", "cause"))),
        left=(Left("task", "loose", "task"), Left("pipe", "13", "pipe")),
        reports=(Report("warning", "never awaited"),),
        hang=Hang("why", ("task",), ("thread",), ("process",)),
        output="what it printed",
        printed=("a line",),
    )
    kinds = ("uncovered", "one platform", "in some cells", "what a later version says")
    gaps = tuple(
        Gap("pkg/mod.py", "src/pkg/mod.py", n, n + 1, kind, ("3.11",), "why") for n, kind in enumerate(kinds, 1)
    )
    sound = dataclasses.replace(whole(), gaps=gaps)
    return filled(
        dataclasses.replace(sound, trials=(*sound.trials, dataclasses.replace(trial, observation=seen, error="no")))
    )


def filled(of: Run) -> Run:
    """The run with an item of each kind of record that it has none of, however the model grows."""

    def sample(kind: Any) -> Any:
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Union or origin is types.UnionType:
            return sample(inner[0])
        if origin is tuple:
            return (sample(inner[0]),) if inner[-1] is Ellipsis else tuple(map(sample, inner))
        if origin is dict:
            return {"key": sample(inner[1])}
        if dataclasses.is_dataclass(kind):
            hints = typing.get_type_hints(kind)
            return typing.cast("Any", kind)(**{one.name: sample(hints[one.name]) for one in dataclasses.fields(kind)})
        return {int: 1, float: 1.0, bool: False}.get(kind, "3-5" if kind is str else None)

    hints = typing.get_type_hints(Run)
    empty = [one.name for one in dataclasses.fields(of) if getattr(of, one.name) in ((), {})]
    return dataclasses.replace(of, **{name: sample(hints[name]) for name in empty})


def visible(text: str) -> None:
    text.encode("utf-8")
    for line in text.split("\n"):
        for character in line:
            assert unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp"), (line, character)


def no_command(text: str) -> None:
    """Nothing in it is taken for a workflow command where it is printed into a log of GitHub's."""
    for line in text.split("\n"):
        assert not line.lstrip().startswith("::"), line
        assert "##[" not in line, line


@laws
@given(victims())
def test_a_terminal_gets_lines_that_can_be_seen_and_are_no_commands(victim: Run) -> None:
    text = terminal(victim)
    visible(text)
    no_command(text)
    for trial in victim.trials:
        stream = io.StringIO()
        print_trial(trial, stream)
        visible(stream.getvalue())
        no_command(stream.getvalue())
    for line in text.split("\n"):
        assert len(line) <= WIDTH + 60 or "stormdrain replay" in line


ALLOWED = re.compile(r"</?(details|summary|code)>")


def spoken(tokens: list[Any]) -> Iterator[str]:
    """The text of a page that is not code: where mentions and references are looked for."""
    for token in tokens:
        within = 0
        for part in token.children or ():
            if part.type == "html_inline":
                within += {"<code>": 1, "</code>": -1}.get(part.content, 0)
                yield "\0"
            elif part.type == "text" and not within:
                yield part.content
            elif part.type != "text":
                yield "\0"
        yield "\0"
        if token.type == "html_block":
            yield html.unescape(re.sub(r"<code>.*?</code>", "\0", token.content))


@laws
@given(victims())
def test_a_comment_has_no_markup_no_link_and_no_mention_of_anybody_but_ours(victim: Run) -> None:
    text = render("markdown", victim)
    visible(text)
    no_command(text)
    assert len(text) < COMMENT
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    depth = 0
    for token in tokens:
        for part in (token, *(token.children or ())):
            assert part.type not in ("link_open", "image"), part
            if part.type in ("html_block", "html_inline"):
                assert "<" not in ALLOWED.sub("", part.content), part.content
                depth += part.content.count("<details>") - part.content.count("</details>")
                assert depth in (0, 1)
    assert depth == 0
    assert not re.search(r"(?<!\w)[@#]\w", "".join(spoken(tokens)))


def test_tables_of_a_comment_have_the_columns_that_they_should() -> None:
    for text in HOSTILE:
        tokens = MarkdownIt("commonmark").enable("table").parse(render("markdown", poisoned(rich(), [text])))
        columns = 0
        for token in tokens:
            if token.type == "tr_open":
                columns = 0
            columns += token.type in ("td_open", "th_open")
            if token.type == "tr_close":
                assert columns in (3, 4, 5, 8), text


@laws
@given(victims())
def test_junit_is_xml_whose_texts_no_reader_stumbles_over(victim: Run) -> None:
    text = render("junit", victim)
    visible(text)
    no_command(text)
    tree = etree.fromstring(text.encode())
    known = {
        *("testsuites", "testsuite", "testcase", "failure", "error", "skipped"),
        *("system-out", "properties", "property"),
    }
    assert {str(one.tag) for one in tree.iter()} <= known


@laws
@given(victims(), st.sampled_from(["sarif", "stryker", "json"]))
def test_json_of_each_kind_is_plain_ascii_that_strict_parsers_read(victim: Run, name: str) -> None:
    text = render(name, victim)
    assert text.isascii()
    no_command(text)
    visible(text)

    def refused(name: str) -> None:
        raise AssertionError(name)

    def look(value: Any) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                look(key)
                look(item)
        elif isinstance(value, list):
            for item in value:
                look(item)
        elif isinstance(value, str):
            value.encode("utf-8")
            if name != "json":  # which is the record itself, for programs
                visible(value)

    look(json.loads(text, parse_constant=refused))


@laws
@given(victims())
def test_annotations_are_commands_of_ours_a_line_each(victim: Run) -> None:
    text = render("github", victim)
    visible(text)
    for line in text.splitlines():
        command = re.fullmatch(r"::(error|warning|notice) ((?:[a-z]+=[^,:]*)(?:,[a-z]+=[^,:]*)*)::(.*)", line)
        assert command, line
        assert re.findall(r"(?:^|,)([a-z]+)=", command[2]) in (["title"], ["file", "line", "title"])
        assert not re.search(r"%(?!25|3A|2C)", line)


@laws
@given(victims())
def test_the_record_reads_back_as_it_was_whatever_it_holds(
    tmp_path_factory: pytest.TempPathFactory, victim: Run
) -> None:
    folder = tmp_path_factory.mktemp("record")
    path = store.Writer(folder, victim).finish(victim)
    assert path.read_text(encoding="ascii").isprintable() or "\n" in path.read_text()
    assert store.load_run(folder) == victim


def test_a_megabyte_in_every_text_stays_small_in_every_format_for_people() -> None:
    lines = ["@/`" * 333_333, "\x1b[2J" * 250_000]
    for text in lines:
        victim = poisoned(rich(), [text], frozenset({"matrix", "left_out"}))
        for name in FILES:
            if name != "json":
                assert len(render(name, victim)) < 400_000, name
        assert len(render("markdown", victim)) < COMMENT


def test_a_comment_is_whole_however_much_there_is_to_say() -> None:
    sound = rich()
    many = dataclasses.replace(
        sound,
        cells=tuple(
            dataclasses.replace(one, cell=dataclasses.replace(one.cell, key=f"{n:08x}", probe="&<|" * 200 + str(n)))
            for n, one in enumerate(sound.cells * 100)
        ),
        notes=("<>&|" * 1000,) * 100,
        errors=("`" * 600,) * 50,
        rules=sound.rules * 60,
    )
    text = render("markdown", many)
    assert len(text) < COMMENT
    assert text.count("<details>") == text.count("</details>")
    assert "run.json has everything" in text


def test_an_error_in_words_is_no_command_either(capsys: pytest.CaptureFixture[str]) -> None:
    from stormdrain.cli.app import say_error

    for text in HOSTILE:
        say_error(UsageError(f"no\n{text}", where=text, todo=text))
        said = capsys.readouterr().err
        visible(said)
        no_command(said)
