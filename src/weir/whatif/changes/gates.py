"""Changes of feature gates: components are restarted, all or some, with other gates or as an older release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from weir.apiserver.older_release import RELEASES
from weir.forecast.cluster import ForecastCluster
from weir.gates import FEATURES, Gates
from weir.objects.templates import TEMPLATE_PATHS
from weir.simulation.component_gates import COMPONENTS, ComponentGates
from weir.whatif.changes.change import ChangedCluster
from weir.whatif.upgrade_order import advice


@dataclass(frozen=True)
class SetGates:
    """Restart components with other feature gates, or as an older release."""

    settings: tuple[tuple[str, bool], ...]
    components: tuple[str, ...] = ()  #: all of them unless named
    before: Gates = field(default_factory=Gates)
    to: str = ""  #: an older release: components that never heard of the KEPs' fields

    def say(self) -> str:
        words = ",".join(f"{name}={str(value).lower()}" for name, value in self.settings)
        named = "".join(f" --component {name}" for name in self.components)
        return " ".join(filter(None, ("gates", words, named.strip(), f"--to {self.to}" if self.to else "")))

    def control_plane_reason(self, documents: Sequence[Mapping[str, Any]]) -> str:
        """Return why this needs a whole control plane."""
        return "components are restarted with other feature gates"

    def make(self, cluster: ChangedCluster) -> list[str]:
        """Restart them, and say what should have been done before."""
        assert not isinstance(cluster, ForecastCluster)
        held = [
            {"kind": kind, **document}
            for kind in (*TEMPLATE_PATHS, "DeviceTaintRule")
            for document in cluster.list(kind)
        ]
        gates: Mapping[str, Any] = {name: self.gates_of(name) for name in COMPONENTS}
        older = frozenset(
            f"{name}={self.to}" if name == "apiserver" else name
            for name in COMPONENTS
            if self.to and self._changes(name)
        )
        cluster.set_gates(replace(ComponentGates.of(gates), older=older))
        chosen = next(filter(self._changes, COMPONENTS))
        after = self.gates_of(chosen)
        going = self.lost()
        coming = [name for name in FEATURES if after.enabled(name) and not self.before.enabled(name)]
        return advice(held, going, coming, self.components, self.to)

    def lost(self) -> list[str]:
        """Return the features that the first component it changes has no more."""
        after = self.gates_of(next(filter(self._changes, COMPONENTS)))
        return [name for name in FEATURES if self.before.enabled(name) and not after.enabled(name)]

    def _changes(self, component: str) -> bool:
        return not self.components or component in self.components

    def changed(self) -> list[str]:
        """Return what differs afterwards: `gate/TaintTolerationCEL`, and the release if it is another one."""
        names = sorted({*FEATURES, *(name for name, _ in self.settings)})
        chosen = list(map(self.gates_of, filter(self._changes, COMPONENTS)))
        gates = [
            f"gate/{name}"
            for name in names
            if any(each.enabled(name) != self.before.enabled(name) for each in chosen)
        ]
        return [*gates, *([f"kubernetes/{self.to}"] if self.to else [])]

    def gates_of(self, component: str) -> Gates:
        """Return the gates that *component* has afterwards."""
        if not self._changes(component):
            return self.before
        if self.to:
            return RELEASES[self.to].gates(self.before).replace(dict(self.settings))
        return self.before.replace(dict(self.settings))
