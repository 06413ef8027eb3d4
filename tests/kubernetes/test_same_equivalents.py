"""A real API server and weir's show webhooks and policies what is written in the version that their rules name.

Autoscalers are of the table, Flats of a definition that converts nothing, Links of one whose webhook converts. Every case
is a webhook or policy about objects with its label, and writes in one version or another.
"""

# ruff: noqa: E501  (tables read better on long lines)

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest

from tests.kubernetes.conversion_webhook import GROUP, client_config, definition, running_webhook
from tests.kubernetes.custom_resource_requests import CRDS, INTEGER, STRING, crd, objects, version
from tests.kubernetes.policy_requests import binding, policy
from tests.kubernetes.requests import MERGE, Asked, Document, document
from tests.kubernetes.test_same_conversion import made, path, without
from tests.kubernetes.test_same_custom_resources import wait_established
from tests.kubernetes.test_same_requests import CONNECTIONS, PATIENCE_SECONDS, both_servers, call, masked
from tests.kubernetes.webhook_answers import Case, configuration, op, patch, review, running_webhooks

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
SCALERS = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
EVENTS = {
    "v1": "/api/v1/namespaces/default/events",
    "events.k8s.io/v1": "/apis/events.k8s.io/v1/namespaces/default/events",
}
CONFIGS = "/api/v1/namespaces/default/configmaps"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}


def rule(
    resource: str,
    *versions: str,
    group: str = GROUP,
    operations: tuple[str, ...] = ("CREATE", "UPDATE", "DELETE"),
) -> Document:
    return {
        "operations": list(operations),
        "apiGroups": [group],
        "apiVersions": list(versions),
        "resources": [resource],
    }


def scaler(name: str, spoken: str) -> Document:
    more = {
        "v1": {"targetCPUUtilizationPercentage": 50},
        "v2": {
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                }
            ]
        },
    }[spoken]
    return document("HorizontalPodAutoscaler", name, f"autoscaling/{spoken}", metadata={"labels": {"case": name}},
                    spec={"maxReplicas": 3, "scaleTargetRef": TARGET, **more})  # fmt: skip


def event(name: str, spoken: str) -> Document:
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    labels = {"labels": {"case": name}, "namespace": "default"}
    if spoken == "v1":
        return document(
            "Event",
            name,
            metadata=labels,
            involvedObject=about,
            reason="R",
            message="m",
            source={"component": "c"},
        )
    return document("Event", name, spoken, metadata=labels, regarding=about, reason="R", note="m", action="a", type="Normal",
                    eventTime="2026-01-01T00:00:00.000000Z", reportingController="c.io/c", reportingInstance="i")  # fmt: skip


def flat(name: str, spoken: str) -> Document:
    more = {"v1": {"first": "a", "both": 1}, "v2": {"second": "b", "both": 1}}[spoken]
    return made("Flat", spoken, name, {"labels": {"case": name}}, **more)


def link(name: str, spoken: str) -> Document:
    more = {"v1": {"address": "h:1"}, "v2": {"host": "h", "port": 1}}[spoken]
    more |= {"replicas": 2} if "-size-" in name else {}
    return made("Link", spoken, name, {"labels": {"case": name}}, **more)


def deployment(name: str, spoken: str) -> Document:
    pods = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": pods}
    return document("Deployment", name, "apps/v1", metadata={"labels": {"case": name}}, spec=spec)


def scale(name: str) -> Document:
    metadata = {"namespace": "default"}
    return document("Scale", name, "autoscaling/v1", metadata=metadata, spec={"replicas": 4})


BODIES = {"deployment": deployment, "scaler": scaler, "event": event, "flat": flat, "link": link}
#: what is written → its resource and group in rules, and the versions it is written in
KINDS = {"scaler": ("horizontalpodautoscalers", "autoscaling", ("v1", "v2")), "flat": ("flats", GROUP, ("v1", "v2")),
         "link": ("links", GROUP, ("v1", "v2"))}  # fmt: skip


def place(what: str, spoken: str) -> str:
    if what == "deployment":
        return "/apis/apps/v1/namespaces/default/deployments"
    if what == "event":
        return EVENTS[spoken]
    return SCALERS.format(spoken) if what == "scaler" else path(KINDS[what][0], spoken)


