"""A server that knows its claims and patches again answers, stores, refuses and counts as one that makes each anew.

Both live through the same history: pods with claims, and what a controller and a scheduler say about them, pod
after pod, in forms of which some are wrong, while policies, rights and labels come and go.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import tries
from tests.property.remembering import Sent, ask, counted_by_admission, read_by_admission, shown, started
from weir.apiserver.registry.repeated_writes import Like, RepeatedWrites
from weir.apiserver.registry.verbs import Verbs
from weir.apiserver.server import ApiServer
from weir.clock import VirtualClock
from weir.gates import ALL_FEATURES, KUBERNETES_DEFAULTS, Gates
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind

Document = dict[str, Any]
POD = by_kind("v1", "Pod")
CLAIM = by_kind("resource.k8s.io/v1", "ResourceClaim")
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MERGE = b"application/merge-patch+json"
STRATEGIC = b"application/strategic-merge-patch+json"
JSON_PATCH = b"application/json-patch+json"
APPLY = b"application/apply-patch+yaml"
NOWHERE = "00000000-0000-0000-0000-000000000000"


class World:
    """What a client knows: the objects as they are stored, and the time."""

    def __init__(self, server: ApiServer, clock: VirtualClock) -> None:
        self._store, self._clock = server.verbs.store, clock

    def pod(self, number: int) -> Document:
        return self._metadata(f"/registry/pods/default/p-{number}")

    def claim(self, number: int) -> Document:
        """The metadata of the claim of a pod, which is named by chance."""
        prefix = f"{CLAIM.prefix}default/p-{number}-gpu-"
        found = self._store.range(prefix).items
        return json.loads(found[0].value)["metadata"] if found else self._metadata("")

    def _metadata(self, key: str) -> Document:
        found = self._store.get(key)
        if found is None:
            return {"name": "nobody", "uid": NOWHERE, "resourceVersion": "1"}
        metadata: Document = json.loads(found.value)["metadata"]
        return metadata

    def time(self, later: int = 0) -> str:
        moment = datetime.fromtimestamp(int(self._clock.time()) + later, UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


#: makes the request about the pod of a number
Step = Callable[[World, int], Sent]


def compact(document: Document) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def posted(path: str, document: Document, **more: Any) -> Sent:
    return Sent(path, compact(document), **more)


def patch(path: str, document: Any, media: bytes = MERGE, **more: Any) -> Sent:
    body = document if isinstance(document, bytes) else compact(document)
    return Sent(path, body, "PATCH", media=media, **more)


def deleted(path: str) -> Sent:
    return Sent(path, b"", "DELETE")


# ------------------------------------------------------------------------------------------------ what is sent


def a_pod(number: int, **metadata: Any) -> Document:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": f"p-{number}", **metadata},
        "spec": {
            "containers": [{"name": "c", "image": "a", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
        },
    }


def a_claim(world: World, number: int, *, admin: bool = False, **metadata: Any) -> Document:
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": f"p-{number}",
        "uid": world.pod(number)["uid"],
        "controller": True,
    }
    exactly = {"deviceClassName": "gpu.example.com", **({"adminAccess": True} if admin else {})}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": f"p-{number}-gpu-",
            "namespace": "default",
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
            "ownerReferences": [owner],
            **metadata,
        },
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }  # fmt: skip


def turned_owner(world: World, number: int) -> Document:
    """An owner whose name stands in a place where it is not expected."""
    return {"name": f"p-{number}", "kind": "Pod", "apiVersion": "v1", "uid": world.pod(number)["uid"]}


POD_FORMS: list[Step] = [
    lambda world, n: posted(PODS, a_pod(n)),
    lambda world, n: posted(PODS, a_pod(n, labels={"pool": f"x-{n}", "app": f"p-{n}"}, finalizers=["a/b"])),
    lambda world, n: posted(
        PODS, a_pod(n, annotations={"note": f'100% "uid":"{NOWHERE}" p-{n}', "device": "N"})
    ),
]
CLAIM_FORMS: list[Step] = [
    lambda world, n: posted(CLAIMS, a_claim(world, n)),
    lambda world, n: posted(CLAIMS, a_claim(world, n), query="fieldManager=me&dryRun=All"),
    lambda world, n: posted(CLAIMS, a_claim(world, n), query="fieldManager=me", user=b"dev"),
    lambda world, n: posted(CLAIMS, a_claim(world, n, name=f"p-{n}-gpu-named")),
    lambda world, n: posted(CLAIMS, a_claim(world, n, name="p-0-gpu-named")),
    lambda world, n: posted(CLAIMS, a_claim(world, n, labels={"pool": f"p-{n}", "device": "x"})),
    lambda world, n: posted(CLAIMS, a_claim(world, n, ownerReferences=[turned_owner(world, n)])),
    lambda world, n: posted(CLAIMS, a_claim(world, n, ownerReferences=[
        turned_owner(world, n), {**turned_owner(world, n + 1), "uid": f"{'f' if n % 2 else '0'}{NOWHERE[1:]}"}])),
    lambda world, n: posted(CLAIMS, a_claim(world, n, creationTimestamp="2026-02-30T00:00:00Z")),
    lambda world, n: posted(CLAIMS, a_claim(world, n, creationTimestamp=world.time(-5))),
    lambda world, n: posted(CLAIMS, a_claim(world, n, admin=True)),
    lambda world, n: Sent(CLAIMS, json.dumps(a_claim(world, n)).encode()),
    lambda world, n: posted(CLAIMS, {**a_claim(world, n), "spec": {"devices": {"requests": [], "device": "a"}}}),
]  # fmt: skip


def applied(claims: list[Document], n: int, **metadata: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p-{n}", "namespace": "default", **metadata},
        "status": {"resourceClaimStatuses": claims},
    }


def named(world: World, n: int) -> list[Document]:
    return [{"name": "gpu", "resourceClaimName": world.claim(n)["name"]}]


FORCED = "fieldManager=ResourceClaimController&force=true"
POD_STATUS = PODS + "/p-%d/status"
APPLIED_FORMS: list[Step] = [
    lambda world, n: patch(
        POD_STATUS % n, applied(named(world, n), n, uid=world.pod(n)["uid"]), APPLY, query=FORCED
    ),
    lambda world, n: patch(POD_STATUS % n, applied(named(world, n), n), APPLY, query="fieldManager=other"),
    lambda world, n: patch(POD_STATUS % n, applied(named(world, n), n, uid=NOWHERE), APPLY, query=FORCED),
    lambda world, n: patch(POD_STATUS % n, applied(named(world, n), n % 3), APPLY, query=FORCED),
    lambda world, n: patch(
        POD_STATUS % n,
        applied([{"name": "gpu", "resourceClaimName": "X" if n % 3 == 2 else "x"}], n),
        APPLY,
        query=FORCED,
    ),
    lambda world, n: patch(
        POD_STATUS % n, applied([{"name": "tpu", "resourceClaimName": "x"}], n), APPLY, query=FORCED
    ),
    lambda world, n: patch(
        POD_STATUS % n,
        b'{"apiVersion":v1,"kind":"Pod","status":{"nominatedNodeName":"n-%d"}}\n# "nodeName":"n-%d"'
        % (n, n % 2),
        APPLY,
        query=FORCED,
    ),
]


def nominated(n: int, node: Any, media: bytes = MERGE, **metadata: Any) -> Sent:
    return patch(POD_STATUS % n, {"metadata": metadata, "status": {"nominatedNodeName": node}}, media)


def condition(world: World, n: int, time: str) -> Document:
    return {"status": {"conditions": [
        {"type": "DisruptionTarget", "status": "True", "reason": "r", "lastTransitionTime": time}]}}  # fmt: skip


NOMINATED_FORMS: list[Step] = [
    lambda world, n: nominated(n, f"n-{n % 3}", uid=world.pod(n)["uid"]),
    lambda world, n: nominated(n, f"n-{n % 3}", STRATEGIC),
    lambda world, n: nominated(n, f"n-{n % 3}.example.com", uid=NOWHERE),
    lambda world, n: nominated(n, "n-1"),
    lambda world, n: nominated(n, "p-1", name=f"p-{n}"),
    lambda world, n: nominated(n, f"N-{n}" if n % 3 == 2 else f"n-{n}"),
    lambda world, n: nominated(n, "n" * (62 + n)),
    lambda world, n: nominated(n, None if n % 2 else ""),
    lambda world, n: nominated(n, f"n-{n}", resourceVersion=world.pod(n)["resourceVersion"]),
    lambda world, n: nominated(n, f"n-{n}", resourceVersion="1" if n % 3 else "0"),
    lambda world, n: patch(POD_STATUS % n, b'{"status":{"nominatedNodeName":"n\\u002d%d"}}' % (n % 2)),
    lambda world, n: patch(
        POD_STATUS % n,
        b'{"status":{"nominatedNodeName":"n-1","nominatedNodeName":"n-%d"}}' % n,
        query="fieldValidation=Ignore" if n % 2 else "",
    ),
    lambda world, n: patch(
        POD_STATUS % n,
        b'[{"op":"add","path":"/status/nominatedNodeName","value":"n-%d"}]' % n,
        JSON_PATCH,
    ),
    lambda world, n: patch(POD_STATUS % n, condition(world, n, world.time()), STRATEGIC),
    lambda world, n: patch(POD_STATUS % n, condition(world, n, world.time(n - 3)), MERGE),
    lambda world, n: patch(POD_STATUS % n, condition(world, n, f"2026-02-{27 + n}T00:00:00Z"), STRATEGIC),
    lambda world, n: patch(
        POD_STATUS % n,
        {"metadata": {"labels": {"node": f"n-{n % 2}"}}, "status": {"nominatedNodeName": "n-1"}},
    ),
    lambda world, n: patch(POD_STATUS % n, json.dumps(condition(world, n, world.time(n - 3))).encode()),
]


def finalizers(world: World, n: int, *finalizer: str, **metadata: Any) -> Sent:
    claim = world.claim(n)
    wanted = {"uid": claim["uid"], "resourceVersion": claim["resourceVersion"], "finalizers": [*finalizer]}
    return patch(f"{CLAIMS}/{claim['name']}", {"metadata": {**wanted, **metadata}})


PROTECTION = "resource.kubernetes.io/delete-protection"
FINALIZER_FORMS: list[Step] = [
    lambda world, n: finalizers(world, n, PROTECTION),
    lambda world, n: finalizers(world, n, PROTECTION)._replace(user=b"dev"),
    lambda world, n: finalizers(world, n, PROTECTION, uid=NOWHERE),
    lambda world, n: finalizers(world, n, PROTECTION, resourceVersion="1"),
    lambda world, n: finalizers(world, n, "nonsense" if n % 3 == 2 else PROTECTION),
    lambda world, n: finalizers(world, n),
    lambda world, n: finalizers(world, n, ownerReferences=[turned_owner(world, n)]),
    lambda world, n: finalizers(world, n, ownerReferences=[turned_owner(world, 1)]),
    lambda world, n: finalizers(
        world, n, ownerReferences=a_claim(world, n)["metadata"]["ownerReferences"][:1]
    ),
    lambda world, n: finalizers(
        world,
        n,
        ownerReferences=[
            {"apiVersion": "v1", "kind": "Pod", "name": f"p-{n}", "uid": world.pod(one)["uid"]}
            for one in (n, n - 1)
        ],
    ),
    lambda world, n: patch(
        f"{CLAIMS}/{world.claim(n)['name']}", {"metadata": {"labels": {"of": f"p-{n % 3}", "uid": "u"}}}
    ),
    lambda world, n: patch(
        f"{CLAIMS}/{world.claim(n)['name']}",
        {"metadata": {"managedFields": [{"time": world.time(-n)}] if n % 2 else []}},
    ),
]


def allocated(world: World, n: int, *, pods: tuple[int, ...] = (), time: str = "", **result: Any) -> Document:
    chosen = {
        "request": "gpu",
        "driver": "gpu.example.com",
        "pool": f"n-{n % 3}",
        "device": f"gpu-{n}",
        **result,
    }
    reserved = [
        {"resource": "pods", "name": f"p-{one}", "uid": world.pod(one)["uid"]} for one in pods or (n,)
    ]
    field = {"key": "metadata.name", "operator": "In", "values": [f"n-{n % 3}"]}
    return {
        "reservedFor": reserved,
        "allocation": {
            "devices": {"results": [chosen]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            "allocationTimestamp": time or world.time(),
        },
    }  # fmt: skip


def claim_status(world: World, n: int, status: Document, **metadata: Any) -> Sent:
    claim = world.claim(n)
    wanted = {"uid": claim["uid"], "resourceVersion": claim["resourceVersion"], **metadata}
    return patch(f"{CLAIMS}/{claim['name']}/status", {"metadata": wanted, "status": status})


def device(n: int, **more: Any) -> Document:
    return {"driver": "gpu.example.com", "pool": f"n-{n % 3}", "device": f"gpu-{n}", **more}


STATUS_FORMS: list[Step] = [
    lambda world, n: claim_status(world, n, allocated(world, n)),
    lambda world, n: claim_status(world, n, allocated(world, n))._replace(user=b"dev"),
    lambda world, n: claim_status(world, n, allocated(world, n))._replace(user=b"kubelet"),
    lambda world, n: claim_status(world, n, allocated(world, n, time=world.time(n - 3))),
    lambda world, n: claim_status(world, n, allocated(world, n, time=f"2026-02-{25 + n}T00:00:00Z")),
    lambda world, n: claim_status(world, n, allocated(world, n, device="gpu.1" if n % 3 == 2 else "gpu-1")),
    lambda world, n: claim_status(world, n, allocated(world, n, request=f"g-{n}" if n % 3 == 2 else "gpu")),
    lambda world, n: claim_status(world, n, allocated(world, n, pods=(n, n - 1))),
    lambda world, n: claim_status(world, n, allocated(world, n, pods=(n, n)[: 1 + n % 2])),
    lambda world, n: claim_status(world, n, allocated(world, n, adminAccess=True)),
    lambda world, n: claim_status(world, n, allocated(world, n, driver="a/b", pool=f"n-{n}")),
    lambda world, n: claim_status(world, n, {**allocated(world, n), "devices": [device(n)]}),
    lambda world, n: claim_status(world, n, {**allocated(world, n), "devices": [device(n % 3)]}),
    lambda world, n: claim_status(world, n, {"devices": [device(n, data={"a": n})]}),
    lambda world, n: claim_status(world, n, {"reservedFor": [], "allocation": None}),
    lambda world, n: claim_status(world, n, allocated(world, n), uid=NOWHERE),
]


def binding(world: World, n: int) -> Sent:
    metadata = {"name": f"p-{n}", "namespace": "default", "uid": world.pod(n)["uid"]}
    target = {"kind": "Node", "name": f"n-{n % 3}"}
    return posted(
        f"{PODS}/p-{n}/binding",
        {"kind": "Binding", "apiVersion": "v1", "metadata": metadata, "target": target},
    )


OTHER_FORMS: list[Step] = [
    binding,
    lambda world, n: deleted(f"{PODS}/p-{n}"),
    lambda world, n: deleted(f"{CLAIMS}/{world.claim(n)['name']}"),
]
FORMS = [POD_FORMS, CLAIM_FORMS, APPLIED_FORMS, NOMINATED_FORMS, FINALIZER_FORMS, STATUS_FORMS, OTHER_FORMS]
USUAL = [forms[0] for forms in FORMS]

NAMESPACE = "/api/v1/namespaces/default"
POLICY: Document = {
    "failurePolicy": "Fail",
    "matchConstraints": {"resourceRules": [
        {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]},
    "validations": [{"expression": "!object.metadata.name.contains('3')"}],
}  # fmt: skip
AROUND: list[Sent] = [
    posted(f"{REGISTRATION}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": POLICY}),
    posted(
        f"{REGISTRATION}/validatingadmissionpolicybindings",
        {"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}},
    ),
    deleted(f"{REGISTRATION}/validatingadmissionpolicybindings/p"),
    patch(NAMESPACE, {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}),
    patch(NAMESPACE, {"metadata": {"labels": {"resource.kubernetes.io/admin-access": None}}}),
    posted(f"{NAMESPACE}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {
        "count/resourceclaims.resource.k8s.io": "3"}}}),
    deleted(f"{NAMESPACE}/resourcequotas/q"),
]  # fmt: skip


class Planned(NamedTuple):
    """One request of a history: a step about a pod, or something around; and how long to wait before."""

    seconds: float
    step: Step | None
    number: int = 0
    around: Sent | None = None
    agent: bytes = b"controller/v1"

    def sent(self, world: World) -> Sent:
        sent = self.around if self.step is None else self.step(world, self.number)
        assert sent is not None
        return sent._replace(agent=self.agent)


async def history(
    gates: Gates, planned: list[Planned], *, remembers: bool, modes: tuple[str, ...] = ("AlwaysAllow",)
) -> tuple[list[Any], list[bytes], str]:
    """Return every answer, what is stored at the end, and what admission has counted."""
    clock = VirtualClock()
    server = await started(gates, clock, modes)
    if not remembers:
        server.verbs.repeated = None
    world = World(server, clock)
    answers = []
    for one in planned:
        await clock.advance(timedelta(seconds=one.seconds))
        answers.append(shown(await ask(server, one.sent(world))))
    stored = [item.value for kind in (POD, CLAIM) for item in server.verbs.store.range(kind.prefix).items]
    return answers, stored, await counted_by_admission(server)


@st.composite
def histories(draw: Any) -> list[Planned]:
    """One pod after the other goes through the same steps; now and then a step is another one."""
    forms = [
        draw(st.sampled_from([usual, usual, *forms])) for usual, forms in zip(USUAL[:-1], FORMS, strict=False)
    ]
    several = [draw(st.sampled_from(forms)) for forms in FORMS[2:]]
    steps = [*forms, *several[: draw(st.integers(0, len(several)))]]
    seconds = draw(st.sampled_from([0.0, 0.0, 0.1, 0.4, 1.0]))
    agent = st.sampled_from([b"controller/v1"] * 9 + [b"other"])
    planned = []
    for number in range(draw(st.integers(5, 9))):
        for place, usual in enumerate(steps):
            step = usual
            if draw(st.integers(0, 11)) == 0:
                step = draw(st.sampled_from(draw(st.sampled_from(FORMS))))
            if draw(st.integers(0, 30)) == 0:
                planned.append(Planned(seconds, None, around=draw(st.sampled_from(AROUND))))
            again = draw(st.integers(0, 15)) == 0
            for _ in range(1 + again):
                planned.append(Planned(seconds, step, number, agent=draw(agent) if place else b"bench"))
    return planned


@settings(max_examples=tries(60, 400), deadline=None, suppress_health_check=list(HealthCheck))
@given(histories(), st.sampled_from([ALL_FEATURES, KUBERNETES_DEFAULTS]))
def test_what_is_known_again_changes_no_answer(planned: list[Planned], gates: Gates) -> None:
    found = partial(history, gates, planned)
    assert asyncio.run(found(remembers=True)) == asyncio.run(found(remembers=False))


def of_each_pod(steps: list[Step], *around: Sent, count: int = 10, seconds: float = 0.0) -> list[Planned]:
    """Return the same steps for one pod after the other, with other requests in their middle."""
    planned = [Planned(seconds, step, number) for number in range(count) for step in steps]
    middle = len(planned) // 2
    return [*planned[:middle], *(Planned(seconds, None, around=one) for one in around), *planned[middle:]]


EVERY_FORM = [(kind, form) for kind, forms in enumerate(FORMS) for form in range(len(forms))]


@pytest.mark.parametrize("seconds", [0.0, 0.3])
@pytest.mark.parametrize(("kind", "form"), EVERY_FORM)
def test_every_form_is_as_if_it_came_first(kind: int, form: int, seconds: float) -> None:
    for steps in ([*USUAL[:kind], FORMS[kind][form]], [*USUAL[:kind], FORMS[kind][form], *USUAL[kind + 1 :]]):
        found = partial(history, ALL_FEATURES, of_each_pod(steps, seconds=seconds))
        assert asyncio.run(found(remembers=True)) == asyncio.run(found(remembers=False))


def turned_selector(world: World, n: int) -> Sent:
    """The allocation once more, its node in another order of fields, and always the same one."""
    status = allocated(world, n, time=world.time())
    field = {"values": ["n-1"], "operator": "In", "key": "metadata.name"}
    status["allocation"]["nodeSelector"]["nodeSelectorTerms"] = [{"matchFields": [field]}]
    return claim_status(world, n, {**status, "reservedFor": []})


def turned_name(world: World, n: int) -> Sent:
    """An owner whose name is in another place than in what is stored, and always the same one."""
    owner = {"name": "p-1", "apiVersion": "v1", "kind": "Pod", "uid": world.pod(n)["uid"]}
    return finalizers(world, n, PROTECTION, ownerReferences=[owner])


def expected_name(world: World, n: int) -> Sent:
    """An owner as usual, the same one from some pod on."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": f"p-{1 if n > 6 else n}", "uid": world.pod(1)["uid"]}
    return finalizers(world, n, PROTECTION, ownerReferences=[owner])


