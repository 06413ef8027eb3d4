"""Every object of weir's operator in a cluster, in the order in which they may be applied.

Spec: stock.md 5 to 9. Two ways to run it: `image` makes a Deployment behind a Service, `url` names a process that runs
elsewhere. Objects that the operator fills (the Secret with its certificate and path secrets, the ConfigMap of known
taints, bundle and path in the webhook configurations) are made empty and without those fields, so that applying again
takes nothing away; and no key is ever printed.
The webhook configurations come last. Applied in one go they are in force before the operator answers: until then, what
it would have had to lower and nodes with new taints are refused, and nothing is evicted.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from weir.errors import WeirError
from weir.install.rights import CERTIFICATES, RIGHTS
from weir.lowering.names import KNOWN_TRIPLES, NAMESPACE, OPERATOR
from weir.lowering.sentinel import restricted_container, restricted_pod, sentinel_pod, sentinel_service
from weir.lowering.webhooks import mutating_configuration, origin, own_user, validating_configuration

Document = dict[str, Any]
ToYaml = Callable[[Any], str]

HOOK_PORT: Final = 9443
METRICS_PORT: Final = 9090
REPLICAS: Final = 2
LABELS: Final = {"app.kubernetes.io/part-of": "weir"}
#: The ConfigMap with the authorities whose client certificates are asked for, and where the operator finds it.
CLIENT_AUTHORITIES: Final = "weir-operator-client-ca"
_CLIENT_CA_FILE: Final = "/etc/weir/client-ca/ca.crt"
_OPERATOR_LABELS: Final = {**LABELS, "app.kubernetes.io/name": OPERATOR}
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")


class InstallError(WeirError):
    """The installation cannot be described; the text says what to write."""


@dataclass(frozen=True)
class Installation:
    """Where the operator runs: `image` in the cluster, or `url` for a process outside of it."""

    namespace: str = NAMESPACE
    image: str = ""
    url: str = ""
    replicas: int = REPLICAS
    grace_seconds: int | None = None  #: None: as the operator decides by what it sees of the control plane
    client_ca: str = ""  #: PEM of the authorities whose certificates callers must show; "": none is asked for
    client_names: tuple[str, ...] = ()  #: for these names only
    api_servers: tuple[str, ...] = ()  #: CIDRs that the NetworkPolicy lets in; (): any

    def check(self) -> None:
        """Raise InstallError when something of it cannot be used."""
        if not _NAME.match(self.namespace):
            raise InstallError(
                f"{self.namespace!r} cannot be the name of a namespace: a-z, 0-9 and -, at most 63"
            )
        if bool(self.image) == bool(self.url):
            raise InstallError(
                "say where the operator runs: --image IMAGE for a Deployment in the cluster, or --url "
                "https://HOST:PORT for a process that the API server can reach"
            )
        if self.client_names and not self.client_ca:
            raise InstallError("--client-name needs --client-ca-file, which says who may vouch for names")
        for each in self.api_servers:
            try:
                ipaddress.ip_network(each)
            except ValueError as error:
                raise InstallError(f"--api-server-cidr {each}: {error}") from None
        if self.url:
            self.host()
            if self.grace_seconds is not None:
                raise InstallError(
                    "--grace-seconds is for the operator in the cluster; outside of it, "
                    f"say it where it is started: {self.command()} --grace-seconds={self.grace_seconds}"
                )
            if self.client_ca or self.api_servers:
                raise InstallError(
                    "--client-ca-file, --client-name and --api-server-cidr are for the operator in the cluster; "
                    f"outside of it, {self.command()} takes the first two, and a firewall does the rest"
                )

    def host(self) -> str:
        """Return the host of the URL, which the certificate must be good for."""
        parts = urlsplit(self.url)
        try:
            wrong = parts.port == 0
        except ValueError:
            wrong = True
        if parts.scheme != "https" or not parts.hostname or wrong:
            raise InstallError(
                f"{self.url!r}: write it like https://host:9443; the API server speaks only https to hooks"
            )
        if parts.username or parts.query or parts.fragment or parts.path.strip("/"):
            raise InstallError(
                f"{self.url!r}: a webhook's URL has no user, no query and no fragment, and its path is the operator's"
            )
        return parts.hostname

    def command(self) -> str:
        """Return the command that starts the operator outside of the cluster, where the API server will call it."""
        words = ["weir", "operator", "--url", self.url]
        if self.namespace != NAMESPACE:
            words += ["--namespace", self.namespace]
        if self.host() != "localhost" and not _is_address(self.host()):
            words += ["--bind-address", "0.0.0.0"]  # a name may lead to any address of that machine
        return " ".join(words)

    def client_config(self) -> Document:
        """Return how the API server reaches the hooks; whom it trusts and by which path is the operator's to write."""
        if self.url:
            return {"url": origin(self.url)}
        return {"service": {"name": OPERATOR, "namespace": self.namespace, "port": 443}}


