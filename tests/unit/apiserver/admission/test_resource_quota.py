"""Claims about ResourceQuota admission: what was given is not exceeded, whoever counts or does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.apiserver.admission_world import create, ordinary, pod, stored, update
from weir.apiserver.admission.resource_quota import Ledger, ResourceQuota
from weir.errors import Forbidden
from weir.objects.kinds import by_kind
from weir.objects.quota_usage import in_scope, usage_of
from weir.values.quantity import parse_quantity


def quota(hard, **spec):
    return stored("v1", "ResourceQuota", "q", "ns", spec={"hard": hard, **spec})


def named(name, document):
    return {**document, "metadata": {**document["metadata"], "name": name}}


def with_resources(**resources):
    return pod(containers=[{"name": "c", "resources": resources}])


class World:
    def __init__(self, *documents):
        self.objects, self.now = ordinary(), 0.0
        for document in documents:
            self.objects.add(document)
        self.plugin = ResourceQuota(self.objects, lambda: self.now)

    def refusal(self, a):
        try:
            self.plugin.validate(a)
        except Forbidden as refused:
            return refused.message.split(" is forbidden: ", 1)[1]
        return None


def test_the_last_place_is_given_and_the_next_refused():
    world = World(quota({"pods": "2"}), named("a", pod()))
    assert world.refusal(create(named("b", pod()))) is None
    world.objects.add(named("b", pod()))
    assert (
        world.refusal(create(named("c", pod())))
        == "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    )


def test_two_at_the_same_time_do_not_both_get_the_last_place():
    world = World(quota({"pods": "1"}))
    assert world.refusal(create(named("a", pod()))) is None
    assert "exceeded quota" in world.refusal(create(named("b", pod())))


def test_a_place_taken_by_something_that_never_came_is_freed():
    world = World(quota({"pods": "1"}))
    world.refusal(create(named("a", pod())))
    world.now = 11.0
    assert world.refusal(create(named("b", pod()))) is None


def test_a_dry_run_takes_no_place():
    world = World(quota({"pods": "1"}))
    world.refusal(create(named("a", pod()), dry_run=True))
    assert world.refusal(create(named("b", pod()))) is None


def test_amounts_add_up_and_only_those_exceeded_are_told():
    running = named("a", with_resources(requests={"cpu": "1500m", "memory": "1Gi"}))
    world = World(quota({"requests.cpu": "2", "requests.memory": "4Gi"}), running)
    assert world.refusal(create(named("b", with_resources(requests={"cpu": "1", "memory": "1Gi"})))) == (
        "exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1500m, limited: requests.cpu=2"
    )


def test_a_pod_at_its_end_uses_nothing():
    done = {**named("a", pod()), "status": {"phase": "Succeeded"}}
    assert World(quota({"pods": "1"}), done).refusal(create(named("b", pod()))) is None


def test_a_quota_of_an_amount_wants_it_said():
    world = World(quota({"limits.cpu": "2", "requests.memory": "1Gi"}))
    assert world.refusal(create(pod())) == (
        "failed quota: q: must specify limits.cpu for: c; requests.memory for: c"
    )


def test_a_pod_that_says_it_as_a_whole_need_not_say_it_of_each_container():
    whole = pod()
    whole["spec"]["resources"] = {"requests": {"cpu": "3"}}
    assert World(quota({"requests.cpu": "2"})).refusal(create(named("a", whole))) == (
        "exceeded quota: q, requested: requests.cpu=3, used: requests.cpu=0, limited: requests.cpu=2"
    )


def test_what_is_not_said_is_told_before_what_is_too_much():
    full = {**quota({"pods": "0"}), "metadata": {"name": "a-full", "namespace": "ns"}}
    assert "must specify limits.cpu" in World(full, quota({"limits.cpu": "1"})).refusal(create(pod()))


@pytest.mark.parametrize(
    ("spec", "counted"),
    [
        ({"scopes": ["BestEffort"]}, True),
        ({"scopes": ["NotBestEffort"]}, False),
        ({"scopes": ["Terminating"]}, False),
        ({"scopes": ["NotTerminating"]}, True),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["x"]}]
                }
            },
            False,
        ),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "DoesNotExist"}]
                }
            },
            True,
        ),
    ],
)
def test_a_scope_says_which_pods_count(spec, counted):
    refused = World(quota({"pods": "0"}, **spec)).refusal(create(pod()))
    assert (refused is not None) is counted


def test_other_kinds_are_counted_by_name():
    world = World(quota({"count/deployments.apps": "0", "configmaps": "0"}))
    assert "count/deployments.apps=1" in world.refusal(create(stored("apps/v1", "Deployment", "d", "ns")))
    assert "configmaps=1" in world.refusal(create(stored("v1", "ConfigMap", "c", "ns")))


def claim(size, name="c"):
    spec = {"resources": {"requests": {"storage": size}}, "storageClassName": "gold"}
    return stored("v1", "PersistentVolumeClaim", name, "ns", spec=spec)


def test_a_claim_may_not_grow_beyond_the_quota_but_may_stay():
    world = World(quota({"requests.storage": "10Gi"}), claim("6Gi"), claim("6Gi", "other"))
    assert world.refusal(update(claim("6Gi"), claim("6Gi"))) is None
    assert world.refusal(update(claim("7Gi"), claim("6Gi"))) == (
        "exceeded quota: q, requested: requests.storage=7Gi, used: requests.storage=6Gi, limited: requests.storage=10Gi"
    )


def test_a_claim_counts_for_its_class_too():
    assert usage_of(by_kind("v1", "PersistentVolumeClaim"), claim("1Gi")).keys() == {
        "count/persistentvolumeclaims",
        "persistentvolumeclaims",
        "requests.storage",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
        "gold.storageclass.storage.k8s.io/requests.storage",
    }


def test_a_namespace_without_a_quota_is_not_counted():
    world = World(named("a", pod()))
    asked = []
    listing = world.objects.list_now
    world.objects.list_now = lambda kind, namespace: asked.append(kind.plural) or listing(kind, namespace)
    world.refusal(create(pod()))
    world.refusal(create(pod()))
    assert asked == ["resourcequotas"]


def test_a_full_namespace_is_read_once_and_followed_from_then_on():
    world = World(quota({"pods": "100"}), *(named(f"p{number}", pod()) for number in range(50)))
    read = []
    listing = world.objects.list_now
    world.objects.list_now = lambda kind, namespace: read.append(kind.plural) or listing(kind, namespace)
    for number in range(50, 60):
        assert world.refusal(create(named(f"p{number}", pod()))) is None
    assert read.count("pods") == 1


def test_a_quota_that_is_gone_is_counted_for_no_longer():
    given = quota({"pods": "9"})
    world = World(given)
    world.refusal(create(named("a", pod())))
    world.objects.remove(given)
    world.refusal(create(named("b", pod())))
    assert [bool(each) for each in world.objects.followers] == [False]


def test_a_gap_in_the_changes_is_answered_by_reading_again():
    world = World(quota({"pods": "1"}))
    world.refusal(create(named("a", pod()), dry_run=True))
    world.objects.followers[0].alive = False
    world.objects.add(named("b", pod()))
    assert "used: pods=1" in world.refusal(create(named("c", pod())))


SCOPES = [{}, {"scopes": ["BestEffort"]}, {"scopes": ["NotTerminating"]}]
PODS = st.builds(
    lambda name, cpu, deadline, phase: {
        **named(
            name,
            pod(
                containers=[{"name": "c", "resources": {"requests": {"cpu": cpu}} if cpu else {}}],
                **({"activeDeadlineSeconds": 5} if deadline else {}),
            ),
        ),
        "status": {"phase": phase},
    },
    st.sampled_from("abcdef"),
    st.sampled_from([None, "1", "250m", "1k", "0.5"]),
    st.booleans(),
    st.sampled_from(["Running", "Succeeded"]),
)


@given(st.lists(st.tuples(st.booleans(), PODS), max_size=30), st.sampled_from(SCOPES))
def test_a_ledger_says_what_walking_every_object_would(changes, scope):
    about, there = quota({"pods": "1"}, **scope), {}
    ledger = Ledger(by_kind("v1", "Pod"), about)
    for gone, document in changes:
        name = document["metadata"]["name"]
        there.pop(name, None)
        if not gone:
            there[name] = document
        ledger.changed(name, there.get(name))
    walked = {"pods": parse_quantity("0"), "requests.cpu": parse_quantity("0")}
    for document in there.values():
        used = (
            usage_of(by_kind("v1", "Pod"), document)
            if in_scope(about, by_kind("v1", "Pod"), document)
            else {}
        )
        walked = {name: amount + used.get(name, parse_quantity("0")) for name, amount in walked.items()}
    assert ledger.used(list(walked)) == walked