def managed(world: World, n: int) -> Sent:
    """A client says who owns a field since when: before the next write, or from some pod on after it."""
    entry = {
        "manager": "me",
        "operation": "Update",
        "apiVersion": "resource.k8s.io/v1",
        "time": world.time(5 if n > 6 else -5),
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:devices": {"f:requests": {}}}},
    }
    return finalizers(world, n, managedFields=[entry])


#: Words that meet what is not cut: in another order of fields, behind an escape, as a name that was sent; and times
#: that are not what they were to each other.
MEETINGS: list[list[Step]] = [
    [*USUAL[:6], turned_selector],
    [*USUAL[:2], turned_name],
    [
        POD_FORMS[0],
        lambda world, n: posted(CLAIMS, a_claim(world, n, ownerReferences=[turned_owner(world, 1)])),
        expected_name,
    ],
    [
        POD_FORMS[0],
        NOMINATED_FORMS[0],
        lambda world, n: patch(POD_STATUS % n, b'{"status":{"nominatedNodeName":"n\\u002d1","message":"m"}}'),
    ],
    [POD_FORMS[0], CLAIM_FORMS[4], lambda world, n: deleted(f"{CLAIMS}/p-0-gpu-named")],
    [*USUAL[:5], lambda world, n: deleted(f"{CLAIMS}/{world.claim(n)['name']}"), FINALIZER_FORMS[5]],
    [*USUAL[:2], managed, USUAL[4]],
]


