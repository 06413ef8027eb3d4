"""dra.md 6: which claims are made for pods, and which are let go."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from weir.controllers.devices.resource_claim import (
    TEMPLATES,
    ClaimKey,
    PodKey,
    ResourceClaims,
    TemplateKey,
)
from weir.controllers.devices.resource_claim_steps import ReleaseClaim
from weir.controllers.runtime.controller import Delete, Patch, Record, Retry, WakeAt
from weir.controllers.runtime.listers import Listers
from weir.errors import Invalid
from weir.gates import ALL_FEATURES, Gates
from weir.objects.kinds import PODS
from weir.objects.kinds import RESOURCE_CLAIMS as CLAIMS
from weir.simulation.cluster import Cluster

pytestmark = pytest.mark.proves("5055-29")

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FINALIZER = "resource.kubernetes.io/delete-protection"
REQUESTS = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
ALLOCATION = {
    "devices": {"results": [{"request": "r", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}]}
}


def template(name="t", spec=None, metadata=None):
    document = {"metadata": metadata} if metadata else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**document, "spec": spec or REQUESTS},
    }


def pod(
    name="p", *, template="t", claim="", node="", phase="Pending", statuses=(), deleting=False, uid="u-p"
):
    wants = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template}
    metadata = {"name": name, "namespace": "default", "uid": uid}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = {"phase": phase}
    if statuses:
        status["resourceClaimStatuses"] = [
            {"name": key, **({"resourceClaimName": value} if value else {})} for key, value in statuses
        ]
    containers = [{"name": "c", "image": "i"}]
    spec = {"containers": containers, "resourceClaims": [{"name": "gpu", **wants}], "nodeName": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def claim(
    name="c",
    *,
    owner="",
    reserved=(),
    allocated=False,
    finalizer=False,
    deleting=False,
    pod_claim="",
    version="7",
):
    metadata = {"name": name, "namespace": "default", "uid": f"u-{name}", "resourceVersion": version}
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": True}
        ]
    if pod_claim:
        metadata["annotations"] = {"resource.kubernetes.io/pod-claim-name": pod_claim}
    if finalizer:
        metadata["finalizers"] = [FINALIZER]
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = {}
    if allocated:
        status["allocation"] = ALLOCATION
    if reserved:
        status["reservedFor"] = list(reserved)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": REQUESTS,
        "status": status,
    }


def consumer(name="p", uid="u-p", resource="pods", **more):
    return {"resource": resource, "name": name, "uid": uid, **more}


def decide(key, *documents, gates=ALL_FEATURES, gone=()):
    controller = ResourceClaims(gates)
    listers = Listers.of([], (CLAIMS, TEMPLATES))
    for kind in (CLAIMS, TEMPLATES, PODS):
        listers.caches[kind].listen(lambda old, new, kind=kind: list(controller.changed(kind, old, new)))
    for document in (*documents, *gone):
        listers.put(document)
    for document in gone:
        listers.drop(document)
    return list(controller.reconcile(key, listers, NOW))


POD, CLAIM = PodKey("default", "p"), ClaimKey("default", "c")

# ── making claims ────────────────────────────────────────────────────────────────────────────────


def test_a_pod_that_names_a_template_gets_a_claim_of_its_own():
    (made,) = decide(POD, pod(), template(metadata={"labels": {"a": "b"}, "annotations": {"x": "y"}}))
    assert made.wanted[0].document == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": "p-gpu-",
            "namespace": "default",
            "labels": {"a": "b"},
            "annotations": {"x": "y", "resource.kubernetes.io/pod-claim-name": "gpu"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-p", "controller": True}
            ],
        },
        "spec": REQUESTS,
    }


def test_a_missing_template_is_told_and_tried_again():
    told, again = decide(POD, pod())
    assert isinstance(again, Retry) and (told.reason, told.message) == (
        "FailedResourceClaimCreation",
        'PodResourceClaim gpu: resource claim template "t": '
        'resourceclaimtemplate.resource.k8s.io "t" not found',
    )


def test_a_template_that_comes_late_wakes_the_pods_that_waited():
    assert decide(TemplateKey("default", "t"), pod(), template()) == [WakeAt(POD, NOW)]


def test_a_claim_made_before_is_taken_instead_of_a_second_one():
    (made,) = decide(POD, pod(), template(), claim("p-gpu-x", owner="u-p", pod_claim="gpu"))
    assert (made.wanted, dict(made.names)) == ((), {"gpu": "p-gpu-x"})


def test_a_claim_of_another_pod_of_the_same_name_is_not_taken():
    (made,) = decide(POD, pod(), template(), claim("p-gpu-x", owner="u-other", pod_claim="gpu"))
    assert len(made.wanted) == 1


def test_a_recorded_claim_that_vanished_is_asked_for_and_made_anew():
    (made,) = decide(POD, pod(statuses=[("gpu", "p-gpu-x")]), template())
    assert made.wanted[0].recorded == "p-gpu-x"


def test_a_deleted_claim_wakes_the_pod_it_was_made_for():
    assert decide(CLAIM, pod(statuses=[("gpu", "c")]), template()) == [WakeAt(POD, NOW)]


@pytest.mark.parametrize("key", [POD, CLAIM], ids=["pod", "claim"])
def test_a_claim_that_its_pod_no_longer_owns_is_not_replaced_by_itself(key):
    assert decide(key, pod(statuses=[("gpu", "c")]), template(), claim(pod_claim="gpu")) == []


def test_a_claim_that_its_pod_no_longer_owns_is_replaced_along_with_one_that_is_missing():
    two = pod(statuses=[("gpu", "c")])
    two["spec"]["resourceClaims"].append({**two["spec"]["resourceClaims"][0], "name": "more"})
    (made,) = decide(POD, two, template(), claim(pod_claim="gpu"))
    assert [each.pod_claim for each in made.wanted] == ["gpu", "more"]


@pytest.mark.parametrize(
    "documents",
    [
        [pod(statuses=[("gpu", "c")]), claim(owner="u-p", pod_claim="gpu")],
        [pod(statuses=[("gpu", None)])],
        [pod(claim="c")],
        [pod(deleting=True)],
        [pod(phase="Succeeded")],
        [],
    ],
    ids=["made", "not needed", "the user's own", "being deleted", "ended", "gone"],
)
def test_nothing_is_made_for_a_pod_that_needs_nothing(documents):
    assert decide(POD, template(), *documents) == []


@pytest.mark.parametrize(
    "gate, request_, problem",
    [
        (
            "DRAAdminAccess",
            {"name": "r", "exactly": {"deviceClassName": "x", "adminAccess": True}},
            "admin access is requested, but the feature is disabled",
        ),
        (
            "DRAPrioritizedList",
            {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "x"}]},
            "template includes a prioritized list of subrequests, but the feature is disabled",
        ),
    ],
)
def test_a_template_that_needs_a_feature_that_is_off_is_refused(gate, request_, problem):
    asked = template(spec={"devices": {"requests": [request_]}})
    told = decide(POD, pod(), asked, gates=Gates({gate: False}))[0]
    assert told.message == f"PodResourceClaim gpu: {problem}"


def test_without_dynamic_resource_allocation_nothing_is_read():
    assert ResourceClaims(Gates({"DynamicResourceAllocation": False, "AllBeta": False})).kinds == ()


# ── reserving for pods that were placed by hand ──────────────────────────────────────────────────


def test_a_pod_placed_by_hand_gets_its_reservation():
    (patch,) = decide(POD, pod(claim="c", node="n"), claim(allocated=True, finalizer=True))
    assert isinstance(patch, Patch) and patch.patch == {
        "metadata": {"resourceVersion": "7"},
        "status": {"reservedFor": [consumer()]},
    }


def test_an_allocation_wakes_the_pod_that_was_placed_by_hand():
    assert WakeAt(POD, NOW) in decide(CLAIM, pod(claim="c", node="n"), claim(allocated=True, finalizer=True))


@pytest.mark.parametrize(
    "node, found",
    [
        ("", claim(allocated=True)),
        ("n", claim()),
        ("n", claim(allocated=True, reserved=[consumer()])),
        ("n", claim(allocated=True, deleting=True)),
    ],
    ids=["not placed", "not allocated", "reserved already", "being deleted"],
)
def test_other_pods_get_none(node, found):
    assert decide(POD, pod(claim="c", node=node), found) == []


# ── letting go ───────────────────────────────────────────────────────────────────────────────────


def released(*documents, **more):
    return [a for a in decide(CLAIM, *documents, **more) if isinstance(a, ReleaseClaim)]


@pytest.mark.parametrize(
    "user, leaves",
    [
        (pod(claim="c", node="n", phase="Running"), False),
        (pod(claim="c", node="n", phase="Running", deleting=True), False),
        (pod(claim="c", node="n", phase="Succeeded"), True),
        (pod(claim="c", node="n", phase="Failed"), True),
        (pod(claim="c", deleting=True), True),
        (pod(claim="c", uid="u-another"), True),
    ],
    ids=[
        "runs",
        "is being deleted but runs",
        "succeeded",
        "failed",
        "deleted before it had a node",
        "replaced",
    ],
)
def test_a_reservation_lasts_as_long_as_its_pod_may_run(user, leaves):
    found = claim(allocated=True, finalizer=True, reserved=[consumer()])
    assert bool(released(user, found)) == leaves


def test_a_pod_that_was_seen_to_go_needs_no_question():
    (action,) = released(claim(allocated=True, finalizer=True, reserved=[consumer()]), gone=[pod(claim="c")])
    assert (action.kept, action.doubted) == ((), ())


def test_a_pod_nobody_here_knows_is_asked_for_first():
    (action,) = released(claim(allocated=True, finalizer=True, reserved=[consumer()]))
    assert action.doubted == (consumer(),)


def test_consumers_of_other_kinds_are_kept():
    others = consumer("w", "u-w", "workloads", apiGroup="example.com")
    (action,) = released(claim(reserved=[consumer(), others]), pod(phase="Failed", claim="c"))
    assert action.kept == (others,)


def test_a_claim_that_was_never_reserved_stays_allocated():
    assert released(claim(allocated=True, finalizer=True)) == []


def test_a_deleted_claim_that_nobody_uses_is_let_go():
    assert released(claim(allocated=True, finalizer=True, deleting=True)) != []


@pytest.mark.parametrize(
    "user, deleted",
    [
        (pod(phase="Succeeded", node="n"), True),
        (pod(uid="u-another"), True),
        (pod(phase="Running", node="n", statuses=[("gpu", "c")]), False),
    ],
)
def test_a_generated_claim_goes_when_its_pod_is_done(user, deleted):
    actions = decide(CLAIM, user, claim(owner="u-p", pod_claim="gpu"))
    assert any(isinstance(a, Delete) for a in actions) == deleted


def test_the_claim_of_a_pod_that_ended_is_looked_at():
    controller, listers = (
        ResourceClaims(ALL_FEATURES),
        Listers.of([pod(claim="c", phase="Running"), pod("q", claim="d")]),
    )
    old = listers.pod("default", "p")
    listers.put(pod(claim="c", phase="Failed"))
    assert list(controller.changed(PODS, old, listers.pod("default", "p"))) == [CLAIM]


def test_the_extended_resource_claim_of_a_pod_that_is_gone_is_looked_at():
    document = pod()
    document["spec"]["resourceClaims"] = []
    document["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "c", "requestMappings": []}
    found = Listers.of([document]).pod("default", "p")
    assert list(ResourceClaims(ALL_FEATURES).changed(PODS, found, None)) == [CLAIM]


def test_a_pod_a_claim_and_a_template_of_one_name_are_three_things_to_look_at():
    assert len({PodKey("d", "x"), ClaimKey("d", "x"), TemplateKey("d", "x")}) == 3


def test_pods_without_claims_cost_nothing():
    document = pod()
    document["spec"]["resourceClaims"] = []
    found = Listers.of([document]).pod("default", "p")
    assert list(ResourceClaims(ALL_FEATURES).changed(PODS, None, found)) == []


@pytest.mark.parametrize(
    "old, new, looked_at",
    [
        (claim(), claim(finalizer=True), False),
        (claim(finalizer=True), claim(finalizer=True, allocated=True, reserved=[consumer()]), True),
        (claim(allocated=True), claim(allocated=True, deleting=True), True),
        (claim(deleting=True), claim(deleting=True, finalizer=True), True),
        (claim(owner="u-p"), claim(owner="u-q"), True),
        (claim(version="1"), claim(version="2"), False),
    ],
    ids=["finalizer", "allocated", "deleted", "while it goes", "owner", "nothing of ours"],
)
def test_a_claim_is_looked_at_when_its_users_or_its_end_change(old, new, looked_at):
    assert bool(list(ResourceClaims(ALL_FEATURES).changed(CLAIMS, old, new))) == looked_at


def test_a_claim_that_was_deleted_before_its_pod_was_known_to_have_it_is_made_anew():
    """The claim's end is heard first, then that the pod was told its name: the pod must be looked at then."""
    before, after = (
        Listers.of([document]).pod("default", "p") for document in (pod(), pod(statuses=[("gpu", "c")]))
    )
    assert list(ResourceClaims(ALL_FEATURES).changed(PODS, before, after)) == [POD]


