"""A server that remembers pod specs answers, stores and refuses exactly as one that reads each of them anew.

Both get the same bodies in the same order, with the same clock and the same randomness; every body comes several
times under changing names and with changing metadata, so that specs are met both new and known.
"""

from __future__ import annotations

import asyncio
import json
import random
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir.apiserver.auth.authn import MASTERS, proven
from weir.apiserver.build import build
from weir.apiserver.options import Options, open_store
from weir.apiserver.registry.pod_spec_cache import POD, PodSpecCache
from weir.apiserver.server import ApiServer
from weir.apiserver.transport.http import Request
from weir.clock import VirtualClock
from weir.gates import ALL_FEATURES, KUBERNETES_DEFAULTS, Gates
from weir.objects.defaults.walk import _DEFAULTS
from weir.objects.document import root_of


async def server(gates: Gates, clock: VirtualClock, *, remembers: bool) -> ApiServer:
    options = Options(
        Path(),
        store="memory",
        insecure=True,
        gates=gates,
        authorization_modes=("AlwaysAllow",),  # no roles to make before the first request
        random_bytes=random.Random(1).randbytes,
    )
    running = await build(options, await open_store(options, clock), clock)
    if not remembers:
        running.server.verbs.pod_specs = None
    return running.server


class Admin:
    """Lets everybody in as the cluster's administrator."""

    def authenticate(self, request: Request) -> Any:
        return proven("admin", (MASTERS,))


async def answers(gates: Gates, requests: list[tuple[str, bytes]], *, remembers: bool) -> list[Any]:
    clock = VirtualClock()
    found = await server(gates, clock, remembers=remembers)
    found._security = found._security._replace(authenticator=Admin())
    out: list[Any] = []
    for query, body in requests:
        await clock.advance(timedelta(seconds=1))
        headers = {b"content-type": b"application/json", b"user-agent": b"kubectl/v1"}
        request = Request("POST", "/api/v1/namespaces/default/pods", query, headers, body)
        answer = await found.handle(request)
        warned = [value for name, value in answer.headers or () if name == b"Warning"]
        out.append((answer.code, answer.body, warned))
    stored = [item.value for item in found.verbs.store.range(POD.prefix).items]
    return [*out, stored]


# --------------------------------------------------------------------------------------------- strange pods


def mostly(good: list[Any], bad: list[Any]) -> st.SearchStrategy[Any]:
    """Return good values, and now and then a bad one: most pods have to be sound for the memory to be asked."""
    return st.integers(0, 29).flatmap(lambda dice: st.sampled_from(good if dice else bad))


def some(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=parts)


words = mostly(["a", "web", "x-1", "kube-api-access-bcdfg"], ["UPPER", "", "a.b/c", "ü", "1"])
amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "gpu.example/a"]),
    mostly(["1", "2", "1e3", 1], ["-1", "no", 1.5, "0.5m"]),
)