@pytest.mark.parametrize("seconds", [0.0, 0.3])
@pytest.mark.parametrize("steps", MEETINGS)
def test_a_word_is_compared_with_what_is_not_cut(steps: list[Step], seconds: float) -> None:
    found = partial(history, ALL_FEATURES, of_each_pod(steps, count=12, seconds=seconds))
    assert asyncio.run(found(remembers=True)) == asyncio.run(found(remembers=False))


@pytest.mark.parametrize("around", range(len(AROUND)))
def test_what_changes_around_a_write_is_seen_by_the_next(around: int) -> None:
    steps = [*USUAL[:5], STATUS_FORMS[9]]
    planned = of_each_pod(steps, *AROUND[: around + 1], count=12)
    found = partial(history, ALL_FEATURES, planned)
    remembered = asyncio.run(found(remembers=True))
    assert remembered == asyncio.run(found(remembers=False))
    first = next(place for place, one in enumerate(planned) if one.step is None)
    assert all(code < 300 for code, _, _ in remembered[0][first : first + around + 1]), "a change was refused"


# ------------------------------------------------------------------------------- which are known, which are not


@contextmanager
def counting() -> Iterator[list[str]]:
    """Collect the kinds and subresources of the writes that were known again."""
    known: list[str] = []
    plain = RepeatedWrites.made

    def made(self: RepeatedWrites, like: Like, *drawn: str) -> bytes:
        kind, subresource, *_ = like.key[0]
        known.append(
            f"{'POST' if like.found is None else 'PATCH'} {kind.plural}{subresource and '/' + subresource}"
        )
        return plain(self, like, *drawn)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(RepeatedWrites, "made", made)
        yield known


