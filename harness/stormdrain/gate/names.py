"""Names that a configuration may use: of storms and of expectations."""

from __future__ import annotations


def expectation_names() -> tuple[str, ...]:
    """Every expectation there is, the services' too."""
    from .. import expectations

    return tuple(expectations.names())


def storm_names() -> tuple[str, ...]:
    """Every storm there is, `calm` too."""
    from .. import storms

    return tuple(dict.fromkeys(("calm", *storms.names())))
