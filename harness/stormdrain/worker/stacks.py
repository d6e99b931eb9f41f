"""What the watchdog wrote of a process that blocks, and where that is in the target.

A trial that blocks in C or in a lock cannot speak for itself any more. Before it is
ended, faulthandler writes the stacks of all its threads to a file; the worker, which
has the same modules at the same addresses, reads it.
"""

from __future__ import annotations

import os
import re
import threading

from ..model import Site
from . import chains

_FRAME = re.compile(r'\s+File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')
_THREAD = re.compile(r"(?:Current thread|Thread) (?P<ident>0x[0-9a-f]+)")


def read(folder: str) -> tuple[tuple[str, ...], Site | None]:
    """The stacks in a trial's folder, the main thread's first.

    Returns:
        A line a thread, innermost frame first, down to where the harness called; and the
        innermost line of the target in the main thread.
    """
    try:
        with open(os.path.join(folder, "stacks"), errors="replace") as file:
            text = file.read()
    except OSError:
        return (), None
    main = threading.main_thread().ident
    lines: list[str] = []
    site: Site | None = None
    for block in re.split(r"\n(?=Thread |Current thread )", text):
        head = _THREAD.search(block)
        if head is None:
            continue
        sites: list[Site] = []
        for frame in _FRAME.finditer(block):
            if not chains.is_harness(frame["file"]):
                sites.append(_site(frame))
            elif sites:
                break  # below the harness there is only the loop that it runs
        told = " < ".join(map(str, sites)) or "in the harness"
        if int(head["ident"], 16) == main:
            lines.insert(0, f"main thread: {told}")
            site = next((one for one in sites if one.target), None)
        else:
            lines.append(f"a thread: {told}")
    return tuple(lines), site


def _site(frame: re.Match[str]) -> Site:
    file = frame["file"]
    return Site(
        chains.roots.short(file),
        int(frame["line"]),
        frame["function"],
        chains.roots.is_target(file) or file == chains.roots.probe,
    )
