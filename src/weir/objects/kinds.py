"""The kinds the API serves, one row each.

Spec: apiserver.md 4 "Create and update" (generation), 8 "Delete" (default policies), 14 "Discovery". Adding a kind is
adding a row: routing, discovery, storage keys, authorization names and the fallback printer follow from it. Defaults,
validation and printer cells are keyed by its `kind`. Rows with `stored=False` only describe bodies (Binding,
Eviction, Scale, reviews, options).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from weir.objects.kind import ALL_VERBS, Kind, Subresource

#: group → its priority, and that of each version that is registered as an APIService
PRIORITIES: Final[Mapping[str, tuple[int, Mapping[str, int]]]] = {
    "": (18000, {"v1": 1}),
    "apps": (17800, {"v1": 15}),
    "events.k8s.io": (17750, {"v1": 15}),
    "authentication.k8s.io": (17700, {"v1": 15}),
    "authorization.k8s.io": (17600, {"v1": 15}),
    "autoscaling": (17500, {"v2": 30, "v1": 15}),
    "batch": (17400, {"v1": 15}),
    "certificates.k8s.io": (17300, {"v1": 15}),
    "networking.k8s.io": (17200, {"v1": 15}),
    "policy": (17100, {"v1": 15}),
    "rbac.authorization.k8s.io": (17000, {"v1": 15}),
    "storage.k8s.io": (16800, {"v1": 15}),
    "admissionregistration.k8s.io": (16700, {"v1": 15}),
    "apiextensions.k8s.io": (16700, {"v1": 15}),
    "scheduling.k8s.io": (16600, {"v1": 15}),
    "coordination.k8s.io": (16500, {"v1": 15}),
    "node.k8s.io": (16300, {"v1": 15}),
    "discovery.k8s.io": (16200, {"v1": 15}),
    # v1alpha4 is of an earlier release and has no number upstream any more
    "resource.k8s.io": (16200, {"v1": 21, "v1beta2": 15, "v1beta1": 9, "v1alpha4": 1, "v1alpha3": 1}),
    "flowcontrol.apiserver.k8s.io": (16100, {"v1": 21}),
    "storagemigration.k8s.io": (15800, {"v1": 15}),
    # of metrics-server's manifest; answered for by this server
    "metrics.k8s.io": (100, {"v1beta1": 100}),
}
_FIRST: Final = "apiregistration.k8s.io"


def group_order(group: str) -> tuple[int, str]:
    """Return what groups are sorted by.

    >>> sorted(["batch", "apps", "apiregistration.k8s.io", ""], key=group_order)
    ['', 'apiregistration.k8s.io', 'apps', 'batch']
    """
    return -17999 if group == _FIRST else -PRIORITIES.get(group, (0, {}))[0], group


CREATE_ONLY = ("create",)
STATUS = Subresource("status")
SCALE = Subresource("scale", kind="Scale", group="autoscaling", version="v1")


def _core(kind: str, plural: str, short: str = "", **rest: object) -> Kind:
    return _row("", "v1", kind, plural, short, **rest)


def _row(group: str, version: str, kind: str, plural: str, short: str = "", **rest: object) -> Kind:
    return Kind(group, version, kind, plural, short_names=tuple(short.split()), **rest)  # type: ignore[arg-type]


def _body(group: str, version: str, kind: str, plural: str = "", **rest: object) -> Kind:
    """Return a kind that is never stored; without a plural it is not served as a resource either."""
    return Kind(group, version, kind, plural, stored=False, verbs=CREATE_ONLY if plural else (), **rest)  # type: ignore[arg-type]


def _workload(
    group: str, kind: str, plural: str, short: str, *subresources: Subresource, **rest: object
) -> Kind:
    """Return a kind that `kubectl get all` shows and whose spec has generations."""
    return _row(
        group, "v1", kind, plural, short, categories=_ALL, generation=True, subresources=subresources, **rest
    )


def _admission(kind: str, plural: str, *subresources: Subresource) -> Kind:
    """Return a kind that says which writes the server asks policies and webhooks about."""
    return Kind(
        "admissionregistration.k8s.io",
        "v1",
        kind,
        plural,
        namespaced=False,
        categories=_EXTENSIONS,
        subresources=subresources,
        generation=True,
        unconditional_update=False,
    )


def _measured(kind: str, plural: str, *, namespaced: bool = True) -> Kind:
    return Kind(RESOURCE_METRICS, "v1beta1", kind, plural, namespaced, stored=False, verbs=("get", "list"))


#: The group that metrics-server serves; simulated clusters answer for it.
RESOURCE_METRICS = "metrics.k8s.io"
_CONNECT = ("create", "get")
_PROXY = ("create", "delete", "get", "patch", "update")
_ALL = ("all",)
_EXTENSIONS = ("api-extensions",)
_APPS, _RBAC, _STORAGE = "apps", "rbac.authorization.k8s.io", "storage.k8s.io"
_RESOURCE = "resource.k8s.io"
_NETWORKING = "networking.k8s.io"
_CERTIFICATES = "certificates.k8s.io"
_AUTHN, _AUTHZ = "authentication.k8s.io", "authorization.k8s.io"
_NAMESPACE_VERBS = tuple(v for v in ALL_VERBS if v != "deletecollection")


def _device_taint_rule(version: str, deprecated: tuple[str, str] | None = None) -> Kind:
    return _row(
        _RESOURCE,
        version,
        "DeviceTaintRule",
        "devicetaintrules",
        namespaced=False,
        subresources=(STATUS,),
        generation=True,
        storage_version="v1beta2",
        hub="" if version == "v1" else "v1",
        deprecated=deprecated,
        unconditional_update=version != "v1",
    )


def _devices(
    version: str, *, rules: bool = True, deprecated: tuple[str, str] | None = None
) -> tuple[Kind, ...]:
    """Return the kinds of resource.k8s.io in one version; all are stored as v1."""
    rest: dict[str, Any] = {
        "hub": "" if version == "v1" else "v1",
        "storage_version": "v1",
        "deprecated": deprecated,
        "returns_deleted": True,
    }
    wide: dict[str, Any] = {**rest, "namespaced": False, "generation": True}
    return (
        _row(_RESOURCE, version, "DeviceClass", "deviceclasses", **wide),
        *((_device_taint_rule(version),) if rules else ()),
        _row(_RESOURCE, version, "ResourceClaim", "resourceclaims", subresources=(STATUS,), **rest),
        _row(_RESOURCE, version, "ResourceClaimTemplate", "resourceclaimtemplates", **rest),
        _row(_RESOURCE, version, "ResourceSlice", "resourceslices", **wide),
    )


def _flow_control(kind: str, plural: str) -> Kind:
    return _row(
        "flowcontrol.apiserver.k8s.io",
        "v1",
        kind,
        plural,
        namespaced=False,
        generation=True,
        subresources=(STATUS,),
    )


def _autoscaler(version: str) -> Kind:
    """Return the HorizontalPodAutoscaler in one version; it is stored as v2."""
    return _row(
        "autoscaling",
        version,
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "hpa",
        categories=_ALL,
        generation=True,
        subresources=(STATUS,),
        hub="" if version == "v2" else "v2",
        storage_version="v2",
    )


KINDS: tuple[Kind, ...] = (
    _body("", "v1", "Binding", "bindings"),
    _core(
        "ComponentStatus",
        "componentstatuses",
        "cs",
        namespaced=False,
        stored=False,
        verbs=("get", "list"),
        singular="componentstatus",
        deprecated=("1.19", ""),
    ),
    _core("ConfigMap", "configmaps", "cm"),
    _core(
        "Endpoints",
        "endpoints",
        "ep",
        singular="endpoints",
        create_on_update=True,
        deprecated=("1.33", "", "discovery.k8s.io/v1 EndpointSlice"),
    ),
    _core("Event", "events", "ev", create_on_update=True, ttl_seconds=3600),
    _core("LimitRange", "limitranges", "limits", create_on_update=True),
    _core(
        "Namespace",
        "namespaces",
        "ns",
        namespaced=False,
        verbs=_NAMESPACE_VERBS,
        subresources=(Subresource("finalize", ("update",)), STATUS),
    ),
    _core(
        "Node",
        "nodes",
        "no",
        namespaced=False,
        status_on_create=True,
        subresources=(Subresource("proxy", _PROXY, "NodeProxyOptions"), STATUS),
    ),
    _core(
        "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", subresources=(STATUS,), returns_deleted=True
    ),
    _core(
        "PersistentVolume",
        "persistentvolumes",
        "pv",
        namespaced=False,
        subresources=(STATUS,),
        returns_deleted=True,
    ),
    _core(
        "Pod",
        "pods",
        "po",
        categories=_ALL,
        generation=True,
        returns_deleted=True,
        subresources=(
            Subresource("attach", _CONNECT, "PodAttachOptions"),
            Subresource("binding", CREATE_ONLY, "Binding"),
            Subresource("ephemeralcontainers"),
            Subresource("eviction", CREATE_ONLY, "Eviction", "policy", "v1"),
            Subresource("exec", _CONNECT, "PodExecOptions"),
            Subresource("log", ("get",)),
            Subresource("portforward", _CONNECT, "PodPortForwardOptions"),
            Subresource("proxy", _PROXY, "PodProxyOptions"),
            Subresource("resize"),
            STATUS,
        ),
    ),
    _core("PodTemplate", "podtemplates", generation=True, returns_deleted=True),
    _workload(
        "",
        "ReplicationController",
        "replicationcontrollers",
        "rc",
        SCALE,
        STATUS,
        default_propagation="Orphan",
    ),
    _core("ResourceQuota", "resourcequotas", "quota", subresources=(STATUS,), returns_deleted=True),
    _core("Secret", "secrets"),
    _core(
        "ServiceAccount",
        "serviceaccounts",
        "sa",
        subresources=(Subresource("token", CREATE_ONLY, "TokenRequest", _AUTHN, "v1"),),
        returns_deleted=True,
    ),
    _core(
        "Service",
        "services",
        "svc",
        categories=_ALL,
        subresources=(Subresource("proxy", _PROXY, "ServiceProxyOptions"), STATUS),
        create_on_update=True,
        returns_deleted=True,
    ),
    _row(_APPS, "v1", "ControllerRevision", "controllerrevisions"),
    _workload(_APPS, "DaemonSet", "daemonsets", "ds", STATUS),
    _workload(_APPS, "Deployment", "deployments", "deploy", SCALE, STATUS),
    _workload(_APPS, "ReplicaSet", "replicasets", "rs", SCALE, STATUS),
    _workload(_APPS, "StatefulSet", "statefulsets", "sts", SCALE, STATUS),
    _row(
        "events.k8s.io",
        "v1",
        "Event",
        "events",
        "ev",
        create_on_update=True,
        storage_group="",
        ttl_seconds=3600,
    ),
    _body(_AUTHN, "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False),
    _body(_AUTHN, "v1", "TokenReview", "tokenreviews", namespaced=False),
    _body(_AUTHZ, "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews"),
    _body(_AUTHZ, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False),
    _body(_AUTHZ, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False),
    _body(_AUTHZ, "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False),
    _autoscaler("v2"),
    _autoscaler("v1"),
    _workload("batch", "CronJob", "cronjobs", "cj", STATUS),
    _workload("batch", "Job", "jobs", "", STATUS, default_propagation="Orphan"),
    _row(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "pdb",
        generation=True,
        subresources=(STATUS,),
        unconditional_update=False,
    ),
    _row(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False, create_on_update=True),
    _row(_RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False, create_on_update=True),
    _row(_RBAC, "v1", "RoleBinding", "rolebindings", create_on_update=True),
    _row(_RBAC, "v1", "Role", "roles", create_on_update=True),
    _flow_control("FlowSchema", "flowschemas"),
    _flow_control("PriorityLevelConfiguration", "prioritylevelconfigurations"),
    *_devices("v1"),
    *_devices("v1beta2", deprecated=("1.36", "1.39")),
    *_devices("v1beta1", rules=False, deprecated=("1.35", "1.38")),
    *_devices("v1alpha4"),
    _device_taint_rule("v1alpha3", ("1.36", "1.39")),
    _row(
        _STORAGE,
        "v1",
        "CSIDriver",
        "csidrivers",
        namespaced=False,
        returns_deleted=True,
        unconditional_update=False,
    ),
    _row(
        _STORAGE,
        "v1",
        "CSINode",
        "csinodes",
        namespaced=False,
        subresources=(STATUS,),
        returns_deleted=True,
        unconditional_update=False,
    ),
    _row(_STORAGE, "v1", "CSIStorageCapacity", "csistoragecapacities", unconditional_update=False),
    _row(_STORAGE, "v1", "StorageClass", "storageclasses", "sc", namespaced=False, returns_deleted=True),
    _row(
        _STORAGE,
        "v1",
        "VolumeAttachment",
        "volumeattachments",
        namespaced=False,
        subresources=(STATUS,),
        returns_deleted=True,
        unconditional_update=False,
    ),
    _row(
        _STORAGE,
        "v1",
        "VolumeAttributesClass",
        "volumeattributesclasses",
        "vac",
        namespaced=False,
        returns_deleted=True,
    ),
    _admission("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
    _admission("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
    _admission("ValidatingAdmissionPolicy", "validatingadmissionpolicies", STATUS),
    _admission("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    _admission("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    _admission("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    _row(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "crd crds",
        namespaced=False,
        categories=_EXTENSIONS,
        generation=True,
        subresources=(STATUS,),
        unconditional_update=False,
        storage_version="v1beta1",  # as discovery says; a definition is stored as it is served
    ),
    _row(
        "apiregistration.k8s.io",
        "v1",
        "APIService",
        "apiservices",
        namespaced=False,
        categories=_EXTENSIONS,
        subresources=(STATUS,),
        unconditional_update=False,
    ),
    _row(
        _CERTIFICATES,
        "v1",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        "csr",
        namespaced=False,
        subresources=(Subresource("approval"), STATUS),
    ),
    _row(
        _CERTIFICATES,
        "v1",
        "ClusterTrustBundle",
        "clustertrustbundles",
        namespaced=False,
        unconditional_update=False,
        storage_version="v1beta1",  # as discovery says; it is stored as it is served
    ),
    _row(
        _CERTIFICATES,
        "v1",
        "PodCertificateRequest",
        "podcertificaterequests",
        subresources=(STATUS,),
        unconditional_update=False,
        storage_version="v1beta1",  # as discovery says; it is stored as it is served
    ),
    _row(
        "storagemigration.k8s.io",
        "v1",
        "StorageVersionMigration",
        "storageversionmigrations",
        namespaced=False,
        subresources=(STATUS,),
        unconditional_update=False,
        storage_version="v1beta1",  # as discovery says; it is stored as it is served
    ),
    _row(_NETWORKING, "v1", "IPAddress", "ipaddresses", "ip", namespaced=False),
    _row(_NETWORKING, "v1", "IngressClass", "ingressclasses", namespaced=False, generation=True),
    _row(_NETWORKING, "v1", "Ingress", "ingresses", "ing", generation=True, subresources=(STATUS,)),
    _row(_NETWORKING, "v1", "NetworkPolicy", "networkpolicies", "netpol", generation=True),
    _row(_NETWORKING, "v1", "ServiceCIDR", "servicecidrs", namespaced=False, subresources=(STATUS,)),
    _row(
        "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", "pc", namespaced=False, generation=True
    ),
    _row("coordination.k8s.io", "v1", "Lease", "leases", create_on_update=True, unconditional_update=False),
    _row("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", namespaced=False, unconditional_update=False),
    _row("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", generation=True),
    # Not stored: resource usage of pods and nodes, computed per request.
    _measured("NodeMetrics", "nodes", namespaced=False),
    _measured("PodMetrics", "pods"),
    # Bodies that are spoken on subresources and in delete requests; not resources of their own.
    _body("policy", "v1", "Eviction"),
    _body("autoscaling", "v1", "Scale"),
    _body(_AUTHN, "v1", "TokenRequest"),
    _body("", "v1", "DeleteOptions", namespaced=False),
)

_FIND: dict[tuple[str, str, str], Kind] = {(k.group, k.version, k.plural): k for k in KINDS if k.plural}
_BY_KIND: dict[tuple[str, str], Kind] = {(k.api_version, k.kind): k for k in KINDS}


def find(group: str, version: str, plural: str) -> Kind | None:
    """Return the kind served at this group, version and plural.

    >>> find("apps", "v1", "deployments").kind
    'Deployment'
    """
    return _FIND.get((group, version, plural))


def by_kind(api_version: str, kind: str) -> Kind:
    """Return the row of a kind as documents name it; KeyError when it is not served."""
    return _BY_KIND[api_version, kind]


def find_kind(api_version: str, kind: str) -> Kind | None:
    """Return the row of a kind as documents name it, if it is served."""
    return _BY_KIND.get((api_version, kind))


def hub_of(kind: Kind) -> Kind:
    """Return the row of the version that objects of *kind* are stored in.

    >>> hub_of(by_kind("resource.k8s.io/v1beta1", "ResourceSlice"))
    Kind(resource.k8s.io/v1 ResourceSlice)
    """
    return by_kind(f"{kind.group}/{kind.hub}", kind.kind) if kind.hub else kind


def groups(kinds: Iterable[Kind] = KINDS) -> dict[str, list[str]]:
    """Return the served groups in the order of discovery, with their versions in the order of the table."""
    found: dict[str, list[str]] = {}
    for kind in kinds:
        versions = found.setdefault(kind.group, []) if kind.plural else []
        if kind.version not in versions:
            versions.append(kind.version)
    return {name: found[name] for name in sorted(found, key=group_order)}


def group_versions(group: str, version: str) -> list[Kind]:
    """Return the kinds served at one group version, sorted by plural."""
    return sorted(
        (k for k in KINDS if k.plural and (k.group, k.version) == (group, version)), key=lambda k: k.plural
    )


# ── kinds that code is about ──

CERTIFICATE_SIGNING_REQUESTS: Final = by_kind("certificates.k8s.io/v1", "CertificateSigningRequest")
CLUSTER_TRUST_BUNDLES: Final = by_kind("certificates.k8s.io/v1", "ClusterTrustBundle")
CONFIG_MAPS: Final = by_kind("v1", "ConfigMap")
CUSTOM_RESOURCE_DEFINITIONS: Final = by_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
DAEMON_SETS: Final = by_kind("apps/v1", "DaemonSet")
DEPLOYMENTS: Final = by_kind("apps/v1", "Deployment")
ENDPOINTS: Final = by_kind("v1", "Endpoints")
ENDPOINT_SLICES: Final = by_kind("discovery.k8s.io/v1", "EndpointSlice")
LEASES: Final = by_kind("coordination.k8s.io/v1", "Lease")
NAMESPACES: Final = by_kind("v1", "Namespace")
NODES: Final = by_kind("v1", "Node")
PERSISTENT_VOLUMES: Final = by_kind("v1", "PersistentVolume")
PERSISTENT_VOLUME_CLAIMS: Final = by_kind("v1", "PersistentVolumeClaim")
PODS: Final = by_kind("v1", "Pod")
POD_CERTIFICATE_REQUESTS: Final = by_kind("certificates.k8s.io/v1", "PodCertificateRequest")
POD_DISRUPTION_BUDGETS: Final = by_kind("policy/v1", "PodDisruptionBudget")
PRIORITY_CLASSES: Final = by_kind("scheduling.k8s.io/v1", "PriorityClass")
REPLICA_SETS: Final = by_kind("apps/v1", "ReplicaSet")
RESOURCE_CLAIMS: Final = by_kind("resource.k8s.io/v1", "ResourceClaim")
RESOURCE_QUOTAS: Final = by_kind("v1", "ResourceQuota")
RESOURCE_SLICES: Final = by_kind("resource.k8s.io/v1", "ResourceSlice")
SECRETS: Final = by_kind("v1", "Secret")
SERVICES: Final = by_kind("v1", "Service")
SERVICE_ACCOUNTS: Final = by_kind("v1", "ServiceAccount")
STORAGE_CLASSES: Final = by_kind("storage.k8s.io/v1", "StorageClass")
SUBJECT_ACCESS_REVIEWS: Final = by_kind("authorization.k8s.io/v1", "SubjectAccessReview")