def documents(installation: Installation) -> list[Document]:
    """Return every object of the installation, each after those that it needs.

    >>> [each["kind"] for each in documents(Installation(url="https://192.0.2.1:9443"))][-2:]
    ['MutatingWebhookConfiguration', 'ValidatingWebhookConfiguration']
    """
    return [*foundation(installation), *workload(installation), lowering(installation), barrier(installation)]


def foundation(installation: Installation) -> list[Document]:
    """Return what the operator needs before it starts: namespace, rights, what it fills, and the sentinel."""
    namespace = installation.namespace
    subject = {"kind": "ServiceAccount", "name": OPERATOR, "namespace": namespace}
    return [
        _object("v1", "Namespace", namespace, labels=_namespace_labels()),
        _object("v1", "ServiceAccount", OPERATOR, namespace),
        _object(
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            OPERATOR,
            rules=[right.rule() for right in RIGHTS if not right.own],
        ),
        _object(
            "rbac.authorization.k8s.io/v1",
            "ClusterRoleBinding",
            OPERATOR,
            roleRef=_role("ClusterRole"),
            subjects=[subject],
        ),
        _object(
            "rbac.authorization.k8s.io/v1",
            "Role",
            OPERATOR,
            namespace,
            rules=[right.rule() for right in RIGHTS if right.own],
        ),
        _object(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            OPERATOR,
            namespace,
            roleRef=_role("Role"),
            subjects=[subject],
        ),
        _object("v1", "Secret", CERTIFICATES, namespace, type="Opaque"),
        _object("v1", "ConfigMap", KNOWN_TRIPLES, namespace),
        *(
            [
                _object(
                    "v1", "ConfigMap", CLIENT_AUTHORITIES, namespace, data={"ca.crt": installation.client_ca}
                )
            ]
            if installation.client_ca
            else []
        ),
        sentinel_service(namespace),
        sentinel_pod(namespace),
    ]


def workload(installation: Installation) -> list[Document]:
    """Return what runs the operator in the cluster: nothing when it runs elsewhere."""
    if installation.url:
        return []
    namespace, selector = installation.namespace, {"app.kubernetes.io/name": OPERATOR}
    return [
        _object(
            "v1",
            "Service",
            OPERATOR,
            namespace,
            labels=_OPERATOR_LABELS,
            spec={
                "selector": selector,
                "ports": [{"name": "hooks", "port": 443, "protocol": "TCP", "targetPort": HOOK_PORT}],
            },
        ),
        _object(
            "apps/v1",
            "Deployment",
            OPERATOR,
            namespace,
            labels=_OPERATOR_LABELS,
            spec={
                "replicas": installation.replicas,
                "selector": {"matchLabels": selector},
                # A hook that is refused for a moment refuses writes: the new one answers before an old one goes.
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "template": {"metadata": _pod_metadata(installation), "spec": _operator_pod(installation)},
            },
        ),
        _object(
            "policy/v1",
            "PodDisruptionBudget",
            OPERATOR,
            namespace,
            labels=_OPERATOR_LABELS,
            spec={"minAvailable": 1, "selector": {"matchLabels": selector}},
        ),
        _object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            OPERATOR,
            namespace,
            labels=_OPERATOR_LABELS,
            spec={
                "podSelector": {"matchLabels": selector},
                "policyTypes": ["Ingress"],
                "ingress": _ingress(installation),
            },
        ),
    ]


def _ingress(installation: Installation) -> list[Document]:
    """Return what the NetworkPolicy lets in: the hooks from the API servers, the metrics from anywhere, no other port.

    API servers call from the host network, which no selector of pods or namespaces matches; where nobody says their
    addresses, the port of the hooks stays open and the path secret decides.
    """
    hooks: Document = {"ports": [{"port": HOOK_PORT, "protocol": "TCP"}]}
    if installation.api_servers:
        hooks["from"] = [{"ipBlock": {"cidr": each}} for each in installation.api_servers]
    return [hooks, {"ports": [{"port": METRICS_PORT, "protocol": "TCP"}]}]


