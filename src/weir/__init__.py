"""weir: Kubernetes' extended taint and toleration system, explained, simulated and served.

The library's whole promise is in `__all__`. Objects are plain dicts as parsed from YAML or JSON, or weir's own
views of them; `gates` is a Gates, a mapping, or Kubernetes' `A=true,B=false`, and changes only what it names: the
features of the four KEPs are on (`gates="AllAlpha=false"` is what Kubernetes has without any setting).

>>> import weir
>>> taint = {"key": "sla", "value": "940", "effect": "NoSchedule"}
>>> weir.tolerates({"key": "sla", "operator": "Gt", "value": "950"}, taint)
<Outcome.NOT_GREATER: 'asks for a higher value'>

`Cluster` is a whole cluster under virtual time, for tests: `weir.Cluster(nodes=3, seed=1)`.
Nothing is imported until it is used.
What surprises: `weir.explain` and `weir.validate` are functions of the library and packages of the source tree.
Importing a package binds its name here, so those two packages are made callable when that happens: whichever
of the two a caller meets, calling it gives the same answer.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.gates import Gates
    from weir.library import compile, explain, tolerates, untolerated, validate
    from weir.simulation.cluster import Cluster

__all__ = ["Cluster", "Gates", "compile", "explain", "tolerates", "untolerated", "validate"]
__version__ = "0.1.0"

_HOMES = {"Cluster": "weir.simulation.cluster", "Gates": "weir.gates"}
_PACKAGES = frozenset({"explain", "validate"})


class _CallablePackage(ModuleType):
    """A package that can be called like the library function of its name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(import_module("weir.library"), self.__name__.rpartition(".")[2])(*args, **kwargs)


class _FrontDoor(ModuleType):
    """This module, watching for packages that carry the name of a library function."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _PACKAGES and isinstance(value, ModuleType):
            value.__class__ = _CallablePackage
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _FrontDoor


def __getattr__(name: str) -> Any:
    """Import what is asked for on first use."""
    if name not in __all__:
        raise AttributeError(f"module 'weir' has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "weir.library")), name)
    return globals().setdefault(name, value)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
