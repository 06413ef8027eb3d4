"""Claims about weir.apiserver.auth.authz, the bootstrap policy and the Node authorizer."""

from dataclasses import dataclass

import pytest

from tests.unit.apiserver.admission_world import Objects, pod, stored
from weir.apiserver.auth.authn import ANONYMOUS, User, proven
from weir.apiserver.auth.authz import Authorizer, ModeError, action_of, forbidden
from weir.apiserver.auth.rbac import Action
from weir.apiserver.bootstrap.policy import objects, reconciled

ADMIN = proven("kubernetes-admin", ["system:masters"])
JANE = proven("jane")
SCHEDULER = proven("system:kube-scheduler")
MANAGER = proven("system:kube-controller-manager")
KUBELET = proven("system:node:n1", ["system:nodes"])
DEPLOYER = proven("system:serviceaccount:kube-system:deployment-controller", ["system:serviceaccounts"])


@dataclass
class Info:
    verb: str = "get"
    resource: str = ""
    api_group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def is_resource(self):
        return bool(self.resource)


@pytest.fixture(scope="module")
def cluster():
    return Authorizer(Objects(*objects()))


@pytest.mark.parametrize(
    ("user", "action", "allowed"),
    [
        (ADMIN, Action("delete", "", "nodes", name="n"), True),
        (JANE, Action("get", path="/version"), True),
        (JANE, Action("get", path="/apis/apps/v1"), True),
        (JANE, Action("get", path="/metrics"), False),
        (JANE, Action("create", "authorization.k8s.io", "selfsubjectaccessreviews"), True),
        (JANE, Action("get", "", "pods", namespace="default"), False),
        (ANONYMOUS, Action("get", path="/healthz"), True),
        (ANONYMOUS, Action("get", path="/api"), False),
        (SCHEDULER, Action("create", "", "pods", "binding", "ns", "p"), True),
        (SCHEDULER, Action("watch", "", "nodes"), True),
        (
            SCHEDULER,
            Action("update", "coordination.k8s.io", "leases", "", "kube-system", "kube-scheduler"),
            True,
        ),
        (SCHEDULER, Action("update", "coordination.k8s.io", "leases", "", "default", "other"), False),
        (SCHEDULER, Action("delete", "", "nodes", name="n"), False),
        (SCHEDULER, Action("watch", "resource.k8s.io", "devicetaintrules"), True),
        (
            SCHEDULER,
            Action("get", "", "configmaps", "", "kube-system", "extension-apiserver-authentication"),
            True,
        ),
        (MANAGER, Action("create", "", "serviceaccounts", "token", "kube-system", "job-controller"), True),
        (MANAGER, Action("watch", "batch", "jobs"), True),
        (MANAGER, Action("create", "", "pods", "", "ns"), False),
        (DEPLOYER, Action("create", "apps", "replicasets", "", "ns"), True),
        (DEPLOYER, Action("create", "", "secrets", "", "ns"), False),
    ],
)
def test_a_new_cluster_gives_everybody_their_rights(cluster, user, action, allowed):
    assert cluster.decide(user, action).allowed is allowed


@pytest.mark.parametrize(
    ("role", "action", "allowed"),
    [
        ("view", Action("get", "", "pods", "log", "ns", "p"), True),
        ("view", Action("get", "", "secrets", "", "ns", "s"), False),
        ("edit", Action("get", "", "secrets", "", "ns", "s"), True),
        ("edit", Action("get", "", "pods", "log", "ns", "p"), True),
        ("edit", Action("create", "rbac.authorization.k8s.io", "roles", "", "ns"), False),
        ("admin", Action("create", "rbac.authorization.k8s.io", "roles", "", "ns"), True),
        ("admin", Action("delete", "", "pods", "", "ns", "p"), True),
        ("admin", Action("delete", "", "pods", "", "other", "p"), False),
        pytest.param(
            "admin",
            Action("create", "resource.k8s.io", "devicetaintrules", "", "ns"),
            False,
            marks=pytest.mark.proves("5055-105"),
        ),
    ],
)
def test_the_roles_for_people_build_on_each_other(role, action, allowed):
    bound = stored(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        "b",
        "ns",
        roleRef={"kind": "ClusterRole", "name": role},
        subjects=[{"kind": "User", "name": "jane"}],
    )
    assert Authorizer(Objects(*objects(), bound)).decide(JANE, action).allowed is allowed


def test_a_changed_binding_is_noticed():
    world = Objects(*objects())
    authorizer = Authorizer(world)
    before = authorizer.decide(JANE, Action("get", "", "nodes", name="n")).allowed
    world.add(
        stored(
            "rbac.authorization.k8s.io/v1",
            "ClusterRoleBinding",
            "b",
            roleRef={"kind": "ClusterRole", "name": "cluster-admin"},
            subjects=[{"kind": "User", "name": "jane"}],
        )
    )
    assert (before, authorizer.decide(JANE, Action("get", "", "nodes", name="n")).allowed) == (False, True)


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (
            Info("get", "pods", name="x", namespace="n"),
            'pods "x" is forbidden: User "jane" cannot get resource "pods" in API group "" in the namespace "n"',
        ),
        (
            Info("list", "nodes"),
            'nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope',
        ),
        (
            Info("update", "deployments", "apps", "scale", "n", "d"),
            'deployments.apps "d" is forbidden: User "jane" cannot update resource "deployments/scale" '
            'in API group "apps" in the namespace "n"',
        ),
        (Info("get", path="/metrics"), 'forbidden: User "jane" cannot get path "/metrics"'),
    ],
)
def test_a_refusal_reads_as_kubectl_users_know_it(cluster, info, message):
    assert forbidden(JANE, info, cluster.authorize(JANE, info)).message == message


