"""What a snapshot holds: objects of kinds that have a part in a copy, read, and told from what was made up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from weir.objects.core import ViewError
from weir.whatif.snapshot import LEFT_OUT, Snapshot, owner_of, read_object

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def node(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}}


def account(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, **metadata}}


def test_the_owner_of_an_object_is_its_controller():
    first, second = {"name": "x"}, {"name": "y", "controller": True}
    assert owner_of(node("a", ownerReferences=[first, second])) is second
    assert owner_of(node("a", ownerReferences=[first])) is None
    assert (owner_of(node("a", ownerReferences=None)), owner_of(node("a"))) == (None, None)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"kind": 7, "apiVersion": "v1"},
        *({"kind": kind, "apiVersion": "v1", "metadata": {"name": "x"}} for kind in sorted(LEFT_OUT)),
        {"kind": "Rollout", "apiVersion": "argoproj.io/v1alpha1", "metadata": {"name": "x"}},
        {"kind": "Rollout", "metadata": {"name": "x"}},
        {"kind": "Node", "apiVersion": "v9", "metadata": {"name": "x"}},
        {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {"name": "x"}},
    ],
    ids=str,
)
def test_what_has_no_part_in_a_copy_is_left_out(document):
    assert read_object(document) is None
    snapshot = Snapshot(NOW)
    snapshot.add(document)
    assert list(snapshot.objects()) == []


@pytest.mark.parametrize("version", [None, 7, ""])
def test_a_kind_without_a_version_is_taken_as_the_one_that_is_stored(version):
    found = read_object({"kind": "Deployment", "apiVersion": version, "metadata": {"name": "d"}, "spec": {}})
    assert found is not None and found["apiVersion"] == "apps/v1"


def test_only_namespaced_objects_get_a_namespace():
    there, nowhere, empty = account("x", namespace="team"), account("x"), account("x", namespace="")
    found = [read_object(each) for each in (there, nowhere, empty, node("a"))]
    assert [each and each["metadata"].get("namespace") for each in found] == [
        "team",
        "default",
        "default",
        None,
    ]


@pytest.mark.parametrize(
    "document, said",
    [
        ({"kind": "Node", "apiVersion": "v1"}, "Node: metadata.name is missing"),
        ({"kind": "Node", "apiVersion": "v1", "metadata": {}}, "Node: metadata.name is missing"),
        ({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": 5}, "Node a: "),
        ({"kind": "Node", "apiVersion": "v1", "metadata": 5}, "Node : "),
    ],
)
def test_what_cannot_be_read_is_named(document, said):
    with pytest.raises(ViewError) as raised:
        read_object(document)
    assert str(raised.value).startswith(said)


def test_an_object_keeps_its_uid_and_time_or_gets_them():
    snapshot = Snapshot(NOW)
    snapshot.add(node("a", uid="u", creationTimestamp="2025-01-01T00:00:00Z"))
    snapshot.add(node("b"))
    snapshot.add(account("x"))
    told = {
        each["metadata"]["name"]: (each["metadata"]["uid"], each["metadata"]["creationTimestamp"])
        for each in snapshot.objects()
    }
    assert told == {
        "a": ("u", "2025-01-01T00:00:00Z"),
        "b": ("node/b", "2026-01-01T12:00:00Z"),
        "x": ("serviceaccount/default/x", "2026-01-01T12:00:00Z"),
    }


def test_objects_come_by_kind_and_name():
    snapshot = Snapshot(NOW)
    for document in (node("b"), account("x"), node("a")):
        snapshot.add(document)
    assert [each["metadata"]["name"] for each in snapshot.objects()] == ["a", "b", "x"]


def test_what_is_there_is_not_made_up():
    snapshot = Snapshot(NOW)
    snapshot.add(account("x", uid="u"))
    snapshot.ensure("v1", "ServiceAccount", "default", "x", {})
    snapshot.ensure("v1", "ServiceAccount", "team", "x", {}, {"note": "y"})
    assert snapshot.of("ServiceAccount")["default", "x"]["metadata"]["uid"] == "u"
    assert snapshot.of("ServiceAccount")["team", "x"]["metadata"]["annotations"] == {
        "note": "y",
        "weir.dev/not-collected": "true",
    }


def test_what_is_made_up_has_its_defaults_and_no_namespace_it_cannot_have():
    snapshot = Snapshot(NOW)
    snapshot.ensure("scheduling.k8s.io/v1", "PriorityClass", "", "high", {"value": 5})
    (found,) = snapshot.objects()
    assert (found["value"], found["preemptionPolicy"], "namespace" in found["metadata"]) == (
        5,
        "PreemptLowerPriority",
        False,
    )


def test_what_is_made_up_does_not_count_as_collected():
    snapshot = Snapshot(NOW)
    assert not snapshot.collected("ServiceAccount")
    snapshot.ensure("v1", "ServiceAccount", "team", "x", {})
    assert not snapshot.collected("ServiceAccount")
    snapshot.add(account("y"))
    assert snapshot.collected("ServiceAccount")
