"""Which expressions of policies are warned of, before they meet an object."""

from __future__ import annotations

import pytest

from weir.compat.policies.type_checking import expression_warnings, kinds_to_check, may_name_custom_kinds

RULE = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}


WIDGETS = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"]}


def objects(**properties):
    return {"type": "object", "properties": properties}


def definition(plural, kind, established=True, **versions):
    names = {"plural": plural, "kind": kind, "singular": kind.lower()}
    listed = [
        {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": found}}
        for name, found in versions.items()
    ]
    conditions = [
        {"type": "Established", "status": str(established)},
        {"type": "NamesAccepted", "status": "True"},
    ]
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {"group": "example.com", "names": names, "scope": "Namespaced", "versions": listed},
        "status": {"acceptedNames": names, "conditions": conditions},
    }


SPEC = objects(
    number={"type": "integer"},
    amount={"x-kubernetes-int-or-string": True},
    when={"type": "string", "format": "date-time"},
    parts={"type": "array", "items": objects(name={"type": "string"})},
    labels={"type": "object", "additionalProperties": {"type": "string"}},
    any={"x-kubernetes-preserve-unknown-fields": True},
    pod={
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    **{"a-b": objects(c={"type": "string"}), "namespace": {"type": "string"}},
)
CUSTOM = (
    definition("widgets", "Widget", v1=objects(spec=SPEC), v1beta1=objects(old={"type": "string"})),
    definition("deployments", "Deployment", v1=objects(spec=objects(custom={"type": "integer"}))),
    definition("drafts", "Draft", established=False, v1=objects()),
)


def warned(*validations, rules=(RULE,), definitions=(), **spec):
    checks = [{"expression": one} if isinstance(one, str) else one for one in validations]
    whole = {"matchConstraints": {"resourceRules": list(rules)}, "validations": checks, **spec}
    return [(one["fieldRef"], one["warning"]) for one in expression_warnings({"spec": whole}, definitions)]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("object.spec.replicas > 1", ""),
        ("object.metadata.namespace == 'x' && object.metadata.__namespace__ == 'x'", ""),
        ("object.spec.strategy.rollingUpdate.maxSurge == 1", ""),
        ("object.spec.replicas > '1'", "found no matching overload for '_>_' applied to '(int, string)'"),
        ("oldObject.spec.bogus == 1", "undefined field 'bogus'"),
        ("object.spec.template.spec.containers.all(c, c.imag == 'x')", "undefined field 'imag'"),
        ("object.metadata.creationTimestamp == 'x'", "(timestamp, string)"),
    ],
)
def test_expressions_are_checked_with_the_types_of_the_kind(expression, said):
    found = warned(expression)
    assert bool(found) == bool(said)
    if said:
        ((field, warning),) = found
        assert field == "spec.validations[0].expression"
        assert warning.startswith("apps/v1, Kind=Deployment: ERROR: <input>:1:") and said in warning


def test_every_kind_that_a_rule_names_is_checked():
    rule = {**RULE, "resources": ["deployments", "statefulsets", "statefulsets/scale"]}
    ((_, warning),) = warned("object.spec.serviceName == 'a'", rules=[rule])
    assert "Kind=Deployment" in warning and "Kind=StatefulSet" not in warning
    assert [kind.kind for kind in kinds_to_check({"matchConstraints": {"resourceRules": [rule]}})] == [
        "Deployment",
        "StatefulSet",
    ]


def test_what_is_not_known_is_not_warned_of():
    for rule in (
        {**RULE, "apiGroups": ["*"]},
        {**RULE, "apiGroups": ["a.example"]},
        {**RULE, "resources": ["*"]},
    ):
        assert warned("object.spec.bogus == 1", rules=[rule]) == []
    assert warned("params.x.y == 1", paramKind={"apiVersion": "a.example/v1", "kind": "Gone"}) == []


