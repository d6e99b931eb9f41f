"""How each kind of subject is driven: asyncio (on its own loop and on uvloop), trio, services."""

from __future__ import annotations

from ...errors import UsageError

BACKENDS = ("asyncio", "uvloop", "trio", "service")


def kind(backend: str) -> str:
    """What a backend is to the storms: uvloop runs the tasks of asyncio."""
    return "asyncio" if backend == "uvloop" else backend


def look(backend: str) -> tuple[str, list[str]]:
    """Import a backend's driver and look at what it finds here.

    Returns:
        why it cannot drive what is installed (empty: it can), and sentences on what it does not see.

    Raises:
        ImportError: the backend is not installed here.
        UsageError: there is no such backend.
    """
    if backend not in BACKENDS:
        raise UsageError(f"There is no backend {backend!r}.", todo=f"choose from: {', '.join(BACKENDS)}")
    if backend == "asyncio":
        return "", []
    if backend == "uvloop":
        from . import uv

        if lacks := uv.missing():
            return f"this uvloop cannot be driven: it has no {lacks}", []
        return "", list(uv.UNSEEN)
    if backend == "service":
        from . import service  # noqa: F401 - imported here once, not in every trial

        return "", []
    from . import trio_internals as internals

    if missing := internals.missing():
        version, tried = internals.version(), internals.span()
        return f"trio {version} cannot be driven: it has no {missing}; tried were {tried}", []
    from . import trio_  # noqa: F401 - imported here once, not in every trial

    return "", [note for note in (internals.untried(), *internals.unseen()) if note]
