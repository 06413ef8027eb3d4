"""Claims about the plugins of policies: what they change, whom they refuse, warn and note, and what that costs."""

import asyncio
import json
from typing import Any

import pytest

from tests.unit.apiserver.admission_world import (
    JANE,
    Objects,
    create,
    namespace,
    ordinary,
    pod,
    stored,
    update,
)
from weir.apiserver.admission.attributes import Attributes
from weir.apiserver.admission.chain import Chain
from weir.apiserver.auth.authn import User
from weir.apiserver.auth.rbac import Action, Decision
from weir.apiserver.compat.policies import MutatingPolicies, ValidatingPolicies
from weir.apiserver.transport.bodies import WarningRecorder
from weir.errors import ApiError, Forbidden
from weir.objects.defaults import default
from weir.objects.document import check
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind

# ── claims about the plugin MutatingAdmissionPolicy: what policies change, who runs again, and who is refused ──


# ruff: noqa: E501  (tables read better on long lines)


VERSION = "admissionregistration.k8s.io/v1"
RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}


def apply(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def data(text: str) -> dict[str, Any]:
    return apply(f"Object{{data: {text}}}")


def policy(name: str, *mutations: dict[str, Any], **spec: Any) -> list[dict[str, Any]]:
    whole = {"matchConstraints": {"resourceRules": [RULE]}, "mutations": list(mutations), **spec}
    bound = stored(VERSION, "MutatingAdmissionPolicyBinding", name, spec={"policyName": name})
    return [stored(VERSION, "MutatingAdmissionPolicy", name, spec=whole), bound]


def settle(document: dict[str, Any], kind: Kind) -> dict[str, Any]:
    made, _ = check(document, kind, field_validation="Strict")
    default(made, kind)
    return made


def config(**values: str) -> dict[str, Any]:
    return stored("v1", "ConfigMap", "c", "ns", data=dict(values))


def changed(*policies: dict[str, Any], a: Attributes | None = None, webhooks: Any = None) -> Any:
    """Return the data of a ConfigMap after a whole admission."""
    objects = Objects(*ordinary().documents, *policies)
    a = a or create(config(a="1"))
    chain = Chain.build(objects, more=[MutatingPolicies(objects, settle)], webhooks=webhooks)
    pending = chain.mutate(a)
    assert pending is not None, "no policy was about the write"

    async def done() -> None:
        await pending

    asyncio.run(done())
    assert a.object is not None
    return a.object.get("data")


@pytest.mark.parametrize(
    ("mutations", "left"),
    [
        ([data("{'b': object.data.a + '!'}")], {"a": "1", "b": "1!"}),
        ([patch("[JSONPatch{op: 'replace', path: '/data/a', value: '2'}]")], {"a": "2"}),
        ([patch("[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('x'), value: 'y'}]")], {"a": "1", "x": "y"}),
        ([patch("[JSONPatch{op: 'test', path: '/data/a', value: '2'}, JSONPatch{op: 'remove', path: '/data/a'}]")], {"a": "1"}),
        ([data("{'b': '1'}"), data("{'c': object.data.b + '2'}")], {"a": "1", "b": "1", "c": "12"}),
        ([patch("has(object.data.z) ? [JSONPatch{op: 'remove', path: '/data/z'}] : []")], {"a": "1"}),
    ],
)  # fmt: skip
def test_what_a_policy_changes(mutations, left):
    assert changed(*policy("p", *mutations)) == left


def test_containers_are_merged_by_name_and_defaults_filled_in():
    sidecar = apply(
        "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 'proxy:1'}, "
        "Object.spec.containers{name: 'c', workingDir: '/'}]}}"
    )
    written = stored("v1", "Pod", "p", "ns", spec={"containers": [{"name": "c", "image": "app"}]})
    a = create(written)
    changed(*policy("p", sidecar), a=a)
    found = {one["name"]: one for one in a.object["spec"]["containers"]}
    assert found["c"]["image"] == "app" and found["c"]["workingDir"] == "/"
    assert found["side"]["imagePullPolicy"] == "IfNotPresent"


@pytest.mark.parametrize(
    ("mutation", "said"),
    [
        (data("{'b': string(object.data.zzz)}"), "resulted in error: no such key: zzz"),
        (apply("Object{bogus: 1}"), "failed to convert patch object to typed object: .bogus: field not declared in schema"),
        (
            apply("Object{metadata: Object.spec{}}"),
            'type mismatch: unexpected type name "Object.spec", expected "Object.metadata"',
        ),
        (patch("[JSONPatch{op: 'remove', path: '/data/zzz'}]"), "JSON Patch: error in remove for path: '/data/zzz'"),
        (
            apply("Object{metadata: Object.metadata{ownerReferences: null}}"),
            ".metadata.ownerReferences: expected list, got",
        ),
        (apply("Object{immutable: null}"), ".immutable: expected boolean, got"),
    ],
)  # fmt: skip
def test_a_mutation_that_cannot_be_made_is_refused_or_ignored(mutation, said):
    with pytest.raises(Forbidden) as caught:
        changed(*policy("p", mutation))
    assert caught.value.message.startswith("policy 'p' with binding 'p' denied request: ")
    assert said in caught.value.message and caught.value.reason == "Invalid"
    assert changed(*policy("p", mutation, failurePolicy="Ignore")) == {"a": "1"}


def test_what_is_owned_whole_is_left_alone():
    written = stored("v1", "Pod", "p", "ns", spec={"containers": [{"name": "c", "image": "app"}]})
    args = apply("Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', args: ['x']}]}}")
    with pytest.raises(
        Forbidden, match=r"may not mutate atomic arrays, maps or structs: \.spec\.containers\[0\]\.args"
    ):
        changed(*policy("p", args), a=create(written))


def test_a_patch_that_makes_no_object_of_the_kind_is_the_servers_error():
    with pytest.raises(ApiError, match="cannot unmarshal number") as caught:
        changed(*policy("p", patch("[JSONPatch{op: 'add', path: '/data', value: 1}]")))
    assert caught.value.code == 500


@pytest.mark.parametrize(("reinvocation", "count"), [("IfNeeded", "11"), ("Never", "1")])
def test_a_policy_that_ran_before_a_change_runs_again_once_if_it_wants_to(reinvocation, count):
    first = policy(
        "a", data("{'n': (has(object.data.n) ? object.data.n : '') + '1'}"), reinvocationPolicy=reinvocation
    )
    second = policy("b", data("{'b': 'x'}"))
    assert changed(*first, *second)["n"] == count


def test_a_policy_after_which_nothing_changed_does_not_run_again():
    only = policy(
        "a", data("{'n': (has(object.data.n) ? object.data.n : '') + '1'}"), reinvocationPolicy="IfNeeded"
    )
    assert changed(*only)["n"] == "1"


class Hooks:
    """Webhooks that come after policies: they see what those left, and may change it themselves."""

    def __init__(self, changes: bool) -> None:
        self.changes, self.saw = changes, []

    def mutate(self, a, again):
        async def ask():
            self.saw.append(dict(a.object["data"]))
            if self.changes:
                a.object["data"] = {**a.object["data"], "hook": "y"}
            if self.changes or a.rounds.changed:
                again(a)

        return ask()

    def validate(self, a):
        return None


def test_webhooks_see_what_policies_left_and_policies_look_again_after_webhooks():
    noted = policy(
        "p", data("{'seen': has(object.data.hook) ? object.data.hook : 'n'}"), reinvocationPolicy="IfNeeded"
    )
    hooks = Hooks(changes=True)
    assert changed(*noted, webhooks=hooks) == {"a": "1", "hook": "y", "seen": "y"}
    assert hooks.saw == [{"a": "1", "seen": "n"}]


def test_match_conditions_and_parameters_decide_as_for_validating_policies():
    conditions = [{"name": "c", "expression": "object.data.a == '2'"}]
    assert changed(*policy("p", data("{'b': 'x'}"), matchConditions=conditions)) == {"a": "1"}
    with pytest.raises(Forbidden, match='policy "p" denied request: failed to configure policy'):
        changed(*policy("p", data("{'b': 'x'}"), paramKind={"apiVersion": "a.b/v1", "kind": "Gone"}))


def test_deletions_and_policies_themselves_are_not_changed():
    plugin = MutatingPolicies(Objects(namespace()), settle)
    assert plugin.handles("CREATE", by_kind("v1", "Pod"), "")
    assert not plugin.handles("DELETE", by_kind("v1", "Pod"), "")
    assert not plugin.handles("CREATE", by_kind(VERSION, "MutatingAdmissionPolicy"), "")


# ── claims about the plugin ValidatingAdmissionPolicy: who is refused, warned and noted, and what that costs others ──


def validating_policy(
    name: str, *validations: Any, rule: Any = None, match: Any = None, **spec: Any
) -> dict[str, Any]:
    checks = [{"expression": one} if isinstance(one, str) else one for one in validations]
    constraints = {"resourceRules": [rule or RULE], **(match or {})}
    whole = {"matchConstraints": constraints, "validations": checks, **spec}
    return stored(VERSION, "ValidatingAdmissionPolicy", name, spec=whole)


def binding(name: str, of: str = "", **spec: Any) -> dict[str, Any]:
    whole = {"policyName": of or name, "validationActions": ["Deny"], **spec}
    return stored(VERSION, "ValidatingAdmissionPolicyBinding", name, spec=whole)


def world(*documents: dict[str, Any]) -> Objects:
    return Objects(namespace("ns", metadata={"labels": {"tier": "gold"}}), *documents)


def judged(objects: Objects, a: Attributes, decide: Any = None) -> tuple[int, str]:
    """Return the code and message of the refusal, (201, "") without one."""
    try:
        ValidatingPolicies(objects, decide).validate(a)
    except ApiError as error:
        return error.code, error.message
    return 201, ""


def test_a_refusal_names_policy_binding_and_expression():
    code, message = judged(
        world(validating_policy("p", "object.spec.x == 1 || false"), binding("b", "p")), create(pod(x=2))
    )
    assert code == 422
    assert message == (
        "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
        "failed expression: object.spec.x == 1 || false"
    )


@pytest.mark.proves("5055-24")
def test_a_policy_limits_the_tolerations_of_claims():
    requests = "object.spec.devices.requests"
    limit = validating_policy("p", f"!{requests}.exists(r, has(r.exactly.tolerations))")

    def claim(**exactly: Any) -> Attributes:
        request = {"name": "r", "exactly": {"deviceClassName": "gpu", **exactly}}
        spec = {"devices": {"requests": [request]}}
        return create(stored("resource.k8s.io/v1", "ResourceClaim", "c", "ns", spec=spec))

    codes = [
        judged(world(*documents), each)[0]
        for documents in ((), (limit, binding("b", "p")))
        for each in (claim(), claim(tolerations=[{"operator": "Exists"}]))
    ]
    assert codes == [201, 201, 201, 422]


@pytest.mark.parametrize(
    ("reason", "code"), [("Forbidden", 403), ("RequestEntityTooLarge", 413), ("Invalid", 422), (None, 422)]
)
def test_the_reason_of_a_validation_is_the_code_of_the_refusal(reason, code):
    rule = {"expression": "false", **({"reason": reason} if reason else {})}
    assert judged(world(validating_policy("p", rule), binding("p")), create(pod()))[0] == code


def test_a_policy_without_binding_and_a_binding_without_policy_do_nothing():
    assert judged(world(validating_policy("p", "false"), binding("b", "q")), create(pod())) == (201, "")


@pytest.mark.parametrize(
    ("failure_policy", "code"),
    [("Fail", 422), ("Ignore", 201)],
)
def test_an_expression_that_fails_means_what_the_failure_policy_says(failure_policy, code):
    made = validating_policy("p", "object.spec.nope == 1", failurePolicy=failure_policy)
    found, message = judged(world(made, binding("p")), create(pod()))
    assert found == code
    assert not message or message.endswith("resulted in error: no such key: nope")


def test_variables_are_computed_when_they_are_used_and_only_once():
    asked = []

    def decide(user: User, action: Action) -> Decision:
        asked.append(action.resource)
        return Decision(True, "")

    used = "authorizer.group('').resource('used').check('get').allowed()"
    unused = "authorizer.group('').resource('unused').check('get').allowed()"
    made = validating_policy(
        "p",
        "variables.a",
        "variables.a && variables.b",
        variables=[
            {"name": "a", "expression": used},
            {"name": "b", "expression": "variables.a"},
            {"name": "c", "expression": unused},
        ],
    )
    assert judged(world(made, binding("p")), create(pod()), decide) == (201, "")
    assert asked == ["used"]


def test_the_message_is_the_expressions_then_the_text_then_the_rule():
    rules = [
        {"expression": "false", "messageExpression": "'got ' + object.kind", "message": "plain"},
        {"expression": "false", "messageExpression": "string(object.nope)", "message": " plain "},
        {"expression": " false "},
    ]
    said = [judged(world(validating_policy("p", rule), binding("p")), create(pod()))[1] for rule in rules]
    assert [text.partition("denied request: ")[2] for text in said] == [
        "got Pod",
        "plain",
        "failed expression: false",
    ]


def test_warnings_and_audit_annotations_do_not_refuse():
    made = validating_policy("p", {"expression": "false", "message": "m"}, auditAnnotations=[
        {"key": "k", "valueExpression": "'name ' + object.metadata.name"},
        {"key": "none", "valueExpression": "null"},
    ])  # fmt: skip
    remarks = WarningRecorder()
    a = create(pod(), warnings=remarks)
    assert judged(world(made, binding("b", "p", validationActions=["Warn", "Audit"])), a) == (201, "")
    assert remarks == ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': m"]
    failures = json.loads(remarks.annotations.pop("validation.policy.admission.k8s.io/validation_failure"))
    assert failures == [
        {
            "message": "m",
            "policy": "p",
            "binding": "b",
            "expressionIndex": 0,
            "validationActions": ["Warn", "Audit"],
        }
    ]
    assert remarks.annotations == {"p/k": "name p"}


@pytest.mark.parametrize(
    ("ref", "code", "text"),
    [
        ({"name": "limits"}, 422, "not 3"),
        (
            {"name": "gone", "parameterNotFoundAction": "Deny"},
            422,
            "failed to configure binding: no params found",
        ),
        ({"name": "gone", "parameterNotFoundAction": "Allow"}, 201, ""),
        ({"selector": {"matchLabels": {"a": "b"}}}, 422, "not 3"),
        ({"selector": {"matchLabels": {"a": "c"}}}, 201, ""),
    ],
)
def test_parameters_come_from_where_the_binding_says(ref, code, text):
    made = validating_policy(
        "p",
        {
            "expression": "object.spec.x <= int(params.data.most)",
            "messageExpression": "'not ' + params.data.most",
        },
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
    )
    limits = stored("v1", "ConfigMap", "limits", "ns", metadata={"labels": {"a": "b"}}, data={"most": "3"})
    found, message = judged(world(made, limits, binding("p", paramRef=ref)), create(pod(x=4)))
    assert found == code and text in message


def test_a_kind_of_parameters_that_nobody_serves_fails_the_policy():
    made = validating_policy("p", "true", paramKind={"apiVersion": "a.example/v1", "kind": "Gone"})
    message = judged(world(made, binding("p")), create(pod()))[1]
    assert message.endswith(
        "'p' denied request: failed to configure policy: failed to find resource referenced by paramKind: "
        "'a.example/v1, Kind=Gone'"
    )


@pytest.mark.parametrize(
    ("match", "code"),
    [
        ({"namespaceSelector": {"matchLabels": {"tier": "gold"}}}, 422),
        ({"namespaceSelector": {"matchLabels": {"tier": "tin"}}}, 201),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, 201),
        ({"resourceRules": [{**RULE, "resourceNames": ["p"]}]}, 422),
        ({"resourceRules": [{**RULE, "resourceNames": ["q"]}]}, 201),
        ({"excludeResourceRules": [{**RULE, "resourceNames": ["p"]}]}, 201),
        ({"excludeResourceRules": [{**RULE, "resourceNames": ["q"]}]}, 422),
    ],
)
def test_rules_and_selectors_say_what_a_policy_or_binding_is_about(match, code):
    assert judged(world(validating_policy("p", "false", match=match), binding("p")), create(pod()))[0] == code
    assert (
        judged(world(validating_policy("p", "false"), binding("p", matchResources=match)), create(pod()))[0]
        == code
    )


