"""The record that a snapshot file begins with: what was read, what could not be, and the cluster's feature gates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from weir.client.cluster_gates import API_SERVER, CONTROLLERS, KUBELET, SCHEDULER, ClusterGates
from weir.client.known_gates import Learned
from weir.client.snapshot import Missing
from weir.gates import FEATURES

API_VERSION: Final = "snapshot.weir.dev/v1"
KIND: Final = "Snapshot"
Document = dict[str, Any]


@dataclass(frozen=True)
class Record:
    """How a snapshot was taken."""

    taken: str  #: when, as a timestamp
    listed: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    left_out: tuple[str, ...] = ()  #: in words
    anonymous: bool = False
    gates: ClusterGates | None = None

    def document(self) -> Document:
        """Return the record as the first object of the file."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": "snapshot"},
            "taken": self.taken,
            "listed": list(self.listed),
            "missing": [{"kind": each.kind, "plural": each.plural, "why": each.why} for each in self.missing],
            "leftOut": list(self.left_out),
            "anonymous": self.anonymous,
            "gates": None if self.gates is None else _gates(self.gates),
        }


def is_record(document: Any) -> bool:
    """Return whether an object is the record of a snapshot."""
    return (
        isinstance(document, Mapping)
        and document.get("kind") == KIND
        and document.get("apiVersion") == API_VERSION
    )


class _Missing(msgspec.Struct):
    kind: str
    plural: str
    why: str


class _Learned(msgspec.Struct):
    on: bool | None
    how: str


class _Gates(msgspec.Struct):
    components: dict[str, dict[str, _Learned]]
    operator: bool = False


class _Record(msgspec.Struct, rename="camel"):
    taken: str = ""
    listed: tuple[str, ...] = ()
    missing: tuple[_Missing, ...] = ()
    left_out: tuple[str, ...] = ()
    anonymous: bool = False
    gates: _Gates | None = None


def read_record(document: Any) -> Record:
    """Return the record that *document* is; raises ValueError for one that is damaged."""
    try:
        found = msgspec.convert(document, _Record)
    except msgspec.ValidationError as error:
        raise ValueError(f"the record of the snapshot cannot be read: {error}") from None
    gates = None
    if found.gates is not None:
        unknown = Learned(None, "the snapshot does not say")
        gates = ClusterGates(
            {
                component: {
                    name: Learned(known[name].on, known[name].how) if name in known else unknown
                    for name in FEATURES
                }
                for component in (API_SERVER, SCHEDULER, CONTROLLERS, KUBELET)
                for known in (found.gates.components.get(component, {}),)
            },
            found.gates.operator,
        )
    missing = tuple(Missing(each.kind, each.plural, each.why) for each in found.missing)
    return Record(found.taken, found.listed, missing, found.left_out, found.anonymous, gates)


def _gates(gates: ClusterGates) -> Document:
    return {
        "components": {
            component: {name: {"on": one.on, "how": one.how} for name, one in known.items()}
            for component, known in gates.by_component.items()
        },
        "operator": gates.operator,
    }