def known_again(planned: list[Planned], modes: tuple[str, ...] = ("AlwaysAllow",)) -> list[str]:
    with counting() as known:
        asyncio.run(history(ALL_FEATURES, planned, remembers=True, modes=modes))
    return known


def test_the_fourth_of_a_kind_is_known() -> None:
    each = [
        "POST resourceclaims",
        "PATCH pods/status",
        "PATCH pods/status",
        "PATCH resourceclaims",
        "PATCH resourceclaims/status",
    ]
    assert known_again(of_each_pod(USUAL)) == each * 7


def test_a_crowd_at_once_is_enough_to_know_the_next() -> None:
    """More writes on their way than there are tries to learn: all of them were looked at before one was made."""

    async def run() -> list[int]:
        clock = VirtualClock()
        server = await started(ALL_FEATURES, clock)
        world, plain, together = World(server, clock), Verbs.store_change, asyncio.Barrier(70)
        for number in range(80):
            assert (await ask(server, POD_FORMS[0](world, number))).code == 201

        async def slow(self: Verbs, *arguments: Any, **named: Any) -> Any:
            await together.wait()
            return await plain(self, *arguments, **named)

        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(Verbs, "store_change", slow)
            asked = [ask(server, NOMINATED_FORMS[0](world, number)) for number in range(70)]
            codes = [answer.code for answer in await asyncio.gather(*asked)]
        for number in range(70, 80):
            codes.append((await ask(server, NOMINATED_FORMS[0](world, number))).code)
        return codes

    with counting() as known:
        assert set(asyncio.run(run())) == {200}
    assert known == ["PATCH pods/status"] * 10


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (1, 1),
        (1, 3),
        (1, 7),
        (1, 12),
        (2, 6),
        (3, 7),
        (3, 10),
        (4, 5),
        (4, 9),
        (5, 7),
        (5, 11),
    ],
)
def test_writes_that_need_a_look_each_get_one(kind: int, form: int) -> None:
    before = known_again(of_each_pod(USUAL[:kind]))
    assert known_again(of_each_pod([*USUAL[:kind], FORMS[kind][form]])) == before