def test_claims_are_counted_by_what_they_are():
    controller = ResourceClaims(ALL_FEATURES)
    list(controller.changed(CLAIMS, None, claim(pod_claim="gpu")))
    list(controller.changed(CLAIMS, claim(pod_claim="gpu"), claim(pod_claim="gpu", allocated=True)))
    assert +controller.counts == {("true", "false", "resource_claim_template"): 1}


# ── in a cluster ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def cluster():
    with Cluster(controllers=["resourceclaim", "garbage-collector"]) as found:
        yield found


def allocate(cluster, name, *pods):
    """Do what the scheduler does to a claim."""
    cluster.patch("ResourceClaim", name, {"metadata": {"finalizers": [FINALIZER]}})
    reserved = [consumer(each["metadata"]["name"], each["metadata"]["uid"]) for each in pods]
    write_status(cluster, "ResourceClaim", name, {"allocation": ALLOCATION, "reservedFor": reserved})


def write_status(cluster, kind, name, status):
    from weir.simulation.named_kinds import kind_called

    row = kind_called(kind)
    cluster._do(cluster.client.patch(row, name, {"status": status}, "default", subresource="status"))


def plain(document):
    document = {**document, "spec": {key: value for key, value in document["spec"].items() if value}}
    document["metadata"] = {k: v for k, v in document["metadata"].items() if k != "uid"}
    return {k: v for k, v in document.items() if k != "status"}


