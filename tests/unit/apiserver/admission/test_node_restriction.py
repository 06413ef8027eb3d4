"""Claims about weir.apiserver.admission.node_restriction: a kubelet stays at home."""

import copy

import pytest

from tests.unit.apiserver.admission_world import JANE, Objects, create, pod, stored, update, write
from weir.apiserver.admission.attributes import Attributes
from weir.apiserver.admission.node_restriction import NodeRestriction
from weir.apiserver.auth.authn import User, proven
from weir.errors import Forbidden, NotFound
from weir.objects.kinds import by_kind

KUBELET = proven("system:node:n1", ["system:nodes"])
NODE = stored(
    "v1", "Node", "n1", metadata={"uid": "node-uid"}, spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}
)
MINE = {
    **pod(nodeName="n1"),
    "metadata": {"name": "mine", "namespace": "ns", "uid": "u1", "labels": {"a": "b"}},
}
THEIRS = {**pod(nodeName="n2"), "metadata": {"name": "theirs", "namespace": "ns", "uid": "u2"}}
WORLD = Objects(NODE, MINE, THEIRS)


def refusal(a):
    """Return the text of the refusal, None when the write passes."""
    try:
        NodeRestriction(WORLD).admit(a)
    except Forbidden as refused:
        return refused.message.split(" is forbidden: ", 1)[1]
    return None


def changed(document, **edits):
    """Return a copy of *document* with nested members replaced: changed(d, metadata={"labels": {}})."""
    new = copy.deepcopy(document)
    for part, members in edits.items():
        new.setdefault(part, {}).update(members)
    return new


def by_kubelet(new, old, **rest):
    return update(new, old, user=KUBELET, **rest)


def test_others_are_not_restricted():
    assert refusal(update(changed(NODE, spec={"taints": []}), NODE, user=JANE)) is None


def test_a_kubelet_that_does_not_say_whose_is_refused():
    odd = User("odd", groups=("system:nodes",))
    assert refusal(update(NODE, NODE, user=odd)) == 'could not determine node from user "odd"'


# --- its node ---


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        ({"spec": {"taints": []}}, 'node "n1" is not allowed to modify taints'),
        ({"metadata": {"labels": {"example.com/x": "y"}}}, None),
        ({"metadata": {"labels": {"kubernetes.io/os": "linux", "node.kubernetes.io/pool": "x"}}}, None),
        (
            {"metadata": {"labels": {"node-restriction.kubernetes.io/pci": "yes"}}},
            "is not allowed to modify labels: node-restriction.kubernetes.io/pci",
        ),
        (
            {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": "", "foo.k8s.io/a": "b"}}},
            "is not allowed to modify labels: foo.k8s.io/a, node-role.kubernetes.io/control-plane",
        ),
        (
            {"metadata": {"ownerReferences": [{"name": "x"}]}},
            'node "n1" is not allowed to modify ownerReferences',
        ),
        ({"spec": {"podCIDR": "10.0.0.0/24"}}, None),
    ],
)
def test_what_a_kubelet_may_change_on_its_node(edit, text):
    assert refusal(by_kubelet(changed(NODE, **edit), NODE)) == text


def test_removing_a_restricted_label_is_a_change_too():
    old = changed(NODE, metadata={"labels": {"node-restriction.kubernetes.io/pci": "yes"}})
    assert "is not allowed to modify labels" in refusal(by_kubelet(NODE, old))


def test_another_node_is_out_of_reach():
    other = stored("v1", "Node", "n2")
    assert refusal(by_kubelet(other, other)) == 'node "n1" is not allowed to modify node "n2"'


def test_a_kubelet_registers_its_node_with_taints_but_without_restricted_labels():
    assert refusal(create(NODE, user=KUBELET)) is None
    labelled = changed(NODE, metadata={"labels": {"node-restriction.kubernetes.io/a": "b"}})
    assert refusal(create(labelled, user=KUBELET)) == (
        'node "n1" is not allowed to set the following labels: node-restriction.kubernetes.io/a'
    )


# --- its pods ---


@pytest.mark.parametrize(
    ("document", "edit", "text"),
    [
        (MINE, {"status": {"phase": "Running"}}, None),
        (
            THEIRS,
            {"status": {"phase": "Running"}},
            'node "n1" can only update pod status for pods with spec.nodeName set to itself',
        ),
        (MINE, {"metadata": {"labels": {}}}, 'node "n1" cannot update labels through pod status'),
        (
            MINE,
            {"status": {"resourceClaimStatuses": [{"name": "c"}]}},
            'node "n1" cannot update resource claim statues',
        ),
    ],
)
def test_what_a_kubelet_may_report_about_pods(document, edit, text):
    assert refusal(by_kubelet(changed(document, **edit), document, subresource="status")) == text


