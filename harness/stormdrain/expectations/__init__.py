"""What must hold: pure functions from an observation to findings."""

from . import services  # noqa: F401 - registers its checks
from .checks import CHECKS, Check, Context, Judgement, judge, names

__all__ = ["CHECKS", "Check", "Context", "Judgement", "judge", "names"]