def writes(what: str, name: str, spoken: str, verbs: tuple[str, ...] = ("POST",)) -> list[Asked]:
    """Return what is asked of a server in *spoken*; a status is written with the verb STATUS."""
    one = f"{place(what, spoken)}/{name}"
    by_verb = {
        "POST": Asked("create", "POST", place(what, spoken), BODIES[what](name, spoken)),
        "PATCH": Asked("patch", "PATCH", one, {"metadata": {"annotations": {"a": "b"}}}, MERGE),
        "STATUS": Asked("status", "PATCH", f"{one}/status", {"status": {"replicas": 2}}, MERGE),
        "SCALE": Asked("scale", "PATCH", f"{one}/scale", {"spec": {"replicas": 3}}, MERGE),
        "PUT SCALE": Asked("put scale", "PUT", f"{one}/scale", scale(name)),
        "GET": Asked("get", "GET", one),
        "DELETE": Asked("delete", "DELETE", one),
    }
    return [by_verb[verb] for verb in verbs]


@dataclass(frozen=True)
class Judged:
    """Policies with their bindings, and the writes; of a webhook's case the writes alone."""

    asked: list[Asked]
    policies: tuple[Document, ...] = ()
    before: tuple[Asked, ...] = ()


HOOKS: dict[str, Case] = {}
WRITES: dict[str, Judged] = {}
PATCHES = {
    ("scaler", "v1"): [op("replace", "/spec/targetCPUUtilizationPercentage", value=60)],
    ("scaler", "v2"): [op("replace", "/spec/metrics/0/resource/target/averageUtilization", value=60)],
    ("flat", "v1"): [op("add", "/spec/first", value="patched"), op("add", "/spec/both", value=2)],
    ("flat", "v2"): [op("add", "/spec/second", value="patched"), op("add", "/spec/both", value=2)],
    ("link", "v1"): [op("replace", "/spec/address", value="patched:2")],
    ("link", "v2"): [op("replace", "/spec/host", value="patched")],
}
SEEN = {("scaler", "v1"): "object.spec.targetCPUUtilizationPercentage == 50", ("scaler", "v2"): "object.spec.metrics.size() == 1",
        ("flat", "v1"): "object.spec.first == 'a'", ("flat", "v2"): "object.spec.second == 'b'",
        ("link", "v1"): "object.spec.address == 'h:1'", ("link", "v2"): "object.spec.host == 'h'"}  # fmt: skip
ALL = ("POST", "PATCH", "GET", "DELETE")


def hook(
    name: str,
    what: str,
    spoken: str,
    rules: list[Document],
    body: Any = None,
    verbs: tuple[str, ...] = ALL,
    *,
    mutating: bool = False,
    **wire: Any,
) -> None:
    HOOKS[name] = Case(name, mutating, body or review(), {"rules": rules, **wire})
    WRITES[name] = Judged(writes(what, name, spoken, verbs))


def judged(name: str, what: str, spoken: str, *documents: Document, before: tuple[Asked, ...] = ()) -> None:
    WRITES[name] = Judged(writes(what, name, spoken, ("POST", "PATCH", "DELETE")), documents, before)


def validating(
    name: str, rules: list[Document], expression: str, bound: Document | None = None, **spec: Any
) -> tuple[Document, Document]:
    match = {
        "resourceRules": rules,
        "objectSelector": {"matchLabels": {"case": name}},
        **spec.pop("match", {}),
    }
    return policy(
        name,
        matchConstraints=match,
        validations=[{"expression": expression, "messageExpression": MESSAGE}],
        **spec,
    ), binding(name, policyName=name, **(bound or {}))


MESSAGE = "request.kind.version + request.resource.version + request.requestKind.version + request.requestResource.version"


def changing(name: str, rules: list[Document], expression: str) -> tuple[Document, Document]:
    match = {"resourceRules": rules, "objectSelector": {"matchLabels": {"case": name}}}
    group = "admissionregistration.k8s.io/v1"
    mutations = [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]
    spec = {
        "matchConstraints": match,
        "mutations": mutations,
        "reinvocationPolicy": "Never",
        "failurePolicy": "Fail",
    }
    return document("MutatingAdmissionPolicy", name, group, spec=spec), document(
        "MutatingAdmissionPolicyBinding", name, group, spec={"policyName": name}
    )