def test_what_differs_in_more_than_words_is_soon_left_alone() -> None:
    """Learning costs as much as a write: a body about pods that are all different is not learnt for ever."""

    async def run() -> list[int]:
        clock = VirtualClock()
        server = await started(ALL_FEATURES, clock)
        world, learnt = World(server, clock), []
        plain = RepeatedWrites.learn

        def learn(self: RepeatedWrites, *arguments: Any) -> None:
            learnt.append(number)
            plain(self, *arguments)

        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(RepeatedWrites, "learn", learn)
            for number in range(50):
                made = posted(PODS, a_pod(number, labels={"number": str(number)}))
                assert (await ask(server, made)).code == 201
                assert (await ask(server, NOMINATED_FORMS[0](world, number))).code == 200
        return learnt

    assert asyncio.run(run()) == [*range(1, 33)]


def test_a_policy_and_a_quota_have_every_write_looked_at() -> None:
    bound = of_each_pod(USUAL[:2], *AROUND[:2])
    charged = of_each_pod(USUAL[:2], AROUND[5])
    assert len(known_again(bound)) == len(known_again(charged)) == 2


def everything(resources: list[str]) -> list[Document]:
    return [{"apiGroups": ["*"], "resources": resources, "verbs": ["*"]}]


def bound_to(kind: str, name: str, role: str) -> Sent:
    group = "rbac.authorization.k8s.io"
    return posted(
        f"{RBAC}/clusterrolebindings",
        {
            "metadata": {"name": role},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": group, "kind": kind, "name": name}],
        },
    )


