"""weir: Kubernetes' extended taint and toleration system, explained, simulated and served.

The library's whole promise is in `__all__`. Objects are plain dicts as parsed from YAML or JSON, or weir's own
views of them; `gates` is a Gates, a mapping, or Kubernetes' `A=true,B=false`, and changes only what it names: the
features of the four KEPs are on (`gates="AllAlpha=false"` is what Kubernetes has without any setting).

>>> import weir
>>> taint = {"key": "sla", "value": "940", "effect": "NoSchedule"}
>>> weir.tolerates({"key": "sla", "operator": "Gt", "value": "950"}, taint)
<Outcome.NOT_GREATER: 'asks for a higher value'>

`snapshot = weir.load("cluster.json")` reads a cluster once, for many questions: `weir.explain(pod, snapshot)`,
`weir.what_if(changes, snapshot)`.
`Cluster` is a whole cluster under virtual time, for tests: `weir.Cluster(nodes=3, seed=1)`.
Nothing is imported until it is used.
`weir.explain` and `weir.validate` are packages that can be called, so that `weir.explain(pod, documents)` and
`import weir.explain.pod` both mean what they say.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as typing has it, which is not imported before weir.cli.interrupts handles Ctrl-C
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from weir.gates import Gates
    from weir.library import compile, explain, load, tolerates, untolerated, validate, what_if
    from weir.simulation.cluster import Cluster
else:
    ModuleType = type(sys)

__all__ = [
    "Cluster",
    "Gates",
    "compile",
    "explain",
    "load",
    "tolerates",
    "untolerated",
    "validate",
    "what_if",
]
__version__ = "0.1.0"

#: Where what is promised lives, when not in weir.library; the two packages are their own home.
_HOMES = {"Cluster": "weir.simulation.cluster", "Gates": "weir.gates"}
_PACKAGES = ("explain", "validate")


class _CallablePackage(ModuleType):
    """A package that, when called, is the library function of its name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from importlib import import_module

        return getattr(import_module("weir.library"), self.__name__.rpartition(".")[2])(*args, **kwargs)


class _Weir(ModuleType):
    """This package: the import system binds each of its packages here, and two of them become callable."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _PACKAGES:
            value.__class__ = _CallablePackage
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Weir


def __getattr__(name: str) -> Any:
    """Import what is asked for on first use."""
    if name not in __all__:
        raise AttributeError(f"module 'weir' has no attribute {name!r}")
    from importlib import import_module

    if name in _PACKAGES:
        return import_module(f"weir.{name}")
    return globals().setdefault(name, getattr(import_module(_HOMES.get(name, "weir.library")), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
