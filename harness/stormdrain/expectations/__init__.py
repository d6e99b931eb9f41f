"""What must hold: pure functions from an observation to findings."""

from .checks import CHECKS, Check, Context, Judgement, judge, names

__all__ = ["CHECKS", "Check", "Context", "Judgement", "judge", "names"]
