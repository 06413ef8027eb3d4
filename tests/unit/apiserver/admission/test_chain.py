"""Claims about the in-tree admission plugins, one write at a time (core.md 4.7 and 7, apiserver.md 5)."""

import copy

import pytest

from tests.unit.apiserver.admission_world import (
    Objects,
    chain,
    create,
    namespace,
    ordinary,
    pod,
    stored,
    update,
)
from weir.apiserver.admission.attributes import Attributes
from weir.apiserver.admission.chain import PluginError, Settings
from weir.apiserver.admission.tolerations import requested_extended_resources
from weir.apiserver.auth.authn import User
from weir.errors import Forbidden, InternalError, NotFound
from weir.objects.kinds import by_kind

NOT_READY = {
    "key": "node.kubernetes.io/not-ready",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 300,
}
UNREACHABLE = {**NOT_READY, "key": "node.kubernetes.io/unreachable"}


def admitted(document, objects=None, **settings):
    """Return the document as the whole chain leaves it."""
    a = create(document)
    built = chain(objects or ordinary(), **settings)
    assert built.mutate(a) is None and built.validate(a) is None  # nothing to await without webhooks
    return a.object


def refusal(document, objects=None, **settings):
    with pytest.raises((Forbidden, NotFound, InternalError)) as refused:
        admitted(document, objects, **settings)
    return refused.value


# --- an ordinary pod ---


def test_an_ordinary_pod_gets_what_a_real_server_gives_it():
    mount = {
        "name": "kube-api-access-abcde",
        "readOnly": True,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    volume = {
        "name": "kube-api-access-abcde",
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {
                    "downwardAPI": {
                        "items": [
                            {
                                "path": "namespace",
                                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                            }
                        ]
                    }
                },
            ],
            "defaultMode": 420,
        },
    }
    assert admitted(pod())["spec"] == {
        "containers": [{"name": "c", "image": "i", "volumeMounts": [mount]}],
        "volumes": [volume],
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "tolerations": [NOT_READY, UNREACHABLE],
    }


def test_a_second_pass_changes_nothing():
    once = admitted(pod())
    again = copy.deepcopy(once)
    chain(ordinary()).mutate(create(again))
    assert again == once


# --- DefaultTolerationSeconds, core.md 4.7 ---


