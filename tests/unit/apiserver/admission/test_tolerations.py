"""Claims about PodTolerationRestriction and the merging of toleration lists."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.apiserver.admission_world import Objects, chain, create, namespace, pod, stored
from weir.apiserver.admission.tolerations import add_or_update, merge, parts, permitted, superset
from weir.errors import InternalError

# ── claims about superset, merge and the PodTolerationRestriction plugin (core.md 7, D-19) ──


tolerations = st.builds(
    lambda **members: {name: value for name, value in members.items() if value not in ("", None)},
    key=st.sampled_from(["", "a", "b"]),
    operator=st.sampled_from(["", "Equal", "Exists", "Gt", "SemverLt"]),
    value=st.sampled_from(["", "1", "2"]),
    effect=st.sampled_from(["", "NoSchedule", "NoExecute"]),
    tolerationSeconds=st.sampled_from([None, 5, 60]),
    expression=st.sampled_from(["", "", "", "taint.key == 'a'"]),
)
lists = st.lists(tolerations, max_size=5)
EVERYTHING = {"operator": "Exists"}


def covers(wider, narrower):
    return superset(parts(wider), parts(narrower))


@given(tolerations)
def test_a_toleration_covers_itself_and_exists_covers_all(toleration):
    assert covers(toleration, toleration) and covers(EVERYTHING, toleration)


@given(tolerations, tolerations)
def test_only_equal_and_exists_can_be_wider_than_something_else(wider, narrower):
    if covers(wider, narrower) and parts(wider) != parts(narrower):
        assert wider.get("operator", "") in ("", "Equal", "Exists") and "expression" not in wider


@given(tolerations, tolerations, tolerations)
def test_covering_is_transitive_among_exists(a, b, c):
    a, b = {**a, "operator": "Exists"}, {**b, "operator": "Exists"}
    a.pop("expression", None), b.pop("expression", None)
    if covers(a, b) and covers(b, c):
        assert covers(a, c)


@given(lists, lists)
def test_merging_loses_nothing_that_was_tolerated(first, second):
    merged = merge(first, second)
    assert permitted([*first, *second], merged)


@given(lists, lists)
def test_no_kept_entry_covers_another(first, second):
    kept = [parts(t) for t in merge(first, second)]
    assert not any(
        superset(one, other) for i, one in enumerate(kept) for j, other in enumerate(kept) if i != j
    )


@given(lists, lists)
def test_merging_keeps_the_order_and_invents_nothing(first, second):
    rest = iter([*first, *second])
    assert all(kept in rest for kept in merge(first, second))


@given(lists, lists)
def test_merging_again_permits_nothing_more_and_nothing_less(first, second):
    # Not the same list: two entries may cover each other without being equal, and then the later one is kept.
    once, twice = merge(first, second), merge(merge(first, second), second)
    assert permitted(once, twice) and permitted(twice, once) and len(once) == len(twice)


@pytest.mark.parametrize(
    ("wider", "narrower", "covered"),
    [
        (
            {"key": "a", "operator": "Gt", "value": "900"},
            {"key": "a", "operator": "Gt", "value": "950"},
            False,
        ),
        ({"key": "a", "value": "1"}, {"key": "a", "operator": "Equal", "value": "1"}, True),
        ({"key": "a", "operator": "Equal", "value": "1"}, {"key": "a", "value": "1"}, False),
        ({"key": "a", "operator": "Exists"}, {"key": "a", "operator": "SemverGt", "value": "1.2"}, True),
        ({"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}, False),
        (
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            {"key": "a", "operator": "Exists", "effect": "NoExecute"},
            False,
        ),
        (
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 4},
            True,
        ),
        ({"operator": "Exists", "effect": "NoSchedule"}, {"expression": "true"}, False),
        ({"expression": "true"}, {"expression": "true"}, True),
        ({"expression": "true"}, {"operator": "Equal"}, False),
    ],
)
def test_a_toleration_covers_those_that_ask_for_no_more(wider, narrower, covered):
    assert covers(wider, narrower) is covered


def test_of_equal_entries_the_first_is_kept():
    a, same = {"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Exists", "value": ""}
    assert merge([a], [same]) == [a]


def test_a_later_wider_entry_replaces_an_earlier_one():
    assert merge([{"key": "a", "operator": "Equal", "value": "1"}], [EVERYTHING]) == [EVERYTHING]


@given(lists, tolerations)
def test_add_or_update_leaves_the_new_one_in_and_repeating_it_changes_nothing(existing, new):
    add_or_update(existing, new)
    assert new in existing and add_or_update(existing, dict(new)) is False


# --- the plugin ---

A = {"key": "a", "operator": "Exists"}
PRESSURE = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}


def admitted(document, annotations=None, **settings):
    where = namespace(metadata={"annotations": annotations or {}})
    objects = Objects(where, stored("v1", "ServiceAccount", "default", "ns"))
    a = create(document)
    built = chain(
        objects, enable=["PodTolerationRestriction"], disable=["DefaultTolerationSeconds"], **settings
    )
    built.mutate(a)
    built.validate(a)
    return a.object["spec"].get("tolerations", [])


DEFAULTS = "scheduler.alpha.kubernetes.io/defaultTolerations"
WHITELIST = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
CONFLICT = (
    "pod tolerations (possibly merged with namespace default tolerations) conflict with its {} whitelist"
)


@pytest.mark.parametrize(
    ("annotations", "after"),
    [
        ({}, [{"key": "cluster", "operator": "Exists"}]),
        ({DEFAULTS: ""}, []),
        ({DEFAULTS: json.dumps([A])}, [A]),
    ],
)
def test_a_namespace_overrides_the_clusters_defaults(annotations, after):
    default = [{"key": "cluster", "operator": "Exists"}]
    assert admitted(pod(), annotations, default_tolerations=default) == after


def test_a_pod_that_asks_for_memory_tolerates_its_pressure():
    containers = [{"name": "c", "resources": {"requests": {"memory": "1Gi"}}}]
    assert admitted(pod(containers=containers)) == [PRESSURE]


@pytest.mark.parametrize(
    ("annotations", "scope"), [({WHITELIST: json.dumps([A])}, "namespace"), ({}, "cluster")]
)
def test_what_is_not_on_the_whitelist_is_refused_without_a_status_reason(annotations, scope):
    with pytest.raises(InternalError) as refused:
        admitted(
            pod(tolerations=[{"key": "b", "operator": "Exists"}]), annotations, tolerations_whitelist=[A]
        )
    assert (refused.value.message, refused.value.reason) == (CONFLICT.format(scope), "")


def test_an_empty_whitelist_annotation_permits_everything():
    own = [{"key": "b", "operator": "Exists"}]
    assert admitted(pod(tolerations=list(own)), {WHITELIST: ""}, tolerations_whitelist=[A]) == own


def test_an_unreadable_annotation_is_told():
    with pytest.raises(InternalError, match=r"^unexpected end of JSON input$"):
        admitted(pod(), {DEFAULTS: "{"})


def test_the_pods_own_tolerations_come_first():
    own = {"key": "own", "operator": "Exists"}
    assert admitted(pod(tolerations=[own]), {DEFAULTS: json.dumps([A])}) == [own, A]
