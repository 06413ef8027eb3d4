"""Claims about weir.apiserver.auth.written_rights: what is missing is found without multiplying rules out."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from weir.apiserver.auth.rbac import aggregated
from weir.apiserver.auth.rule_coverage import MOST_MISSING, uncovered


def test_a_rule_of_many_members_is_not_multiplied_out():
    """A hundred million rights: whether they are held, or none of them is, takes no time that grows with them."""
    many = [f"x{number}" for number in range(100)]
    rule = {"apiGroups": many, "resources": many, "verbs": many, "resourceNames": many}
    assert uncovered([rule], [rule]) == []
    assert uncovered([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}], [rule]) == []
    assert len(uncovered([], [rule])) == MOST_MISSING
    halves = [{**rule, "verbs": many[:50]}, {**rule, "verbs": many[50:]}]
    small = {**rule, "apiGroups": many[:3], "resources": many[:3], "resourceNames": many[:3]}
    assert uncovered(halves, [small]) == []
    assert uncovered(halves[:1], [{**small, "verbs": many[49:51]}])[0]["verbs"] == ["x50"]


def broken_down(rule):
    """The plain definition: every right of a rule, one by one."""
    for group, resource, verb in itertools.product(
        rule.get("apiGroups", ()), rule.get("resources", ()), rule.get("verbs", ())
    ):
        for name in rule.get("resourceNames") or (None,):
            single = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
            yield single if name is None else {**single, "resourceNames": [name]}


def covers(own, single):
    def has(member, wildcard=True):
        listed = own.get(member) or ()
        return (wildcard and "*" in listed) or single[member][0] in listed

    named = not own.get("resourceNames") or single.get("resourceNames", [None])[0] in own["resourceNames"]
    sub = single["resources"][0].partition("/")[2]
    resource = has("resources") or (sub and f"*/{sub}" in own["resources"])
    return has("verbs") and has("apiGroups") and resource and named


RULES = st.fixed_dictionaries(
    {
        "apiGroups": st.lists(st.sampled_from(["", "apps", "*"]), min_size=1, max_size=2, unique=True),
        "resources": st.lists(
            st.sampled_from(["pods", "pods/log", "*/log", "*"]), min_size=1, max_size=2, unique=True
        ),
        "verbs": st.lists(st.sampled_from(["get", "list", "*"]), min_size=1, max_size=2, unique=True),
    },
    optional={"resourceNames": st.lists(st.sampled_from(["a", "b"]), max_size=2, unique=True)},
)


@given(st.lists(RULES, max_size=3), st.lists(RULES, max_size=2))
def test_what_is_uncovered_is_what_no_rule_covers_one_by_one(held, wanted):
    expected = [s for rule in wanted for s in broken_down(rule) if not any(covers(own, s) for own in held)]
    assert uncovered(held, wanted) == expected


def test_roles_that_select_each_other_are_gathered_once():
    roles = [
        {
            "metadata": {"name": f"r{number}", "labels": {"a": "b"}},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": [f"k{number}"]}],
        }
        for number in range(60)
    ]
    found = aggregated(roles)
    assert {len(rules) for rules in found.values()} == {60}
