"""Requests about FlowSchemas and PriorityLevelConfigurations, asked of a real API server and of weir: every rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.kubernetes.more_requests import Questions
from tests.kubernetes.requests import APPLY, MERGE, TABLE, Asked, Document, document

GROUP = "flowcontrol.apiserver.k8s.io"
V1 = f"/apis/{GROUP}/v1"
SCHEMAS, LEVELS = f"{V1}/flowschemas", f"{V1}/prioritylevelconfigurations"
EVERYTHING = {
    "verbs": ["*"],
    "apiGroups": ["*"],
    "resources": ["*"],
    "clusterScope": True,
    "namespaces": ["*"],
}
URLS = {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/logs/*"]}
JANE = {"kind": "User", "user": {"name": "jane"}}
QUEUING = {"queues": 16, "handSize": 4, "queueLengthLimit": 10}


def schema(name: str, **spec: Any) -> Document:
    rules = [{"subjects": [JANE], "resourceRules": [EVERYTHING], "nonResourceRules": [URLS]}]
    whole = {"priorityLevelConfiguration": {"name": "nobody"}, "rules": rules, **spec}
    return document("FlowSchema", name, f"{GROUP}/v1", spec=whole)


def level(name: str, **spec: Any) -> Document:
    return document("PriorityLevelConfiguration", name, f"{GROUP}/v1", spec=spec)


def limited(response: Document | None, **rest: Any) -> Document:
    return {"type": "Limited", "limited": {"limitResponse": response, **rest}}


def stored() -> Iterator[Asked]:
    q = Questions("flow control")
    q.ask("bootstrap schemas", "GET", f"{SCHEMAS}/catch-all")
    for name in ("exempt", "catch-all", "workload-low"):
        q.ask(f"level {name}", "GET", f"{LEVELS}/{name}")
    q.ask("table of schemas", "GET", SCHEMAS, accept=TABLE)
    q.ask("table of levels", "GET", LEVELS, accept=TABLE)
    q.ask("group", "GET", f"/apis/{GROUP}")
    q.ask("resources", "GET", V1)
    q.ask("older", "GET", f"/apis/{GROUP}/v1beta3/flowschemas")
    q.ask("queue", "POST", LEVELS, level("queue", **limited({"type": "Queue", "queuing": {}})))
    q.ask("reject", "POST", LEVELS, level("reject", **limited({"type": "Reject"}, borrowingLimitPercent=0)))
    q.ask("zero", "POST", LEVELS, level("zero", **limited({"type": "Reject"}, nominalConcurrencyShares=0)))
    q.ask("status sent", "POST", LEVELS, {
        **level("sent", **limited({"type": "Reject"})), "status": {"conditions": [{"type": "A", "status": "True"}]},
    })  # fmt: skip
    q.ask(
        "more shares",
        "PATCH",
        f"{LEVELS}/queue",
        {"spec": {"limited": {"nominalConcurrencyShares": 7}}},
        MERGE,
    )
    q.ask(
        "same again",
        "PATCH",
        f"{LEVELS}/queue",
        {"spec": {"limited": {"nominalConcurrencyShares": 7}}},
        MERGE,
    )
    q.ask("status", "PATCH", f"{LEVELS}/queue/status", {"status": {"conditions": [{"type": "A"}]}}, MERGE)
    q.ask(
        "status twice",
        "PATCH",
        f"{LEVELS}/queue/status",
        {"status": {"conditions": [{"type": "A"}, {"type": "A"}, {}]}},
        MERGE,
    )
    q.ask(
        "applied",
        "PATCH",
        f"{LEVELS}/applied?fieldManager=me",
        level("applied", **limited({"type": "Reject"})),
        APPLY,
    )
    q.ask("put", "PUT", f"{LEVELS}/missing", level("missing", **limited({"type": "Reject"})))
    q.ask("dry schema", "POST", f"{SCHEMAS}?dryRun=All", schema("dry"))
    q.ask(
        "by namespace",
        "POST",
        f"{SCHEMAS}?dryRun=All",
        schema("by", distinguisherMethod={"type": "ByNamespace"}),
    )
    q.ask("no rules", "POST", f"{SCHEMAS}?dryRun=All", schema("none", rules=[]))
    q.ask(
        "exempt level",
        "PATCH",
        f"{LEVELS}/exempt?dryRun=All",
        {"spec": {"exempt": {"nominalConcurrencyShares": 9}}},
        MERGE,
    )
    q.ask(
        "fixed schema",
        "PATCH",
        f"{SCHEMAS}/catch-all?dryRun=All",
        {"spec": {"matchingPrecedence": 9999}},
        MERGE,
    )
    q.ask(
        "fixed level",
        "PATCH",
        f"{LEVELS}/catch-all?dryRun=All",
        {"spec": {"limited": {"lendablePercent": 5}}},
        MERGE,
    )
    q.ask("fixed exempt", "PATCH", f"{LEVELS}/exempt?dryRun=All", {"spec": {"type": "Limited"}}, MERGE)
    q.ask("deleted", "DELETE", f"{LEVELS}/queue")
    q.ask("gone", "DELETE", f"{SCHEMAS}/queue")
    yield from q.asked


def refused_schemas() -> Iterator[Asked]:
    """A FlowSchema with something wrong about it."""
    q = Questions("flow schemas refused")

    def ask(name: str, **spec: Any) -> None:
        q.ask(name, "POST", f"{SCHEMAS}?dryRun=All", schema(name.lower().replace(" ", "-"), **spec))

    def rule(name: str, **rest: Any) -> None:
        ask(name, rules=[{"subjects": [JANE], **rest}])

    def resource(name: str, **rest: Any) -> None:
        rule(name, resourceRules=[{**EVERYTHING, **rest}])

    def subject(name: str, **rest: Any) -> None:
        ask(name, rules=[{"subjects": [rest], "resourceRules": [EVERYTHING]}])

    for number in (-1, 1, 10001):
        ask(f"precedence {number}".replace("-", "minus"), matchingPrecedence=number)
    ask("no distinguisher", distinguisherMethod={})
    ask("bad distinguisher", distinguisherMethod={"type": "ByWeather"})
    ask("no level", priorityLevelConfiguration={})
    ask("bad level", priorityLevelConfiguration={"name": "A_b"})
    ask("empty rule", rules=[{}])
    rule("no rules")
    subject("no kind")
    subject("bad kind", kind="Robot")
    both = {"user": {"name": "a"}, "group": {"name": "b"}, "serviceAccount": {"name": "c", "namespace": "d"}}
    for kind in ("User", "Group", "ServiceAccount"):
        subject(f"only {kind}", kind=kind)
        subject(f"all {kind}", kind=kind, **both)
        subject(f"empty {kind}", kind=kind, **{kind[0].lower() + kind[1:]: {}})
    subject("account", kind="ServiceAccount", serviceAccount={"name": "A_", "namespace": "B_"})
    subject("star account", kind="ServiceAccount", serviceAccount={"name": "*", "namespace": "*"})
    resource("empty resource", verbs=[], apiGroups=[], resources=[], namespaces=[], clusterScope=False)
    resource(
        "star and more", **{part: ["*", "a"] for part in ("verbs", "apiGroups", "resources", "namespaces")}
    )
    resource("verbs", verbs=["get", "fly"])
    resource("namespaces", namespaces=["a", "A_", ""])
    resource("proxy", verbs=["proxy", "deletecollection"], namespaces=["a"])
    rule("empty urls", nonResourceRules=[{}])
    rule("star urls", nonResourceRules=[{"verbs": ["*", "get"], "nonResourceURLs": ["*", "/a"]}])
    odd = ["", "/", "a", "/a b", "/a//b", "/a*", "/a/*/b", "/a/*/*", "/a/*", "/*"]
    rule("odd urls", nonResourceRules=[{"verbs": ["head"], "nonResourceURLs": odd}])
    q.ask("bad name", "POST", SCHEMAS, schema("A_b"))
    q.ask("strict", "POST", f"{SCHEMAS}?fieldValidation=Strict", schema("strict", bogus=1))
    q.ask("text for number", "POST", SCHEMAS, schema("number", matchingPrecedence="ten"))
    q.ask("named exempt", "POST", f"{SCHEMAS}?dryRun=All", schema("exempt"))
    q.ask("named catch-all", "POST", f"{SCHEMAS}?dryRun=All", schema("catch-all", matchingPrecedence=1))
    yield from q.asked


def refused_levels() -> Iterator[Asked]:
    """A PriorityLevelConfiguration with something wrong about it."""
    q = Questions("priority levels refused")

    def ask(name: str, **spec: Any) -> None:
        q.ask(name, "POST", f"{LEVELS}?dryRun=All", level(name.lower().replace(" ", "-"), **spec))

    def queuing(name: str, **rest: Any) -> None:
        ask(name, **limited({"type": "Queue", "queuing": {**QUEUING, **rest}}))

    ask("empty")
    ask("bad type", type="Some")
    ask("an exempt one", type="Exempt")
    ask("exempt with limits", **{**limited({"type": "Reject"}), "type": "Exempt"})
    ask("exempt fields", type="Exempt", exempt={"nominalConcurrencyShares": -1, "lendablePercent": 101})
    ask("no limits", type="Limited")
    ask("limits of both", **limited({"type": "Reject"}), exempt={})
    ask("no response", **limited({}))
    ask("null response", **limited(None))
    ask("bad response", **limited({"type": "Ignore"}))
    ask("reject queues", **limited({"type": "Reject", "queuing": QUEUING}))
    ask("no queues", **limited({"type": "Queue"}))
    ask(
        "numbers",
        **limited(
            {"type": "Reject"}, nominalConcurrencyShares=-1, lendablePercent=-1, borrowingLimitPercent=-1
        ),
    )
    ask("percent", **limited({"type": "Reject"}, lendablePercent=101, borrowingLimitPercent=1000))
    queuing("negative", queues=-1, handSize=-1, queueLengthLimit=-1)
    queuing("many", queues=10_000_001)
    queuing("hand", handSize=17)
    queuing("entropy", queues=10_000_000, handSize=3)
    queuing("entropy just", queues=512, handSize=6)
    queuing("entropy too much", queues=512, handSize=7)
    q.ask("bad name", "POST", LEVELS, level("A_b", **limited({"type": "Reject"})))
    q.ask("annotation", "POST", f"{LEVELS}?dryRun=All", {
        **level("noted", **limited({"type": "Reject"})),
        "metadata": {
            "name": "noted",
            "annotations": {"flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares": ""},
        },
    })  # fmt: skip
    q.ask("named exempt", "POST", f"{LEVELS}?dryRun=All", level("exempt", **limited({"type": "Reject"})))
    yield from q.asked


FLOW_CONTROL: list[Asked] = [*stored(), *refused_schemas(), *refused_levels()]