def test_a_rule_for_an_older_version_sees_the_object_in_that_version():
    rule = {**RULE, "apiGroups": ["resource.k8s.io"], "apiVersions": ["v1beta1"]}
    shown = (
        "object.apiVersion == 'resource.k8s.io/v1beta1' && object.spec.devices[0].basic.attributes.x.int == 1"
    )
    device = {"name": "d", "attributes": {"x": {"int": 1}}}
    written = stored("resource.k8s.io/v1", "ResourceSlice", "s", spec={"devices": [device]})
    assert judged(world(validating_policy("p", shown, rule=rule), binding("p")), create(written)) == (201, "")
    refusing = validating_policy("p", "false", rule=rule)
    assert judged(world(refusing, binding("p")), create(written))[0] == 422
    exact = validating_policy("p", "false", rule=rule, match={"matchPolicy": "Exact"})
    assert judged(world(exact, binding("p")), create(written))[0] == 201


def test_policies_are_not_about_themselves_or_reviews():
    plugin = ValidatingPolicies(world())
    handled = {
        kind: plugin.handles("CREATE", by_kind(version, kind), "")
        for version, kind in (
            (VERSION, "ValidatingAdmissionPolicy"),
            (VERSION, "ValidatingAdmissionPolicyBinding"),
            (VERSION, "ValidatingWebhookConfiguration"),
            ("authorization.k8s.io/v1", "SelfSubjectAccessReview"),
            ("v1", "Pod"),
        )
    }
    assert [kind for kind, is_handled in handled.items() if is_handled] == [
        "ValidatingWebhookConfiguration",
        "Pod",
    ]