def test_the_pod_learns_the_name_of_its_claim(cluster):
    cluster.create(template())
    cluster.create(plain(pod()))
    (made,) = cluster.list("ResourceClaim")
    statuses = cluster.get("Pod", "p")["status"]["resourceClaimStatuses"]
    assert statuses == [{"name": "gpu", "resourceClaimName": made["metadata"]["name"]}]


def test_the_names_are_owned_by_the_claim_controller(cluster):
    cluster.create(template())
    cluster.create(plain(pod()))
    fields = cluster.get("Pod", "p")["metadata"]["managedFields"]
    assert [
        (f["operation"], f["subresource"]) for f in fields if f["manager"] == "ResourceClaimController"
    ] == [("Apply", "status")]


def test_a_claim_deleted_by_accident_is_made_anew(cluster):
    cluster.create(template())
    cluster.create(plain(pod()))
    (before,) = cluster.list("ResourceClaim")
    cluster.delete("ResourceClaim", before["metadata"]["name"])
    cluster.advance(1)
    (after,) = cluster.list("ResourceClaim")
    (status,) = cluster.get("Pod", "p")["status"]["resourceClaimStatuses"]
    assert status["resourceClaimName"] == after["metadata"]["name"] != before["metadata"]["name"]


def test_a_full_release_leaves_no_trace(cluster):
    cluster.create(
        {key: value for key, value in claim().items() if key != "status"} | {"metadata": {"name": "c"}}
    )
    user = cluster.create(plain(pod(claim="c")))
    allocate(cluster, "c", user)
    cluster.delete("Pod", "p")
    cluster.advance(1)
    found = cluster.get("ResourceClaim", "c")
    assert (found["status"], found["metadata"].get("finalizers")) == ({}, None)


