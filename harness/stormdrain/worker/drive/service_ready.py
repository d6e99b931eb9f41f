"""Whether a service is ready: each condition as a question that can be asked again and again."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from ...errors import UsageError
from ..service import Ready
from .service_process import Running


def question(ready: Ready, running: Running, folder: str) -> Callable[[], bool]:
    """A function that says whether the condition holds by now.

    Args:
        folder: what relative paths are relative to.
    """
    if ready.kind in ("line", "reply") and not ready.port:
        text = ready.text if ready.kind == "line" else ready.reply
        stream = ready.stream if ready.kind == "line" else "stdout"
        return lambda: any(text in line and stream in ("", name) for name, line in running.lines)
    if ready.kind in ("port", "reply"):
        return lambda: _answers(ready)
    if ready.kind == "file":
        path = os.path.join(folder, ready.text)
        return lambda: os.path.exists(path)
    condition = ready.condition or (lambda: True)
    return lambda: bool(condition())


def see_that_it_is_free(ready: Ready) -> None:
    """See that nobody listens where the service will.

    Raises:
        UsageError: somebody does.
    """
    if not ready.port:
        return
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((ready.host, ready.port))
        except OSError as error:
            raise UsageError(
                f"Port {ready.port} is taken: {error.strerror}.",
                where=str(ready),
                todo="let case.port() choose one",
            ) from error


def _answers(ready: Ready) -> bool:
    """Whether the port accepts a connection, and answers the request if there is one."""
    try:
        with socket.create_connection((ready.host, ready.port), timeout=0.25) as one:
            if ready.kind == "port":
                return True
            one.settimeout(1.0)
            one.sendall(ready.text.encode())
            got = b""
            while ready.reply.encode() not in got:
                data = one.recv(1 << 16)
                if not data:
                    return False
                got += data
            return True
    except OSError:
        return False
