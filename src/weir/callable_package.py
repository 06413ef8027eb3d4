"""What lets `weir.explain(…)` be a call and `weir.explain.pod` a module? A package that can be called.

The library's verbs explain and validate are the names of the packages that hold their rules. Python has one place for
such a thing: the class of a module object may be a subclass of ModuleType. Each of the two packages says so itself.
Not here: what is called (weir.library).
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
