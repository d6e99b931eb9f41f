"""Whose configuration and probes decide: base's, so that a change cannot relax the gate that judges it.

Where base is a git revision of the project, its configuration is what holds, and
its probes run; head's new probes are added (they can only add failures), and
what head wants to be accepted is a proposal that is said. This is no sandbox:
head's code runs.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from ..gate.config import Config, load_config
from ..revisions import Cache, Revision, resolve

FIRST_RUN = "first run: base has no [tool.stormdrain], so head's configuration was used"


@dataclass(frozen=True)
class Ruling:
    """What decides: the configuration, the probes, and what has to be said about them."""

    config: Config
    probes: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def ruling(config: Config, base: str | None, head: str, project: Path, cache: Cache, *, trust_head: bool) -> Ruling:
    """Decide whose configuration and probes are used.

    Args:
        config: as it lies in the project's directory; where head is another commit, head's own is read.
        base, head: revisions.
        project: the project's directory.
        cache: where trees are kept.
        trust_head: the maintainer's act: head's configuration and probes, whatever base says.

    Raises:
        UsageError: base or head cannot be resolved, or a configuration is wrong.
    """
    try:
        inside = config.file.resolve().relative_to(project.resolve())
    except ValueError:  # the file is of somebody else, who decides
        return Ruling(config, tuple(config.path(name) for name in config.plan.probes))
    there = _tree(head, project, cache)
    if there is not None and (own := load_config(there / inside, must_exist=False)).found:
        config = own
    tree = None if trust_head else _tree(base, project, cache)
    if tree is None:
        return Ruling(config, tuple(config.path(name) for name in config.plan.probes))
    old = load_config(tree / inside, must_exist=False)
    if not old.found:
        return Ruling(config, tuple(config.path(name) for name in config.plan.probes), (FIRST_RUN,))
    probes = tuple(old.path(name) for name in old.plan.probes)
    new = _new_scripts(config, old)
    notes = [f"head's new probe {script.name} was added" for script in new]
    known = {entry.id for entry in old.policy.accepted}
    notes += [
        f"proposed by head, not in force: accept {entry.id} until {entry.until}: {entry.reason}"
        for entry in config.policy.accepted
        if entry.id not in known
    ]
    if _rules(config) != _rules(old):
        notes.append("head changes [tool.stormdrain]; base's rules were used (--config-from head uses head's)")
    return Ruling(dataclasses.replace(old, base=base, head=head), (*probes, *new), tuple(notes))


def _tree(base: str | None, project: Path, cache: Cache) -> Path | None:
    """The tree of a commit of this project, None where the revision is none."""
    if not base or base.startswith(("pypi:", "path:", "stdlib", "worktree")):
        return None
    revision: Revision = resolve(base, project=project, cache=cache)
    return revision.root


def _rules(config: Config) -> tuple[object, ...]:
    policy = dataclasses.replace(config.policy, accepted=())
    return policy, config.plan, config.environment, config.watched


def _new_scripts(head: Config, base: Config) -> tuple[Path, ...]:
    """Probe scripts of head that base does not have."""
    found: dict[Path, None] = {}
    for name in dict.fromkeys((*base.plan.probes, *head.plan.probes)):
        ours, theirs = head.file.parent / name, base.file.parent / name
        if ours.is_file() and not theirs.exists():
            found[ours] = None
        for script in sorted(ours.rglob("*.py")) if ours.is_dir() else ():
            hidden = any(part.startswith((".", "_")) for part in script.relative_to(ours).parts)
            if not hidden and not (theirs / script.relative_to(ours)).exists() and _is_probe(script):
                found[script] = None
    return tuple(found)


def _is_probe(script: Path) -> bool:
    return b"stormdrain" in script.read_bytes()
