"""Hostile text is made harmless for every format, by laws rather than by examples."""

from __future__ import annotations

import html.parser
import re
import unicodedata
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormdrain.reporting import escape

HOSTILE = [
    "\x1b[2J\x1b]0;title\x07",
    "a\x00b",
    "\udc80 lone",
    "\u202egnp.exe\u202c",
    "tag \U000e0041\U000e007f",
    "zero\u200bwidth\ufeff",
    "line\u2028sep",
    "</code></td><script>alert(1)</script>",
    "`` ` ``` |",
    "| a | b |",
    "@everyone [x](javascript:alert(1)) ![i](http://x/y.png)",
    "::error file=x::y\r\n::set-output name=a::b",
    "   ::stop-commands::x",
    "x ##[add-path]/tmp",
    "::add-mask::a",
    "@octocat/team #1 GH-1",
    "x" * 79 + " ::add-mask::a",
    "</summary></details></testsuite>",
    "&#64;octocat &lt;script&gt;",
    "```\n# head\n~~~",
    "]]> <!-- &amp; -->",
    "\x9b31m C1",
]
anything = st.one_of(
    st.text(alphabet=st.characters(exclude_categories=()), max_size=400),
    st.lists(st.sampled_from(HOSTILE), max_size=4).map("".join),
)


def harmless(text: str) -> None:
    text.encode("utf-8")
    assert text.isprintable()
    for character in text:
        assert unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


@given(anything)
def test_plain_text_can_be_seen_and_encoded(text: str) -> None:
    harmless(escape.plain(text))


@given(anything)
def test_making_plain_twice_changes_nothing_more(text: str) -> None:
    once = escape.plain(text, 10_000)
    assert escape.plain(once, 10_000) == once


@given(anything, st.integers(1, 50))
def test_plain_text_is_bounded(text: str, limit: int) -> None:
    assert len(escape.plain(text, limit)) <= limit + 30


@given(st.text(alphabet=st.characters(codec="ascii", categories=("L", "N")), max_size=200))
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert escape.plain(text) == text


def test_a_line_of_a_megabyte_is_cut_and_says_so() -> None:
    shown = escape.plain("x" * 1_000_000)
    assert len(shown) < 400
    assert shown.endswith("(999700 more)")


@given(anything)
def test_a_block_keeps_lines_and_bounds_them(text: str) -> None:
    rows = escape.block(text, lines=5)
    assert len(rows) <= 6
    for row in rows:
        harmless(row)


@given(anything)
def test_markdown_text_holds_no_markup(text: str) -> None:
    shown = escape.markdown(text)
    harmless(shown)
    for name in ("<code>&#64;</code>", "<code>&#35;</code>"):
        shown = shown.replace(name, name[6:-7])
    for mark in "`*_[]<>|@":
        assert mark not in shown
    # Undoing the entities gives back what plain() shows: nothing is lost.
    assert html.unescape(shown) == escape.plain(text)


@pytest.mark.parametrize("text", ["@octocat", "(@org/team)", "see #1", "o/r#1", "a@b.example"])
def test_nobody_and_nothing_is_named_also_where_entities_are_resolved(text: str) -> None:
    assert re.search(r"[@#]\w", text)
    # What is looked at is the text of the page outside of code.
    outside = re.sub(r"<code>.*?</code>", "</>", escape.markdown(text))
    assert not re.search(r"[@#]\w", html.unescape(outside))


@given(anything)
def test_a_code_span_ends_where_it_should(text: str) -> None:
    span = escape.code(text)
    harmless(span)
    if span.startswith("<code>"):
        assert "<" not in span[6:-7]
        assert "`" not in span
    elif span:
        assert not set(span[1:-1]) & set("`<>|&")


@given(st.lists(anything, max_size=5))
def test_no_line_ends_a_fenced_block(texts: list[str]) -> None:
    rows = [escape.plain(text) for text in texts]
    lines = escape.fenced(rows).split("\n")
    fence = lines[0]
    assert lines[-1] == fence
    assert not any(line.strip() == fence for line in lines[1:-1])


@given(anything)
def test_xml_survives_a_parser(text: str) -> None:
    element = ElementTree.Element("a", {"b": escape.xml(text)})
    element.text = escape.xml(text)
    back = ElementTree.fromstring(ElementTree.tostring(element, encoding="unicode"))
    assert (back.text or "") == escape.xml(text)
    assert back.get("b") == escape.xml(text)


@given(anything)
def test_html_text_opens_no_tag(text: str) -> None:
    seen: list[str] = []

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            seen.append(tag)

    Reader().feed(f'<p title="{escape.html(text)}">{escape.html(text)}</p>')
    assert seen == ["p"]


@given(anything)
def test_no_line_for_a_log_is_a_workflow_command(text: str) -> None:
    for row in (escape.console(escape.plain(text)), *escape.fenced(escape.block(text)).split("\n"), escape.xml(text)):
        assert not row.lstrip().startswith("::")
        assert "##[" not in row


@given(anything)
def test_a_workflow_command_stays_on_its_line(text: str) -> None:
    shown = escape.github(text)
    assert "\n" not in shown
    assert "\r" not in shown
    value = escape.github_property(text)
    assert ":" not in value
    assert "," not in value


@pytest.mark.parametrize("text", HOSTILE)
def test_each_known_attack_is_made_visible(text: str) -> None:
    harmless(escape.plain(text))
    harmless(escape.markdown(text))
    harmless(escape.code(text))
