"""The command line: `stormdrain probe`, `mutate`, `gate` and the rest.

Only the entry point is here, and it imports nothing, since the package is also
installed without the libraries that the command line needs.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    if sys.version_info < (3, 11):
        print("the command line needs Python 3.11 or newer; the target may be older", file=sys.stderr)
        sys.exit(2)
    try:
        import click  # noqa: F401 # only to learn whether it is there
    except ModuleNotFoundError as missing:
        if missing.name != "click":
            raise
        print("pip install 'stormdrain[cli]'", file=sys.stderr)
        sys.exit(2)
    from .app import run

    sys.exit(run(sys.argv[1:]))