def test_without_the_finalizer_only_the_reservation_goes(cluster):
    cluster.create(
        {key: value for key, value in claim().items() if key != "status"} | {"metadata": {"name": "c"}}
    )
    user = cluster.create(plain(pod(claim="c")))
    allocate(cluster, "c", user)
    cluster.patch("ResourceClaim", "c", {"metadata": {"finalizers": None}})
    cluster.delete("Pod", "p")
    cluster.advance(1)
    assert cluster.get("ResourceClaim", "c")["status"] == {"allocation": ALLOCATION}


def test_the_other_consumer_of_a_shared_claim_keeps_it(cluster):
    cluster.create(
        {key: value for key, value in claim().items() if key != "status"} | {"metadata": {"name": "c"}}
    )
    users = [cluster.create(plain(pod(name, claim="c"))) for name in ("p", "q")]
    allocate(cluster, "c", *users)
    cluster.delete("Pod", "p")
    cluster.advance(1)
    status = cluster.get("ResourceClaim", "c")["status"]
    assert [each["name"] for each in status["reservedFor"]] == ["q"] and "allocation" in status


def test_a_reservation_for_a_pod_that_never_was_is_taken_back(cluster):
    cluster.create(
        {key: value for key, value in claim().items() if key != "status"} | {"metadata": {"name": "c"}}
    )
    allocate(cluster, "c", {"metadata": {"name": "ghost", "uid": "u-ghost"}})
    cluster.advance(1)
    assert cluster.get("ResourceClaim", "c")["status"] == {}


