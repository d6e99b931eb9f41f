"""What is thrown: named families that generate schedules from what calm showed. Pure functions."""

from . import signals  # noqa: F401 - registers its families
from .families import FAMILIES, Family, Ground, NotHere, family, names
from .searching import SEARCH, field

__all__ = ["FAMILIES", "SEARCH", "Family", "Ground", "NotHere", "family", "field", "names"]
