"""Names the lines that are to blame, where a trial as such cannot: it runs again, and is looked at closely.

Which line kept the loop from turning is gone when that is noticed, and which line made
a future whose exception nobody retrieved is not kept by asyncio. Both can be watched,
at a price that not every trial should pay. So the first trial of each kind is run
again with the watching switched on, and the others are told from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..model import Blocked, Observation, Report, Site
from .pool import Pool, Result

MOST = 8
"""So many trials are run again in one campaign."""
_MADE = ("never retrieved", "was destroyed but it is pending")
"""Reports about a future or task, which somebody made."""


class Lines:
    """What is known of the lines."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: dict[str, Site | None] = {}
        self._looked = 0

    def unknown(self, result: Result) -> bool:
        """Whether there is something in a result that nobody has looked at yet."""
        if result.observation is None or self._looked >= MOST:
            return False
        return any(key not in self._known for key in _keys(result.observation))

    def named(self, results: Sequence[Result]) -> Iterator[Result]:
        """The results, with the lines; for that some of the trials run again. The pool must be free."""
        first: dict[str, Result] = {}
        for result in results:
            if result.observation is not None and self.unknown(result):
                first.setdefault("|".join(_keys(result.observation)), result)
        asked = list(first.values())[: MOST - self._looked]
        self._looked += len(asked)
        before = {str(result.order.schedule): result.observation for result in asked}
        for again in self._pool.run([replace(result.order, closely=True) for result in asked]):
            self._learn(before[str(again.order.schedule)], again.observation)
        yield from map(self.tell, results)

    def _learn(self, before: Observation | None, now: Observation | None) -> None:
        lines = [one.site for one in now.blocked if one.exact] if now else []
        for n, one in enumerate(before.blocked if before else ()):
            self._known.setdefault(_key(one), lines[min(n, len(lines) - 1)] if lines else None)
        made = {report.message: report.site for report in now.reports if report.exact} if now else {}
        for report in before.reports if before else ():
            self._known.setdefault(_key(report), made.get(report.message))

    def tell(self, result: Result) -> Result:
        """The result, with the lines that are known."""
        seen = result.observation
        if seen is None or not any(self._known.get(key) for key in _keys(seen)):
            return result
        blocked = tuple(self._exact(one) for one in seen.blocked)
        reports = tuple(self._exact(one) for one in seen.reports)
        return replace(result, observation=replace(seen, blocked=blocked, reports=reports))

    def _exact(self, one: Blocked | Report) -> Any:
        line = self._known.get(_key(one)) if not one.exact else None
        return one if line is None else replace(one, site=line, exact=True)


def _keys(seen: Observation) -> list[str]:
    """What is not known exactly in an observation, each in a few words."""
    blocked = [_key(one) for one in seen.blocked if not one.exact]
    made = [one for one in seen.reports if not one.exact and any(text in one.message for text in _MADE)]
    return blocked + [_key(one) for one in made]


def _key(one: Blocked | Report) -> str:
    return f"blocked {one.site}" if isinstance(one, Blocked) else f"report {one.message} {one.site}"