def test_a_generated_claim_disappears_with_its_pod(cluster):
    cluster.create(template())
    user = cluster.create(plain(pod()))
    (made,) = cluster.list("ResourceClaim")
    allocate(cluster, made["metadata"]["name"], user)
    cluster.delete("Pod", "p")
    cluster.advance(10)
    assert cluster.list("ResourceClaim") == []


def test_what_the_server_refuses_is_told_on_the_pod(cluster):
    wrong = template(
        spec={
            "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "x", "adminAccess": True}}]}
        }
    )
    with pytest.raises(Invalid):  # the namespace lacks the label, for the template and for a claim
        cluster.create(wrong)
    cluster.patch(
        "Namespace", "default", {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    )
    cluster.create(wrong)
    cluster.patch(
        "Namespace", "default", {"metadata": {"labels": {"resource.kubernetes.io/admin-access": None}}}
    )
    cluster.create(plain(pod()))
    cluster.advance(1)
    (told,) = cluster.events("FailedResourceClaimCreation")
    assert told["message"].startswith(
        "PodResourceClaim gpu: create ResourceClaim : ResourceClaim.resource.k8s.io"
    )


def test_made_claims_are_counted(cluster):
    cluster.create(template())
    cluster.create(plain(pod()))
    text = cluster.plane.controllers.metrics.registry.render().decode()
    labels = 'status="success",admin_access="false",owner_api_group="",owner_api_kind="Pod"'
    made = f"resourceclaim_creates_total{{{labels}}} 1"
    there = 'resource_claims{allocated="false",admin_access="false",source="resource_claim_template"} 1'
    assert made in text and there in text


def test_many_pods_at_once_have_one_claim_each(cluster):
    cluster.create(template())
    for number in range(200):
        cluster._wait(cluster.client.create(PODS, plain(pod(f"p-{number}")), "default"))
    cluster.advance(1)
    names = {
        s["resourceClaimName"] for p in cluster.list("Pod") for s in p["status"]["resourceClaimStatuses"]
    }
    assert len(names) == len(cluster.list("ResourceClaim")) == 200


def test_a_pod_that_waits_for_its_template_gets_an_event_and_nothing_else():
    assert {type(a) for a in decide(POD, pod())} == {Record, Retry}
