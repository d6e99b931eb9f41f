"""Probe scripts: the decorator that they use, and loading them by path.

A script is an input, not a package. It is imported once per worker, and what it
says of itself is turned into plain data that the host can read.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import StormdrainError, UsageError
from ..model import ProbeSpec, Stance
from . import values

if TYPE_CHECKING:
    from .service import Terms

F = TypeVar("F", bound=Callable[..., Any])

_CLOSING = {
    "close",
    "aclose",
    "stop",
    "shutdown",
    "disconnect",
    "terminate",
    "__aexit__",
    "kill",
    "cleanup",
    "wait_closed",
}
MARK = "__stormdrain_probe__"


@dataclass
class Probe:
    """A probe as its script wrote it."""

    function: Callable[..., Any]
    operation: str | Callable[..., Any]
    backends: tuple[str, ...] = ("asyncio",)
    count: tuple[str, ...] = ()
    fail: tuple[str, ...] = ()
    actors: int = 1
    victim: str | None = None
    trigger: str | None = None
    follow_up: Callable[..., Any] | None = None
    body: Callable[..., Any] | None = None
    expect: dict[str, Stance | tuple[Stance, ...]] = field(default_factory=dict)
    deadline: float | None = None
    parametrize: dict[str, Any] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    storms: tuple[str, ...] = ()
    absorbs_cancel: str = ""
    closes: bool = False
    real_time: str = ""
    kind: str = "async"
    signals: tuple[str, ...] = ()
    terms: Terms | None = None
    """What must be true of a service."""
    file: str = ""
    param: Any = None
    name: str = ""

    def spec(self) -> ProbeSpec:
        """The part of it that is plain data."""
        stances = {name: s for name, s in self.expect.items() if isinstance(s, Stance)}
        return ProbeSpec(
            name=self.name,
            file=self.file,
            operation=self.operation if isinstance(self.operation, str) else self.operation.__name__,
            kind=self.kind,
            backends=self.backends,
            storms=self.storms,
            count=self.count,
            fail=self.fail,
            actors=self.actors,
            deadline=self.deadline,
            requires=self.requires,
            expect=stances,
            absorbs_cancel=self.absorbs_cancel,
            closes=self.closes,
            trigger=self.trigger or "",
            victim=self.victim or "",
            doc=inspect.getdoc(self.function) or "",
            real_time=self.real_time,
            signals=self.signals,
            exits=dict(self.terms.exits) if self.terms else {},
            prompt=self.terms.prompt if self.terms else None,
        )


def na(reason: str, *, revisions: Sequence[str] = (), pythons: Sequence[str] = ()) -> Stance:
    """An expectation does not apply, for a reason that is printed; everywhere, or for these revisions or interpreters."""
    return Stance("na", values.reason(reason, "na(...)"), None, tuple(revisions), tuple(pythons))


def relax(
    reason: str, value: float | None = None, *, revisions: Sequence[str] = (), pythons: Sequence[str] = ()
) -> Stance:
    """A finding of this expectation is only a note, for a reason that is printed.

    Args:
        value: only up to so much: seconds (`no-blocked-loop`, `within-deadline`), turns in a row (`no-hot-spin`),
            entries (`entered-once`), things that are left (the resources).
    """
    return Stance("relax", values.reason(reason, "relax(...)"), value, tuple(revisions), tuple(pythons))


def tighten(reason: str, *, revisions: Sequence[str] = (), pythons: Sequence[str] = ()) -> Stance:
    """What would only be a note is a finding of this expectation, for a reason that is printed.

    Notes are: what is gone a little later, of the resources; and an exception of the
    target's own in place of an accepted cancel.
    """
    return Stance("tighten", values.reason(reason, "tighten(...)"), None, tuple(revisions), tuple(pythons))


def probe(
    *,
    operation: str | Callable[..., Any],
    backends: Sequence[str] = ("asyncio",),
    count: Sequence[str] = (),
    fail: Sequence[str] = (),
    actors: int = 1,
    victim: str | None = None,
    trigger: str | None = None,
    follow_up: Callable[..., Any] | None = None,
    body: Callable[..., Any] | None = None,
    expect: Mapping[str, Stance] | None = None,
    deadline: float | None = None,
    parametrize: Mapping[str, Any] | None = None,
    requires: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    storms: Sequence[str] = (),
    absorbs_cancel: str = "",
    closes: bool | None = None,
    real_time: str = "",
) -> Callable[[F], F]:
    """Make a function of `case` a probe.

    The function is an async generator that yields the subject (what follows the
    yield is dispose), or an async function that returns it.

    Args:
        operation: a method's name, or an async function of subject and case. `__aexit__`: the
            subject is an async context manager, which is entered and left.
        backends: `asyncio`, `uvloop`, `trio`: where it runs; all that are named.
        count: methods of the subject (dotted paths) whose entries are counted.
        fail: calls of the subject (dotted paths) that storms may make raise; `:` and the name of a
            built-in exception may follow (default: RuntimeError).
        actors: how many tasks run the operation at once.
        victim: name of the asyncio task that gets the faults, if not the operation's own.
        trigger: name of an event of the case that brings the fault, instead of a step.
        follow_up: async function of subject and case that must work afterwards;
            by default a second call, where the operation closes.
        body: async function of subject and case: what happens between entering and leaving, where
            the operation is `__aexit__`.
        expect: stances (:func:`na`, :func:`relax`, :func:`tighten`) by expectation.
        deadline: seconds within which the operation must end, on the trial's clock.
        parametrize: values for `case.param`, by name; each makes a probe of its own.
        requires: requirements that the environment needs beyond the target's own
            (a literal list: it is read without importing the script).
        env: environment variables.
        storms: only these; by default all whose needs the probe meets.
        absorbs_cancel: why an accepted cancel may be followed by an ordinary return.
        closes: whether the operation ends the subject; by default judged by its name.
        real_time: why the probe must run in real time.

    Raises:
        UsageError: a value cannot be meant.
    """
    given = dict(locals())

    def mark(function: F) -> F:
        where = f"@probe of {getattr(function, '__name__', function)}"
        values.check(where, given)
        values.is_async(function, where)
        name = operation if isinstance(operation, str) else getattr(operation, "__name__", "")
        setattr(
            function,
            MARK,
            Probe(
                function=function,
                operation=operation,
                backends=tuple(backends),
                count=tuple(count),
                fail=tuple(fail),
                actors=actors,
                victim=victim,
                trigger=trigger,
                follow_up=follow_up,
                body=body,
                expect=dict(expect or {}),
                deadline=deadline,
                parametrize=dict(parametrize or {}),
                requires=tuple(requires),
                env=dict(env or {}),
                storms=tuple(storms),
                absorbs_cancel=absorbs_cancel,
                closes=name in _CLOSING if closes is None else closes,
                real_time=real_time,
                signals=tuple(getattr(operation, "signals", ())),
            ),
        )
        return function

    return mark


def load(file: str) -> list[Probe]:
    """Import a script and return its probes, in the order of their definition.

    Raises:
        UsageError: it cannot be read or does not import, or holds no probe.
    """
    path = Path(file)
    name = "stormdrain_probe_" + "".join(c if c.isalnum() else "_" for c in path.stem)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(
            "The probe script cannot be read.", where=file, todo="name a .py file or a folder that holds some"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with _beside(path):
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
                raise
            if isinstance(error, StormdrainError):
                if file not in error.where:
                    error.where = f"{_where(error, file)}, {error.where}".rstrip(", ")
                raise
            from .chains import roots  # late: it imports asyncio, which must see the doors in place

            if isinstance(error, SyntaxError) and roots.is_target(error.filename or ""):
                raise UsageError(
                    f"The code under test does not compile: {error.msg}.",
                    where=f"{roots.short(error.filename or '')}:{error.lineno}",
                    todo="mend it, or the overlay that changed it",
                ) from error
            raise UsageError(
                f"The probe script does not import: {type(error).__name__}: {error}",
                where=_where(error, file),
                todo="run it with the target's interpreter, or name what it needs in requires=[...] or --with"
                if isinstance(error, ImportError)
                else "mend that line",
            ) from error
    found = [probe for value in list(vars(module).values()) if isinstance(probe := getattr(value, MARK, None), Probe)]
    if not found:
        raise UsageError(
            "The script holds no probe.",
            where=file,
            todo="decorate an async generator with @probe(operation=...), or a function with @service(...)",
        )
    return [one for probe in found for one in _expand(probe, str(path))]


def _expand(probe: Probe, file: str) -> Iterator[Probe]:
    base = probe.function.__name__
    cases: list[tuple[str, Any]] = [(f"{base}[{key}]", value) for key, value in probe.parametrize.items()] or [
        (base, None)
    ]
    for name, value in cases:
        rest = {key: item for key, item in vars(probe).items() if key not in ("file", "param", "name")}
        yield Probe(**rest, file=file, param=value, name=name)


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[None]:
    """Scripts may import modules that lie beside them."""
    sys.path.insert(0, str(path.parent))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(path.parent))


def _where(error: BaseException, file: str) -> str:
    """The script's own line in a traceback, else its innermost line."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if frame.filename == file:
            return f"{file}:{frame.lineno}"
    return file
