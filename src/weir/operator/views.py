"""What the operator keeps of pods: of a lowered one all it decides on, of any other its name.

A cluster has far more plain pods than lowered ones, and pods of one workload have the same tolerations: these are
decoded once and shared. Marks are what users may write as well: originals count only as read_originals verifies them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec

from weir.lowering.grace import graced
from weir.lowering.key_rules import KeyRule, pod_rule
from weir.lowering.names import GATE, GRACE, KEY_ENTRIES, REQUIREMENTS, TOLERATIONS, labelled_hash
from weir.lowering.taint_keys import keys_of
from weir.lowering.tolerations import LoweredList, Table, read_originals
from weir.lowering.triples import Triple
from weir.operator.aside import takes_long

Document = dict[str, Any]
_MOST_REMEMBERED: Final = 64
_GRACE: Final = GRACE.encode()
_KEY_ENTRIES: Final = KEY_ENTRIES.encode()


class PodMeta(msgspec.Struct, frozen=True, gc=False):
    """The name and version of a pod, as weir.client.cache reads them."""

    name: str
    namespace: str
    resource_version: str
    uid: str = ""


class Tolerations:
    """A lowered list with its originals; equal ones are one object.

    The list stays as the server wrote it: a thousand entries are a tenth of their size as text, and are looked at
    only when a taint appears.
    """

    __slots__ = (
        "__weakref__", "_complete_for", "_graced", "_lacks", "_raw", "evaluates", "keys", "originals",
    )  # fmt: skip

    def __init__(self, raw: bytes, originals: dict[str, Document]) -> None:
        self._raw, self.originals = raw, originals
        self._lacks: dict[Triple, bool] = {}  #: the list never changes, so neither does what it lacks
        self._complete_for: object = None
        self._graced: dict[int, bool] = {}
        self.evaluates = takes_long(originals.values())  #: so that it is judged beside the loop
        self.keys = keys_of(originals.values())  #: of the taints that it may tolerate; None: any

    @property
    def entries(self) -> list[Document]:
        return _decode_list(self._raw)

    @property
    def has_grace(self) -> bool:
        return _GRACE in self._raw

    @property
    def may_overstay(self) -> bool:
        """Whether an entry of weir's own tolerates more than the author does."""
        return self.has_grace or _KEY_ENTRIES in self._raw

    def is_graced(self, seconds: int) -> bool:
        """Return whether a bound pod's grace entries are as they should be."""
        known = self._graced.get(seconds)
        if known is None:
            entries = self.entries
            known = self._graced[seconds] = graced(entries, self.originals, seconds) == entries
        return known

    def lack(self, triples: Iterable[Triple], native_numeric: bool) -> tuple[Triple, ...]:
        """Return which of *triples* need an entry that is not there; for a few of them the answer is remembered."""
        if triples is self._complete_for:
            return ()
        triples = triples.matching(self.originals) if isinstance(triples, Table) else tuple(triples)
        if triples is self._complete_for:
            return ()
        known = self._lacks
        if new := [triple for triple in triples if triple not in known]:
            lowered = LoweredList(self.entries, self.originals, native_numeric)
            found = {triple: bool(lowered.needs_entry(triple)) for triple in new}
            known = known | found
            if len(found) <= _MOST_REMEMBERED:
                self._lacks = known if len(known) <= _MOST_REMEMBERED else found
        lacking = tuple(triple for triple in triples if known[triple])
        if not lacking and len(triples) > _MOST_REMEMBERED:
            self._complete_for = triples  # the table itself, of which there is one
        return lacking


class LoweredPod(msgspec.Struct, frozen=True):
    """A pod that weir lowered, or any other with nothing but its name."""

    metadata: PodMeta
    lowered: bool = False
    node: str = ""  #: where it is bound
    target: str = ""  #: where a DaemonSet's pod is meant to go
    gates: tuple[str, ...] = ()
    ended: bool = False  #: it does not run any more, or is being deleted
    tolerations: Tolerations | None = None
    requirements: tuple[tuple[str, Any], ...] = ()
    rule: KeyRule | None = None  #: of the nodes it may be placed on, with key entries
    label: str = ""  #: of the DaemonSet it belongs to
    daemon: bool = False  #: a DaemonSet controls it
    address: str = ""  #: of the sentinel

    @property
    def gated(self) -> bool:
        return GATE in self.gates

    @property
    def evaluates(self) -> bool:
        """Whether judging its originals takes long."""
        return self.tolerations is not None and self.tolerations.evaluates

    @property
    def version(self) -> int:
        return version_of(self.metadata.resource_version)


