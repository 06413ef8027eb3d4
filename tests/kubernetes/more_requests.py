"""More requests asked of a real API server and of weir: odd pods, odd objects of the other kinds, odd bodies and forms.

What tests/kubernetes/requests.py asks of every kind in the same way is asked here of each kind in its own: one wrong or
unusual field at a time, most of them as dry runs. Then the edges of HTTP: media types, options, names, YAML.
"""

# ruff: noqa: N806  (tables read better on long lines and in short names)

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.kubernetes.requests import (
    APPLY,
    JSON_PATCH,
    MERGE,
    ONCE,
    PARTIAL,
    SETS,
    STRATEGIC,
    TABLE,
    TEMPLATE,
    Asked,
    Document,
    document,
    pod,
)

NS = "/api/v1/namespaces/more"
PODS, APPS = f"{NS}/pods", "/apis/apps/v1/namespaces/more"
DRA = "/apis/resource.k8s.io/v1"
YAML = "application/yaml"


class Questions:
    """Requests in the order they are asked, numbered so that each has a name of its own."""

    def __init__(self, about: str) -> None:
        self._about = about
        self.asked: list[Asked] = []

    def ask(
        self,
        name: str,
        method: str,
        path: str,
        body: Any = None,
        content: str = "application/json",
        accept: str = "application/json",
        headers: Document | None = None,
        fresh: bool = False,
    ) -> None:
        number = len(self.asked)
        asked = Asked(
            f"more {self._about} {number}: {name}", method, path, body, content, accept, headers or {}, fresh
        )
        self.asked.append(asked)

    def dry(self, path: str, kind: str, name: str, version: str = "v1", **rest: Any) -> None:
        self.ask(f"{kind} {name[:20]}", "POST", f"{path}?dryRun=All", document(kind, name, version, **rest))