def delete(document, **rest):
    return Attributes(
        "DELETE",
        by_kind("v1", "Pod"),
        namespace="ns",
        name=document["metadata"]["name"],
        old=document,
        user=KUBELET,
        **rest,
    )


def test_a_kubelet_deletes_and_evicts_its_own_pods_only():
    assert refusal(delete(MINE)) is None
    assert refusal(delete(THEIRS)) == 'node "n1" can only delete pods with spec.nodeName set to itself'
    eviction = write("CREATE", THEIRS, subresource="eviction", user=KUBELET)
    assert refusal(eviction) == "node n1 can only evict pods with spec.nodeName set to itself"


def test_a_missing_pod_is_not_found():
    with pytest.raises(NotFound):
        NodeRestriction(WORLD).admit(delete(changed(MINE, metadata={"name": "ghost"})))


OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid", "controller": True}


def mirror(owners=(OWNER,), annotations=True, **spec):
    document = pod(**{"nodeName": "n1", **spec})
    document["metadata"]["ownerReferences"] = list(owners)
    if annotations:
        document["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    return document


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (mirror(), None),
        (mirror(volumes=[{"name": "v", "hostPath": {"path": "/"}}]), None),
        (
            mirror(annotations=False),
            'pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods',
        ),
        (mirror(nodeName="n2"), 'node "n1" can only create pods with spec.nodeName set to itself'),
        (mirror(owners=()), 'node "n1" can only create pods with an owner reference set to itself'),
        (
            mirror(owners=(OWNER, OWNER)),
            'node "n1" can only create pods with a single owner reference set to itself',
        ),
        (
            mirror(owners=({**OWNER, "controller": False},)),
            'node "n1" can only create pods with a controller owner reference set to itself',
        ),
        (
            mirror(owners=({**OWNER, "blockOwnerDeletion": True},)),
            'node "n1" must not set blockOwnerDeletion on an owner reference',
        ),
        (mirror(owners=({**OWNER, "uid": "x"},)), "node n1 UID mismatch: expected x got node-uid"),
        (mirror(serviceAccountName="s"), 'node "n1" can not create pods that reference serviceaccounts'),
        (
            mirror(volumes=[{"name": "v", "secret": {"secretName": "s"}}]),
            'node "n1" can not create pods that reference secrets',
        ),
        (
            mirror(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
            'node "n1" can not create pods that reference persistentvolumeclaims',
        ),
        (
            mirror(
                volumes=[{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]
            ),
            'node "n1" can not create pods that reference serviceaccounts (via projected volumes)',
        ),
    ],
)
def test_a_kubelet_creates_mirror_pods_only(document, text):
    assert refusal(create(document, user=KUBELET)) == text


def test_a_kubelet_does_not_update_pods():
    assert refusal(by_kubelet(MINE, MINE)) == (
        'unexpected operation "UPDATE", node "n1" can only create and delete mirror pods'
    )


# --- tokens, leases, slices ---


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ({"apiVersion": "v1", "kind": "Pod", "name": "mine", "uid": "u1"}, None),
        (None, "node requested token not bound to a pod"),
        (
            {"apiVersion": "v1", "kind": "Pod", "name": "mine"},
            "node requested token with a pod binding without a uid",
        ),
        (
            {"apiVersion": "v1", "kind": "Pod", "name": "theirs", "uid": "u2"},
            "node requested token bound to a pod scheduled on a different node",
        ),
    ],
)
def test_a_kubelet_asks_for_tokens_of_its_pods_only(reference, text):
    request = {"spec": {"boundObjectRef": reference}}
    kind = by_kind("v1", "ServiceAccount")
    a = Attributes(
        "CREATE", kind, namespace="ns", name="sa", object=request, subresource="token", user=KUBELET
    )
    assert refusal(a) == text


@pytest.mark.parametrize(
    ("name", "namespace", "text"),
    [
        ("n1", "kube-node-lease", None),
        ("n2", "kube-node-lease", "can only access node lease with the same name as the requesting node"),
        ("n1", "default", 'can only access leases in the "kube-node-lease" system namespace'),
    ],
)
def test_a_kubelet_has_one_lease(name, namespace, text):
    assert refusal(create(stored("coordination.k8s.io/v1", "Lease", name, namespace), user=KUBELET)) == text


def test_a_kubelet_reports_the_state_of_claims_and_nothing_else_of_them():
    old = stored("v1", "PersistentVolumeClaim", "c", "ns", spec={"volumeName": "v"})
    grown = changed(old, status={"capacity": {"storage": "2Gi"}})
    assert refusal(by_kubelet(grown, old, subresource="status")) is None
    assert "is not allowed to update fields other than" in refusal(
        by_kubelet(changed(old, metadata={"labels": {"a": "b"}}), old, subresource="status")
    )
    assert refusal(by_kubelet(grown, old)) == "may only update PVC status"