RIGHTS = [
    posted(f"{RBAC}/clusterroles", {"metadata": {"name": "all"}, "rules": everything(["*"])}),
    posted(
        f"{RBAC}/clusterroles", {"metadata": {"name": "some"}, "rules": everything(["resourceclaims/status"])}
    ),
    bound_to("User", "dev", "some"),
    bound_to("Group", "b", "all"),
]


def by(user: bytes, step: Step) -> Step:
    return lambda world, n: step(world, n)._replace(user=user)


def codes_of_status(planned: list[Planned]) -> list[int]:
    """Return how the writes of a claim's status were answered, where rights are asked for."""
    planned = [*(Planned(0, None, around=one) for one in RIGHTS), *planned]
    with counting() as known:
        answers, _, _ = asyncio.run(history(ALL_FEATURES, planned, remembers=True, modes=("RBAC",)))
    assert known.count("PATCH resourceclaims/status") == 2
    assert {code for code, _, _ in answers[: len(RIGHTS)]} == {201}
    return [answer[0] for answer, one in zip(answers, planned, strict=True) if one.step not in (None, *USUAL)]


def test_rights_that_go_are_missed() -> None:
    """Rights on parts of a claim's status are looked at while the object is known."""
    less = patch(f"{RBAC}/clusterroles/all", {"rules": everything(["resourceclaims/status"])})
    steps = [*USUAL[:5], by(b"dev more", STATUS_FORMS[0])]
    assert codes_of_status(of_each_pod(steps, less)) == [200] * 5 + [422] * 5


