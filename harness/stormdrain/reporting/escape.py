"""Text that comes from the code under test, made safe for each format that shows it.

A test name, an exception's message or a child's command line may hold escape
sequences that repaint a terminal, marks that reverse the reading order, markup
of the page it lands on, a mention that notifies strangers, or a megabyte on one
line. Every report passes such text through this module and through nothing else:
:func:`plain` first makes it visible, then a function for each format quotes it.
"""

from __future__ import annotations

import html as _html
import re

LIMIT = 300
"""Characters of one piece of foreign text that a report shows, unless it asks for another number."""

_HIDDEN = frozenset(
    {0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180E, 0x3164, 0xFEFF, 0xFFA0}
    | set(range(0x200B, 0x2010))
    | set(range(0x2028, 0x202F))
    | set(range(0x2060, 0x2070))
    | set(range(0xFE00, 0xFE10))
    | set(range(0xE0000, 0xE1000))
)
"""Printable to Python, but invisible, or able to reorder what is around them."""

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _visible(character: str) -> str:
    code = ord(character)
    if character in _NAMED:
        return _NAMED[character]
    if character == " " or (character.isprintable() and code not in _HIDDEN):
        return character
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def plain(text: object, limit: int = LIMIT) -> str:
    """One line in which every character can be seen and that can be encoded.

    Args:
        text: anything; `str()` is taken of it.
        limit: characters after which it is cut; how many were cut is said.

    Returns:
        Printable text without line ends, escape sequences, lone surrogates,
        direction marks or invisible characters.
    """
    whole = text if isinstance(text, str) else str(text)
    shown = "".join(_visible(character) for character in whole[:limit])
    # GitHub's runner takes this for a command wherever it stands in a line of a log.
    shown = shown.replace("##[", "\\x23#[")
    cut = len(whole) - limit
    if len(shown) > limit:
        cut = max(cut, 0) + len(shown) - limit
        shown = shown[:limit]
    return shown if cut <= 0 else f"{shown}... ({cut} more)"


def console(line: str) -> str:
    """A line that is plain already, for a log that a runner of GitHub's reads: it is no workflow command.

    A runner takes a line for one if it begins with two colons, spaces left out.
    """
    return re.sub(r"^(\s*)::", r"\1\\x3a:", line)


def block(text: object, limit: int = 4000, lines: int = 60) -> tuple[str, ...]:
    """The same for text of several lines: its lines, each made plain, at most `lines` of them.

    The tail of a long text is what is kept of its lines, since a traceback or a
    log says what happened at its end.
    """
    rows = str(text)[-limit * 4 :].replace("\r\n", "\n").split("\n")
    while rows and not rows[-1].strip():
        rows.pop()
    left_out = len(rows) - lines
    kept = [_plain_keeping_indent(row, limit) for row in (rows[left_out:] if left_out > 0 else rows)]
    return (f"... ({left_out} lines before)", *kept) if left_out > 0 else tuple(kept)


def _plain_keeping_indent(row: str, limit: int) -> str:
    return plain(row.replace("\t", "    "), limit)


_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@$:\-])")
_REFERENCE = re.compile(r"&#(?:64|35);(?=\w)")
"""What would name a person, a team or an issue, as entities: those are looked for in the page, where entities are no more."""


def _entities(shown: str) -> str:
    return _MARKDOWN.sub(lambda match: f"&#{ord(match[1])};", shown)


def markdown(text: object, limit: int = LIMIT) -> str:
    """Foreign text as running text of a GitHub comment: no markup, no link, no mention, no HTML."""
    return _REFERENCE.sub(r"<code>\g<0></code>", _entities(plain(text, limit)))


def code(text: object, limit: int = LIMIT) -> str:
    """Foreign text as a code span of a GitHub comment, safe in a cell of a table too."""
    shown = plain(text, limit).strip()
    if not shown:
        return ""
    if re.search(r"[|<>&`]", shown):
        # A bar ends a table's cell even within a span, and a span is not read inside of HTML.
        return f"<code>{_entities(shown)}</code>"
    return f"`{shown}`"


def fenced(rows: tuple[str, ...] | list[str], language: str = "") -> str:
    """Lines that are plain already, as a fenced block that none of them can end."""
    rows = [console(row) for row in rows]
    runs = [len(run) for row in rows for run in re.findall(r"`+", row)]
    fence = "`" * max(3, max(runs, default=0) + 1)
    return "\n".join((fence + language, *rows, fence))


def html(text: object, limit: int = LIMIT) -> str:
    """Foreign text as content or quoted attribute of HTML."""
    return _html.escape(plain(text, limit), quote=True)


def xml(text: object, limit: int = LIMIT) -> str:
    """Foreign text that an XML writer may take: :func:`plain` leaves no character that XML 1.0 forbids.

    The writer itself quotes the markup.
    """
    return console(plain(text, limit))


def github(text: object, limit: int = LIMIT) -> str:
    """Foreign text as the message of a workflow command (`::error ...::message`)."""
    return plain(text, limit).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def github_property(text: object, limit: int = LIMIT) -> str:
    """Foreign text as a property of a workflow command (`file=`, `title=`)."""
    return github(text, limit).replace(":", "%3A").replace(",", "%2C")
