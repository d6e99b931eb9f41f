"""Operators for concurrent code: what goes wrong in shutdown paths, done on purpose.

General operators change signs and comparisons. What a review of cancellation and
cleanup asks is another question: does a test notice if the shield, the re-raise,
the second wait or the reference to the task is not there? Each operator names what
its survivor means, and carries examples that are its tests.
"""

from . import cancelling, ending, failing, holding, structure
from .base import OPERATORS, Operator, apply_operators

__all__ = [
    "OPERATORS",
    "Operator",
    "apply_operators",
    "cancelling",
    "ending",
    "failing",
    "holding",
    "structure",
]
