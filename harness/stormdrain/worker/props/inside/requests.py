"""Where a request ends, in each language that a scripted peer speaks: lines, RESP (Redis) and HTTP/1.1.

Each function takes the bytes that have come and returns the first complete request,
or None, and how many bytes it used up. What is no such language is still cut into
requests somehow: a peer never breaks down over what the code under test sends.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Request:
    """One request.

    Args:
        shown: what is reported of it, and what `<<line>>` stands for.
        whole: what a pattern is looked for in.
        known: further names for a reply and what they stand for.
        command: whether a pattern has to stand at its start, in capitals or not.
    """

    def __init__(self, shown: bytes, whole: bytes, known: "dict[bytes, bytes]", command: bool = False) -> None:
        self.shown = shown
        self.whole = whole
        self.known = known
        self.command = command

    def fits(self, pattern: bytes) -> bool:
        """Whether a reply with this pattern is one to this request."""
        if self.command:
            return self.whole.upper().startswith(pattern.upper())
        return pattern in self.whole


def take_line(data: bytes) -> "tuple[Request | None, int]":
    """A line without its end."""
    line, end, _ = data.partition(b"\n")
    if not end:
        return None, 0
    text = line.rstrip(b"\r")
    return Request(text, text, {}), len(line) + 1


def take_resp(data: bytes) -> "tuple[Request | None, int]":
    """A command as an array of bulk strings, or as a line. `<<arg N>>` and `<<bulk N>>` are its words."""
    blank = len(data) - len(data.lstrip(b"\r\n"))
    data = data[blank:]
    if data[:1] != b"*":
        line, used = take_line(data)
        return (None, blank) if line is None else (_command(line.whole.split()), blank + used)
    words: list[bytes] = []
    count, at = _length(data, 0, b"*")
    while count is not None and len(words) < count:
        size, begins = _length(data, at, b"$")
        if size is None:
            at = begins
            break
        if len(data) < begins + size + 2:
            return None, blank
        words.append(data[begins : begins + size])
        at = begins + size + 2
    return (None, blank) if at < 0 else (_command(words), blank + at)


def _length(data: bytes, at: int, mark: bytes) -> "tuple[int | None, int]":
    """The number of a header line, and where it ends: -1 if more must come; None, if it is none."""
    end = data.find(b"\n", at)
    if end < 0:
        return None, -1
    digits = data[at + 1 : end].rstrip(b"\r")
    good = data[at : at + 1] == mark and digits.isdigit() and len(digits) < 9
    return (int(digits) if good else None), end + 1


def _command(words: "list[bytes]") -> Request:
    known: dict[bytes, bytes] = {}
    for index, word in enumerate(words):
        known[b"arg %d" % index] = word
        known[b"bulk %d" % index] = b"$%d\r\n%s" % (len(word), word)
    text = b" ".join(words)
    return Request(text, text, known, command=True)


def take_http(data: bytes) -> "tuple[Request | None, int]":
    """Head and body. `<<method>>`, `<<path>>` and `<<body>>` are parts of it."""
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end:
        return None, 0
    first, *headers = head.split(b"\r\n")
    length = 0
    for header in headers:
        name, _, value = header.partition(b":")
        name, value = name.strip().lower(), value.strip().lower()
        if name == b"content-length" and value.isdigit() and len(value) < 9:
            length = int(value)
        elif name == b"transfer-encoding" and value.endswith(b"chunked"):
            last = 0 if rest.startswith(b"0\r\n\r\n") else rest.find(b"\r\n0\r\n\r\n") + 2
            if last == 1:
                return None, 0
            length = last + 5
            break
    if len(rest) < length:
        return None, 0
    words = [*first.split(b" "), b"", b""]
    known = {b"method": words[0], b"path": words[1], b"body": rest[:length]}
    used = len(head) + 4 + length
    return Request(first, data[:used], known), used


def response(body: bytes) -> bytes:
    """A plain answer that keeps the connection."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )


TAKE: "dict[str, Any]" = {"lines": take_line, "resp": take_resp, "http": take_http}