def _pod_metadata(installation: Installation) -> Document:
    if not installation.client_ca:
        return {"labels": _OPERATOR_LABELS}
    # The operator reads authorities when it starts: other ones are other pods.
    digest = hashlib.sha256(installation.client_ca.encode()).hexdigest()[:20]
    return {"labels": _OPERATOR_LABELS, "annotations": {"weir.dev/client-ca": digest}}


def _operator_pod(installation: Installation) -> Document:
    probe = {"port": METRICS_PORT, "scheme": "HTTP"}
    mounts = [{"name": "tmp", "mountPath": "/tmp"}]
    # The TLS library reads keys from files only: they are in memory for that moment, never on a disk.
    volumes: list[Document] = [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}]
    if installation.client_ca:
        mounts.append({"name": "client-ca", "mountPath": _CLIENT_CA_FILE.rpartition("/")[0]})
        volumes.append({"name": "client-ca", "configMap": {"name": CLIENT_AUTHORITIES}})
    return {
        "serviceAccountName": OPERATOR,
        "priorityClassName": "system-cluster-critical",
        "securityContext": restricted_pod(65532),
        "tolerations": [
            {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "CriticalAddonsOnly", "operator": "Exists"},
        ],
        # Two replicas on one node go with it.
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": OPERATOR}},
            }
        ],
        "containers": [
            {
                "name": "operator",
                "image": installation.image,
                "args": operator_arguments(installation),
                "ports": [
                    {"name": "hooks", "containerPort": HOOK_PORT, "protocol": "TCP"},
                    {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
                ],
                "readinessProbe": {"httpGet": {"path": "/readyz", **probe}, "periodSeconds": 2},
                "livenessProbe": {
                    "httpGet": {"path": "/livez", **probe},
                    "initialDelaySeconds": 20,
                    "periodSeconds": 10,
                    "failureThreshold": 6,
                },
                "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "securityContext": restricted_container(),
                "volumeMounts": mounts,
            }
        ],
        "volumes": volumes,
    }


def operator_arguments(installation: Installation) -> list[str]:
    """Return the arguments of the operator in the cluster."""
    return [
        "operator",
        f"--namespace={installation.namespace}",
        "--bind-address=0.0.0.0",
        f"--secure-port={HOOK_PORT}",
        f"--metrics-port={METRICS_PORT}",
        *([] if installation.grace_seconds is None else [f"--grace-seconds={installation.grace_seconds}"]),
        *([f"--client-ca-file={_CLIENT_CA_FILE}"] if installation.client_ca else []),
        *(f"--client-name={name}" for name in installation.client_names),
    ]


def lowering(installation: Installation) -> Document:
    """Return the configuration of the hooks that lower."""
    return mutating_configuration(installation.client_config(), own_user(installation.namespace))


def barrier(installation: Installation) -> Document:
    """Return the configuration of the barrier before nodes: the last to be trusted, the first to go."""
    return validating_configuration(installation.client_config(), own_user(installation.namespace))


def written(document: Document, to_yaml: ToYaml) -> str:
    """Return the document as YAML; the rules of a role each with the reason for it."""
    text = to_yaml(document)
    if document["kind"] not in ("ClusterRole", "Role"):
        return text
    reasons = iter(right.why for right in RIGHTS if right.own == (document["kind"] == "Role"))
    return "\n".join(
        f"# {next(reasons)}\n{line}" if line.startswith("- apiGroups:") else line for line in text.split("\n")
    )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


# ── shapes ───────────────────────────────────────────────────────────────────────────────────────


def _object(
    version: str,
    kind: str,
    name: str,
    namespace: str = "",
    *,
    labels: Document | None = None,
    **fields: Any,
) -> Document:
    metadata: Document = {"name": name, "labels": dict(labels or LABELS)}
    if namespace:
        metadata = {"name": name, "namespace": namespace, "labels": metadata["labels"]}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def _namespace_labels() -> Document:
    return {**LABELS, "pod-security.kubernetes.io/enforce": "restricted"}


def _role(kind: str) -> Document:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": OPERATOR}
