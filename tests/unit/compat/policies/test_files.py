"""Claims about weir.compat.policies.files and `weir lint --policies`: manifests judged by files, or not."""

from __future__ import annotations

import pytest

from weir.cli.main import run
from weir.gates import ALL_FEATURES
from weir.lint.check import lint
from weir.objects.manifest import read_manifest

RULE = '{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: [CREATE]}'


def policy(expression, more="", match="", binding="validationActions: [Deny]"):
    return f"""\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: p}}
spec:
  matchConstraints: {{resourceRules: [{RULE}]{match}}}
  validations: [{{expression: "{expression}", message: nope}}]
{more}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: b}}
spec: {{policyName: p, {binding}}}
"""


CHANGING = f"""\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: m}}
spec:
  reinvocationPolicy: Never
  matchConstraints: {{resourceRules: [{RULE}]}}
  mutations: [{{patchType: JSONPatch, jsonPatch: {{expression: "[JSONPatch{{op: 'remove', path: '/x'}}]"}}}}]
"""
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: app}]}\n"
SPACE = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {tier: gold}}\n"
PARAM = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: limits}\ndata: {most: '3'}\n"
REF = "paramRef: {name: limits, parameterNotFoundAction: Deny}, validationActions: [Deny]"
MAPS = "  paramKind: {apiVersion: v1, kind: ConfigMap}"
REFUSED = ("error", "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: nope")


def judged(policies, text=POD):
    found = lint(read_manifest(text, "f.yaml"), ALL_FEATURES, policies=read_manifest(policies, "p.yaml"))
    return [(one.severity.value, one.message) for one in found if one.rule.code == "W050"]


def unjudged(why):
    return [("note", f"not judged by ValidatingAdmissionPolicy 'p': {why}")]


@pytest.mark.parametrize(
    ("policies", "said"),
    [
        (policy("object.spec.containers.all(c, c.image != 'app')"), [REFUSED]),
        (policy("object.spec.containers.all(c, c.image == 'app')"), []),
        (policy("object.spec.restartPolicy == 'Always'"), []),
        (
            policy("false", binding="validationActions: [Warn]"),
            [("warning", "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': nope")],
        ),
        (
            policy("false", binding="validationActions: [Audit]"),
            [("note", "ValidatingAdmissionPolicy 'p' with binding 'b' would note in the audit log: nope")],
        ),
        (
            policy("authorizer.group('').resource('pods').check('get').allowed()"),
            unjudged("what the writer may do is not known (authorizer)"),
        ),
        (policy("request.userInfo.username == 'jane'"), unjudged("who writes is not known")),
        (policy("true || request.userInfo.username == 'jane'"), []),
        (policy("request.operation == 'CREATE' && request.namespace == 'default'"), []),
        (
            policy("namespaceObject.metadata.labels.tier == 'tin'"),
            unjudged("Namespace default is not among the files"),
        ),
        (policy("namespaceObject.metadata.labels.tier == 'tin'") + SPACE, [REFUSED]),
        (policy("namespaceObject.metadata.labels.tier == 'gold'") + SPACE, []),
        (
            policy("false", match=", namespaceSelector: {matchLabels: {tier: tin}}"),
            unjudged("Namespace default is not among the files"),
        ),
        (policy("false", match=", namespaceSelector: {matchLabels: {tier: tin}}") + SPACE, []),
        (policy("params.data.most == '3'", MAPS, binding=REF) + PARAM, []),
        (policy("params.data.most == '4'", MAPS, binding=REF) + PARAM, [REFUSED]),
        (
            policy("params.data.most == '3'", MAPS, binding=REF),
            unjudged("ConfigMap default/limits is not among the files"),
        ),
    ],
)
def test_a_pod_is_judged_by_what_the_files_say(policies, said):
    assert judged(policies) == said


def test_parameters_of_a_custom_kind_come_from_a_definition_and_an_object_among_the_files():
    definition = """\
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: limits.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: limits, kind: Limit}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: example.com/v1
kind: Limit
metadata: {name: limits}
spec: {most: 1}
"""
    kind = "  paramKind: {apiVersion: example.com/v1, kind: Limit}"
    assert (
        judged(policy("size(object.spec.containers) <= params.spec.most", kind, binding=REF) + definition)
        == []
    )
    assert judged(
        policy("size(object.spec.containers) < params.spec.most", kind, binding=REF) + definition
    ) == [REFUSED]


def test_what_the_server_refuses_itself_is_not_judged_a_second_time():
    assert judged(policy("false"), POD.replace("image: app", "image: ''")) == []


def test_broken_files_are_no_traceback():
    for text in (
        "[]",
        "a: b",
        "kind: Pod",
        "apiVersion: v1\nkind: Pod\nmetadata: []",
        "kind: 5\napiVersion: 6",
    ):
        assert judged(policy("false"), text) in ([], [REFUSED])
        assert judged(f"{policy('true')}---\n{text}\n") == []


def test_the_command_says_what_was_not_judged_and_wants_a_binding(tmp_path, capsys):
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "policies.yaml").write_text(policy("request.userInfo.username == 'jane'"))
    (tmp_path / "alone.yaml").write_text(policy("true").partition("---")[0])
    asked = ["lint", str(tmp_path / "pod.yaml"), "--feature-gates", "TaintTolerationCEL=false", "--policies"]
    assert run([*asked, str(tmp_path / "policies.yaml")]) == 0
    assert "not judged by some policies: 1 object (--level note says why)" in capsys.readouterr().err
    assert run([*asked, str(tmp_path / "alone.yaml")]) == 2
    assert "no ValidatingAdmissionPolicy with a binding" in capsys.readouterr().err
    (tmp_path / "alone.yaml").write_text(policy("1"))
    assert run([*asked, str(tmp_path / "alone.yaml")]) == 2
    assert "spec.validations[0].expression: Invalid value" in capsys.readouterr().err
    (tmp_path / "policies.yaml").write_text(policy("false"))
    assert run([*asked, str(tmp_path / "policies.yaml")]) == 1
    assert "denied request: nope" in capsys.readouterr().out
    changing = policy("true") + "---\n" + CHANGING
    (tmp_path / "policies.yaml").write_text(changing)
    assert run([*asked, str(tmp_path / "policies.yaml")]) == 0
    assert "MutatingAdmissionPolicy m is not applied" in capsys.readouterr().err