def version_of(resource_version: str) -> int:
    """Return a resourceVersion as the number it is in every Kubernetes; 0 for one that is none."""
    return int(resource_version) if resource_version.isdecimal() else 0


class _Annotations(msgspec.Struct, gc=False):
    keys: str = msgspec.field(default="", name=KEY_ENTRIES)
    tolerations: str = msgspec.field(default="", name=TOLERATIONS)
    requirements: str = msgspec.field(default="", name=REQUIREMENTS)


class _Owner(msgspec.Struct, gc=False):
    kind: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    uid: str = ""
    deletion_timestamp: str | None = None
    annotations: _Annotations | None = None
    owner_references: tuple[_Owner, ...] | None = None


class _Gate(msgspec.Struct, gc=False):
    name: str = ""


class _Spec(msgspec.Struct, gc=False, rename="camel"):
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    tolerations: msgspec.Raw = msgspec.Raw(b"[]")
    scheduling_gates: tuple[_Gate, ...] | None = None
    affinity: msgspec.Raw = msgspec.Raw(b"null")


class _Status(msgspec.Struct, gc=False, rename="camel"):
    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")


class _Pod(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_decode: Final = msgspec.json.Decoder(_Pod).decode
_decode_list: Final = msgspec.json.Decoder(list[dict[str, Any]]).decode
_decode_affinity: Final = msgspec.json.Decoder(dict[str, Any] | None).decode


def pod_decoder(sentinel: tuple[str, str] = ("", "")) -> Callable[[bytes | msgspec.Raw], LoweredPod]:
    """Return what decodes pods; *sentinel* is the namespace and name of the one whose address is read too."""
    shared: WeakValueDictionary[tuple[bytes, str], Tolerations] = WeakValueDictionary()

    def decode(raw: bytes | msgspec.Raw) -> LoweredPod:
        pod = _decode(raw)
        meta, spec = pod.metadata, pod.spec
        named = PodMeta(meta.name, meta.namespace, meta.resource_version, meta.uid)
        label = next((key for key in spec.node_selector or () if labelled_hash(key)), "")
        gates = tuple(gate.name for gate in spec.scheduling_gates or ())
        annotations = meta.annotations
        if annotations is None or not (annotations.tolerations or annotations.requirements):
            annotations = None
        address = pod.status.pod_ip if (meta.namespace, meta.name) == sentinel else ""
        if annotations is None and not label and GATE not in gates:
            return LoweredPod(named, address=address)
        tolerations = None
        requirements: tuple[tuple[str, Any], ...] = ()
        if annotations is not None:
            tolerations = _shared(shared, bytes(spec.tolerations), annotations.tolerations)
            found = read_originals({REQUIREMENTS: annotations.requirements}, REQUIREMENTS)
            requirements = tuple(found.items())
        return LoweredPod(
            named,
            lowered=True,
            node=spec.node_name,
            target=spec.node_name or (_target(bytes(spec.affinity)) if label else ""),
            gates=gates,
            ended=meta.deletion_timestamp is not None or pod.status.phase in ("Succeeded", "Failed"),
            tolerations=tolerations,
            requirements=requirements,
            rule=pod_rule(spec.node_selector, annotations.keys) if annotations is not None else None,
            label=label,
            daemon=any(
                owner.controller and owner.kind == "DaemonSet" for owner in meta.owner_references or ()
            ),
        )

    return decode


def _shared(
    known: WeakValueDictionary[tuple[bytes, str], Tolerations], entries: bytes, originals: str
) -> Tolerations:
    found = known.get((entries, originals))
    if found is None:
        found = Tolerations(entries, read_originals({TOLERATIONS: originals}))
        known[entries, originals] = found
    return found


def _target(affinity: bytes) -> str:
    """Return the node that a DaemonSet's controller made a pod for."""
    node = (_decode_affinity(affinity) or {}).get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    names = {_named_by(term) for term in required.get("nodeSelectorTerms") or ()}
    return names.pop() if len(names) == 1 else ""  # terms are alternatives


def _named_by(term: Document) -> str:
    """Return the one node that a term is about, or ""."""
    for field in term.get("matchFields") or ():
        if field.get("key") == "metadata.name" and field.get("operator") == "In":
            values = field.get("values") or []
            return str(values[0]) if len(values) == 1 else ""
    return ""