def test_rights_of_another_of_the_same_name_are_others() -> None:
    first, second = (of_each_pod([*USUAL[:5], by(user, STATUS_FORMS[0])]) for user in (b"dev more", b"dev"))
    assert codes_of_status([*first[:30], *second[30:]]) == [200] * 5 + [422] * 5


@pytest.mark.parametrize(
    "steps", [USUAL[:2], [*USUAL[:3]], [*USUAL[:4]], [*USUAL[:5]], [*USUAL[:5], STATUS_FORMS[0]]]
)
def test_admission_reads_nothing_but_what_it_says_it_follows(steps: list[Step]) -> None:
    """The last step is made by somebody whose rights are looked up."""

    async def run() -> tuple[set[Kind], list[frozenset[Kind] | None]]:
        clock = VirtualClock()
        server = await started(ALL_FEATURES, clock, ("RBAC",))
        world = World(server, clock)
        for one in RIGHTS:
            assert (await ask(server, one)).code == 201
        for number in range(3):
            for step in steps[:-1]:
                assert (await ask(server, step(world, number))).code < 300
        with read_by_admission() as (read, followed):
            for number in range(3):
                assert (await ask(server, by(b"dev more", steps[-1])(world, number))).code < 300
        return read, followed

    read, followed = asyncio.run(run())
    said = followed[-1]
    assert said is not None and read <= said and len(read) > 3


