"""`python -m stormdrain.worker LIFE REQUESTS ANSWERS`: guardian and worker.

The three numbers are inherited descriptors: a pipe that ends when the host does,
requests, answers. The clock and the doors are put in place before anything else
is imported.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile

from . import clock, guardian, linux, watch


def main() -> int:
    """Run; the exit status of the worker."""
    life, requests, answers = (int(word) for word in sys.argv[1:4])
    if linux.fix_addresses():
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    for number in (life, requests, answers):
        os.set_inheritable(number, False)
    folder = tempfile.mkdtemp(prefix="stormdrain-")
    me = os.getpid()
    try:
        return guardian.guard(life, lambda: _work(requests, answers, folder))
    finally:
        if os.getpid() == me:
            shutil.rmtree(folder, ignore_errors=True)


def _work(requests: int, answers: int, folder: str) -> int:
    clock.install()
    watch.install()
    from .serve import serve

    with contextlib.suppress(BrokenPipeError):
        return serve(requests, answers, folder)
    return 1


if __name__ == "__main__":
    sys.exit(main())
