"""A worker as the host sees it: started in an environment, asked, listened to, ended.

The worker reaches the target's interpreter through a folder on `PYTHONPATH` that
holds a link to this package and nothing else, so nothing is installed there and
none of the host's libraries is seen.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import InternalError, UsageError

_PACKAGE = Path(__file__).resolve().parent


def link_folder(cache: Path | None = None) -> Path:
    """A folder that holds a link to this package and nothing else.

    Each installation has one of its own: a worker imports modules late, and must find those
    that it began with, whatever another installation does meanwhile.

    Raises:
        UsageError: it cannot be written, or is somebody else's.
    """
    own = hashlib.sha256(os.fsencode(_PACKAGE)).hexdigest()[:12]
    root = (cache or Path(tempfile.gettempdir()) / f"stormdrain-link-{os.getuid()}") / own
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (root, root.parent):
            if (found := folder.stat()).st_uid != os.getuid() or found.st_mode & 0o002:
                raise UsageError(
                    "The worker's folder can be written by others.", where=str(folder), todo="remove it, or set TMPDIR"
                )
        link = root / "stormdrain"
        if not link.is_symlink() or link.resolve() != _PACKAGE:
            fresh = root / f".stormdrain.{os.getpid()}.{threading.get_ident()}"
            fresh.symlink_to(_PACKAGE, target_is_directory=True)
            os.replace(fresh, link)
    except OSError as error:
        raise UsageError(
            f"The worker's folder cannot be written: {error.strerror}.", where=str(root), todo="free it, or set TMPDIR"
        ) from error
    return root


class Worker:
    """A guardian with a worker below it.

    Args:
        python: the interpreter of the target's environment.
        path: folders for PYTHONPATH (the revision's layer), in front of what the environment has.
        env: further environment variables.
        errors: file that the worker's stderr goes to.
    """

    def __init__(
        self,
        python: str,
        path: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        errors: Path | None = None,
        folder: Path | None = None,
    ) -> None:
        self.python = python
        # What the worker prints is read where it goes away: a worker that dies says why.
        self._errors = open(errors, "a+b") if errors else tempfile.TemporaryFile()
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("COVERAGE_", "PYTEST_"))}
        environment.update(env or {})
        environment["PYTHONPATH"] = os.pathsep.join([str(link_folder(folder)), *path])
        environment["PYTHONHASHSEED"] = "0"
        environment.pop("PYTHONHOME", None)
        life, self._life = os.pipe()
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        inherited = (life, requests, answers)
        try:
            self._process = subprocess.Popen(
                [python, "-m", "stormdrain.worker", *map(str, inherited)],
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                env=environment,
                pass_fds=inherited,
                start_new_session=True,
            )
        except OSError as error:
            for number in (self._life, self._requests, self._answers):
                os.close(number)
            raise UsageError(
                f"The interpreter cannot be started: {error.strerror}.", where=python, todo="name another with --python"
            ) from error
        finally:
            for number in inherited:
                os.close(number)
        self._buffer = bytearray()
        self._closed = False

    def ask(self, request: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Send a request; the messages that answer it, as pairs of kind and body.

        Raises:
            UsageError: the worker says that the request cannot be met.
            InternalError: the worker broke down.
        """
        self.send(request)
        yield from self.hear("done")

    def send(self, request: Mapping[str, Any]) -> None:
        """Send a request, or the next part of one that is under way.

        Raises:
            InternalError: the worker broke down.
        """
        data = (json.dumps(request) + "\n").encode()
        try:
            while data:
                data = data[os.write(self._requests, data) :]
        except BrokenPipeError:
            raise self._broken() from None

    def hear(self, last: str) -> Iterator[tuple[str, Any]]:
        """Messages, as pairs of kind and body, up to one of the kind `last`.

        Raises:
            UsageError, InternalError: see :meth:`ask`.
        """
        while True:
            message = self._next()
            kind, body = message["is"], message["body"]
            if kind == last:
                return
            if kind == "failed":
                for _ in self._until_done():
                    pass
                error = UsageError(body["what"], where=body["where"], todo=body["todo"])
                error.exit_code = body["code"]
                raise error
            if kind == "broken":
                raise InternalError(body)
            yield kind, body

    def _until_done(self) -> Iterator[None]:
        while self._next()["is"] != "done":
            yield

    def _next(self) -> dict[str, Any]:
        while (end := self._buffer.find(b"\n")) < 0:
            piece = os.read(self._answers, 1 << 20)
            if not piece:
                raise self._broken()
            self._buffer += piece
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        message: dict[str, Any] = json.loads(line)
        return message

    def _broken(self) -> InternalError:
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace")[-2000:]
        return InternalError(f"the worker of {self.python} has gone away\n{said}")

    def close(self) -> None:
        """End the worker and everything below it, and wait for that."""
        if self._closed:
            return
        self._closed = True
        for number in (self._requests, self._life):  # the guardian sees the end and sweeps
            with contextlib.suppress(OSError):
                os.close(number)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
        with contextlib.suppress(OSError):
            os.close(self._answers)
        self._errors.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