for _what, (_resource, _group, _versions) in KINDS.items():
    for _spoken in _versions:
        _other = _versions[1 - _versions.index(_spoken)]
        _rules = [rule(_resource, _other, group=_group)]
        _case = f"{_what}-{_spoken}"
        hook(f"{_case}-shown", _what, _spoken, _rules)
        hook(f"{_case}-exact", _what, _spoken, _rules, matchPolicy="Exact")
        hook(f"{_case}-own", _what, _spoken, [rule(_resource, _spoken, group=_group)])
        hook(f"{_case}-any", _what, _spoken, [rule(_resource, "*", group=_group)])
        hook(f"{_case}-earlier", _what, _spoken, [*_rules, rule(_resource, _spoken, group=_group)])
        hook(f"{_case}-patched", _what, _spoken, [rule(_resource, _other, group=_group, operations=("CREATE",))],
             patch(PATCHES[_what, _other]), mutating=True)  # fmt: skip
        hook(f"{_case}-condition", _what, _spoken, _rules, review(allowed=False), ("POST",),
             matchConditions=[{"name": "c", "expression": SEEN[_what, _other]}])  # fmt: skip
        judged(
            f"{_case}-policy",
            _what,
            _spoken,
            *validating(f"{_case}-policy", _rules, f"oldObject == null && !({SEEN[_what, _other]})"),
        )
        judged(
            f"{_case}-policy-fine",
            _what,
            _spoken,
            *validating(f"{_case}-policy-fine", _rules, f"object == null || {SEEN[_what, _other]}"),
        )
        judged(
            f"{_case}-policy-exact",
            _what,
            _spoken,
            *validating(f"{_case}-policy-exact", _rules, "false", match={"matchPolicy": "Exact"}),
        )
        _operation = PATCHES[_what, _other][0]
        judged(f"{_case}-changed", _what, _spoken, *changing(f"{_case}-changed", [rule(_resource, _other, group=_group, operations=("CREATE",))],
               f"[JSONPatch{{op: 'add', path: '{_operation['path']}', value: {_operation['value']!r}}}]"))  # fmt: skip
for _what, _spoken, _other in (
    ("flat", "v1", "v2"),
    ("flat", "v2", "v1"),
    ("flat", "v1", "v1"),
    ("link", "v2", "v1"),
    ("link", "v1", "v2"),
):
    _place = "given" if _what == "flat" else "mode" if _other == "v1" else "late"
    _created = [rule(f"{_what}s", _other, operations=("CREATE",))]
    hook(
        f"{_what}-{_spoken}-{_other}-removed",
        _what,
        _spoken,
        _created,
        patch([op("remove", f"/spec/{_place}")]),
        mutating=True,
    )
    hook(
        f"{_what}-{_spoken}-{_other}-unknown",
        _what,
        _spoken,
        _created,
        patch([op("add", "/spec/nowhere", value=1)]),
        mutating=True,
    )
    for _done, _operation in (
        ("removed", f"op: 'remove', path: '/spec/{_place}'"),
        ("unknown", "op: 'add', path: '/spec/nowhere', value: 1"),
    ):
        _name = f"{_what}-{_spoken}-{_other}-policy-{_done}"
        judged(_name, _what, _spoken, *changing(_name, _created, f"[JSONPatch{{{_operation}}}]"))
for _spoken, _other in (("v1", "events.k8s.io"), ("events.k8s.io/v1", "")):
    hook(
        f"event-{'core' if _spoken == 'v1' else 'new'}",
        "event",
        _spoken,
        [rule("events", "v1", group=_other)],
        verbs=("POST", "GET", "DELETE"),
    )
for _spoken in ("v1", "v2"):
    _other = "v2" if _spoken == "v1" else "v1"
    hook(
        f"link-{_spoken}-status",
        "link",
        _spoken,
        [rule("links/status", _other)],
        verbs=("POST", "STATUS", "DELETE"),
    )
    hook(
        f"narrow-{_spoken}-status",
        "flat",
        _spoken,
        [rule("flats/status", _other)],
        verbs=("POST", "STATUS", "DELETE"),
    )

