"""The worker's conversation with the host: one JSON object a line, over descriptors that nobody else has."""

from __future__ import annotations

import json
import os
import sysconfig
import traceback
from collections.abc import Callable
from typing import Any

from ..errors import StormdrainError
from ..model import to_json
from . import campaign, script
from .chains import roots


class Conversation:
    """Requests in, messages out."""

    def __init__(self, requests: int, answers: int) -> None:
        self._requests = os.fdopen(requests, "rb", buffering=0)
        self._answers = answers
        self._buffer = b""

    def next(self) -> dict[str, Any] | None:
        """The next request; None when the host has no more."""
        while b"\n" not in self._buffer:
            piece = self._requests.read(1 << 16)
            if not piece:
                return None
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        request: dict[str, Any] = json.loads(line)
        return request

    def say(self, kind: str, body: Any = None) -> None:
        """Send a message."""
        data = (json.dumps({"is": kind, "body": to_json(body)}) + "\n").encode()
        while data:
            data = data[os.write(self._answers, data) :]


def serve(requests: int, answers: int, folder: str) -> int:
    """Answer requests until there are no more; the worker's exit status."""
    talk = Conversation(requests, answers)
    kinds: dict[str, Callable[[dict[str, Any], Conversation, str], None]] = {"list": _list, "campaign": _campaign}
    while (request := talk.next()) is not None:
        try:
            roots.target = tuple(
                sysconfig.get_path("stdlib") if root == "stdlib" else root for root in request.get("roots", ())
            )
            kinds[request["do"]](request, talk, folder)
        except StormdrainError as error:
            talk.say("failed", {"what": error.what, "where": error.where, "todo": error.todo, "code": error.exit_code})
        except Exception as error:
            talk.say("broken", "".join(traceback.format_exception(error)))
        talk.say("done")
    return 0


_loaded: dict[str, list[script.Probe]] = {}


def _load(file: str) -> list[script.Probe]:
    if file not in _loaded:
        _loaded[file] = script.load(file)
    return _loaded[file]


def _list(request: dict[str, Any], talk: Conversation, folder: str) -> None:
    for probe in _load(request["file"]):
        talk.say("spec", probe.spec())


def _campaign(request: dict[str, Any], talk: Conversation, folder: str) -> None:
    probe = next((probe for probe in _load(request["file"]) if probe.name == request["probe"]), None)
    if probe is None:
        raise StormdrainError(
            f"The script has no probe {request['probe']!r}.", where=request["file"], todo="run the script as it is now"
        )
    roots.probe = os.path.abspath(request["file"])
    campaign.run(probe, campaign.Options.read(request), talk.say, folder, talk.next)