def pods() -> Iterator[Asked]:
    """A pod with one thing unusual about it."""
    q = Questions("pods")

    def p(name: str, **spec: Any) -> None:
        safe = name.lower().replace(" ", "-").replace("_", "-")[:50]
        q.ask(name, "POST", f"{PODS}?dryRun=All", pod(safe, **spec))

    def c(**k: Any) -> list[Document]:
        return [{"name": "c", "image": "app:1", **k}]

    # --- pod spec variations
    p("hostname long", hostname="x" * 64)
    p("subdomain", subdomain="A.b")
    p("setHostnameAsFQDN", setHostnameAsFQDN=True, hostname="a")
    p("hostnameOverride", hostnameOverride="Bad_")
    p("hostnameOverride ok", hostnameOverride="a.b.c")
    p("dns none", dnsPolicy="None")
    p("dns bad", dnsPolicy="Foo")
    p(
        "dnsConfig",
        dnsConfig={
            "nameservers": ["1", "2.2.2.2", "3.3.3.3", "4.4.4.4"],
            "searches": ["a_b!"],
            "options": [{"name": ""}],
        },
    )
    p("restart bad", restartPolicy="Foo")
    p("hostNetwork ports", hostNetwork=True, containers=c(ports=[{"containerPort": 80, "hostPort": 81}]))
    p("hostNetwork default", hostNetwork=True, containers=c(ports=[{"containerPort": 80}]))
    p("hostUsers false hostnet", hostUsers=False, hostNetwork=True)
    p("shareProcess hostpid", shareProcessNamespace=True, hostPID=True)
    p(
        "hostAliases",
        hostAliases=[
            {"ip": "x", "hostnames": ["a_"]},
            {"ip": "1.2.3.4"},
            {"ip": "1.2.3.4", "hostnames": ["b"]},
        ],
    )
    p(
        "secctx",
        securityContext={
            "runAsUser": -1,
            "runAsGroup": -2,
            "fsGroup": -1,
            "supplementalGroups": [-1],
            "sysctls": [
                {"name": "a b", "value": "1"},
                {"name": "kernel.x", "value": "1"},
                {"name": "kernel.x", "value": "1"},
            ],
            "seccompProfile": {"type": "Localhost"},
            "fsGroupChangePolicy": "Foo",
            "supplementalGroupsPolicy": "x",
            "appArmorProfile": {"type": "Localhost"},
            "seLinuxChangePolicy": "x",
        },
    )
    p(
        "seccomp types",
        securityContext={
            "seccompProfile": {"type": "Foo", "localhostProfile": "x"},
            "appArmorProfile": {"type": "Foo"},
        },
    )
    p("os linux", os={"name": "linux"}, securityContext={"windowsOptions": {"runAsUserName": "a"}})
    p("os windows", os={"name": "windows"}, securityContext={"fsGroup": 1, "runAsUser": 5}, hostPID=True)
    p("os bad", os={"name": "mac"})
    p("os empty", os={})
    p("readiness gates", readinessGates=[{"conditionType": "a b"}, {"conditionType": ""}])
    p("scheduling gates", schedulingGates=[{"name": "a b"}, {"name": ""}, {"name": "x"}, {"name": "x"}])
    p("schedulerName", schedulerName="Bad Name")
    p("schedulerName empty", schedulerName="")
    p("priorityclass sys", priorityClassName="system-node-critical")
    p("priorityclass sysc", priorityClassName="system-cluster-critical")
    p("preemption", preemptionPolicy="Foo")
    p("preemption never", preemptionPolicy="Never")
    p("grace zero", terminationGracePeriodSeconds=0)
    p("deadline big", activeDeadlineSeconds=2147483648)
    p("nodeName bad", nodeName="Bad_")
    p("nodeName ok", nodeName="somewhere")
    p("imagePullSecrets", imagePullSecrets=[{}, {"name": "a"}, {"name": "a"}])
    p("sa bad", serviceAccountName="Bad_")
    p("sa deprecated", serviceAccount="foo")
    p("runtimeclass bad", runtimeClassName="Bad_")
    p("overhead", overhead={"cpu": "1"})
    p("resources podlevel", resources={"requests": {"cpu": "1"}, "limits": {"cpu": "500m"}})
    p("resources podlevel ok", resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}})
    p("resources podlevel bad", resources={"requests": {"nvidia.com/gpu": "1"}})
    p(
        "resources podlevel less than containers",
        resources={"requests": {"cpu": "1"}},
        containers=c(resources={"requests": {"cpu": "2"}}),
    )
    p(
        "topo",
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "Foo",
                "nodeAffinityPolicy": "x",
                "nodeTaintsPolicy": "y",
                "minDomains": 0,
            }
        ],
    )
    p(
        "topo dup",
        topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ]
        * 2,
    )
    p(
        "topo match label",
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "matchLabelKeys": ["a", "a b"],
                "labelSelector": {"matchLabels": {"a": "b"}},
            }
        ],
    )
    p(
        "topo match nolabel",
        topologySpreadConstraints=[
            {
                "maxSkew": -1,
                "topologyKey": "a b",
                "whenUnsatisfiable": "DoNotSchedule",
                "matchLabelKeys": ["a"],
            }
        ],
    )
    p(
        "topo matchLabelKeys ok",
        metadata={"labels": {"a": "1"}},
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "matchLabelKeys": ["a"],
                "labelSelector": {"matchLabels": {"b": "b"}},
            }
        ],
    )
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
    for side in ("podAffinity", "podAntiAffinity"):
        p(
            side + " pref",
            affinity={
                side: {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 0, "podAffinityTerm": {"topologyKey": ""}},
                        {"weight": 5, "podAffinityTerm": term},
                    ]
                }
            },
        )
        p(
            side + " matchlabelkeys",
            metadata={"labels": {"k": "v"}},
            affinity={
                side: {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {**term, "matchLabelKeys": ["k"], "mismatchLabelKeys": ["k"]}
                    ]
                }
            },
        )
        p(
            side + " mismatch",
            metadata={"labels": {"k": "v"}},
            affinity={
                side: {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{**term, "mismatchLabelKeys": ["k"]}]
                }
            },
        )
        p(
            side + " match",
            metadata={"labels": {"k": "v"}},
            affinity={
                side: {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{**term, "matchLabelKeys": ["k", "z"]}]
                }
            },
        )
        p(
            side + " mlk nosel",
            affinity={
                side: {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "z", "matchLabelKeys": ["k"]}
                    ]
                }
            },
        )
        p(
            side + " mlk insel",
            affinity={
                side: {"requiredDuringSchedulingIgnoredDuringExecution": [{**term, "matchLabelKeys": ["a"]}]}
            },
        )
        p(
            side + " ns",
            affinity={
                side: {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            **term,
                            "namespaces": ["Bad_", "ok"],
                            "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
                        }
                    ]
                }
            },
        )
        p(
            side + " sel",
            affinity={
                side: {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": "a b",
                            "labelSelector": {
                                "matchExpressions": [
                                    {"key": "a b", "operator": "Foo"},
                                    {"key": "a", "operator": "Exists", "values": ["x"]},
                                    {"key": "a", "operator": "In", "values": ["x y"]},
                                ],
                                "matchLabels": {"q q": "z z"},
                            },
                        }
                    ]
                }
            },
        )

    def node_affinity(*e: Document, f: Any = ()) -> Document:
        return {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": list(e), "matchFields": list(f)}]
                }
            }
        }

    p(
        "na noterms",
        affinity={
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
        },
    )
    p("na null", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}})
    p("na empty", affinity={"nodeAffinity": {}})
    p(
        "na key",
        affinity=node_affinity(
            {"key": "a b", "operator": "Exists"}, {"key": "", "operator": "In", "values": ["x"]}
        ),
    )
    p(
        "na lt",
        affinity=node_affinity(
            {"key": "a", "operator": "Lt", "values": []}, {"key": "a", "operator": "Lt", "values": ["x"]}
        ),
    )
    p(
        "na fields",
        affinity=node_affinity(
            f=[
                {"key": "metadata.namespace", "operator": "In", "values": ["x"]},
                {"key": "metadata.name", "operator": "Exists"},
                {"key": "metadata.name", "operator": "In", "values": ["Bad_"]},
                {"key": "metadata.name", "operator": "NotIn", "values": []},
            ]
        ),
    )
    p("na fields gt", affinity=node_affinity(f=[{"key": "metadata.name", "operator": "Gt", "values": ["5"]}]))
    p(
        "na pref",
        affinity={
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 50, "preference": {}},
                    {
                        "weight": -5,
                        "preference": {
                            "matchExpressions": [{"key": "x", "operator": "DoesNotExist", "values": ["z"]}]
                        },
                    },
                ]
            }
        },
    )
    p(
        "na values long",
        affinity=node_affinity(
            {"key": "a", "operator": "In", "values": ["x" * 64, "ok", ""]},
            {"key": "a", "operator": "NotIn", "values": ["b c"]},
        ),
    )
    # containers
    p("container dup", containers=c() + c())
    p(
        "container badname",
        containers=[
            {"name": "A", "image": " x"},
            {"name": "", "image": "i"},
            {"name": "b" * 64, "image": "i"},
        ],
    )
    p(
        "init",
        initContainers=[
            {
                "name": "c",
                "image": "i",
                "restartPolicy": "Always",
                "lifecycle": {"preStop": {"exec": {"command": ["x"]}}},
            }
        ],
    )
    p(
        "init bad",
        initContainers=[
            {
                "name": "i",
                "image": "i",
                "restartPolicy": "Foo",
                "readinessProbe": {"exec": {"command": ["x"]}},
                "lifecycle": {"postStart": {"exec": {"command": ["x"]}}},
            }
        ],
    )
    p(
        "sidecar ok",
        initContainers=[
            {
                "name": "i",
                "image": "i",
                "restartPolicy": "Always",
                "readinessProbe": {"exec": {"command": ["x"]}},
            }
        ],
    )
    p("container restartPolicy", containers=c(restartPolicy="Always"))
    p(
        "container restartPolicyRules",
        containers=c(
            restartPolicy="Never",
            restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}],
        ),
    )
    p(
        "container restartRules bad",
        containers=c(
            restartPolicyRules=[
                {"action": "Foo"},
                {"action": "Restart", "exitCodes": {"operator": "x", "values": []}},
            ]
        ),
    )
    p(
        "probes",
        containers=c(
            livenessProbe={"httpGet": {"port": 0, "scheme": "x"}, "periodSeconds": -1},
            readinessProbe={
                "terminationGracePeriodSeconds": 1,
                "tcpSocket": {"port": "bad_port_name_too_long"},
            },
            startupProbe={"grpc": {"port": 0}},
        ),
    )
    p("probe none", containers=c(livenessProbe={"periodSeconds": 5}))
    p(
        "probe two",
        containers=c(
            livenessProbe={
                "exec": {"command": []},
                "httpGet": {"port": 80, "path": "/x", "httpHeaders": [{"name": "a b", "value": "x"}]},
                "successThreshold": 3,
            }
        ),
    )
    p(
        "lifecycle",
        containers=c(
            lifecycle={"preStop": {"sleep": {"seconds": 100}}, "postStart": {}, "stopSignal": "SIGTERM"}
        ),
    )
    p("stopsignal os", os={"name": "linux"}, containers=c(lifecycle={"stopSignal": "SIGTERM"}))
    p(
        "ports",
        containers=c(
            ports=[
                {"containerPort": 0},
                {"containerPort": 80, "name": "Bad_Name", "protocol": "x", "hostPort": 70000, "hostIP": "z"},
                {"containerPort": 81, "name": "aa"},
                {"containerPort": 82, "name": "aa"},
                {"containerPort": 82, "name": "this-is-too-long-name"},
            ]
        ),
    )
    p("ports dup", containers=c(ports=[{"containerPort": 80}, {"containerPort": 80}]))
    p(
        "env",
        containers=c(
            env=[
                {"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "x"}}},
                {"name": "B", "valueFrom": {}},
                {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a b']"}}},
                {"name": "=", "value": "x"},
                {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "foo"}}},
                {"name": "E", "valueFrom": {"configMapKeyRef": {"name": "", "key": "a b"}}},
                {"name": "F", "valueFrom": {"secretKeyRef": {"key": ""}}},
                {"name": "A", "value": "dup"},
            ],
            envFrom=[
                {},
                {"prefix": "=", "configMapRef": {"name": ""}},
                {"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}},
            ],
        ),
    )
    p(
        "mounts",
        volumes=[{"name": "v", "emptyDir": {}}],
        containers=c(
            volumeMounts=[
                {"name": "v", "mountPath": "/a"},
                {"name": "v", "mountPath": "/a"},
                {"name": "", "mountPath": ""},
                {"name": "zz", "mountPath": "/b"},
                {"name": "v", "mountPath": "/c", "subPath": "../x", "mountPropagation": "Bidirectional"},
                {"name": "v", "mountPath": "/d", "subPath": "a", "subPathExpr": "b"},
                {"name": "v", "mountPath": "/e", "recursiveReadOnly": "Enabled"},
            ],
            volumeDevices=[{"name": "v", "devicePath": "/x"}],
        ),
    )
    volumes = [
        {"name": "Bad_", "emptyDir": {}},
        {"name": "a"},
        {"name": "b", "emptyDir": {"sizeLimit": "-1", "medium": "Foo"}},
        {"name": "c", "hostPath": {"path": "../x", "type": "x"}},
        {"name": "d", "configMap": {"items": [{"key": "", "path": "../x", "mode": 1000}], "defaultMode": -1}},
        {"name": "e", "secret": {}},
        {"name": "f", "persistentVolumeClaim": {}},
        {
            "name": "g",
            "projected": {
                "sources": [
                    {"secret": {"name": "a", "items": [{"key": "a", "path": "x"}]}},
                    {"configMap": {"name": "a", "items": [{"key": "a", "path": "x"}]}},
                    {"serviceAccountToken": {"expirationSeconds": 1, "path": ""}},
                    {},
                ]
            },
        },
        {
            "name": "h",
            "downwardAPI": {
                "items": [
                    {"path": "a", "fieldRef": {"fieldPath": "status.podIP"}},
                    {"path": "", "resourceFieldRef": {"resource": "limits.cpu"}},
                ]
            },
        },
        {"name": "i", "ephemeral": {}},
        {"name": "j", "csi": {}},
        {"name": "k", "nfs": {}},
        {"name": "l", "image": {"reference": "", "pullPolicy": "x"}},
        {"name": "m", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "n", "iscsi": {"iqn": "x"}},
        {"name": "o", "emptyDir": {}, "hostPath": {"path": "/x"}},
    ]
    for v in volumes:
        p("volume " + v["name"] + " " + str(list(v)[1:]), volumes=[v])
    p("volumes all", volumes=volumes)
    p("volumes dup", volumes=[{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}])

    def resources(**k: Any) -> list[Document]:
        return c(resources=k)

    p("res hugepages", containers=resources(limits={"hugepages-2Mi": "4Mi"}))
    p("res hugepages ok", containers=resources(limits={"hugepages-2Mi": "4Mi", "cpu": "1"}))
    p("res hugepages req", containers=resources(requests={"hugepages-2Mi": "4Mi", "cpu": "1"}))
    p("res ext", containers=resources(requests={"example.com/gpu": "1"}))
    p("res ext frac", containers=resources(limits={"example.com/gpu": "500m"}))
    p(
        "res ext differ",
        containers=resources(limits={"example.com/gpu": "2"}, requests={"example.com/gpu": "1"}),
    )
    p("res claims", containers=resources(claims=[{"name": "x"}, {"name": "x"}, {"name": ""}]))
    p(
        "resclaims",
        resourceClaims=[
            {"name": "A b", "resourceClaimName": "Bad_"},
            {"name": "a"},
            {"name": "a", "resourceClaimTemplateName": "t"},
            {"name": "b", "resourceClaimName": ""},
        ],
    )
    p(
        "resclaims ok",
        resourceClaims=[{"name": "a", "resourceClaimTemplateName": "t"}],
        containers=resources(
            claims=[{"name": "a", "request": "Bad_"}, {"name": "a"}, {"name": "a", "request": "r"}]
        ),
    )
    p(
        "res precision",
        containers=resources(
            requests={"cpu": "0.1m", "memory": "1.5", "ephemeral-storage": "1e3"},
            limits={"cpu": "100u", "memory": "128974848000m"},
        ),
    )
    p(
        "resizePolicy",
        containers=c(
            resizePolicy=[
                {"resourceName": "cpu", "restartPolicy": "Foo"},
                {"resourceName": "disk", "restartPolicy": "NotRequired"},
                {"resourceName": "cpu", "restartPolicy": "NotRequired"},
            ]
        ),
    )
    p(
        "tolerations many",
        tolerations=[
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            {"operator": "Exists", "value": "x"},
            {"operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 1},
            {"key": "a", "operator": "Lt", "value": ""},
            {"key": "", "operator": "Gt", "value": "5"},
            {"key": "a", "operator": "Gt", "value": "05", "effect": "Foo"},
        ],
    )
    p("ephemeral on create", ephemeralContainers=[{"name": "e", "image": "i"}])
    p("automount", automountServiceAccountToken=True, enableServiceLinks=False)
    p(
        "workingdir etc",
        containers=c(
            imagePullPolicy="Foo",
            terminationMessagePolicy="Foo",
            terminationMessagePath="x" * 10,
            stdin=True,
            tty=True,
            stdinOnce=True,
            workingDir="/x",
            command=["a"],
            args=["b"],
        ),
    )
    p(
        "image digest",
        containers=[
            {"name": "c", "image": "reg:5000/app@sha256:" + "a" * 64},
            {"name": "d", "image": "reg:5000/app"},
            {"name": "e", "image": "app:latest"},
            {"name": "f", "image": "UPPER/x:1"},
        ],
    )
    p("deprecated beta labels", nodeSelector={"beta.kubernetes.io/os": "linux"})
    p("namespaced name", metadata={"namespace": "default"})
    p(
        "deletionTS",
        metadata={
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 5,
            "uid": "abc",
            "creationTimestamp": "2020-01-01T00:00:00Z",
            "generation": 7,
            "selfLink": "/x",
        },
    )
    p(
        "owner two controllers",
        metadata={
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u", "controller": True},
                {"apiVersion": "v1", "kind": "Pod", "name": "y", "uid": "v", "controller": True},
            ]
        },
    )
    p(
        "owner bad version",
        metadata={
            "ownerReferences": [
                {"apiVersion": "a/b/c", "kind": "Pod", "name": "x", "uid": "u"},
                {"apiVersion": "", "kind": "", "name": "x", "uid": "u", "blockOwnerDeletion": True},
            ]
        },
    )
    p(
        "finalizers",
        metadata={
            "finalizers": ["orphan", "foregroundDeletion", "kubernetes", "x/y", "x/y", "A B", "x" * 70 + "/y"]
        },
    )
    p(
        "managedfields",
        metadata={
            "managedFields": [
                {
                    "manager": "x",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}},
                    "time": "2020-01-01T00:00:00Z",
                }
            ]
        },
    )
    p(
        "managedfields bad",
        metadata={
            "managedFields": [
                {"manager": "x", "operation": "Foo", "apiVersion": "v1", "fieldsType": "FieldsV2"}
            ]
        },
    )
    p("name dot", metadata={"name": "a..b"})
    p("name long", metadata={"name": "x" * 254})
    p("name slash", metadata={"name": "a/b"})
    p("gen both", metadata={"generateName": "zz-"})
    p("schedulingGroup", schedulingGroup={"podGroupName": "x"})
    p("workloadRef", workloadRef={"name": "x"})
    yield from q.asked