SIZES = ("POST", "SCALE", "PUT SCALE", "GET", "DELETE")
#: a real server shows mutating webhooks what was put, weir what it makes of it (decision 87)
CHANGED_SIZES = tuple(verb for verb in SIZES if verb != "PUT SCALE")


def sized(name: str, what: str, spoken: str, resource: str, version: str, group: str, **more: Any) -> None:
    """Add webhooks and policies about the Scale of *name*, which has no labels to be chosen by."""
    rules = [rule(f"{resource}/scale", version, group=group, operations=("UPDATE",))]
    for how, body, mutating in (
        ("seen", review(), False),
        ("patched", patch([op("replace", "/spec/replicas", value=5)]), True),
    ):
        chosen = [{"name": "c", "expression": f"request.name == '{name}-{how}' && object.kind == 'Scale'"}]
        hook(
            f"{name}-{how}",
            what,
            spoken,
            rules,
            body,
            CHANGED_SIZES if mutating else SIZES,
            mutating=mutating,
            objectSelector={},
            matchConditions=chosen,
        )
    for how, documents in {
        "labelled": validating(f"{name}-labelled", rules, "false"),
        "judged": validating(
            f"{name}-judged",
            rules,
            "object.kind != 'Scale' || object.spec.replicas == oldObject.spec.replicas",
        ),
        "changed": changing(
            f"{name}-changed", rules, "[JSONPatch{op: 'replace', path: '/spec/replicas', value: 6}]"
        ),
        "applied": changing(f"{name}-applied", rules, "Object{spec: Object.spec{replicas: 7}}"),
    }.items():
        if how != "labelled":
            documents[0]["spec"]["matchConstraints"]["objectSelector"] = {}
            documents[0]["spec"]["matchConditions"] = [
                {"name": "c", "expression": f"request.name == '{name}-{how}'"}
            ]
        if how == "applied":
            mutation = {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": "Object{spec: Object.spec{replicas: 7}}"},
            }
            documents[0]["spec"]["mutations"] = [mutation]
        WRITES[f"{name}-{how}"] = Judged(writes(what, f"{name}-{how}", spoken, SIZES), documents)


sized("deployment-size", "deployment", "v1", "deployments", "v1", "apps")
for _spoken, _other in (("v1", "v2"), ("v2", "v1"), ("v1", "v1")):
    sized(f"link-size-{_spoken}-{_other}", "link", _spoken, "links", _other, GROUP)
for _kind, _stored in (
    ("link", "v1"),
    ("link", "v2"),
    ("flat", "v1"),
    ("flat", "v2"),
    ("scaler", "v1"),
    ("scaler", "v2"),
):
    for _asked in ("v1", "v2"):
        _name = f"params-{_kind}-{_stored}-{_asked}"
        _seen = (
            SEEN[_kind, _asked].replace("object.", "params.")
            if _kind != "flat"
            else f"params.apiVersion == '{GROUP}/{_asked}' && !has(params.spec.{'second' if _asked == 'v1' else 'first'})"
        )
        _of = {"apiVersion": f"autoscaling/{_asked}", "kind": "HorizontalPodAutoscaler"} if _kind == "scaler" else {
            "apiVersion": f"{GROUP}/{_asked}", "kind": _kind.capitalize()}  # fmt: skip
        _maps = {
            "operations": ["CREATE"],
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["configmaps"],
        }
        _policy, _bound = validating(
            _name,
            [_maps],
            f"!({_seen})",
            {"paramRef": {"name": _name, "parameterNotFoundAction": "Deny"}},
            paramKind=_of,
        )
        _policy["spec"]["validations"][0] = {
            "expression": f"!({_seen})",
            "messageExpression": "'seen as ' + params.apiVersion",
        }
        WRITES[_name] = Judged([Asked("create", "POST", f"{CONFIGS}?dryRun=All", document("ConfigMap", _name, metadata={"labels": {"case": _name}}))],
                               (_policy, _bound), tuple(writes(_kind, _name, _stored)))  # fmt: skip