@pytest.mark.parametrize(
    ("own", "added"),
    [
        ([], [NOT_READY, UNREACHABLE]),
        ([{"operator": "Exists"}], []),
        ([{"operator": "Exists", "effect": "NoExecute"}], []),
        ([{"operator": "Exists", "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE]),
        ([{"key": NOT_READY["key"], "operator": "Gt", "value": "5"}], [UNREACHABLE]),
        ([{"key": UNREACHABLE["key"], "operator": "Exists", "effect": "NoExecute"}], [NOT_READY]),
        (
            [{"key": UNREACHABLE["key"], "operator": "Exists", "effect": "NoSchedule"}],
            [NOT_READY, UNREACHABLE],
        ),
        ([{"expression": "true"}], [NOT_READY, UNREACHABLE]),
        ([{"key": "a", "operator": "Exists"}], [NOT_READY, UNREACHABLE]),
    ],
)
def test_default_tolerations_are_added_where_key_and_effect_leave_room(own, added):
    assert admitted(pod(tolerations=copy.deepcopy(own)))["spec"]["tolerations"] == own + added


def test_default_tolerations_are_added_on_update_too():
    document = pod(priority=0)
    chain(ordinary()).mutate(update(document, copy.deepcopy(document)))
    assert document["spec"]["tolerations"] == [NOT_READY, UNREACHABLE]


def test_subresources_are_left_alone():
    document = pod()
    chain(ordinary()).mutate(update(document, copy.deepcopy(document), subresource="status"))
    assert document == pod()


def test_the_seconds_are_a_setting():
    tolerations = admitted(pod(), not_ready_seconds=7, unreachable_seconds=9)["spec"]["tolerations"]
    assert [t["tolerationSeconds"] for t in tolerations] == [7, 9]


# --- NamespaceLifecycle ---


def test_nothing_is_created_in_a_missing_namespace():
    refused = refusal(pod(), Objects())
    assert (refused.message, refused.details) == (
        'namespaces "ns" not found',
        {"name": "ns", "kind": "namespaces"},
    )


def test_nothing_is_created_in_a_namespace_that_goes_away():
    refused = refusal(pod(), Objects(namespace(status={"phase": "Terminating"})))
    assert refused.message == (
        'pods "p" is forbidden: unable to create new content in namespace ns because it is being terminated'
    )
    assert refused.details["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace ns is being terminated",
            "field": "metadata.namespace",
        }
    ]


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_three_namespaces_cannot_be_deleted(name):
    a = Attributes("DELETE", by_kind("v1", "Namespace"), name=name, user=User("x"))
    with pytest.raises(Forbidden) as refused:
        chain(ordinary()).mutate(a)
    assert refused.value.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


def test_other_namespaces_and_cluster_objects_pass():
    built = chain(Objects())
    built.mutate(Attributes("DELETE", by_kind("v1", "Namespace"), name="other", user=User("x")))
    assert built.mutate(create(stored("v1", "PersistentVolume", "v", spec={}))) is None


def test_asking_for_access_in_a_missing_namespace_is_possible():
    kind = by_kind("authorization.k8s.io/v1", "LocalSubjectAccessReview")
    a = Attributes("CREATE", kind, namespace="nowhere", object={}, user=User("x"))
    assert chain(Objects()).mutate(a) is None


# --- Priority ---

GOLD = stored("scheduling.k8s.io/v1", "PriorityClass", "gold", value=7, preemptionPolicy="Never")


def with_class(*classes):
    objects = ordinary()
    for one in classes:
        objects.add(one)
    return objects


def test_a_class_gives_its_number_and_policy():
    spec = admitted(pod(priorityClassName="gold"), with_class(GOLD))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")


def test_an_unknown_class_is_refused():
    assert refusal(pod(priorityClassName="tin")).message == (
        'pods "p" is forbidden: no PriorityClass with name tin was found'
    )


def test_a_made_up_number_is_refused():
    assert refusal(pod(priority=5)).message == (
        'pods "p" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority '
        "admission controller computed 0 from the given PriorityClass name"
    )


def test_a_made_up_policy_is_refused():
    refused = refusal(
        pod(priorityClassName="gold", preemptionPolicy="PreemptLowerPriority"), with_class(GOLD)
    )
    assert (
        "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided" in refused.message
    )


def test_the_lowest_default_class_is_taken_and_named():
    objects = with_class({**GOLD, "globalDefault": True})
    low = stored("scheduling.k8s.io/v1", "PriorityClass", "low", value=-3, globalDefault=True)
    objects.add(low)
    spec = admitted(pod(), objects)["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("low", -3)


def test_a_default_class_made_later_is_noticed():
    objects = ordinary()
    built = chain(objects)
    built.mutate(create(pod()))
    objects.add({**GOLD, "globalDefault": True})
    a = create(pod())
    built.mutate(a)
    assert a.object["spec"]["priority"] == 7


def test_a_second_default_class_is_refused():
    second = stored("scheduling.k8s.io/v1", "PriorityClass", "second", value=1, globalDefault=True)
    refused = refusal(second, with_class({**GOLD, "globalDefault": True}))
    assert refused.message == (
        'priorityclasses.scheduling.k8s.io "second" is forbidden: PriorityClass gold is already marked as '
        "default. Only one default can exist"
    )


def test_an_update_that_leaves_the_priority_out_keeps_it():
    new, old = pod(), pod(priority=7, preemptionPolicy="Never")
    chain(ordinary()).mutate(update(new, old))
    assert (new["spec"]["priority"], new["spec"]["preemptionPolicy"]) == (7, "Never")


# --- ServiceAccount ---


def test_a_missing_account_is_refused():
    assert refusal(pod(serviceAccountName="ghost")).message == (
        'pods "p" is forbidden: error looking up service account ns/ghost: serviceaccount "ghost" not found'
    )


def test_a_name_yet_to_be_generated_shows_as_its_prefix():
    document = pod(serviceAccountName="ghost")
    document["metadata"] = {"generateName": "web-", "namespace": "ns"}
    assert refusal(document).message.startswith('pods "web-" is forbidden: ')


@pytest.mark.parametrize(("on_pod", "on_account"), [(False, None), (None, False), (False, True)])
def test_no_token_is_mounted_for_who_does_not_want_it(on_pod, on_account):
    account = stored("v1", "ServiceAccount", "default", "ns")
    if on_account is not None:
        account["automountServiceAccountToken"] = on_account
    document = pod() if on_pod is None else pod(automountServiceAccountToken=on_pod)
    assert "volumes" not in admitted(document, Objects(namespace(), account))["spec"]


def test_a_container_that_mounts_its_own_keeps_it_and_no_volume_is_added():
    mount = {"name": "mine", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    spec = admitted(pod(containers=[{"name": "c", "volumeMounts": [mount]}]))["spec"]
    assert (spec["containers"][0]["volumeMounts"], spec.get("volumes")) == ([mount], None)


def test_pull_secrets_come_from_the_account():
    account = stored("v1", "ServiceAccount", "default", "ns", imagePullSecrets=[{"name": "registry"}])
    assert admitted(pod(), Objects(namespace(), account))["spec"]["imagePullSecrets"] == [
        {"name": "registry"}
    ]


def test_a_mirror_pod_is_left_alone_but_may_not_use_an_account():
    mirror = pod()
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    assert "serviceAccountName" not in admitted(copy.deepcopy(mirror))["spec"]
    mirror["spec"]["serviceAccountName"] = "default"
    assert "a mirror pod may not reference service accounts" in refusal(mirror).message


def test_the_plugin_can_be_switched_off():
    spec = admitted(pod(), Objects(namespace()), disable=["ServiceAccount"])["spec"]
    assert "serviceAccountName" not in spec


def test_an_unknown_plugin_is_named():
    with pytest.raises(PluginError, match="Teleport"):
        Settings(enable=["Teleport"]).enabled()


# --- TaintNodesByCondition ---

NODE_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("own", "after"),
    [
        ([], [NODE_TAINT]),
        ([{"key": "a", "effect": "NoExecute"}], [{"key": "a", "effect": "NoExecute"}, NODE_TAINT]),
        ([{**NODE_TAINT, "value": "x"}], [{**NODE_TAINT, "value": "x"}]),
        ([{**NODE_TAINT, "effect": "NoExecute"}], [{**NODE_TAINT, "effect": "NoExecute"}, NODE_TAINT]),
    ],
)
def test_a_new_node_is_not_ready(own, after):
    assert admitted(stored("v1", "Node", "n", spec={"taints": own}))["spec"]["taints"] == after


# --- ExtendedResourceToleration ---


def test_requesting_an_extended_resource_brings_its_toleration():
    containers = [{"name": "c", "resources": {"requests": {"example.com/gpu": "1", "cpu": "1"}}}]
    tolerations = admitted(pod(containers=containers), enable=["ExtendedResourceToleration"])["spec"][
        "tolerations"
    ]
    assert tolerations[-1] == {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def test_extended_resources_are_sorted_and_counted_once():
    gpu = {"resources": {"requests": {"b.io/gpu": "1", "a.io/fpga": "1"}}}
    assert requested_extended_resources({"initContainers": [gpu], "containers": [gpu]}) == [
        "a.io/fpga",
        "b.io/gpu",
    ]


# --- RuntimeClass ---

KATA = stored(
    "node.k8s.io/v1",
    "RuntimeClass",
    "kata",
    overhead={"podFixed": {"cpu": "250m"}},
    scheduling={
        "nodeSelector": {"runtime": "kata"},
        "tolerations": [{"key": "kata", "operator": "Exists"}],
    },
)


def test_a_runtime_class_brings_overhead_selector_and_tolerations():
    spec = admitted(pod(runtimeClassName="kata", nodeSelector={"a": "b"}), with_class(KATA))["spec"]
    assert (spec["overhead"], spec["nodeSelector"], spec["tolerations"][-1]) == (
        {"cpu": "250m"},
        {"a": "b", "runtime": "kata"},
        {"key": "kata", "operator": "Exists"},
    )


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"runtimeClassName": "ghost"}, 'pod rejected: RuntimeClass "ghost" not found'),
        (
            {"runtimeClassName": "kata", "overhead": {"cpu": "1"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            {"runtimeClassName": "kata", "nodeSelector": {"runtime": "runc"}},
            "conflict: runtimeClass.scheduling.nodeSelector[runtime] = kata; "
            "pod.spec.nodeSelector[runtime] = runc",
        ),
    ],
)
def test_a_pod_at_odds_with_its_runtime_class_is_refused(spec, text):
    assert refusal(pod(**spec), with_class(KATA)).message == f'pods "p" is forbidden: {text}'


# --- storage ---


def storage_class(name, created, **rest):
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    metadata = {"annotations": annotations, "creationTimestamp": created}
    return stored("storage.k8s.io/v1", "StorageClass", name, metadata=metadata, **rest)


def claim(size="1Gi", **spec):
    resources = {"requests": {"storage": size}}
    return stored("v1", "PersistentVolumeClaim", "c", "ns", spec={"resources": resources, **spec})


def test_a_claim_gets_the_newest_default_class_and_its_finalizer():
    objects = ordinary()
    for name, created in (
        ("old", "2026-01-01T00:00:00Z"),
        ("b", "2026-02-01T00:00:00Z"),
        ("a", "2026-02-01T00:00:00Z"),
    ):
        objects.add(storage_class(name, created))
    after = admitted(claim(), objects)
    assert (after["spec"]["storageClassName"], after["metadata"]["finalizers"]) == (
        "a",
        ["kubernetes.io/pvc-protection"],
    )


@pytest.mark.parametrize(
    ("spec", "annotations", "given"),
    [
        ({}, {}, "a"),
        ({"ingressClassName": "mine"}, {}, "mine"),
        ({}, {"kubernetes.io/ingress.class": "mine"}, None),
    ],
)
def test_an_ingress_without_a_class_gets_the_newest_default_one(spec, annotations, given):
    objects = ordinary()
    marked = {"ingressclass.kubernetes.io/is-default-class": "true"}
    for name, created, notes in (
        ("old", "1", marked),
        ("b", "2", marked),
        ("a", "2", marked),
        ("new", "3", {}),
    ):
        metadata = {"annotations": notes, "creationTimestamp": f"2026-0{created}-01T00:00:00Z"}
        objects.add(stored("networking.k8s.io/v1", "IngressClass", name, metadata=metadata))
    ingress = stored(
        "networking.k8s.io/v1", "Ingress", "i", "ns", metadata={"annotations": annotations}, spec=spec
    )
    assert admitted(ingress, objects)["spec"].get("ingressClassName") == given


def test_a_claim_that_wants_no_class_gets_none():
    objects = with_class(storage_class("a", "2026-01-01T00:00:00Z"))
    assert admitted(claim(storageClassName=""), objects)["spec"]["storageClassName"] == ""


@pytest.mark.parametrize(
    ("phase", "expands", "text"),
    [
        ("Pending", True, "Only bound persistent volume claims can be expanded"),
        ("Bound", False, "only dynamically provisioned pvc can be resized"),
        ("Bound", True, None),
    ],
)
def test_a_claim_grows_only_when_bound_and_allowed(phase, expands, text):
    objects = with_class(storage_class("a", "2026-01-01T00:00:00Z", allowVolumeExpansion=expands))
    old = {**claim(storageClassName="a"), "status": {"phase": phase}}
    grow = update(claim("2Gi", storageClassName="a"), old)
    if text is None:
        assert chain(objects).validate(grow) is None
    else:
        with pytest.raises(Forbidden, match=text):
            chain(objects).validate(grow)


# --- LimitRanger ---


def limits(**limit):
    return with_class(
        stored("v1", "LimitRange", "l", "ns", spec={"limits": [{"type": "Container", **limit}]})
    )


def with_resources(**resources):
    return pod(containers=[{"name": "c", "resources": resources}])


def test_a_pod_may_not_be_resized_past_a_limit():
    before, after = with_resources(limits={"cpu": "1"}), with_resources(limits={"cpu": "3"})
    a = Attributes(
        "UPDATE", by_kind("v1", "Pod"), subresource="resize", namespace="ns", name="p", object=after, old=before,
        user=User("jane"),
    )  # fmt: skip
    with pytest.raises(Forbidden, match="maximum cpu usage per Container is 2, but limit is 3"):
        chain(limits(max={"cpu": "2"})).validate(a)


def test_a_limit_range_fills_in_what_is_missing_and_says_so():
    objects = limits(default={"cpu": "1", "memory": "1Gi"}, defaultRequest={"cpu": "500m"})
    after = admitted(with_resources(limits={"memory": "2Gi"}), objects)
    assert after["spec"]["containers"][0]["resources"] == {
        "limits": {"memory": "2Gi", "cpu": "1"},
        "requests": {"cpu": "500m"},
    }
    assert after["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    }


@pytest.mark.parametrize(
    ("limit", "resources", "text"),
    [
        ({"min": {"cpu": "1"}}, {}, "minimum cpu usage per Container is 1.  No request is specified"),
        (
            {"min": {"cpu": "1"}},
            {"requests": {"cpu": "500m"}},
            "minimum cpu usage per Container is 1, but request is 500m",
        ),
        ({"max": {"cpu": "1"}}, {}, "maximum cpu usage per Container is 1.  No limit is specified"),
        (
            {"max": {"cpu": "1"}},
            {"limits": {"cpu": "2"}},
            "maximum cpu usage per Container is 1, but limit is 2",
        ),
        (
            {"max": {"cpu": "1", "memory": "1Gi"}},
            {"limits": {"cpu": "2", "memory": "2Gi"}},
            "[maximum cpu usage per Container is 1, but limit is 2, "
            "maximum memory usage per Container is 1Gi, but limit is 2Gi]",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            {"type": "Pod", "max": {"cpu": "1"}},
            {"limits": {"cpu": "1500m"}},
            "maximum cpu usage per Pod is 1, but limit is 1500m",
        ),
    ],
)
def test_a_broken_limit_is_told(limit, resources, text):
    assert refusal(with_resources(**resources), limits(**limit)).message == f'pods "p" is forbidden: {text}'


def test_a_claim_is_held_to_its_limits():
    objects = limits(type="PersistentVolumeClaim", max={"storage": "1Gi"})
    assert "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi" in (
        refusal(claim("2Gi"), objects).message
    )
