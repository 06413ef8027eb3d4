"""A server that knows its pods again answers, stores, refuses and counts exactly as one that creates each anew.

Both get the same requests in the same order, with the same clock and the same randomness: pods of a few templates
under changing names, sent by several users to several namespaces, while what admission looks at changes under them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import tries
from tests.property.remembering import Sent, ask, counted_by_admission, read_by_admission, shown, started
from weir.apiserver.admission.attributes import POD
from weir.apiserver.registry.codec import Reader
from weir.apiserver.registry.repeated_pods import RepeatedPods
from weir.apiserver.registry.verbs import Verbs
from weir.clock import VirtualClock
from weir.gates import ALL_FEATURES, KUBERNETES_DEFAULTS, Gates
from weir.objects.kind import Kind

Document = dict[str, Any]
REGISTRATION = "admissionregistration.k8s.io/v1"


async def history(
    gates: Gates, requests: list[Sent], *, remembers: bool
) -> tuple[list[Any], list[bytes], str]:
    """Return every answer, what is stored at the end, and what admission has counted."""
    clock = VirtualClock()
    server = await started(gates, clock)
    if not remembers:
        server.verbs.pod_specs = None
    answers = []
    for sent in requests:
        await clock.advance(timedelta(seconds=0.4))
        answer = await ask(server, sent)
        answers.append(shown(answer))
    stored = [item.value for item in server.verbs.store.range(POD.prefix).items]
    return answers, stored, await counted_by_admission(server)


@contextmanager
def counting() -> Iterator[list[str]]:
    """Collect the names of the pods that were known again."""
    made: list[str] = []
    plain = RepeatedPods.make

    def make(self: RepeatedPods, *arguments: Any) -> tuple[str, bytes]:
        name, value = plain(self, *arguments)
        made.append(name)
        return name, value

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RepeatedPods, "make", make)
        yield made


# ------------------------------------------------------------------------------------------------ what is sent


def pod(name: str, number: int, **more: Any) -> Document:
    spec: Document = {
        "containers": [{"name": "c", "image": "app:1"}],
        "tolerations": [
            {"key": "sla", "operator": "Gt", "value": str(number), "effect": "NoSchedule"},
            {"key": "gpu", "operator": "Exists"},
        ],
    }
    metadata: Document = {"name": name, "namespace": "default", "labels": {"app": "web"}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {**metadata, **more.pop("metadata", {})},
        "spec": {**spec, **more},
    }


def generated(name: str, number: int) -> Document:
    found = pod("", number, metadata={"generateName": "web-"})
    del found["metadata"]["name"]
    return found


TEMPLATES: list[Callable[[str, int], Document]] = [
    pod,
    generated,
    # the name stands elsewhere too, before and behind
    lambda name, number: {
        "spec": pod(name, number)["spec"],
        **pod(name, number, metadata={"labels": {"a": name}}),
    },
    lambda name, number: pod(name, number, containers=[{"name": name, "image": "app:1"}]),
    lambda name, number: pod(name, number, metadata={"annotations": {"note": "100% %b \\ \u00fc"}}),
    lambda name, number: pod(name, number, tolerations=[{"key": "a", "operator": "Exists"}]),
    lambda name, number: pod(name, number, tolerations=[{"key": name, "value": name}]),
    lambda name, number: pod(name, number, tolerations=[]),
    lambda name, number: pod(
        name, number, tolerations=[{"operator": "Exists", "value": "" if number % 2 else "x"}]
    ),
    lambda name, number: pod(name, number, automountServiceAccountToken=False),
    lambda name, number: pod(name, number, runtimeClassName="fast"),
    lambda name, number: pod(name, number, priorityClassName="high"),
    lambda name, number: pod(name, number, serviceAccountName="robot"),
    lambda name, number: pod(name, number, nodeSelector={"beta.kubernetes.io/os": "linux"}),
    lambda name, number: pod(name + ".dotted", number),
    lambda name, number: pod(name + ".dotted" if number % 3 == 2 else name, number),
    lambda name, number: pod(name, number, runtimeClassName="slim"),
    lambda name, number: pod(name.upper() if number % 2 else name, number),
    lambda name, number: pod(name, number, volumes=[{"name": "kube-api-access-bcdfg", "emptyDir": {}}]),
    lambda name, number: pod(name, number, metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}),
    lambda name, number: pod(name, number, metadata={"namespace": "other"}),
    lambda name, number: pod(name, number, metadata={"creationTimestamp": None, "finalizers": ["a/b"]}),
]


def core(plural: str, document: Document, namespace: str = "default") -> Sent:
    return Sent(f"/api/v1/namespaces/{namespace}/{plural}", json.dumps(document).encode())


def named(kind: str, name: str, api_version: str = "v1", **fields: Any) -> Document:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def cluster(api_version: str, plural: str, document: Document) -> Sent:
    return Sent(f"/apis/{api_version}/{plural}", json.dumps({**document, "apiVersion": api_version}).encode())


def gone(path: str) -> Sent:
    return Sent(path, b"", "DELETE")


POLICY: Document = {
    "failurePolicy": "Fail",
    "matchConstraints": {
        "resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        ]
    },
    "validations": [{"expression": "!object.metadata.name.endsWith('3')"}],
}
AROUND = [
    core("limitranges", named("LimitRange", "l", spec={"limits": [{"type": "Container", "default": {"cpu": "1"}}]})),
    core("limitranges", named("LimitRange", "m", spec={"limits": [{"type": "Pod", "max": {"cpu": "1m"}}]})),
    gone("/api/v1/namespaces/default/limitranges/l"),
    gone("/api/v1/namespaces/default/limitranges/m"),
    core("serviceaccounts", named("ServiceAccount", "robot")),
    Sent("/api/v1/namespaces/other/serviceaccounts/default",
         json.dumps(named("ServiceAccount", "default", imagePullSecrets=[{"name": "s"}])).encode(), "PUT"),
    Sent("/api/v1/namespaces/default/serviceaccounts/default",
         json.dumps(named("ServiceAccount", "default", automountServiceAccountToken=False)).encode(), "PUT"),
    Sent("/api/v1/namespaces/default/serviceaccounts/default",
         json.dumps(named("ServiceAccount", "default", imagePullSecrets=[{"name": "s"}])).encode(), "PUT"),
    gone("/api/v1/namespaces/default/serviceaccounts/default"),
    core("serviceaccounts", named("ServiceAccount", "default")),
    core("resourcequotas", named("ResourceQuota", "q", spec={"hard": {"pods": "2"}})),
    gone("/api/v1/namespaces/default/resourcequotas/q"),
    cluster("scheduling.k8s.io/v1", "priorityclasses", named("PriorityClass", "high", value=7)),
    cluster("scheduling.k8s.io/v1", "priorityclasses", named("PriorityClass", "d", value=3, globalDefault=True)),
    gone("/apis/scheduling.k8s.io/v1/priorityclasses/d"),
    cluster("node.k8s.io/v1", "runtimeclasses", named("RuntimeClass", "fast", handler="h", scheduling={
        "tolerations": [{"key": "sla", "operator": "Exists", "effect": "NoSchedule"}]})),
    cluster("node.k8s.io/v1", "runtimeclasses", named("RuntimeClass", "slim", handler="h")),
    gone("/apis/node.k8s.io/v1/runtimeclasses/slim"),
    Sent("/api/v1/namespaces", json.dumps(named("Namespace", "other")).encode()),
    gone("/api/v1/namespaces/other"),
    cluster(REGISTRATION, "validatingadmissionpolicies", named("ValidatingAdmissionPolicy", "p", spec=POLICY)),
    cluster(REGISTRATION, "validatingadmissionpolicybindings", named(
        "ValidatingAdmissionPolicyBinding", "p", spec={"policyName": "p", "validationActions": ["Deny"]})),
    gone(f"/apis/{REGISTRATION}/validatingadmissionpolicybindings/p"),
]  # fmt: skip


#: what has to be there before some of them
NEEDS = {2: [0], 3: [1], 5: [18], 9: [8], 11: [10], 14: [13], 17: [16], 19: [18], 21: [20], 22: [20, 21]}


@st.composite
def requests(draw: Any) -> list[Sent]:
    templates = draw(st.lists(st.sampled_from(TEMPLATES), min_size=1, max_size=3))
    users = draw(
        st.lists(st.sampled_from([b"admin", b"dev", b"dev more", b"kubelet"]), min_size=1, max_size=2)
    )
    out = []
    for number in range(draw(st.integers(6, 24))):
        if draw(st.integers(0, 7)) == 0:
            out.append(draw(st.sampled_from(AROUND)))
        template, user = draw(st.sampled_from(templates)), draw(st.sampled_from(users))
        name = draw(st.sampled_from([f"p-{number}", f"p-{number}", f"p-{number}", "p-0", "c", "sla"]))
        document = template(name, draw(st.sampled_from([number, 5, 5])))
        separators = draw(st.sampled_from([(",", ":"), (",", ":"), (", ", ": ")]))
        namespace = draw(st.sampled_from(["default", "default", "default", "other"]))
        out.append(
            Sent(
                f"/api/v1/namespaces/{namespace}/pods",
                json.dumps(document, separators=separators, ensure_ascii=False).encode(),
                user=user,
                agent=draw(st.sampled_from([b"controller/v1", b"controller/v1", b"other"])),
                query=draw(st.sampled_from(["", "", "", "", "dryRun=All", "fieldManager=me"])),
            )
        )
    return out


@settings(max_examples=tries(60, 300), deadline=None, suppress_health_check=list(HealthCheck))
@given(requests(), st.sampled_from([ALL_FEATURES, KUBERNETES_DEFAULTS]))
def test_what_is_known_again_changes_no_answer(sent: list[Sent], gates: Gates) -> None:
    found = partial(history, gates, sent)
    assert asyncio.run(found(remembers=True)) == asyncio.run(found(remembers=False))


def same_again(template: Callable[[str, int], Document], *around: Sent) -> list[Sent]:
    """Return eight pods of a template, with other requests in their middle."""
    pods = [core("pods", template(f"p-{number}", number)) for number in range(8)]
    return [*pods[:4], *around, *pods[4:]]


@pytest.mark.parametrize("template", range(len(TEMPLATES)))
def test_pods_of_every_template_are_as_if_they_were_the_first(template: int) -> None:
    found = partial(
        history, ALL_FEATURES, [AROUND[4], AROUND[12], AROUND[15], *same_again(TEMPLATES[template])]
    )
    assert asyncio.run(found(remembers=True)) == asyncio.run(found(remembers=False))


@pytest.mark.parametrize("around", range(len(AROUND)))
def test_what_changes_around_a_pod_is_seen_by_the_next(around: int) -> None:
    undone = [AROUND[earlier] for earlier in NEEDS.get(around, ())]
    sent = [*undone, *same_again(pod, AROUND[around])]
    found = partial(history, ALL_FEATURES, sent)
    remembered = asyncio.run(found(remembers=True))
    assert remembered == asyncio.run(found(remembers=False))
    code = remembered[0][len(undone) + 4][0]
    assert code < 300, "the change was refused"


def test_a_runtime_class_that_goes_is_missed() -> None:
    slim = next(one for one in TEMPLATES if one("p", 0)["spec"].get("runtimeClassName") == "slim")
    sent = [AROUND[16], *same_again(slim, AROUND[17])]
    remembered, _, _ = asyncio.run(history(ALL_FEATURES, sent, remembers=True))
    assert [code for code, _, _ in remembered] == [201] * 5 + [200] + [403] * 4


# -------------------------------------------------------------------------------- which are known, which are not


def known_again(sent: list[Sent]) -> list[str]:
    with counting() as made:
        asyncio.run(history(ALL_FEATURES, sent, remembers=True))
    return made


def test_the_third_pod_of_a_template_is_known() -> None:
    # The first tells what its spec means, the second what becomes of the whole.
    assert known_again(same_again(pod)) == [f"p-{number}" for number in range(2, 8)]
    assert len(known_again(same_again(generated))) == 6


@pytest.mark.parametrize("template", [10, 13, 19])
def test_pods_that_need_a_look_each_get_one(template: int) -> None:
    assert not known_again([AROUND[15], *same_again(TEMPLATES[template])])


def test_a_quota_a_policy_and_a_kubelet_have_every_pod_looked_at() -> None:
    for around in (AROUND[10:11], AROUND[20:22]):
        assert known_again(same_again(pod, *around)) == ["p-2", "p-3"]
    assert not known_again([sent._replace(user=b"kubelet") for sent in same_again(pod)])


def test_a_webhook_has_every_pod_looked_at() -> None:
    rules = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {
        "name": "a.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rules],
    }
    path, kind = "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"
    made = known_again(same_again(pod, cluster(REGISTRATION, path, named(kind, "w", webhooks=[hook]))))
    assert made == ["p-2", "p-3"]


def test_policies_are_not_read_again_for_every_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[Kind]:
        server = await started(ALL_FEATURES, VirtualClock())
        sent = same_again(pod)
        for one in (*AROUND[20:22], *sent[:2]):
            assert (await ask(server, one)).code == 201
        read: list[Kind] = []
        plain = Reader.list_now

        def noting(self: Reader, kind: Kind, namespace: str | None = None) -> Any:
            read.append(kind)
            return plain(self, kind, namespace)

        monkeypatch.setattr(Reader, "list_now", noting)
        for one in sent[4:7]:
            assert (await ask(server, one)).code == 201
        return read

    assert asyncio.run(run()) == []


def test_other_users_programs_and_namespaces_are_looked_at_first() -> None:
    sent = same_again(pod)
    for other in (sent[7]._replace(user=b"dev"), sent[7]._replace(agent=b"other")):
        assert known_again([*sent[:7], other]) == [f"p-{number}" for number in range(2, 7)]
    first, second = (sent[7]._replace(user=user) for user in (b"dev", b"dev more"))
    more = [
        one._replace(body=one.body.replace(b"p-7", b"q-%d" % number))
        for number, one in enumerate((first, first, first, second))
    ]
    assert known_again([*sent[:3], *more]) == ["p-2", "q-2"]


def test_pods_that_are_all_different_are_not_learnt() -> None:
    async def run() -> int:
        server = await started(ALL_FEATURES, VirtualClock())
        for number in range(6):
            one = pod(f"p-{number}", number, metadata={"labels": {"number": str(number)}})
            assert (await ask(server, core("pods", one))).code == 201
        return len(server.verbs._repeated_pods._pods.known)

    assert asyncio.run(run()) == 0


def test_what_is_known_is_bounded_whatever_is_long_about_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.apiserver.registry.memory.MOST_BYTES", 60_000)

    async def run() -> RepeatedPods:
        server = await started(ALL_FEATURES, VirtualClock())
        for number in range(60):
            sent = core("pods", pod(f"p-{number}", 1 << number))
            agent = b"%04d" % (number // 3) + b"x" * 4000  # three of a kind: one seen, one learnt, one known
            assert (await ask(server, sent._replace(agent=agent))).code == 201
        return server.verbs._repeated_pods

    found = asyncio.run(run())
    assert 0 < sum(len(part) for key in found._seen.known for part in key) < 60_000
    kept = [len(known.pieces) + sum(map(len, key)) for key, known in found._pods.known.items()]
    assert 0 < sum(kept) < 60_000
    assert 0 < sum(len(text) + len(sent.text) for text, sent in found._sent.known.items()) < 60_000


def test_what_changes_while_a_pod_is_stored_is_seen_by_the_next() -> None:
    """The verdict of the second pod is older than the range that appears before it is acknowledged."""

    async def run() -> list[bool]:
        server = await started(ALL_FEATURES, VirtualClock())
        plain = Verbs._insert

        async def insert(
            self: Verbs, served: Kind, kind: Kind, namespace: str, name: str, value: bytes
        ) -> Any:
            if name == "p-1":
                assert (await ask(server, AROUND[0])).code == 201
            return await plain(self, served, kind, namespace, name, value)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Verbs, "_insert", insert)
            answers = [await ask(server, sent) for sent in same_again(pod)]
        containers = [json.loads(answer.body)["spec"]["containers"][0] for answer in answers]
        return ["limits" in container["resources"] for container in containers]

    assert asyncio.run(run()) == [False, False, *[True] * 6]


def test_admission_reads_nothing_but_what_it_says_it_follows() -> None:
    async def run() -> tuple[set[Kind], frozenset[Kind] | None]:
        server = await started(ALL_FEATURES, VirtualClock())
        with read_by_admission() as (read, followed):
            for sent in same_again(pod):
                assert (await ask(server, sent)).code == 201
        return read, followed[-1]

    read, followed = asyncio.run(run())
    assert followed is not None and read <= followed and len(read) > 5
