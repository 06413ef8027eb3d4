"""SemVer requirements as labels."""

from __future__ import annotations

from weir.lowering.affinity import affinity_problems, mark_affinity, mark_volume, relabelled, volume_problems
from weir.lowering.names import REQUIREMENTS, label_key, requirement_hash
from weir.lowering.tolerations import write_originals

NEWER = {"key": "v", "operator": "SemverGt", "values": ["1.2.3"]}
HASH = requirement_hash(NEWER)
LABEL = {"key": label_key(HASH), "operator": "In", "values": ["true"]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


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