def kinds() -> Iterator[Asked]:
    """Every other kind with something unusual in its own fields."""
    q = Questions("kinds")
    SVC = f"{NS}/services"
    PVC = f"{NS}/persistentvolumeclaims"
    PV = "/api/v1/persistentvolumes"
    ST = "/apis/storage.k8s.io/v1"
    # services

    def s(name: str, **spec: Any) -> None:
        q.dry(SVC, "Service", name, spec=spec)

    P = [{"port": 80}]
    s("headless-noports", clusterIP="None")
    s("extname", type="ExternalName", externalName="a.b")
    s("extname-bad", type="ExternalName")
    s("extname-ports", type="ExternalName", externalName="A_", ports=P, clusterIP="10.0.0.1")
    s("nodeport", type="NodePort", ports=[{"port": 80, "nodePort": 30500}])
    s("nodeport-bad", type="NodePort", ports=[{"port": 80, "nodePort": 80}])
    s("nodeport-cluster", ports=[{"port": 80, "nodePort": 30501}])
    s(
        "lb",
        type="LoadBalancer",
        ports=[{"port": 80, "nodePort": 30502}],
        loadBalancerSourceRanges=["x"],
        externalTrafficPolicy="Local",
        healthCheckNodePort=30503,
    )
    s("badtype", type="Foo", ports=P)
    s(
        "ports",
        ports=[
            {"port": 0},
            {"port": 80, "name": "a"},
            {"port": 81, "name": "a"},
            {"port": 82, "protocol": "X", "name": "B_"},
            {"port": 83, "targetPort": "Bad_", "name": "c"},
            {"port": 84, "targetPort": 0, "name": "d", "appProtocol": "x y"},
        ],
    )
    s("dup-ports", ports=[{"port": 80, "name": "a"}, {"port": 80, "name": "b"}])
    s("noports")
    s("badip", ports=P, clusterIP="x")
    s("affinity", ports=P, sessionAffinity="Foo")
    s("affinity-ip", ports=P, sessionAffinity="ClientIP", clusterIP="None")
    s("affinity-cfg", ports=P, sessionAffinityConfig={"clientIP": {"timeoutSeconds": 5}})
    s(
        "affinity-big",
        ports=P,
        sessionAffinity="ClientIP",
        sessionAffinityConfig={"clientIP": {"timeoutSeconds": 100000}},
        clusterIP="None",
    )
    s("extips", ports=P, externalIPs=["x", "127.0.0.1", "1.2.3.4"], clusterIP="None")
    s("families", ports=P, ipFamilies=["IPv4", "IPv4"], ipFamilyPolicy="Foo", clusterIP="None")
    s("dual", ports=P, ipFamilyPolicy="RequireDualStack", clusterIP="None")
    s("v6", ports=P, ipFamilies=["IPv6"], clusterIP="None")
    s("selector", ports=P, selector={"a b": "c d"}, clusterIP="None")
    s("lbclass", ports=P, loadBalancerClass="x", clusterIP="None")
    s("itp", ports=P, internalTrafficPolicy="Foo", trafficDistribution="Foo", clusterIP="None")
    s("td", ports=P, trafficDistribution="PreferClose", clusterIP="None")
    s("ext-tp", ports=P, externalTrafficPolicy="Local", clusterIP="None")
    s("pubnr", ports=P, publishNotReadyAddresses=True, clusterIP="None")
    q.dry(SVC, "Service", "1bad", spec={"ports": P, "clusterIP": "None"})
    # PVC / PV

    def c(name: str, **spec: Any) -> None:
        q.dry(
            PVC,
            "PersistentVolumeClaim",
            name,
            spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec},
        )

    c("vac", volumeAttributesClassName="Bad_")
    c("mode", volumeMode="Foo")
    c("class", storageClassName="Bad_")
    c("neg", resources={"requests": {"storage": "-1"}})
    c("zero", resources={"requests": {"storage": "0"}})
    c("ds", dataSource={"kind": "PersistentVolumeClaim", "name": "x"})
    c(
        "ds2",
        dataSource={"kind": "VolumeSnapshot", "name": "x", "apiGroup": "snapshot.storage.k8s.io"},
        dataSourceRef={"kind": "X", "name": ""},
    )
    c("modes", accessModes=["Foo", "ReadWriteOncePod", "ReadWriteOnce"])
    c("lim", resources={"requests": {"storage": "1Gi"}, "limits": {"storage": "500Mi"}})
    c("sel", selector={"matchExpressions": [{"key": "a", "operator": "Foo"}]})
    c("vn", volumeName="Bad_")
    c("extra", resources={"requests": {"storage": "1Gi", "cpu": "1"}})
    c("emptycls", storageClassName="")

    def v(name: str, **spec: Any) -> None:
        q.dry(
            PV,
            "PersistentVolume",
            name,
            spec={"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **spec},
        )

    HP = {"hostPath": {"path": "/x"}}
    v("mode", **HP, volumeMode="Foo")
    v("reclaim", **HP, persistentVolumeReclaimPolicy="Foo")
    v("recycle", persistentVolumeReclaimPolicy="Recycle", csi={"driver": "d", "volumeHandle": "h"})
    v("local", local={"path": ""})
    v(
        "local2",
        local={"path": "../x"},
        nodeAffinity={
            "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}
        },
    )
    v("aff", **HP, nodeAffinity={"required": {"nodeSelectorTerms": []}})
    v("aff2", **HP, nodeAffinity={})
    v("claimref", **HP, claimRef={"name": "a"})
    v("claimref2", **HP, claimRef={"kind": "PersistentVolumeClaim", "namespace": "default", "name": "x"})
    v("mount", **HP, mountOptions=["a", "b"])
    v("vac", **HP, volumeAttributesClassName="")
    v("csi", csi={"driver": "A_B", "volumeHandle": "", "nodePublishSecretRef": {}})
    v("nfs", nfs={"server": "", "path": "x"})
    v("iscsi", iscsi={"targetPortal": "", "iqn": "x", "lun": 500})
    v("fc", fc={})
    v("rbd", rbd={})
    v("cephfs", cephfs={})
    v("aws", awsElasticBlockStore={"volumeID": ""})
    v("gce", gcePersistentDisk={"pdName": ""})
    v("azure", azureDisk={"diskName": "", "diskURI": ""})
    v("glusterfs", glusterfs={"endpoints": "", "path": ""})
    v("flex", flexVolume={"driver": ""})
    v("modes", **HP, accessModes=["Foo"])
    v("class", **HP, storageClassName="Bad_")

    def sc(name: str, **k: Any) -> None:
        q.dry(
            f"{ST}/storageclasses",
            "StorageClass",
            name,
            "storage.k8s.io/v1",
            **{"provisioner": "p.example.com", **k},
        )

    sc("bind", volumeBindingMode="Foo")
    sc("params", parameters={"": "x"})
    sc(
        "topo",
        allowedTopologies=[
            {"matchLabelExpressions": [{"key": "", "values": []}, {"key": "a b", "values": ["x", "x"]}]}
        ],
    )
    sc("topo2", allowedTopologies=[{"matchLabelExpressions": [{"key": "a", "values": ["x"]}]}] * 2)
    sc("prov", provisioner="A B")
    sc("mo", mountOptions=["x"], allowVolumeExpansion=True)
    sc("reclaim", reclaimPolicy="Recycle")
    sc("def", metadata={"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}})

    def cd(name: str, **spec: Any) -> None:
        q.dry(f"{ST}/csidrivers", "CSIDriver", name, "storage.k8s.io/v1", spec=spec)

    cd("a.b", volumeLifecycleModes=["Foo"], fsGroupPolicy="x")
    cd("a.c", tokenRequests=[{"audience": "x"}, {"audience": "x"}, {"audience": "y", "expirationSeconds": 5}])
    cd("a_b")
    cd("a.d", nodeAllocatableUpdatePeriodSeconds=1)
    cd(
        "ok.d",
        podInfoOnMount=True,
        storageCapacity=True,
        attachRequired=True,
        seLinuxMount=True,
        requiresRepublish=True,
    )

    def cn(name: str, **spec: Any) -> None:
        q.dry(f"{ST}/csinodes", "CSINode", name, "storage.k8s.io/v1", spec=spec)

    cn(
        "a",
        drivers=[
            {"name": "A_", "nodeID": ""},
            {"name": "x", "nodeID": "y", "topologyKeys": ["a b", "a", "a"]},
            {"name": "x", "nodeID": "z", "allocatable": {"count": -1}},
        ],
    )
    cn("b", drivers=None)
    q.dry(
        f"{ST}/volumeattachments",
        "VolumeAttachment",
        "x",
        "storage.k8s.io/v1",
        spec={"attacher": "", "nodeName": "", "source": {}},
    )
    q.dry(
        f"{ST}/volumeattachments",
        "VolumeAttachment",
        "y",
        "storage.k8s.io/v1",
        spec={
            "attacher": "A B",
            "nodeName": "n",
            "source": {"persistentVolumeName": "x", "inlineVolumeSpec": {}},
        },
    )
    q.dry(
        f"{ST}/namespaces/more/csistoragecapacities",
        "CSIStorageCapacity",
        "x",
        "storage.k8s.io/v1",
        storageClassName="Bad_",
        capacity="-1",
        maximumVolumeSize="-1",
        nodeTopology={"matchExpressions": [{"key": "a"}]},
    )
    # workloads

    def w(path: str, kind: str, name: str, version: str = "apps/v1", **spec: Any) -> None:
        q.dry(path, kind, name, version, spec={**SETS, **spec})

    DP = f"{APPS}/deployments"
    w(DP, "Deployment", "strategy", strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}})
    w(DP, "Deployment", "st2", strategy={"type": "Foo"})
    w(DP, "Deployment", "st3", strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}})
    w(DP, "Deployment", "st4", strategy={"rollingUpdate": {"maxSurge": "x%", "maxUnavailable": "150%"}})
    w(
        DP,
        "Deployment",
        "neg",
        replicas=-1,
        minReadySeconds=-1,
        revisionHistoryLimit=-1,
        progressDeadlineSeconds=-1,
    )
    w(DP, "Deployment", "pds", minReadySeconds=10, progressDeadlineSeconds=5)
    w(DP, "Deployment", "sel", selector={})
    w(DP, "Deployment", "sel2", selector={"matchLabels": {"x": "y"}})
    w(DP, "Deployment", "sel3", selector={"matchExpressions": [{"key": "app", "operator": "Foo"}]})
    w(DP, "Deployment", "tmpl", template={})
    w(DP, "Deployment", "rp", template={**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}})
    w(
        DP,
        "Deployment",
        "ads",
        template={**TEMPLATE, "spec": {**TEMPLATE["spec"], "activeDeadlineSeconds": 5}},
    )
    w(
        DP,
        "Deployment",
        "tol",
        template={
            **TEMPLATE,
            "spec": {**TEMPLATE["spec"], "tolerations": [{"key": "a", "operator": "Gt", "value": "x"}]},
        },
    )
    w(DP, "Deployment", "paused", paused=True, strategy={"rollingUpdate": {"maxSurge": "30%"}})
    q.dry(DP, "Deployment", "nosel", "apps/v1", spec={"template": TEMPLATE})
    w(
        DP,
        "Deployment",
        "eph",
        template={
            **TEMPLATE,
            "spec": {**TEMPLATE["spec"], "ephemeralContainers": [{"name": "x", "image": "i"}]},
        },
    )
    w(DP, "Deployment", "lbl", template={"metadata": {"labels": {"a b": "c"}}, "spec": TEMPLATE["spec"]})
    w(DP, "Deployment", "x" * 64)
    SS = f"{APPS}/statefulsets"
    w(SS, "StatefulSet", "a", podManagementPolicy="Foo", updateStrategy={"type": "Foo"})
    w(SS, "StatefulSet", "b", updateStrategy={"type": "OnDelete", "rollingUpdate": {"partition": 1}})
    w(
        SS,
        "StatefulSet",
        "c",
        updateStrategy={"rollingUpdate": {"partition": -1, "maxUnavailable": 0}},
        ordinals={"start": -1},
        replicas=-1,
    )
    w(
        SS,
        "StatefulSet",
        "dd",
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Foo", "whenScaled": "Retain"},
    )
    w(
        SS,
        "StatefulSet",
        "e",
        volumeClaimTemplates=[{"metadata": {"name": "Bad_"}, "spec": {}}],
        serviceName="Bad_",
    )
    w(SS, "StatefulSet", "f" * 64)
    w(SS, "StatefulSet", "g", minReadySeconds=-1, revisionHistoryLimit=-1)
    w(SS, "StatefulSet", "ok", ordinals={"start": 1}, podManagementPolicy="Parallel", serviceName="s")
    DS = f"{APPS}/daemonsets"
    w(DS, "DaemonSet", "a", updateStrategy={"type": "Foo"})
    w(DS, "DaemonSet", "b", updateStrategy={"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}})
    w(DS, "DaemonSet", "c", updateStrategy={"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}})
    w(DS, "DaemonSet", "dd", minReadySeconds=-1, revisionHistoryLimit=-1)
    w(DS, "DaemonSet", "e", updateStrategy={"type": "OnDelete"})
    w(DS, "DaemonSet", "f", updateStrategy={"rollingUpdate": {"maxUnavailable": "150%", "maxSurge": "x"}})
    w(DS, "DaemonSet", "g", updateStrategy={"rollingUpdate": {"maxSurge": 1}})
    RS = f"{APPS}/replicasets"
    w(RS, "ReplicaSet", "a", replicas=-1, minReadySeconds=-1)
    w(RS, "ReplicaSet", "b", selector={})
    w(RS, "ReplicaSet", "c", replicas=0)
    q.dry(f"{NS}/replicationcontrollers", "ReplicationController", "a", spec={"template": TEMPLATE})
    q.dry(f"{NS}/replicationcontrollers", "ReplicationController", "b", spec={"selector": {}})
    q.dry(
        f"{NS}/replicationcontrollers",
        "ReplicationController",
        "c",
        spec={"selector": {"x": "y"}, "template": TEMPLATE, "replicas": -1},
    )
    JB = "/apis/batch/v1/namespaces/more/jobs"
    CJ = "/apis/batch/v1/namespaces/more/cronjobs"

    def j(name: str, tmpl: Document = ONCE, **spec: Any) -> None:
        q.dry(JB, "Job", name, "batch/v1", spec={"template": tmpl, **spec})

    j(
        "a",
        parallelism=-1,
        completions=-1,
        backoffLimit=-1,
        activeDeadlineSeconds=-1,
        ttlSecondsAfterFinished=-1,
    )
    j("b", completionMode="Foo")
    j("c", completionMode="Indexed")
    j("dd", completionMode="Indexed", completions=3, parallelism=200000)
    j("e", tmpl=TEMPLATE)
    j("f", selector={"matchLabels": {"a": "b"}})
    j("g", manualSelector=True)
    j("h", backoffLimitPerIndex=1)
    j("i", completionMode="Indexed", completions=2, backoffLimitPerIndex=-1, maxFailedIndexes=-1)
    j(
        "k",
        podFailurePolicy={
            "rules": [
                {"action": "Foo"},
                {
                    "action": "FailJob",
                    "onExitCodes": {"operator": "In", "values": [0, 1, 1]},
                    "onPodConditions": [],
                },
                {"action": "Ignore", "onPodConditions": [{"type": "a b", "status": "x"}]},
            ]
        },
    )
    j(
        "l",
        tmpl={**ONCE, "spec": {**ONCE["spec"], "restartPolicy": "OnFailure"}},
        podFailurePolicy={"rules": []},
    )
    j("m", successPolicy={"rules": []})
    j(
        "nn",
        completionMode="Indexed",
        completions=3,
        successPolicy={
            "rules": [{}, {"succeededIndexes": "x"}, {"succeededIndexes": "0-9", "succeededCount": -1}]
        },
    )
    j("o", podReplacementPolicy="Foo", managedBy="bad")
    j("p", managedBy="a.b/c", suspend=True)
    j("q" * 64)
    j("r", completionMode="Indexed", completions=2)
    q.dry(JB, "Job", "s", "batch/v1", spec={})

    def cj(name: str, **spec: Any) -> None:
        q.dry(
            CJ,
            "CronJob",
            name,
            "batch/v1",
            spec={"schedule": "* * * * *", "jobTemplate": {"spec": {"template": ONCE}}, **spec},
        )

    cj("a", schedule="x")
    cj("b", schedule="TZ=UTC * * * * *")
    cj("c", timeZone="Foo/Bar")
    cj("dd", timeZone="")
    cj("e", timeZone="Europe/Berlin", concurrencyPolicy="Foo")
    cj("f", startingDeadlineSeconds=-1, successfulJobsHistoryLimit=-1, failedJobsHistoryLimit=-1)
    cj("g" * 53)
    cj("h", jobTemplate={})
    cj("i", schedule="")
    cj("j", schedule="@hourly")
    cj("k", schedule="@every 1h30m")
    cj("l", schedule="60 * * * *")
    cj("m", schedule="* * * * * *")
    cj("n", schedule="0 0 31 2 *")
    cj("o", schedule="a-b * * * *")
    cj("p", schedule="*/0 * * * *")
    cj("q", schedule="5-1 * * * *")
    cj("r", schedule="@nope")
    cj("s", timeZone="Local")
    cj("t", schedule="CRON_TZ=UTC 0 0 * * *")
    cj("u", jobTemplate={"spec": {"template": TEMPLATE}})
    BG = "/apis/policy/v1/namespaces/more/poddisruptionbudgets"

    def b(name: str, **spec: Any) -> None:
        q.dry(BG, "PodDisruptionBudget", name, "policy/v1", spec=spec)

    b("a", minAvailable=1, maxUnavailable=1)
    b("b", minAvailable="x")
    b("c", minAvailable=-1)
    b("dd", maxUnavailable="150%")
    b("e", unhealthyPodEvictionPolicy="Foo")
    b("f", selector={"matchExpressions": [{"key": "a", "operator": "In"}]})
    b("g")
    b("h", minAvailable="50%", selector={})
    b("i", maxUnavailable="-5%")
    PC = "/apis/scheduling.k8s.io/v1/priorityclasses"
    q.dry(PC, "PriorityClass", "system-x", "scheduling.k8s.io/v1", value=5)
    q.dry(PC, "PriorityClass", "a", "scheduling.k8s.io/v1", value=-5, preemptionPolicy="Foo")
    q.dry(PC, "PriorityClass", "b", "scheduling.k8s.io/v1", value=2000000000)
    q.dry(
        PC,
        "PriorityClass",
        "c",
        "scheduling.k8s.io/v1",
        value=1,
        globalDefault=True,
        preemptionPolicy="Never",
    )
    q.dry(PC, "PriorityClass", "e", "scheduling.k8s.io/v1")
    LS = "/apis/coordination.k8s.io/v1/namespaces/more/leases"

    def lease(name: str, **spec: Any) -> None:
        q.dry(LS, "Lease", name, "coordination.k8s.io/v1", spec=spec)

    lease("a", leaseDurationSeconds=-1, leaseTransitions=-1)
    lease("b", strategy="x")
    lease("c", preferredHolder="x")
    lease("dd", acquireTime="2026-01-01T00:00:00.000000Z", renewTime="2026-01-01T00:00:00Z")
    lease("e", holderIdentity="", strategy="OldestEmulationVersion", preferredHolder="y")
    RC = "/apis/node.k8s.io/v1/runtimeclasses"
    q.dry(RC, "RuntimeClass", "a", "node.k8s.io/v1", handler="Bad_")
    q.dry(RC, "RuntimeClass", "b", "node.k8s.io/v1")
    q.dry(
        RC,
        "RuntimeClass",
        "c",
        "node.k8s.io/v1",
        handler="h",
        overhead={"podFixed": {"cpu": "-1"}},
        scheduling={
            "nodeSelector": {"a b": "c"},
            "tolerations": [
                {"key": "a", "operator": "Foo"},
                {"key": "b", "operator": "Exists"},
                {"key": "b", "operator": "Exists"},
            ],
        },
    )
    EP = "/apis/discovery.k8s.io/v1/namespaces/more/endpointslices"

    def e(name: str, **k: Any) -> None:
        q.dry(
            EP, "EndpointSlice", name, "discovery.k8s.io/v1", **{"addressType": "IPv4", "endpoints": [], **k}
        )

    e("a", addressType="Foo")
    e("b", endpoints=[{"addresses": []}])
    e(
        "c",
        endpoints=[
            {
                "addresses": ["x", "127.0.0.1", "::1"],
                "hostname": "A_",
                "nodeName": "B_",
                "deprecatedTopology": {"a b": "c"},
            }
        ],
        ports=[
            {"name": "A_", "protocol": "Foo", "appProtocol": "x y"},
            {"name": "a", "port": 0},
            {"name": "a", "port": 70000},
        ],
    )
    e("dd", addressType=None)
    e("e", addressType="FQDN", endpoints=[{"addresses": ["a_b"]}])
    e(
        "f",
        endpoints=[
            {
                "addresses": ["1.1.1.1"],
                "hints": {
                    "forZones": [{"name": "a b"}, {"name": "z"}, {"name": "z"}],
                    "forNodes": [{"name": "a"}] * 9,
                },
            }
        ],
    )
    e(
        "g",
        ports=[{}],
        endpoints=[{"addresses": ["1.1.1.1"], "zone": "z", "targetRef": {"kind": "Pod", "name": "p"}}],
    )
    q.dry(
        f"{NS}/endpoints",
        "Endpoints",
        "a",
        subsets=[
            {
                "addresses": [{"ip": "x"}, {"ip": "127.0.0.1"}, {"ip": "169.254.1.1"}],
                "ports": [
                    {"port": 0},
                    {"port": 1, "name": "a"},
                    {"port": 2, "name": "A_", "protocol": "Foo"},
                ],
            },
            {},
        ],
    )
    q.dry(f"{NS}/secrets", "Secret", "a", type="kubernetes.io/tls")
    q.dry(
        f"{NS}/secrets",
        "Secret",
        "b",
        type="kubernetes.io/dockerconfigjson",
        data={".dockerconfigjson": "eA=="},
    )
    q.dry(f"{NS}/secrets", "Secret", "c", type="kubernetes.io/service-account-token")
    q.dry(f"{NS}/secrets", "Secret", "dd", type="kubernetes.io/basic-auth")
    q.dry(f"{NS}/secrets", "Secret", "e", type="kubernetes.io/ssh-auth")
    q.dry(f"{NS}/secrets", "Secret", "f", data={"a b": "eA=="})
    q.dry(f"{NS}/secrets", "Secret", "g", stringData={"x y": "z"})
    q.dry(f"{NS}/secrets", "Secret", "h", data={"a": "not base64!"})
    q.dry(f"{NS}/secrets", "Secret", "i", type="kubernetes.io/dockercfg", data={".dockercfg": "e30="})
    q.dry(f"{NS}/configmaps", "ConfigMap", "a", data={"..": "y"}, binaryData={"c d": "eA=="})
    q.dry(
        f"{NS}/limitranges",
        "LimitRange",
        "a",
        spec={
            "limits": [
                {
                    "type": "Container",
                    "max": {"cpu": "1"},
                    "min": {"cpu": "2"},
                    "default": {"cpu": "3"},
                    "defaultRequest": {"cpu": "4"},
                    "maxLimitRequestRatio": {"cpu": "0.5"},
                },
                {"type": "Foo"},
                {"type": "Pod", "default": {"cpu": "1"}},
                {"type": "PersistentVolumeClaim"},
                {"type": "Container"},
            ]
        },
    )
    q.dry(
        f"{NS}/resourcequotas",
        "ResourceQuota",
        "a",
        spec={
            "hard": {"foo": "1", "pods": "1"},
            "scopes": ["Foo", "BestEffort", "NotBestEffort"],
        },
    )
    q.dry(f"{NS}/resourcequotas", "ResourceQuota", "b", spec={"hard": {"cpu": "1"}, "scopes": ["BestEffort"]})
    q.dry(
        f"{NS}/resourcequotas",
        "ResourceQuota",
        "c",
        spec={
            "hard": {"pods": "1"},
            "scopeSelector": {
                "matchExpressions": [
                    {"scopeName": "PriorityClass", "operator": "In"},
                    {"scopeName": "Terminating", "operator": "In", "values": ["x"]},
                    {"scopeName": "Foo", "operator": "Bar"},
                ]
            },
        },
    )
    q.dry("/api/v1/namespaces", "Namespace", "a.b")
    q.dry("/api/v1/namespaces", "Namespace", "a", spec={"finalizers": ["x", "a/b"]})
    q.dry("/api/v1/namespaces", "Namespace", "A", metadata={"labels": {"kubernetes.io/metadata.name": "zz"}})
    q.dry("/api/v1/namespaces", "Namespace", "c", metadata={"labels": {"kubernetes.io/metadata.name": "zz"}})
    q.dry(
        f"{NS}/serviceaccounts",
        "ServiceAccount",
        "a",
        secrets=[{}],
        imagePullSecrets=[{}],
        automountServiceAccountToken=False,
    )
    RB = "/apis/rbac.authorization.k8s.io/v1"
    RV = "rbac.authorization.k8s.io/v1"
    q.dry(f"{RB}/clusterroles", "ClusterRole", "a:b/c", RV, rules=[])
    q.dry(
        f"{RB}/clusterroles",
        "ClusterRole",
        "a",
        RV,
        rules=[
            {"verbs": []},
            {"verbs": ["get"]},
            {"verbs": ["get"], "resources": ["pods"]},
            {"verbs": ["get"], "apiGroups": [""]},
            {"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"], "apiGroups": [""]},
            {"verbs": ["get"], "nonResourceURLs": ["x", "/a/*/b", "*"]},
        ],
    )
    q.dry(
        f"{RB}/namespaces/more/roles", "Role", "b", RV, rules=[{"verbs": ["get"], "nonResourceURLs": ["/x"]}]
    )
    q.dry(f"{RB}/clusterroles", "ClusterRole", "c", RV, aggregationRule={})
    q.dry(
        f"{RB}/clusterroles",
        "ClusterRole",
        "dd",
        RV,
        aggregationRule={"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Foo"}]}]},
    )
    q.dry(
        f"{RB}/clusterrolebindings",
        "ClusterRoleBinding",
        "a",
        RV,
        roleRef={"kind": "Role", "name": "x", "apiGroup": "rbac.authorization.k8s.io"},
        subjects=[
            {"kind": "Foo", "name": "x"},
            {"kind": "User", "name": ""},
            {"kind": "ServiceAccount", "name": "A_"},
            {"kind": "ServiceAccount", "name": "a", "namespace": "b", "apiGroup": "x"},
            {"kind": "Group", "name": "g", "apiGroup": ""},
            {"kind": "User", "name": "u", "apiGroup": "zz"},
        ],
    )
    q.dry(f"{RB}/clusterrolebindings", "ClusterRoleBinding", "b", RV)
    q.dry(
        f"{RB}/namespaces/more/rolebindings",
        "RoleBinding",
        "c",
        RV,
        roleRef={"kind": "Foo", "name": "", "apiGroup": "x"},
        subjects=[{"kind": "ServiceAccount", "name": "a"}],
    )
    AD = "/apis/admissionregistration.k8s.io/v1"
    AV = "admissionregistration.k8s.io/v1"
    for k, p_ in (
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    ):
        OKW = {
            "name": "a.b.c",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": "https://x"},
            "rules": [
                {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
            ],
        }
        for i, hook in enumerate(
            [
                {},
                {"name": "a"},
                {**OKW, "name": "ab"},
                {**OKW, "sideEffects": "Some"},
                {**OKW, "admissionReviewVersions": ["v2"]},
                {**OKW, "admissionReviewVersions": []},
                {**OKW, "clientConfig": {}},
                {**OKW, "clientConfig": {"url": "http://x"}},
                {**OKW, "clientConfig": {"url": "https://u:p@x?a=b#c"}},
                {**OKW, "clientConfig": {"service": {"name": "", "namespace": "", "port": 0, "path": "x"}}},
                {**OKW, "clientConfig": {"url": "https://x", "service": {"name": "a", "namespace": "b"}}},
                {
                    **OKW,
                    "rules": [
                        {
                            "operations": ["*", "CREATE"],
                            "apiGroups": ["*", ""],
                            "apiVersions": [],
                            "resources": ["*", "pods", "*/*", "pods/*"],
                            "scope": "Foo",
                        }
                    ],
                },
                {**OKW, "failurePolicy": "Foo", "matchPolicy": "Foo", "timeoutSeconds": 50},
                {
                    **OKW,
                    "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "x"}]},
                    "objectSelector": {"matchLabels": {"a b": "c"}},
                },
                {
                    **OKW,
                    "matchConditions": [
                        {"name": "", "expression": ""},
                        {"name": "a b", "expression": "object.x +"},
                        {"name": "x", "expression": "1"},
                        {"name": "x", "expression": "true"},
                    ],
                },
                {**OKW, "reinvocationPolicy": "Foo"},
                OKW,
                {
                    **OKW,
                    "rules": [
                        {
                            "operations": ["Foo"],
                            "apiGroups": ["x"],
                            "apiVersions": ["v1"],
                            "resources": ["a/b/c"],
                        }
                    ],
                },
            ]
        ):
            q.dry(f"{AD}/{p_}", k, f"w{i}", AV, webhooks=[hook])
        q.dry(f"{AD}/{p_}", k, "dup", AV, webhooks=[OKW, OKW])
        q.dry(f"{AD}/{p_}", k, "none", AV)
    EV = f"{NS}/events"
    IO = {"kind": "Pod", "name": "x", "namespace": "more"}
    q.dry(EV, "Event", "a", involvedObject={})
    q.dry(EV, "Event", "b", involvedObject={**IO, "namespace": "other"})
    q.dry(EV, "Event", "c", involvedObject=IO, eventTime="2026-01-01T00:00:00.000000Z")
    q.dry(
        EV,
        "Event",
        "dd",
        involvedObject=IO,
        eventTime="2026-01-01T00:00:00.000000Z",
        reportingComponent="a b",
        reportingInstance="x" * 129,
        action="",
        reason="",
        type="Foo",
        message="x" * 1025,
    )
    q.dry(EV, "Event", "e", involvedObject={"kind": "Node", "name": "x"})
    E2 = "/apis/events.k8s.io/v1/namespaces/more/events"
    q.dry(E2, "Event", "a", "events.k8s.io/v1")
    q.dry(
        E2,
        "Event",
        "b",
        "events.k8s.io/v1",
        regarding=IO,
        eventTime="2026-01-01T00:00:00.000000Z",
        reportingController="a.b/c",
        reportingInstance="i",
        action="A",
        reason="R",
        type="Normal",
        note="n",
    )
    q.dry(
        E2,
        "Event",
        "c",
        "events.k8s.io/v1",
        regarding=IO,
        eventTime="2026-01-01T00:00:00.000000Z",
        reportingController="a b",
        reportingInstance="",
        action="",
        reason="",
        type="Foo",
        series={"count": 1},
        deprecatedCount=5,
    )
    q.dry(f"{APPS}/controllerrevisions", "ControllerRevision", "a", "apps/v1", revision=-1)
    q.dry(f"{APPS}/controllerrevisions", "ControllerRevision", "b", "apps/v1", revision=1, data="x")
    q.dry(f"{APPS}/controllerrevisions", "ControllerRevision", "c", "apps/v1", data=None)
    q.dry(f"{NS}/podtemplates", "PodTemplate", "a", template={})
    q.dry(
        f"{NS}/podtemplates",
        "PodTemplate",
        "b",
        template={"metadata": {"labels": {"a b": "c"}}, "spec": TEMPLATE["spec"]},
    )
    ND = "/api/v1/nodes"

    def nd(name: str, spec: Any = None, status: Any = None, **m: Any) -> None:
        q.dry(ND, "Node", name, metadata=m, spec=spec or {}, status=status or {})

    nd(
        "a",
        {
            "taints": [
                {"key": "a b", "effect": "Foo"},
                {"key": "a", "value": "b c", "effect": ""},
                {"key": "x", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
            ]
        },
    )
    nd("b", {"podCIDR": "x", "podCIDRs": ["x", "y", "10.0.0.0/8"]})
    nd("c", {"podCIDRs": ["10.0.0.0/24", "10.1.0.0/24"]})
    nd("dd", {"podCIDRs": ["10.0.0.0/24", "fd00::/64"]})
    nd("e", {"unschedulable": True, "externalID": "x", "configSource": {}})
    nd(
        "f",
        {},
        {
            "addresses": [
                {"type": "InternalIP", "address": "1.1.1.1"},
                {"type": "InternalIP", "address": "1.1.1.1"},
            ],
            "capacity": {"foo": "1", "cpu": "x1"},
        },
    )
    nd("g", {}, {"capacity": {"cpu": "-1"}, "allocatable": {"example.com/x": "1.5"}})
    nd("h", labels={"a b": "c"})
    nd(
        "i",
        {},
        {
            "conditions": [{"type": "Ready", "status": "Foo"}],
            "phase": "x",
            "images": [{"names": ["a"], "sizeBytes": 1}],
            "volumesInUse": ["x"],
            "config": {},
            "features": {"supplementalGroupsPolicy": True},
            "runtimeHandlers": [{"name": "x"}],
            "declaredFeatures": ["b", "a", "a"],
        },
    )
    nd(
        "j",
        annotations={
            "scheduler.alpha.kubernetes.io/taints": "x",
            "scheduler.alpha.kubernetes.io/preferAvoidPods": "x",
        },
    )
    nd("K")
    yield from q.asked


def edges() -> Iterator[Asked]:
    """Media types, options, names, bodies and what an update may not touch."""
    q = Questions("edges")
    ask = q.ask
    maps = f"{NS}/configmaps"
    for method in ("GET", "POST", "PUT", "DELETE", "PATCH"):
        ask(
            "one object without its namespace",
            method,
            "/api/v1/pods/x",
            None if method == "GET" else {},
            MERGE if method == "PATCH" else "application/json",
        )
    for path in (
        "/api/v1/namespaces/more/configmaps/%2e%2e",
        f"{maps}/a%25b",
        f"{maps}/a%2Fb",
        "/api/v2",
        "/apis/apps/v1beta1",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x",
    ):
        ask("path", "GET", path)
    ask("collections of all namespaces", "DELETE", "/api/v1/pods")
    for path in ("/api/v1", "/api", "/version", maps, f"{maps}/x"):
        ask("head", "HEAD", path)
    for accept in (
        "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
        "application/*",
        "garbage",
        "application/json;as=Table",
        "application/yaml",
        PARTIAL.partition(",")[0],
        PARTIAL.partition(",")[0].replace("Metadata;", "MetadataList;"),
    ):
        for path in (
            f"{maps}/absent",
            f"{maps}?limit=1&labelSelector=none",
            "/api/v1/namespaces/more",
            "/apis/apps",
        ):
            ask(f"accept {accept}", "GET", path, accept=accept)
        ask(f"accept {accept}", "DELETE", f"{maps}?labelSelector=none", accept=accept)
    for content in ("text/plain", "application/yaml", "application/json;foo=bar", "garbage"):
        whole = json.dumps(document("ConfigMap", "x"))
        ask(f"content {content}", "POST", f"{maps}?dryRun=All", whole, content)
        ask(f"content {content}", "PATCH", f"{maps}/absent", "{}", content)
        ask(f"content {content}", "DELETE", f"{maps}/absent", "{}", content)
    for text in (
        "a: b: c",
        "\tx: 1",
        "key: 'x",
        "%bad",
        "a: [",
        "{",
        "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: a\n  name: a",
    ):
        for query in ("dryRun=All", "dryRun=All&fieldValidation=Strict"):
            ask(f"yaml {text[:20]}", "POST", f"{maps}?{query}", text, YAML)
            ask(f"yaml applied {text[:20]}", "PATCH", f"{maps}/a?fieldManager=m&{query}", text, APPLY)
        ask(f"yaml options {text[:20]}", "DELETE", f"{maps}/absent", text, YAML)
    for query in ("dryRun=", "dryRun=All&dryRun=Foo", "limit=", "gracePeriodSeconds=", "orphanDependents="):
        ask(f"option {query}", "POST", f"{maps}?{query}", document("ConfigMap", "q"))
        ask(f"option {query}", "DELETE", f"{maps}/q?{query}")
        ask(f"option {query}", "GET", f"{maps}?{query}&labelSelector=none")
    for query in (
        "continue=abc&resourceVersion=1",
        "sendInitialEvents=",
        "watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=Exact",
        "watch=1&timeoutSeconds=1&continue=abc",
        "sendInitialEvents=true&resourceVersionMatch=Exact",
    ):
        ask(f"list {query}", "GET", f"{maps}?{query}")
    ask("made", "POST", maps, document("ConfigMap", "u", data={"a": "1"}))
    ask("get with a version", "GET", f"{maps}/u?resourceVersion=x")
    for name, metadata in (
        ("time", {"creationTimestamp": "2020-01-01T00:00:00Z"}),
        ("link", {"selfLink": "/x", "generation": 4}),
        ("end", {"deletionTimestamp": "2020-01-01T00:00:00Z"}),
        ("any version", {"resourceVersion": "0"}),
    ):
        ask(
            f"put {name}", "PUT", f"{maps}/u", document("ConfigMap", "u", data={"a": name}, metadata=metadata)
        )
        ask(f"merge {name}", "PATCH", f"{maps}/u", {"metadata": metadata, "data": {"b": name}}, MERGE)
    for change in ({"metadata": {"name": None}}, {"data": {"a": None}}):
        ask(f"merge {change}", "PATCH", f"{maps}/u?dryRun=All", change, MERGE)
        ask(f"strategic {change}", "PATCH", f"{maps}/u?dryRun=All", change, STRATEGIC)
    ask("null", "PATCH", f"{maps}/u", "null", MERGE)
    ask("too many", "PATCH", f"{maps}/u", json.dumps([{"op": "test", "path": "/kind"}] * 10001), JSON_PATCH)
    for name, metadata in (("new version", {"resourceVersion": "5"}), ("new uid", {"uid": "5"})):
        ask(
            f"apply {name}",
            "PATCH",
            f"{maps}/n?fieldManager=m",
            json.dumps(document("ConfigMap", "n", metadata=metadata)),
            APPLY,
        )
    ask(
        "apply unknown",
        "PATCH",
        f"{maps}/u?fieldManager=m",
        json.dumps({**document("ConfigMap", "u"), "bar": 1}),  # of several, a real server tells any
        APPLY,
    )
    for path in ("/api/v1/nodes", "/api/v1/namespaces", "/api/v1/persistentvolumes"):
        ask("namespace of what has none", "GET", f"{path}?fieldSelector=metadata.namespace%3Dzz")
    ask("bind without a name", "POST", f"{PODS}/absent/binding", {"target": {"name": "x"}})
    ask(
        "table of a review",
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {"spec": {"resourceAttributes": {"verb": "get"}}},
        accept=TABLE,
    )
    yield from q.asked


MORE: list[Asked] = [
    Asked("more: namespace", "POST", "/api/v1/namespaces", document("Namespace", "more")),
    *pods(),
    *kinds(),
    *edges(),
]

#: cases in which weir answers otherwise, with the reason
MORE_DIFFERENT: dict[str, str] = {
    "more kinds 127: Job f": "upstream prints the selector once more, with the label it adds",
    "more kinds 133: Job m": "an empty list prints as an absent one",
    "more kinds 185: EndpointSlice c": "upstream drops deprecatedTopology before it looks",
    "more kinds 275: Node e": "nobody is warned about externalID",
    "more kinds 279: Node i": "declaredFeatures are stored as they come",
    "more kinds 280: Node j": "annotations of a scheduler long gone are not read",
}
