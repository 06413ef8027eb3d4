"""The names that lowering leaves in a cluster: valid, and the same for the same original."""

from __future__ import annotations

import pytest

from weir.lowering import names
from weir.values.names import check_label_key, check_label_value

GT = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute"}


def test_every_mark_is_a_name_that_kubernetes_accepts():
    hash_ = names.toleration_hash(GT)
    for key in (
        names.marker_key(hash_),
        names.label_key(hash_),
        names.TOLERATIONS,
        names.REQUIREMENTS,
        names.GATE,
        names.SENTINEL_GATE,
    ):
        assert not check_label_key(key)
    assert not check_label_value(names.LABEL_VALUE)


def test_a_name_leads_back_to_its_hash_and_no_other_name_does():
    hash_ = names.toleration_hash(GT)
    assert names.marked_hash(names.marker_key(hash_)) == hash_
    assert names.labelled_hash(names.label_key(hash_)) == hash_
    assert names.marked_hash(names.label_key(hash_)) == ""
    assert names.labelled_hash(names.GATE) == ""


@pytest.mark.parametrize("field, value", [("key", "x"), ("operator", "Lt"), ("value", "901"), ("effect", "")])
def test_another_entry_has_another_hash(field, value):
    assert names.toleration_hash({**GT, field: value}) != names.toleration_hash(GT)


def test_seconds_may_change_without_another_hash_and_absent_is_empty():
    assert names.toleration_hash({**GT, "tolerationSeconds": 3}) == names.toleration_hash(GT)
    assert names.toleration_hash({"operator": "CEL", "value": "true"}) == names.toleration_hash(
        {"key": "", "operator": "CEL", "value": "true", "effect": None}
    )


def test_requirements_and_daemonsets_have_their_own():
    requirement = {"key": "v", "operator": "SemverGt", "values": ["1.2.3"]}
    assert names.requirement_hash(requirement) != names.requirement_hash({**requirement, "values": ["1.2.4"]})
    assert names.daemonset_hash("a", "d", [GT]) != names.daemonset_hash("b", "d", [GT])