def test_parameters_variables_and_messages_are_checked_too():
    maps = {"apiVersion": "v1", "kind": "ConfigMap"}
    assert "(string, int)" in warned("params.data.a == 1", paramKind=maps)[0][1]
    variables = [{"name": "r", "expression": "object.spec.replicas"}]
    assert "(int, string)" in warned("variables.r == 'a'", variables=variables)[0][1]
    message = {"expression": "true", "messageExpression": "object.metadata.nme"}
    assert warned(message)[0][0] == "spec.validations[0].messageExpression"


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("object.spec.number > 1 && object.spec.amount == 'a' && object.spec.amount == 1", ""),
        ("object.metadata.labels['a'] == 'b' && object.spec.pod.metadata.labels['a'] == 'b'", ""),
        ("object.spec.namespace == object.spec.__namespace__ && object.kind == 'Widget'", ""),
        ("object.spec.number > '1'", "(int, string)"),
        ("object.spec.bogus == 1", "undefined field 'bogus'"),
        ("object.metadata.bogus == 1", "undefined field 'bogus'"),
        ("object.spec.parts.all(p, p.size == 1)", "undefined field 'size'"),
        ("object.spec.labels.a == 1", "(string, int)"),
        ("object.spec.when == 'x'", "(timestamp, string)"),
        ("object.spec.any == 1", "undefined field 'any'"),
        ("object.spec.pod.spec == 1", "undefined field 'spec'"),
        ("object.spec.a__dash__b == 1", "(Widget1.spec.a__dash__b, int)"),
    ],
)
def test_custom_kinds_have_the_types_of_their_schemas(expression, said):
    found = warned(expression, rules=[WIDGETS], definitions=CUSTOM)
    assert bool(found) == bool(said)
    if said:
        assert (
            found[0][1].startswith("example.com/v1, Kind=Widget: ERROR: <input>:1:") and said in found[0][1]
        )


def test_every_version_of_a_custom_kind_has_types_of_its_own():
    both = {**WIDGETS, "apiVersions": ["v1", "v1beta1"]}
    ((_, warning),) = warned("object.old == 'a'", rules=[both], definitions=CUSTOM)
    assert "example.com/v1, Kind=Widget" in warning and "v1beta1" not in warning
    params = {"apiVersion": "example.com/v1beta1", "kind": "Widget"}
    ((_, warning),) = warned("params.old == object", rules=[WIDGETS], definitions=CUSTOM, paramKind=params)
    assert "(string, Widget1)" in warning


def test_only_established_definitions_that_are_named_are_read():
    drafts = {**WIDGETS, "resources": ["drafts"]}
    assert warned("object.bogus == 1", rules=[drafts], definitions=CUSTOM) == []
    broken = {"spec": {"names": {"plural": "others", "kind": "Other"}}}  # would fail if it was read
    assert len(warned("object.bogus == 1", rules=[WIDGETS], definitions=(broken, *CUSTOM))) == 1


def test_the_core_group_stands_for_any_and_names_may_be_singular():
    core = {**RULE, "apiGroups": [""]}
    ((_, warning),) = warned("object.spec.custom == 1", rules=[core], definitions=CUSTOM)
    assert warning.count("Kind=") == 1 and "apps/v1, Kind=Deployment" in warning
    assert (
        len(warned("object.bogus == 1", rules=[{**WIDGETS, "resources": ["Widget"]}], definitions=CUSTOM))
        == 1
    )


def test_ten_kinds_of_a_rule_are_checked():
    many = [definition(f"things{i}", f"Thing{i}", v1=objects()) for i in range(9)]
    rule = {**WIDGETS, "resources": [f"things{i}" for i in range(9)]}
    ((_, warning),) = warned("object.bogus == 1", rules=[rule, RULE], definitions=many)
    assert warning.count("Kind=Thing") == 9 and "Kind=Deployment" in warning
    rule["resources"] += ["widgets", "deployments"]
    ((_, warning),) = warned("object.bogus == 1", rules=[rule, RULE], definitions=(*many, *CUSTOM))
    assert warning.count("Kind=") == 10 and "apps/v1" not in warning  # the rule that has ten is the last


def test_it_is_told_which_policies_need_definitions():
    def needs(*rules, **spec):
        return may_name_custom_kinds({"matchConstraints": {"resourceRules": list(rules)}, **spec})

    assert needs(WIDGETS) and needs(RULE, WIDGETS) and needs({**RULE, "apiVersions": ["v1", "v9"]})
    assert not needs(RULE) and not needs({**WIDGETS, "resources": ["*"]}) and not needs()
    assert needs(RULE, paramKind={"apiVersion": "example.com/v1", "kind": "Widget"})
    assert not needs(RULE, paramKind={"apiVersion": "v1", "kind": "ConfigMap"})