def test_an_update_shows_both_objects_and_a_new_policy_acts_at_once():
    objects = world()
    plugin = ValidatingPolicies(objects)
    a = update(pod(x=1), pod(x=2))
    plugin.validate(a)
    objects.add(
        validating_policy("p", {"expression": "object.spec.x >= oldObject.spec.x", "message": "shrinks"})
    )
    objects.add(binding("p"))
    with pytest.raises(ApiError, match="shrinks"):
        plugin.validate(a)
    objects.remove(objects.documents[-1])
    plugin.validate(a)


def test_the_budget_is_shared_by_the_validations_of_a_policy():
    dear = "authorizer.path('/x').check('get').allowed() || true"
    few, many = validating_policy("p", *[dear] * 28), validating_policy("p", *[dear] * 29)
    assert judged(world(few, binding("p")), create(pod())) == (201, "")
    message = judged(world(many, binding("p")), create(pod()))[1]
    assert message.endswith("running out of cost budget, no further validation rules will be run")


DRIVER = "system:serviceaccount:dra:driver"
NODE = "authentication.kubernetes.io/node-name"


@pytest.mark.parametrize(
    ("user", "node", "said"),
    [
        (JANE, "n2", ""),
        (User(DRIVER, extra={NODE: ("n1",)}), "n1", ""),
        (
            User(DRIVER, extra={NODE: ("n1",)}),
            "n2",
            "this user running on node 'n1' may not modify slices of 'n2'",
        ),
        (User(DRIVER, extra={"other": ("x",)}), "n1", "no node association found for user"),
    ],
)
def test_a_driver_may_only_write_the_slices_of_its_own_node(user, node, said):
    made = validating_policy(
        "driver",
        {"expression": "variables.userNode != ''", "message": "no node association found for user"},
        {
            "expression": "variables.userNode == variables.objectNode",
            "messageExpression": '"this user running on node \'" + variables.userNode + '
            '"\' may not modify slices of \'" + variables.objectNode + "\'"',
        },
        rule={**RULE, "apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"]},
        matchConditions=[{"name": "driver", "expression": f"request.userInfo.username == '{DRIVER}'"}],
        variables=[
            {"name": "userNode", "expression": f"request.userInfo.extra[?'{NODE}'][0].orValue('')"},
            {
                "name": "objectNode",
                "expression": "(request.operation == 'DELETE' ? oldObject : object).spec.?nodeName.orValue('')",
            },
        ],
    )
    written = stored("resource.k8s.io/v1", "ResourceSlice", "s", spec={"nodeName": node})
    objects = world(made, binding("driver"))
    code, message = judged(objects, create(written, user=user))
    assert (code, message.partition("denied request: ")[2]) == ((422, said) if said else (201, ""))
    if node == "n2" and user is not JANE:
        deleted = Attributes(
            "DELETE", by_kind("resource.k8s.io/v1", "ResourceSlice"), name="s", old=written, user=user
        )
        assert judged(objects, deleted)[1].endswith(said)


def test_a_user_without_the_extra_at_all_gets_no_traceback():
    made = validating_policy("p", "request.userInfo.extra['a'][0] == 'b'")
    assert judged(world(made, binding("p")), create(pod()))[1].endswith("no such key: extra")
