"""SemVer requirements as labels."""

from __future__ import annotations

from weir.lowering.affinity import (
    affinity_problems,
    mark_affinity,
    mark_volume,
    relabelled,
    requirement_labels,
    volume_problems,
)
from weir.lowering.names import REQUIREMENTS, label_key, requirement_hash
from weir.lowering.tolerations import write_originals

NEWER = {"key": "v", "operator": "SemverGt", "values": ["1.2.3"]}
HASH = requirement_hash(NEWER)
LABEL = {"key": label_key(HASH), "operator": "In", "values": ["true"]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def required(*requirements):
    terms = [{"matchExpressions": [r], "matchFields": []} for r in requirements]
    return {"podAffinity": {"kept": 1}, "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


def test_only_the_requirement_changes():
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    assert mark_affinity(required(NEWER, zone)) == (required(LABEL, zone), {HASH: NEWER})
    assert mark_affinity(None) == (None, {})
    assert mark_affinity({"podAffinity": {}}) == ({"podAffinity": {}}, {})


def test_what_was_lowered_before_keeps_its_original():
    annotations = {REQUIREMENTS: write_originals({HASH: NEWER})}
    assert mark_affinity(required(LABEL), annotations) == (required(LABEL), {HASH: NEWER})


def test_volumes():
    volume = {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [NEWER]}]}}}}
    marked, found = mark_volume(volume)
    assert found == {HASH: NEWER}
    assert marked["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] == [{"matchExpressions": [LABEL]}]
    assert mark_volume({"spec": {}}) == ({"spec": {}}, {})


def test_a_bad_version_is_refused_at_its_place():
    (problem,) = affinity_problems(required({**NEWER, "values": ["x"]}), "spec.affinity")
    assert problem.startswith(
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values[0]"
    )
    bad = {
        "spec": {
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [{**NEWER, "values": []}]}]}
            }
        }
    }
    assert "must be specified single value" in volume_problems(bad)[0]


def test_labels_of_others_are_left_alone():
    mine, other = label_key("1"), label_key("2")
    assert relabelled({"a": "b", mine: "true", other: "true"}, set(), {mine}) == {"a": "b", other: "true"}
    assert relabelled({"a": "b"}, {mine}, {mine}) == {"a": "b", mine: "true"}


def preferred(*preferences):
    return {"nodeAffinity": {PREFERRED: [{"weight": 5, "preference": each} for each in preferences]}}


def test_preferences_are_lowered_as_well_and_what_asks_nothing_stays():
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    lowered = preferred({"matchExpressions": [LABEL]}, by_name, {})
    assert mark_affinity(preferred({"matchExpressions": [NEWER]}, by_name, {})) == (lowered, {HASH: NEWER})
    missing = {"nodeAffinity": {PREFERRED: [{"weight": 5}]}}
    assert mark_affinity(missing) == (preferred({}), {})


def test_a_bad_version_of_a_preference_is_refused_at_its_place():
    (problem,) = affinity_problems(preferred({}, {"matchExpressions": [{**NEWER, "values": ["x"]}]}), "at")
    assert problem.startswith(f"at.nodeAffinity.{PREFERRED}[1].preference.matchExpressions[0].values[0]")
    assert affinity_problems({"nodeAffinity": {PREFERRED: [{"weight": 5}]}}, "at") == []


def test_values_beside_a_version_are_for_the_server_to_check():
    odd = {"key": "zone", "operator": "In", "values": ["not a label value"]}
    term = {"matchExpressions": [NEWER, odd]}
    assert affinity_problems({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}, "at") == []


def test_a_node_carries_the_labels_of_the_requirements_it_meets():
    older = {"key": "v", "operator": "SemverLt", "values": ["1.2.3"]}
    requirements = {HASH: NEWER, requirement_hash(older): older}
    assert list(requirement_labels(requirements, {"v": "1.3.0"})) == [label_key(HASH)]
    assert list(requirement_labels(requirements, {"v": "1.2.3"})) == []