def test_a_refusal_names_the_object_in_its_details(cluster):
    info = Info("update", "deployments", "apps", "scale", "n", "d")
    assert forbidden(JANE, info, cluster.authorize(JANE, info)).details == {
        "name": "d",
        "group": "apps",
        "kind": "deployments",
    }


def test_watching_one_name_by_field_selector_is_about_that_name(cluster):
    info = Info("watch", "configmaps", namespace="kube-system")
    only = "metadata.name=extension-apiserver-authentication"
    assert not cluster.authorize(SCHEDULER, info).allowed
    assert cluster.authorize(SCHEDULER, info, only).allowed
    assert action_of(info, "metadata.name!=x").name == ""


def test_always_allow_must_be_asked_for():
    assert not Authorizer(Objects()).decide(JANE, Action("get", "", "pods")).allowed
    assert Authorizer(Objects(), ["AlwaysAllow"]).decide(JANE, Action("get", "", "pods")).allowed


@pytest.mark.parametrize("modes", [[], ["Webhook"]])
def test_an_unknown_mode_is_named(modes):
    with pytest.raises(ModeError, match="authorization modes are"):
        Authorizer(Objects(), modes)


# --- bootstrap objects are brought up to date, never cut down ---


def test_a_stored_role_gets_the_rules_it_lacks_and_keeps_its_own():
    wanted = next(o for o in objects() if o["metadata"]["name"] == "system:basic-user")
    own = {"verbs": ["fly"], "apiGroups": [""], "resources": ["kites"]}
    changed = reconciled(wanted, {**wanted, "rules": [own]})
    assert changed["rules"][0] == own and reconciled(wanted, changed) is None


def test_a_role_whose_owner_switched_updates_off_is_left_alone():
    wanted = next(o for o in objects() if o["metadata"]["name"] == "system:basic-user")
    annotations = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
    stored_role = {**wanted, "rules": [], "metadata": {**wanted["metadata"], "annotations": annotations}}
    assert reconciled(wanted, stored_role) is None


def test_every_bootstrap_object_is_in_order_as_it_is():
    assert [reconciled(one, one) for one in objects()] == [None] * len(list(objects()))


# --- kubelets ---

MINE = pod(
    nodeName="n1",
    serviceAccountName="robot",
    volumes=[
        {"name": "v", "secret": {"secretName": "s1"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
    ],
)
THEIRS = {**pod(nodeName="n2", volumes=[{"name": "v", "secret": {"secretName": "s2"}}])}
THEIRS["metadata"] = {"name": "q", "namespace": "ns"}
CLAIM = stored("v1", "PersistentVolumeClaim", "claim", "ns", spec={"volumeName": "pv1"})


def kubelet(action):
    return Authorizer(Objects(MINE, THEIRS, CLAIM), ["Node"]).decide(KUBELET, action)


@pytest.mark.parametrize(
    ("action", "allowed"),
    [
        (Action("get", "", "secrets", "", "ns", "s1"), True),
        (Action("get", "", "secrets", "", "ns", "s2"), False),
        (Action("watch", "", "secrets", "", "ns", "s1"), True),
        (Action("list", "", "secrets", "", "ns"), False),
        (Action("get", "", "persistentvolumeclaims", "", "ns", "claim"), True),
        (Action("get", "", "persistentvolumes", name="pv1"), True),
        (Action("get", "", "persistentvolumes", name="pv2"), False),
        (Action("create", "", "serviceaccounts", "token", "ns", "robot"), True),
        (Action("create", "", "serviceaccounts", "token", "ns", "other"), False),
        (Action("get", "", "nodes", name="n1"), True),
        (Action("get", "", "nodes", name="n2"), False),
        (Action("list", "", "nodes"), False),
        (Action("patch", "", "nodes", "status", "", "n1"), True),
        (Action("list", "", "pods", field_selector="spec.nodeName=n1"), True),
        (Action("list", "", "pods", field_selector="spec.nodeName=n2"), False),
        (Action("list", "", "pods"), False),
        (Action("get", "", "pods", "", "ns", "p"), True),
        (Action("get", "", "pods", "", "ns", "q"), False),
        (Action("patch", "", "pods", "status", "ns", "p"), True),
        (Action("update", "coordination.k8s.io", "leases", "", "kube-node-lease", "n1"), True),
        (Action("update", "coordination.k8s.io", "leases", "", "kube-node-lease", "n2"), False),
        (Action("update", "coordination.k8s.io", "leases", "", "default", "n1"), False),
        (Action("watch", "resource.k8s.io", "resourceslices", field_selector="spec.nodeName=n1"), True),
        (Action("create", "", "events", "", "ns"), True),
        (Action("watch", "", "services"), True),
        (Action("delete", "", "nodes", name="n1"), False),
    ],
)
def test_a_kubelet_may_do_what_its_node_needs(action, allowed):
    assert kubelet(action).allowed is allowed


def test_a_kubelet_is_told_why_not():
    assert kubelet(Action("get", "", "nodes", name="n2")).reason == (
        "node: node 'n1' cannot read 'n2', only its own Node object"
    )


def test_a_member_of_the_nodes_group_that_names_no_node_gets_nothing():
    odd = User("odd", groups=("system:nodes",))
    decision = Authorizer(Objects(), ["Node"]).decide(odd, Action("watch", "", "services"))
    assert (decision.allowed, decision.reason) == (False, 'node: unknown node for user "odd"')