FLATS = crd(
    "flats",
    version(
        objects(
            spec=objects(first=STRING, both=INTEGER, given={**STRING, "default": "one"}),
            status=objects(replicas=INTEGER),
        ),
        "v1",
        subresources={"status": {}},
    ),
    version(
        objects(spec=objects(second=STRING, both=INTEGER, given={**STRING, "default": "two"})),
        "v2",
        storage=False,
    ),
    group=GROUP,
)


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, list[Any]]:
    """What both servers say to every case, and what they asked the webhooks."""
    folder = tmp_path_factory.mktemp("equivalents")
    found: dict[str, list[Any]] = {name: [] for name in WRITES}
    with (
        both_servers(folder) as servers,
        running_webhooks(folder, HOOKS) as (base, authority, asked),
        running_webhook(folder) as (converting, trusted, _),
    ):
        for server in servers:
            for body in (definition("links", client_config(converting, trusted)), FLATS):
                code, said, _ = call(server, Asked("", "POST", CRDS, body))
                assert code == 201, said
                wait_established(server, body["metadata"]["name"])
            set_up(server, base, authority)
            asked.clear()
            for name, case in WRITES.items():
                said = [told(list(call(server, one))) for one in case.asked]
                found[name].append((said, last_tries(told(asked.pop(name, [])))))
            CONNECTIONS.pop(server).close()  # a server that stops waits for it
    return found


def last_tries(asked: list[Document]) -> list[Document]:
    """Return the reviews without those of a write that was tried again: a real server may try on an old copy first."""

    def meant(one: Document) -> tuple[str, Any]:
        return one["request"]["operation"], one["request"]["object"]

    return [one for i, one in enumerate(asked) if i + 1 == len(asked) or meant(one) != meant(asked[i + 1])]


def told(value: Any) -> Any:
    return masked(without(value, "managedFields", "resourceVersion"))


def set_up(server: str, base: str, authority: bytes) -> None:
    """Register every webhook and policy, and wait until the server knows them."""
    for case in WRITES.values():
        for asked in case.before:
            code, said, _ = call(server, asked)
            assert code == 201, (asked, said)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        body = configuration(kind, base, authority, HOOKS)
        code, said, _ = call(server, Asked(kind, "POST", f"{REGISTRATION}/{kind.lower()}s", body))
        assert code == 201, said
    for case in WRITES.values():
        for one in case.policies:
            plural = f"{one['kind'].lower()}s".replace("policys", "policies")
            code, said, _ = call(server, Asked("", "POST", f"{REGISTRATION}/{plural}", one))
            assert code == 201, said
    probes = [WRITES[f"scaler-v2-{how}"].asked[0] for how in ("policy", "condition", "changed")]
    probes += [
        case.asked[0]
        for name, case in WRITES.items()
        if name.startswith("params-") and name[-2:] == "v2" and "flat" not in name
    ]
    deadline = time.monotonic() + PATIENCE_SECONDS
    for probe in probes:
        while True:
            code, said, _ = call(
                server, Asked("", "POST", f"{probe.path.partition('?')[0]}?dryRun=All", probe.body)
            )
            if (
                code in (400, 403, 422)
                and "failed to configure" not in str(said)
                and "no params found" not in str(said)
            ):
                break
            assert time.monotonic() < deadline, (probe, said)
            time.sleep(0.1)
    for probe in [
        WRITES[f"{what}-{spoken}-changed"].asked[0] for what in ("flat", "link") for spoken in ("v1", "v2")
    ]:
        while (
            call(server, Asked("", "POST", f"{probe.path}?dryRun=All", probe.body))[0] == 503
        ):  # no type is known yet
            assert time.monotonic() < deadline, probe
            time.sleep(0.1)


@pytest.mark.parametrize("name", list(WRITES))
def test_both_servers_show_the_same_version(answers, name):
    real, weir = answers[name]
    assert weir == real


def test_some_webhooks_are_shown_another_version_than_was_written(answers):
    versions = set()
    for (_, asked), _ in answers.values():
        for one in asked:
            versions.add((one["request"]["kind"]["version"], one["request"]["requestKind"]["version"]))
    assert {("v1", "v2"), ("v2", "v1"), ("v1", "v1"), ("v2", "v2")} <= versions