def with_unknown(known: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Now and then with a field nobody knows."""
    odd = mostly([{}], [{"bogus": "x"}, {"bogus": None}])
    return st.tuples(known, odd).map(lambda two: {**two[0], **two[1]})


mounts = st.tuples(
    st.sampled_from(["/a", "/b"]), mostly(["v", "v", "kube-api-access-bcdfg"], ["missing", ""])
).map(lambda two: {"name": two[1], "mountPath": two[0]})
containers = with_unknown(
    st.tuples(
        mostly(
            [{"name": "c", "image": "app:1"}, {"name": "c", "image": "app"}], [{"name": "", "image": " app"}]
        ),
        some(
            resources=some(requests=amounts),
            ports=st.just([{"containerPort": 80}]) | mostly([[]], [[{"containerPort": 70000}]]),
            env=st.lists(st.fixed_dictionaries({"name": words, "value": words}), max_size=2),
            volumeMounts=st.lists(mounts, max_size=1),
            terminationMessagePath=st.just(""),
        ),
    ).map(lambda two: {**two[0], **two[1]})
)
tolerations = mostly(
    [
        {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"},
        {"key": "gpu", "operator": "Exists"},
        {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
        {"key": "a"},
    ],
    [
        {"key": "kernel", "operator": "SemverGt", "value": "1.2.3"},
        {"expression": "taint.key == 'a'"},
        {"expression": "1"},
        {"key": "a", "operator": "In"},
        {"effect": "Never"},
    ],
)
volumes = st.just({"name": "v", "emptyDir": {}}) | mostly(
    [
        {"name": "kube-api-access-bcdfg", "emptyDir": {}},
        {"name": "kube-api-access-bcdfghj", "emptyDir": {}},
        {"name": "w", "configMap": {"name": "c"}},
        {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}},
    ],
    [{"name": "v"}, {"name": "", "emptyDir": {}}, {"name": "x", "configMap": {"name": "c", "items": []}}],
)  # fmt: skip
specs = with_unknown(
    st.tuples(
        mostly([1], [0, 2]).flatmap(lambda count: st.lists(containers, min_size=count, max_size=count)),
        some(
            initContainers=mostly([[], [{"name": "i", "image": "app"}]], [[{"name": "c", "image": "app"}]]),
            tolerations=st.lists(tolerations, max_size=3),
            volumes=st.lists(volumes, max_size=2, unique_by=lambda volume: volume["name"]),
            automountServiceAccountToken=st.booleans(),
            serviceAccountName=mostly(["default"], ["missing", ""]),
            priorityClassName=mostly(["system-node-critical", ""], ["missing"]),
            schedulingGates=st.just([{"name": "a.b/c"}]) | mostly([[]], [[{"name": ""}]]),
            nodeSelector=st.dictionaries(words, words, max_size=1),
            nodeName=mostly(["n1", ""], ["UPPER"]),
            restartPolicy=mostly(["Never"], ["Sometimes", None]),
            hostNetwork=st.booleans(),
            terminationGracePeriodSeconds=st.sampled_from([-1, 0, 30]),
            imagePullSecrets=st.sampled_from([[], [{"name": "a"}], [{}]]),
        ),
    ).map(lambda two: {"containers": two[0], **two[1]})
)
metadata = with_unknown(
    st.tuples(
        mostly(
            [{"name": "p"}, {"name": "q"}, {"generateName": "g-"}], [{}, {"name": "P"}, {"name": "a" * 70}]
        ),
        some(
            namespace=mostly(["default"], ["other"]),
            labels=st.dictionaries(words, words, max_size=2),
            annotations=st.dictionaries(words, words, max_size=2),
            finalizers=mostly([[], ["a/b"]], [["a"]]),
            ownerReferences=mostly(
                [[], [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]],
                [[{}], [{"uid": "u"}] * 2],
            ),
            managedFields=mostly([None], [[], [{"manager": "m", "operation": "Update"}]]),
            creationTimestamp=st.none(),
            resourceVersion=mostly([""], ["7"]),
            deletionGracePeriodSeconds=mostly([0], [5]),
        ),
    ).map(lambda two: {**two[0], **two[1]})
)
texts = mostly(
    [lambda text: text, lambda text: text[:-1] + ',"status":{}}'],
    [
        lambda text: text.replace('"metadata"', '"metadata":{},"metadata"', 1),
        lambda text: text.replace('"spec"', '"spec":{},"spec"', 1),
        lambda text: text.replace('"containers"', '"containers":[],"containers"', 1),
        lambda text: text.replace('"name"', '"name":"doubled","name"', 1),
        lambda text: text.replace('"p"', '"\\u0070\\u003a"', 1),
        lambda text: text[:-1] + ',"status":{"phase":"Running"}}',
        lambda text: text[:-1] + ',"other":1}',
        lambda text: text + " ",
        lambda text: text + "}",
        lambda text: text.replace('"Pod"', '"Node"', 1),
    ],
)
queries = st.sampled_from(["", "", "", "fieldValidation=Strict", "dryRun=All", "fieldManager=me"])


@st.composite
def several(draw: Any) -> list[tuple[str, bytes]]:
    known = draw(st.lists(specs, min_size=1, max_size=2))
    out = []
    for number in range(draw(st.integers(3, 6))):
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **(found := draw(metadata)),
                **({"name": f"p-{number}"} if found.get("name") == "p" else {}),
            },
            "spec": draw(st.sampled_from(known)),
        }
        if draw(st.booleans()):
            document["spec"] = {**document["spec"], "tolerations": draw(st.lists(tolerations, max_size=3))}
        separators = draw(st.sampled_from([(",", ":"), (",", ":"), (", ", ": ")]))
        text = json.dumps(document, ensure_ascii=False, separators=separators)
        out.append((draw(queries), draw(texts)(text).encode()))
    return out


@settings(max_examples=tries(40, 100), deadline=None, suppress_health_check=list(HealthCheck))
@given(several(), st.sampled_from([ALL_FEATURES, KUBERNETES_DEFAULTS]))
def test_what_is_remembered_changes_no_answer(requests: list[tuple[str, bytes]], gates: Gates) -> None:
    ask = partial(answers, gates, requests)
    assert asyncio.run(ask(remembers=True)) == asyncio.run(ask(remembers=False))


SOUND = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "NAME", "labels": {"app": "web"}},
    "spec": {
        "containers": [{"name": "c", "image": "app:1", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "sla", "operator": "Gt", "value": "950"}],
    },
}


def test_every_pod_of_a_template_is_stored_as_if_it_were_the_first() -> None:
    requests = [("", json.dumps(SOUND).replace("NAME", f"p-{n}").encode()) for n in range(20)]
    ask = partial(answers, ALL_FEATURES, requests)
    remembered, anew = asyncio.run(ask(remembers=True)), asyncio.run(ask(remembers=False))
    assert remembered == anew and remembered[0][0] == 201


@pytest.mark.parametrize(
    "body",
    [
        b'{"apiVersion":"v1","kind":"Pod","metadata":{},"metadata":{},"spec":{}}',
        b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","name":"a"},"spec":{}}',
        b'{"apiVersion":"v1","kind":"Pod","metadata":{"managedFields":[]},"spec":{}}',
        b'{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{"a":1}}',
        b'{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{},"status":{"phase":"Running"}}',
        b'{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{"tolerations":[{"key":"a","key":"a"}]}}',
        b'{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{"tolerations":[{}],"tolerations":[{}]}}',
        b'{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{"tolerations":[{"bogus":1}]}}',
    ],
)
def test_what_needs_a_second_look_is_not_read_here(body: bytes) -> None:
    assert PodSpecCache().read(body) is None


def test_a_document_that_was_given_away_does_not_change_what_is_known() -> None:
    known, body = PodSpecCache(), json.dumps(SOUND).encode()
    first = known.read(body)
    assert first is not None
    first.document["spec"]["containers"].clear()
    assert known.read(body).document["spec"]["containers"]  # type: ignore[union-attr]


def test_no_default_of_a_pod_lies_in_its_metadata() -> None:
    assert _DEFAULTS.of(root_of(POD).fields["metadata"].shape.struct_name) is None


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("status", ["", ',"status":{}'])
def test_what_clients_usually_send_is_read_here(separators: tuple[str, str], status: str) -> None:
    text = json.dumps(SOUND, separators=separators)[:-1] + status + "}"
    assert PodSpecCache().read(text.encode()) is not None


def test_pods_that_differ_in_tolerations_share_what_is_known() -> None:
    known = PodSpecCache()
    texts = [json.dumps(SOUND, separators=(",", ":")).replace("950", str(n)).encode() for n in range(9)]
    values = [known.read(text).document["spec"]["tolerations"][0]["value"] for text in texts]  # type: ignore[union-attr]
    assert values == [str(n) for n in range(9)] and len(known._read.known) == 1


def test_the_oldest_is_forgotten_when_too_much_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.apiserver.registry.memory.MOST_BYTES", 1000)
    known = PodSpecCache()
    for n in range(100):
        text = json.dumps(SOUND).replace("app:1", f"app:{n}").encode()
        assert known.read(text) is not None
    assert sum(map(len, known._read.known)) <= 1000
