"""What webhooks and policies are shown in the version that their rules name.

What a real server shows is held against weir in tests/kubernetes/test_same_equivalents.py.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.apiserver.admission_world import JANE, Objects
from weir.apiserver.admission.attributes import Attributes
from weir.apiserver.admission.chain import Chain
from weir.apiserver.admission.versions import (
    InVersion,
    Unconverted,
    as_kind,
    fetch,
    seen_as,
    spoken_kind,
    taken_from,
)
from weir.apiserver.compat.policies import expression_values
from weir.apiserver.registry.conversion import from_storage
from weir.compat.customresources.served import rows_of
from weir.compat.policies.matching import equivalents, matched_kind, selectors_match
from weir.errors import InternalError
from weir.objects.kinds import by_kind

OLD, NEW = (by_kind(f"autoscaling/{version}", "HorizontalPodAutoscaler") for version in ("v1", "v2"))
PODS, CONFIGS = by_kind("v1", "Pod"), by_kind("v1", "ConfigMap")


def kinds(webhook=False, **versions):
    """The kinds of a definition; the first version is stored, the second one has no status."""
    listed = []
    for i, (name, properties) in enumerate(versions.items()):
        spec = {"type": "object", "properties": properties}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        more = {} if i else {"subresources": {"status": {}}}
        listed.append({"name": name, "served": True, "storage": not i, "schema": schema, **more})
    names = {"plural": "widgets", "kind": "Widget"}
    conversion = {"strategy": "Webhook", "webhook": {}} if webhook else {"strategy": "None"}
    return rows_of(
        {
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "names": names, "versions": listed, "conversion": conversion},
            "status": {"acceptedNames": names, "conditions": [{"type": "Established", "status": "True"}]},
        }
    )


TEXT = {"type": "string"}
V1, V2 = kinds(
    v1={"a": TEXT, "given": {**TEXT, "default": "one"}}, v2={"b": TEXT, "given": {**TEXT, "default": "two"}}
)
W1, W2 = kinds(webhook=True, v1={"a": TEXT}, v2={"b": TEXT})


def widget(kind, **spec):
    metadata = {"name": "w", "namespace": "default"}
    return {"apiVersion": kind.api_version, "kind": "Widget", "metadata": metadata, "spec": spec}


def write(kind, document, requested=None, **rest):
    return Attributes("CREATE", kind, object=document, user=JANE, requested=requested, **rest)


def rule(group, version, resource):
    return {"operations": ["*"], "apiGroups": [group], "apiVersions": [version], "resources": [resource]}


class Converter:
    """Turns `a` into `b` and back, as a conversion webhook."""

    def __init__(self):
        self.asked = []

    async def convert(self, kind, document, to):
        self.asked.append((kind.version, to))
        value = next(iter(document["spec"].values()))
        return {**document, "apiVersion": to, "spec": {"a" if to.endswith("v1") else "b": value}}


def test_the_version_of_the_request_comes_first_and_then_those_of_the_rules():
    a = write(NEW, {}, OLD)
    group, plural = OLD.group, OLD.plural
    assert matched_kind([rule(group, "v2", plural), rule(group, "v1", plural)], a, exact=False) is OLD
    assert matched_kind([rule(group, "v2", plural)], a, exact=False) is NEW
    assert matched_kind([rule(group, "v2", plural)], a, exact=True) is None
    assert matched_kind([rule(group, "*", plural)], a, exact=True) is OLD


def test_a_custom_resource_is_equivalent_to_its_other_served_versions():
    assert equivalents(V1) == (V2,) and equivalents(V2) == (V1,)
    assert equivalents(V1, "status") == () and equivalents(V2, "status") == (V1,)
    assert matched_kind([rule("example.com", "v2", "widgets")], write(V1, {}), exact=False) is V2


def test_kinds_of_the_table_are_converted_from_what_admission_works_on():
    spec = {"maxReplicas": 3, "targetCPUUtilizationPercentage": 60}
    old = {"apiVersion": "autoscaling/v1", "kind": OLD.kind, "metadata": {"name": "h"}, "spec": spec}
    a = write(NEW, None, OLD)
    a.object = dict(taken_from(a, OLD, old))
    assert a.object["apiVersion"] == "autoscaling/v2" and "metrics" in a.object["spec"]
    assert seen_as(a, OLD, a.object)["spec"] == spec and seen_as(a, NEW, a.object) is a.object
    values = expression_values(a, None, NEW)
    told = values["request"]
    assert (told["kind"]["version"], told["requestKind"]["version"]) == ("v2", "v1")
    assert expression_values(a, None)["object"]["apiVersion"] == "autoscaling/v1"


def test_without_a_webhook_custom_resources_keep_their_fields():
    document = widget(V1, a="x")
    a = write(V1, document)
    assert seen_as(a, V2, document) == {**document, "apiVersion": "example.com/v2"}
    back = taken_from(a, V2, widget(V2, a="x", b="y"))
    assert back["apiVersion"] == "example.com/v1" and back["spec"] == {"a": "x", "b": "y", "given": "two"}


def test_what_a_subresource_speaks_has_one_version():
    binding = {"apiVersion": "v1", "kind": "Binding"}
    a = write(PODS, binding, subresource="binding")
    assert seen_as(a, PODS, binding) is binding and taken_from(a, PODS, binding) is binding


def test_a_webhook_converts_each_object_once():
    converter, document = Converter(), widget(W2, b="x")
    a = write(W2, document)
    with pytest.raises(Unconverted) as wanted:
        as_kind(a, W1, W2, document)
    asyncio.run(fetch(converter, a, wanted.value))
    assert as_kind(a, W1, W2, document) == widget(W1, a="x")
    assert as_kind(a, W1, W2, document) == widget(W1, a="x") and converter.asked == [("v2", "example.com/v1")]
    with pytest.raises(Unconverted):
        as_kind(a, W1, W2, widget(W2, b="other"))
    with pytest.raises(InternalError):
        asyncio.run(fetch(None, a, wanted.value))


def test_parameters_are_shown_in_the_version_that_is_asked_for():
    reader = Objects(widget(V1, a="x", given="one"), {**widget(W1, a="x"), "metadata": {"name": "w"}})
    shown = InVersion(reader, write(PODS, {}))
    found = shown.get_now(V2, "default", "w")
    assert found["apiVersion"] == "example.com/v2" and found["spec"] == {"given": "one"}  # as who reads it
    assert shown.get_now(V1, "default", "w") is reader.documents[0]
    assert shown.get_now(V2, "default", "none") is None
    assert [one["apiVersion"] for one in shown.list_now(V2, "default")] == ["example.com/v2"]
    with pytest.raises(Unconverted):
        shown.get_now(W2, "default", "w")


def test_empty_fields_that_only_the_core_group_prints_are_left_out():
    core = {"involvedObject": {}, "reportingComponent": "", "reportingInstance": "", "message": "m"}
    found = from_storage(by_kind("events.k8s.io/v1", "Event"), core)
    assert found == {"regarding": {}, "note": "m"}


class Policy:
    """A plugin that looks at an object in another version, and changes it on the way."""

    name = "MutatingAdmissionPolicy"

    def __init__(self):
        self.seen = []

    def handles(self, operation, kind, subresource):
        return True

    def wants(self, a):
        return True

    def admit(self, a):
        a.object["spec"]["b"] += "!"
        a.warnings.append("looked")
        self.seen.append(seen_as(a, W1, a.object)["spec"])

    def validate(self, a):
        self.seen.append(seen_as(a, W1, a.object)["spec"])


def test_plugins_run_again_once_a_webhook_has_converted():
    policy, converter = Policy(), Converter()
    chain = Chain([policy], policies=policy, conversion=converter)
    a = write(W2, widget(W2, b="x"))

    async def admitted():
        await chain.mutate(a)
        assert a.object["spec"] == {"b": "x!"} and a.warnings == ["looked"]  # as if it had run once
        assert chain.validate(a) is None  # what it needs was converted before
        a.object["spec"]["b"] = "y"
        await chain.validate(a)

    asyncio.run(admitted())
    assert policy.seen == [{"a": "x!"}, {"a": "x!"}, {"a": "y"}]
    assert converter.asked == [("v2", "example.com/v1")] * 2


def deployment(replicas):
    spec = {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "labels": {"a": "b"}},
        "spec": spec,
    }


def test_the_scale_of_a_workload_is_shown_and_taken_back():
    kind = by_kind("apps/v1", "Deployment")
    a = write(kind, deployment(3), subresource="scale")
    shown = expression_values(a, None)["object"]
    assert shown["kind"] == "Scale" and shown["spec"] == {"replicas": 3} and "labels" not in shown["metadata"]
    assert taken_from(a, kind, {**shown, "spec": {"replicas": 5}}) == deployment(5)
    assert seen_as(a, kind, None) is None
    assert (
        spoken_kind(a, kind) is by_kind("autoscaling/v1", "Scale")
        and spoken_kind(write(kind, {}), kind) is kind
    )
    assert spoken_kind(write(PODS, {}, subresource="binding"), PODS) is by_kind("v1", "Binding")


def test_a_scale_has_no_labels_to_be_chosen_by():
    a = write(by_kind("apps/v1", "Deployment"), deployment(3), subresource="scale", namespace="default")
    assert not selectors_match({"objectSelector": {"matchLabels": {"a": "b"}}}, a, Objects())
    absent = {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}
    assert selectors_match({"objectSelector": absent}, a, Objects())
