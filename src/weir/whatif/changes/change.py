"""A change to a cluster: it says itself as a command, and is carried out or says why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from weir.errors import ApiError
from weir.forecast.cluster import ForecastCluster

if TYPE_CHECKING:
    from weir.simulation.cluster import Cluster

#: What changes are made to.
ChangedCluster: TypeAlias = "Cluster | ForecastCluster"


class ChangeError(ValueError):
    """A change that cannot be made to this cluster; says why."""


class Change(Protocol):
    """One change of the cluster, as a command makes it."""

    def say(self) -> str:
        """Return what is done, as a command says it."""

    def make(self, cluster: ChangedCluster) -> list[str]:
        """Do it to *cluster*; return what there is to say about it. Raises ChangeError."""


@dataclass(frozen=True)
class Wait:
    """Let time pass before the next change."""

    seconds: float

    def say(self) -> str:
        return f"wait {self.seconds:g}s"

    def make(self, cluster: ChangedCluster) -> list[str]:
        cluster.advance(self.seconds)
        return []


def unless_refused(act: Callable[[], object]) -> None:
    """Do what the server may refuse; raises ChangeError with its words."""
    try:
        act()
    except ApiError as error:
        raise ChangeError(f"the server would refuse it: {' '.join(str(error).split())}") from None


def needs_control_plane(changes: Iterable[Change], documents: Sequence[Mapping[str, Any]]) -> str:
    """Return why *changes* to a cluster of *documents* need a whole control plane, "" if they need none."""
    for change in changes:
        ask: Callable[[Sequence[Mapping[str, Any]]], str] | None = getattr(
            change, "control_plane_reason", None
        )
        if ask is not None and (reason := ask(documents)):
            return reason
    return ""
