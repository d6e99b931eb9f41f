"""Revisions of the code under test: which code, for which interpreter, with which dependencies."""

from .cache import Cache
from .environments import LAYERS, Environment, EnvironmentConfig, prepare
from .interpreters import Interpreter, available_interpreters, find_interpreters
from .repository import merge_base
from .resolve import resolve
from .revision import Revision

__all__ = [
    "LAYERS",
    "Cache",
    "Environment",
    "EnvironmentConfig",
    "Interpreter",
    "Revision",
    "available_interpreters",
    "find_interpreters",
    "merge_base",
    "prepare",
    "resolve",
]