def test_a_write_between_look_and_commit_is_not_lost() -> None:
    """A pod is labelled while a known patch is on its way to the store: it is made again, of the newer pod."""

    async def run() -> tuple[int, Document]:
        clock = VirtualClock()
        server = await started(ALL_FEATURES, clock)
        world = World(server, clock)
        for one in of_each_pod([POD_FORMS[0], NOMINATED_FORMS[0]], count=6):
            assert (await ask(server, one.sent(world))).code < 300
        assert (await ask(server, POD_FORMS[0](world, 7))).code == 201
        plain = Verbs.store_change

        async def slow(self: Verbs, *arguments: Any, **named: Any) -> Any:
            monkeypatch.setattr(Verbs, "store_change", plain)
            labelled = patch(f"{PODS}/p-7", {"metadata": {"labels": {"a": "b"}}})
            assert (await ask(server, labelled)).code == 200
            return await plain(self, *arguments, **named)

        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(Verbs, "store_change", slow)
            answer = await ask(server, NOMINATED_FORMS[0](world, 7))
        return answer.code, json.loads(answer.body)

    code, pod = asyncio.run(run())
    assert code == 200
    assert (pod["metadata"]["labels"], pod["status"]["nominatedNodeName"]) == ({"a": "b"}, "n-1")


def test_what_is_known_is_bounded_whatever_is_long_about_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.apiserver.registry.memory.MOST_BYTES", 60_000)

    async def run() -> RepeatedWrites:
        clock = VirtualClock()
        server = await started(ALL_FEATURES, clock)
        world = World(server, clock)
        for number in range(80):
            assert (await ask(server, POD_FORMS[0](world, number))).code == 201
            agent = b"%04d" % (number // 3) + b"x" * 4000
            assert (await ask(server, NOMINATED_FORMS[0](world, number)._replace(agent=agent))).code == 200
        assert server.verbs.repeated is not None
        return server.verbs.repeated

    found = asyncio.run(run())
    assert 0 < sum(len(key[5]) for key in found._tries.known) < 60_000
    assert 0 < sum(len(key[0][5]) + len(key[1]) for key in found._writes.known) < 60_000
