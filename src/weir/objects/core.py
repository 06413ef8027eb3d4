"""Pod and Node views: frozen structs of the core/v1 fields that decisions read.

Field names are Kubernetes' in snake case. Views are lenient: `read` turns a wrong type into one ViewError naming the
field, and validation is a separate step.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

V = TypeVar("V", bound="View")


class ViewError(ValueError):
    """A document that does not have its kind's structure; the message names the field."""


class View(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    """A frozen reading of one part of a document."""


# ── taints and tolerations ───────────────────────────────────────────────────────────────────────


class Taint(View, frozen=True, kw_only=False):
    """One entry of `node.spec.taints`; key and effect are its identity."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None

    def __str__(self) -> str:
        text = f"{self.key}={self.value}" if self.value else self.key
        return f"{text}:{self.effect}" if self.effect else text


class Toleration(View, frozen=True, kw_only=False):
    """One entry of `pod.spec.tolerations`; an empty operator means Equal, an empty effect any effect."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None
    expression: str = ""

    @property
    def identity(self) -> tuple[str, str, str, str, str]:
        """What makes two tolerations the same entry; how long they last does not."""
        return (self.key, self.effect, self.operator, self.value, self.expression)


# ── node selection ───────────────────────────────────────────────────────────────────────────────


class NodeSelectorRequirement(View, frozen=True, kw_only=False):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class NodeSelectorTerm(View, frozen=True, kw_only=False):
    match_expressions: tuple[NodeSelectorRequirement, ...] | None = None
    match_fields: tuple[NodeSelectorRequirement, ...] | None = None


class NodeSelector(View, frozen=True, kw_only=False):
    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class PreferredSchedulingTerm(View, frozen=True, kw_only=False):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(View, frozen=True):
    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredSchedulingTerm, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class LabelSelectorRequirement(View, frozen=True, kw_only=False):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class LabelSelector(View, frozen=True, kw_only=False):
    match_labels: dict[str, str] | None = None
    match_expressions: tuple[LabelSelectorRequirement, ...] | None = None


class PodAffinityTerm(View, frozen=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class WeightedPodAffinityTerm(View, frozen=True):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(View, frozen=True):
    """Pod affinity or anti-affinity: both have this shape."""

    required: tuple[PodAffinityTerm, ...] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(View, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(View, frozen=True):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


# ── metadata ─────────────────────────────────────────────────────────────────────────────────────


class OwnerReference(View, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(View, frozen=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


# ── pods ─────────────────────────────────────────────────────────────────────────────────────────

#: Quantities arrive as text, or as bare numbers in hand-written YAML.
Quantities = dict[str, str | int | float]


class ResourceRequirements(View, frozen=True):
    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerPort(View, frozen=True):
    container_port: int = 0
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class ContainerRestartRule(View, frozen=True):
    action: str = ""


class Container(View, frozen=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    ports: tuple[ContainerPort, ...] | None = None
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] | None = None


class PersistentVolumeClaimVolumeSource(View, frozen=True):
    claim_name: str = ""


class ImageVolumeSource(View, frozen=True):
    reference: str = ""


class Volume(View, frozen=True):
    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: dict[str, Any] | None = None
    image: ImageVolumeSource | None = None
    gce_persistent_disk: dict[str, Any] | None = msgspec.field(default=None, name="gcePersistentDisk")
    aws_elastic_block_store: dict[str, Any] | None = msgspec.field(default=None, name="awsElasticBlockStore")
    azure_disk: dict[str, Any] | None = None
    cinder: dict[str, Any] | None = None
    portworx_volume: dict[str, Any] | None = None
    iscsi: dict[str, Any] | None = None
    rbd: dict[str, Any] | None = None
    csi: dict[str, Any] | None = None


class SchedulingGate(View, frozen=True):
    name: str = ""


class PodResourceClaim(View, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(View, frozen=True):
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] | None = None
    scheduling_gates: tuple[SchedulingGate, ...] | None = None
    scheduler_name: str = "default-scheduler"
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    resources: ResourceRequirements | None = None
    overhead: Quantities | None = None
    volumes: tuple[Volume, ...] | None = None
    host_network: bool | None = None
    host_users: bool | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    resource_claims: tuple[PodResourceClaim, ...] | None = None


class PodCondition(View, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodResourceClaimStatus(View, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None


class PodExtendedResourceClaimStatus(View, frozen=True):
    resource_claim_name: str = ""


class ContainerStatus(View, frozen=True):
    name: str = ""
    allocated_resources: Quantities | None = None
    resources: ResourceRequirements | None = None


#: The phases of pods that have ended and no longer use their node.
ENDED: Final = ("Succeeded", "Failed")


class PodStatus(View, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    nominated_node_name: str = ""
    conditions: tuple[PodCondition, ...] | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] | None = None
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities | None = None


class Pod(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def key(self) -> str:
        """`namespace/name`, as Kubernetes' own messages write it."""
        return f"{self.metadata.namespace or 'default'}/{self.metadata.name}"

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        return self.spec.tolerations or ()

    @property
    def terminated(self) -> bool:
        """Whether the pod has ended and no longer uses its node."""
        return self.status.phase in ENDED


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────


class NodeSpec(View, frozen=True):
    unschedulable: bool | None = None
    taints: tuple[Taint, ...] | None = None


class NodeCondition(View, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""


class ContainerImage(View, frozen=True):
    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class NodeStatus(View, frozen=True):
    capacity: Quantities | None = None
    allocatable: Quantities | None = None
    conditions: tuple[NodeCondition, ...] | None = None
    images: tuple[ContainerImage, ...] | None = None
    declared_features: tuple[str, ...] | None = None


class Node(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.labels or {}

    @property
    def taints(self) -> tuple[Taint, ...]:
        return self.spec.taints or ()


class Namespace(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


# ── reading documents ────────────────────────────────────────────────────────────────────────────


def read(view: type[V], document: Any) -> V:
    """Return *document* (a dict as parsed from YAML or JSON, or already a view) as a *view*.

    >>> read(Taint, {"key": "sla", "value": "950", "effect": "NoExecute"}).value
    '950'
    >>> read(Toleration, {"key": 7})
    Traceback (most recent call last):
    weir.objects.core.ViewError: Toleration: Expected `str`, got `int` - at `$.key`
    """
    if isinstance(document, view):
        return document
    try:
        return msgspec.convert(document, view, strict=True)
    except msgspec.ValidationError as error:
        # An explicit null means "not set" in Kubernetes, which the strict reading does not know.
        try:
            return msgspec.convert(_without_nulls(document), view, strict=True)
        except (msgspec.ValidationError, RecursionError):
            raise ViewError(f"{view.__name__}: {error}") from None
    except RecursionError:
        raise ViewError(f"{view.__name__}: nested too deeply") from None


#: Deeper than any Kubernetes object; a document beyond it is refused rather than walked.
_DEEPEST: Final = 200


def _without_nulls(document: Any, depth: int = 0) -> Any:
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(document, dict):
        return {k: _without_nulls(v, depth + 1) for k, v in document.items() if v is not None}
    if isinstance(document, list):
        return [_without_nulls(item, depth + 1) for item in document if item is not None]
    return document
