"""Requests about ingresses, network policies and service ranges, asked of a real API server and of weir."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.kubernetes.more_requests import Questions
from tests.kubernetes.requests import APPLY, MERGE, TABLE, Asked, Document, document

GROUP = "/apis/networking.k8s.io/v1"
INGRESSES = f"{GROUP}/namespaces/default/ingresses"
CLASSES = f"{GROUP}/ingressclasses"
POLICIES = f"{GROUP}/namespaces/default/networkpolicies"
CIDRS = f"{GROUP}/servicecidrs"
ADDRESSES = f"{GROUP}/ipaddresses"
VERSION = "networking.k8s.io/v1"
WEB = {"service": {"name": "web", "port": {"number": 80}}}
RESOURCE = {"resource": {"apiGroup": "k8s.example.com", "kind": "Bucket", "name": "icons"}}


def ingress(name: str, annotations: Document | None = None, **spec: Any) -> Document:
    found = document("Ingress", name, VERSION, spec=spec)
    if annotations:
        found["metadata"]["annotations"] = annotations
    return found


def path(backend: Document = WEB, **values: Any) -> Document:
    return {"path": "/", "pathType": "Prefix", "backend": backend, **values}


def rule(*paths: Document, host: str = "a.example.com") -> Document:
    return {"host": host, "http": {"paths": list(paths) or [path()]}}


def policy(name: str, **spec: Any) -> Document:
    return document("NetworkPolicy", name, VERSION, spec={"podSelector": {}, **spec})


def block(cidr: str, *excepted: str) -> Document:
    return {"ipBlock": {"cidr": cidr, **({"except": list(excepted)} if excepted else {})}}


def ingress_class(name: str, default: bool = False, **spec: Any) -> Document:
    found = document("IngressClass", name, VERSION, spec=spec)
    if default:
        found["metadata"]["annotations"] = {"ingressclass.kubernetes.io/is-default-class": "true"}
    return found


def stored() -> Iterator[Asked]:
    q = Questions("networking")
    hosts = [rule(host=f"{name}.example.com") for name in ("a", "b", "c", "d", "e")]
    q.ask("backend only", "POST", INGRESSES, ingress("backend", defaultBackend=WEB))
    q.ask(
        "rules",
        "POST",
        INGRESSES,
        ingress("rules", rules=hosts, tls=[{"hosts": ["a.example.com", "*.b.com"], "secretName": "cert"}]),
    )
    q.ask(
        "old annotation",
        "POST",
        INGRESSES,
        ingress("old", {"kubernetes.io/ingress.class": "nginx"}, defaultBackend=RESOURCE),
    )
    q.ask("class", "POST", CLASSES, ingress_class("nginx", controller="k8s.io/ingress-nginx"))
    parameters = {"apiGroup": "k8s.example.com", "kind": "Parameters", "name": "outside"}
    q.ask(
        "default class",
        "POST",
        CLASSES,
        ingress_class("outside", True, controller="example.com/lb", parameters=parameters),
    )
    q.ask("takes the default", "POST", INGRESSES, ingress("defaulted", rules=[rule()]), fresh=True)
    q.ask("names one", "POST", INGRESSES, ingress("named", ingressClassName="nginx", rules=[rule()]))
    status = {"loadBalancer": {"ingress": [{"ip": "10.0.0.9"}, {"hostname": "lb.example.com"}]}}
    q.ask("status", "PATCH", f"{INGRESSES}/rules/status", {"status": status}, MERGE)
    for entry in ({"ip": "10.0.0.01"}, {"ip": "FE80::0001"}, {"hostname": "10.0.0.1"}, {"hostname": "A_b"}):
        body = {"status": {"loadBalancer": {"ingress": [entry]}}}
        q.ask(f"status {entry}", "PATCH", f"{INGRESSES}/rules/status", body, MERGE)
    q.ask("status through spec", "PATCH", f"{INGRESSES}/named", {"status": status}, MERGE)
    q.ask("changed", "PATCH", f"{INGRESSES}/named", {"spec": {"ingressClassName": "other"}}, MERGE)
    q.ask(
        "annotation later",
        "PATCH",
        f"{INGRESSES}/named",
        {"metadata": {"annotations": {"kubernetes.io/ingress.class": "third"}}},
        MERGE,
    )
    q.ask("applied", "PATCH", f"{INGRESSES}/applied?fieldManager=me", ingress("applied", rules=hosts), APPLY)
    q.ask("class fixed", "PATCH", f"{CLASSES}/nginx", {"spec": {"controller": "a.io/b"}}, MERGE)
    yield from (*q.asked, *policies(), *ranges(), *tables())


def policies() -> Iterator[Asked]:
    q = Questions("network policies")
    q.ask("deny", "POST", POLICIES, policy("deny"))
    q.ask("both", "POST", POLICIES, policy("both", egress=[{}]))
    q.ask(
        "whole",
        "POST",
        POLICIES,
        policy(
            "whole",
            podSelector={
                "matchLabels": {"b": "1", "a": "2"},
                "matchExpressions": [{"key": "c", "operator": "Exists"}],
            },
            ingress=[
                {
                    "from": [
                        {"podSelector": {}, "namespaceSelector": {"matchLabels": {"a": "b"}}},
                        block("10.0.0.0/8"),
                    ],
                    "ports": [
                        {"port": 80},
                        {"port": "http", "protocol": "UDP"},
                        {"port": 90, "endPort": 99},
                        {},
                    ],
                }
            ],
            egress=[{"to": [block("2001:DB8::/32", "2001:db8:1::/48")]}],
        ),
    )
    q.ask("types", "PATCH", f"{POLICIES}/deny", {"spec": {"policyTypes": ["Egress"]}}, MERGE)
    q.ask("types go", "PATCH", f"{POLICIES}/deny", {"spec": {"policyTypes": None}}, MERGE)
    q.ask("read", "GET", f"{POLICIES}/whole")
    yield from q.asked


def ranges() -> Iterator[Asked]:
    q = Questions("service ranges")
    q.ask("one", "POST", CIDRS, document("ServiceCIDR", "one", VERSION, spec={"cidrs": ["10.9.0.0/24"]}))
    q.ask("two", "PATCH", f"{CIDRS}/one", {"spec": {"cidrs": ["10.9.0.0/24", "2001:db8::/64"]}}, MERGE)
    q.ask("other", "PATCH", f"{CIDRS}/one", {"spec": {"cidrs": ["10.8.0.0/24", "2001:db8::/64"]}}, MERGE)
    q.ask("fewer", "PATCH", f"{CIDRS}/one", {"spec": {"cidrs": ["10.9.0.0/24"]}}, MERGE)
    for i, cidrs in enumerate(
        (
            [],
            ["10.9.0.0/24", "10.8.0.0/24"],
            ["10.9.0.0/24", "2001:db8::/64", "10.8.0.0/24"],
            ["x"],
            ["10.9.0.1/24"],
            ["2001:DB8::/64"],
            ["010.9.0.0/24"],
            ["::ffff:10.0.0.0/104"],
        )
    ):
        q.dry(CIDRS, "ServiceCIDR", f"bad-{i}", VERSION, spec={"cidrs": cidrs})
    parent = {"group": "", "resource": "services", "namespace": "default", "name": "web"}
    q.ask("ip", "POST", ADDRESSES, document("IPAddress", "10.9.0.9", VERSION, spec={"parentRef": parent}))
    q.ask("ip moves", "PATCH", f"{ADDRESSES}/10.9.0.9", {"spec": {"parentRef": {"name": "other"}}}, MERGE)
    q.ask("ip same", "PATCH", f"{ADDRESSES}/10.9.0.9", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    for name, reference in (
        ("10.9.0.010", parent),
        ("web", parent),
        ("2001:DB8::1", parent),
        ("10.9.0.11", {}),
        ("10.9.0.12", None),
        ("10.9.0.13", {"resource": "a/b", "name": "..", "namespace": "a%", "group": "A_"}),
    ):
        q.dry(
            ADDRESSES, "IPAddress", name, VERSION, spec={} if reference is None else {"parentRef": reference}
        )
    yield from q.asked


def tables() -> Iterator[Asked]:
    q = Questions("networking tables")
    for kind in (INGRESSES, CLASSES, POLICIES):
        q.ask(f"table of {kind}", "GET", kind, accept=TABLE)
    q.ask("table of a range", "GET", f"{CIDRS}/one", accept=TABLE)
    q.ask("table of an address", "GET", f"{ADDRESSES}/10.9.0.9", accept=TABLE)
    q.ask("resources", "GET", GROUP)
    q.ask("group", "GET", "/apis/networking.k8s.io")
    for found in (f"{INGRESSES}/old", f"{CLASSES}/nginx", f"{CLASSES}/outside", f"{POLICIES}/deny"):
        q.ask(f"delete {found}", "DELETE", found)
    q.ask("delete the address", "DELETE", f"{ADDRESSES}/10.9.0.9")
    yield from q.asked


def refused() -> Iterator[Asked]:
    """An object with one thing wrong about it."""
    q = Questions("networking refused")

    def ing(name: str, annotations: Document | None = None, **spec: Any) -> None:
        found = ingress(name.lower().replace(" ", "-"), annotations, **spec)
        q.ask(name, "POST", f"{INGRESSES}?dryRun=All", found)

    ing("nothing")
    ing("no rules", rules=[])
    ing("class mismatch", {"kubernetes.io/ingress.class": "a"}, ingressClassName="b", defaultBackend=WEB)
    ing("class name", ingressClassName="A_b", defaultBackend=WEB)
    ing("class empty", ingressClassName="", defaultBackend=WEB)
    for i, host in enumerate(
        ("10.0.0.1", "A.b", "*", "*.a", "*bar.com", "a.*.com", "x" * 254, "*." + "x" * 254)
    ):
        ing(f"host {i}", rules=[rule(host=host)])
    ing("no paths", rules=[{"host": "a.b", "http": {"paths": []}}])
    ing("no http", rules=[{"host": "a.b"}])
    for i, values in enumerate(
        (
            {"pathType": None},
            {"pathType": "Suffix"},
            {"path": "a"},
            {"path": "", "pathType": "Exact"},
            {"path": "", "pathType": "ImplementationSpecific"},
            {"path": "a", "pathType": "ImplementationSpecific"},
            {"path": "/a//b/./c/../d%2fe%2F"},
            {"path": "/a/.."},
            {"path": "/a/."},
        )
    ):
        ing(f"path {i}", rules=[rule({k: v for k, v in path(**values).items() if v is not None})])
    for i, backend in enumerate(
        (
            {},
            {**WEB, **RESOURCE},
            {"service": {"name": "", "port": {"number": 1}}},
            {"service": {"name": "1-ok", "port": {"name": "http"}}},
            {"service": {"name": "A_b", "port": {"name": "Bad--name-that-is-long"}}},
            {"service": {"name": "web", "port": {"name": "http", "number": 80}}},
            {"service": {"name": "web", "port": {"number": 70000}}},
            {"service": {"name": "web"}},
            {"resource": {"kind": "", "name": ""}},
            {"resource": {"apiGroup": "A_", "kind": "a/b", "name": "."}},
        )
    ):
        ing(f"backend {i}", defaultBackend=backend)
        ing(f"path backend {i}", rules=[rule(path(backend))])
    ing("tls", defaultBackend=WEB, tls=[{"hosts": ["A", "*x", "*.ok.com"], "secretName": "A_"}, {}])

    def kind(name: str, **spec: Any) -> None:
        q.ask(name, "POST", f"{CLASSES}?dryRun=All", ingress_class(name.replace(" ", "-"), **spec))

    for i, controller in enumerate(
        ("", "a", "a/", "/a", "A_/b", "a.io/b c", "a.io/" + "x" * 250, "a.io/b/c")
    ):
        kind(f"controller {i}", controller=controller)
    for i, parameters in enumerate(
        (
            {},
            {"kind": "a/b", "name": "c", "apiGroup": "A_"},
            {"kind": "a", "name": "b", "scope": "Planet"},
            {"kind": "a", "name": "b", "scope": "Namespace"},
            {"kind": "a", "name": "b", "scope": "Namespace", "namespace": "A"},
            {"kind": "a", "name": "b", "namespace": "c"},
            {"kind": "a", "name": "b", "scope": "Namespace", "namespace": "c"},
        )
    ):
        kind(f"parameters {i}", controller="a.io/b", parameters=parameters)

    def pol(name: str, **spec: Any) -> None:
        q.ask(name, "POST", f"{POLICIES}?dryRun=All", policy(name.replace(" ", "-"), **spec))

    for i, peer in enumerate(
        (
            {},
            {"podSelector": {"matchLabels": {"a": "b c"}}},
            {"namespaceSelector": {"matchExpressions": [{"key": "a b", "operator": "Near"}]}},
            {"podSelector": {}, **block("10.0.0.0/8")},
            block(""),
            block("ten"),
            block("10.0.0.1/8"),
            block("010.0.0.0/8"),
            block("10.0.0.0/08"),
            block("::ffff:10.0.0.0/104"),
            block("10.0.0.0/8", "10.0.0.0/8"),
            block("10.0.0.0/8", "11.0.0.0/16", "10.1.0.0/16", "x", "2001:db8::/64"),
        )
    ):
        pol(f"from {i}", ingress=[{"from": [peer]}])
        pol(f"to {i}", egress=[{"to": [peer]}])
    for i, port in enumerate(
        (
            {"protocol": "ICMP"},
            {"port": 0},
            {"port": 70000},
            {"port": "Bad_name"},
            {"port": ""},
            {"port": "http", "endPort": 5},
            {"endPort": 5},
            {"port": 9, "endPort": 5},
            {"port": 9, "endPort": 70000},
        )
    ):
        pol(f"port {i}", ingress=[{"ports": [port]}])
    pol("types", policyTypes=["Ingress", "Sideways"])
    pol("three types", policyTypes=["Ingress", "Egress", "Ingress"])
    pol("selector", podSelector={"matchExpressions": [{"key": "a", "operator": "In"}]})
    yield from q.asked


#: name → why weir's answer differs
NETWORKING_DIFFERENT = {
    "more networking refused 1: no rules": "an empty list is shown as null: decoding keeps no empty lists",
}

NETWORKING: list[Asked] = [*stored(), *refused()]
