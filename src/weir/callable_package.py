"""Packages that can be called: `weir.explain(…)` next to `weir.explain.pod`.

The class of a module object is replaced by a subclass of ModuleType. The functions called are in weir.library.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class CallablePackage(ModuleType):
    """A package that, when called, is the library function of its name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(import_module("weir.library"), self.__name__.rpartition(".")[2])(*args, **kwargs)


def make_callable(name: str) -> None:
    """Make the package *name*, which is being imported, callable."""
    sys.modules[name].__class__ = CallablePackage
