"""Claims about weir.apiserver.webhooks.matching and webhook_review: who is asked, and what counts as an answer."""

import base64
import json

import pytest

from tests.unit.apiserver.admission_world import Objects, create, namespace, pod, stored, update
from weir.apiserver.admission import Attributes
from weir.apiserver.auth.authn import User
from weir.apiserver.auth.rbac import Action, Decision
from weir.apiserver.webhooks.matching import Hook, hooks_of, wants
from weir.apiserver.webhooks.review import CallFailed, encoded, printed, read_answer, refusal, review_version
from weir.errors import BadRequest, Forbidden, NotFound
from weir.objects.kinds import by_kind
from weir.policies.matching import rule_matches

RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
WORLD = Objects(namespace("ns", metadata={"labels": {"tier": "gold"}}))


def wanted_by(*asked):
    """Whether a hook wants to see a write, in whatever version."""
    return wants(*asked) is not None


def sent(a, uid="u"):
    """The review of a write in its own version."""
    return encoded(a, uid, "v1", a.requested, printed(a), a.old)


def hook(**rest):
    return Hook("c", 0, {"name": "w", "rules": [RULE], **rest})


@pytest.mark.parametrize(
    ("rule", "attributes", "covers"),
    [
        ({}, {}, True),
        ({"operations": ["UPDATE"]}, {}, False),
        ({"operations": ["*"]}, {}, True),
        ({"apiGroups": ["apps"]}, {}, False),
        ({"apiGroups": ["*"], "apiVersions": ["*"]}, {}, True),
        ({"apiVersions": ["v2"]}, {}, False),
        ({"resources": ["*"]}, {}, True),
        ({"resources": ["*"]}, {"subresource": "status"}, False),
        ({"resources": ["*/*"]}, {"subresource": "status"}, True),
        ({"resources": ["pods/*"]}, {}, True),
        ({"resources": ["pods/status"]}, {"subresource": "status"}, True),
        ({"resources": ["*/status"]}, {"subresource": "status"}, True),
        ({"resources": ["nodes"]}, {}, False),
        ({"scope": "Namespaced"}, {}, True),
        ({"scope": "Cluster"}, {}, False),
        ({"scope": "*"}, {}, True),
    ],
)
def test_what_a_rule_covers(rule, attributes, covers):
    assert rule_matches({**RULE, **rule}, create(pod(), **attributes)) is covers


@pytest.mark.parametrize(("scope", "covers"), [("Cluster", True), ("Namespaced", False)])
def test_a_namespace_is_of_the_cluster_although_it_lies_in_itself(scope, covers):
    a = create(namespace("n"))
    a.namespace = "n"
    assert rule_matches({**RULE, "resources": ["namespaces"], "scope": scope}, a) is covers


@pytest.mark.parametrize(("tier", "wanted"), [("gold", True), ("tin", False)])
def test_the_namespace_must_match(tier, wanted):
    assert wanted_by(hook(namespaceSelector={"matchLabels": {"tier": tier}}), create(pod()), WORLD) is wanted


def test_objects_of_the_cluster_are_never_exempt_by_namespace():
    nodes = hook(namespaceSelector={"matchLabels": {"tier": "tin"}})
    nodes = Hook("c", 0, {**nodes.wire, "rules": [{**RULE, "resources": ["nodes"]}]})
    assert wanted_by(nodes, create(stored("v1", "Node", "n")), WORLD)


def test_a_namespace_being_made_is_matched_by_the_labels_it_will_have():
    wire = {
        "rules": [{**RULE, "resources": ["namespaces"]}],
        "namespaceSelector": {"matchLabels": {"a": "b"}},
    }
    asked = [create(namespace("new", metadata={"labels": labels})) for labels in ({"a": "b"}, {})]
    assert [wanted_by(Hook("c", 0, wire), a, WORLD) for a in asked] == [True, False]


def test_a_missing_namespace_is_not_found():
    with pytest.raises(NotFound):
        wanted_by(hook(namespaceSelector={"matchLabels": {"a": "b"}}), create(pod()), Objects())


@pytest.mark.parametrize(
    ("new", "old", "wanted"),
    [({"a": "b"}, {}, True), ({}, {"a": "b"}, True), ({}, {}, False)],
)
def test_the_object_matches_by_what_it_was_or_will_be(new, old, wanted):
    documents = [
        {**pod(), "metadata": {"name": "p", "namespace": "ns", "labels": labels}} for labels in (new, old)
    ]
    updates = Hook(
        "c", 0, {"rules": [{**RULE, "operations": ["*"]}], "objectSelector": {"matchLabels": {"a": "b"}}}
    )
    assert wanted_by(updates, update(*documents), WORLD) is wanted


def condition(*expressions, **rest):
    conditions = [{"name": f"c{i}", "expression": text} for i, text in enumerate(expressions)]
    return hook(matchConditions=conditions, **rest)


@pytest.mark.parametrize(
    ("expressions", "wanted"),
    [
        (["object.metadata.name == 'p'"], True),
        (["object.metadata.name == 'q'"], False),
        (["request.userInfo.username == 'jane'", "oldObject == null"], True),
        (["!has(object.spec.nodeName)", "request.operation == 'UPDATE'"], False),
        (["object.spec.nothing == 1", "false"], False),
    ],
)
def test_match_conditions_must_all_hold(expressions, wanted):
    assert wanted_by(condition(*expressions), create(pod()), WORLD) is wanted


def test_a_condition_that_fails_refuses_or_skips_as_the_policy_says():
    text = "object.spec.nothing == 1"
    assert wanted_by(condition(text, failurePolicy="Ignore"), create(pod()), WORLD) is False
    with pytest.raises(Forbidden) as refused:
        wanted_by(condition(text, failurePolicy="Fail"), create(pod()), WORLD)
    assert refused.value.message == (
        "pods \"p\" is forbidden: expression 'object.spec.nothing == 1' resulted in error: no such key: nothing"
    )


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("authorizer.group('').resource('pods').namespace('ns').check('create').allowed()", True),
        ("authorizer.group('apps').resource('pods').check('create').allowed()", False),
        ("authorizer.group('').resource('pods').subresource('log').name('p').check('get').allowed()", False),
        ("authorizer.path('/healthz').check('get').allowed()", True),
        (
            "authorizer.serviceAccount('ns', 'robot').path('/healthz').check('get').reason() == 'robots may not'",
            True,
        ),
    ],
)
def test_a_condition_may_ask_what_the_user_may_do(expression, wanted):
    def decide(user, action):
        if user.name != "jane":
            return Decision(False, "robots may not")
        pods = action == Action("create", "", "pods", namespace="ns")
        return Decision(pods or action == Action("get", path="/healthz"))

    assert wanted_by(condition(expression), create(pod()), WORLD, decide) is wanted


def test_hooks_are_called_by_configuration_name_then_as_written():
    configurations = [
        {"metadata": {"name": "b"}, "webhooks": [{"name": "3"}]},
        {"metadata": {"name": "a"}, "webhooks": [{"name": "1"}, {"name": "2"}]},
    ]
    assert [h.name for h in hooks_of(configurations)] == ["1", "2", "3"]


# --- what is said ---


def test_a_review_tells_the_whole_write():
    a = create(
        pod(), user=User("jane", "7", ("dev",), {"k": ("v",)}), dry_run=True, options={"fieldManager": "m"}
    )
    review = json.loads(sent(a, "uid-1"))
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    assert review == {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "uid-1",
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": "p",
            "namespace": "ns",
            "operation": "CREATE",
            "userInfo": {"username": "jane", "uid": "7", "groups": ["dev"], "extra": {"k": ["v"]}},
            "object": {**pod(), "status": {}},
            "oldObject": None,
            "dryRun": True,
            "options": {
                "kind": "CreateOptions",
                "apiVersion": "meta.k8s.io/v1",
                "dryRun": ["All"],
                "fieldManager": "m",
            },
        },
    }


@pytest.mark.parametrize(
    ("subresource", "kind"),
    [
        ("binding", {"group": "", "version": "v1", "kind": "Binding"}),
        ("eviction", {"group": "policy", "version": "v1", "kind": "Eviction"}),
        ("status", {"group": "", "version": "v1", "kind": "Pod"}),
    ],
)
def test_a_subresource_speaks_its_own_kind(subresource, kind):
    request = json.loads(sent(create(pod(), subresource=subresource)))["request"]
    assert (request["kind"], request["subResource"], request["resource"]["resource"]) == (
        kind,
        subresource,
        "pods",
    )


def test_a_namespace_lies_in_itself():
    assert json.loads(sent(create(namespace("n"))))["request"]["namespace"] == "n"


def test_a_delete_shows_what_is_deleted():
    a = Attributes("DELETE", by_kind("v1", "Pod"), namespace="ns", name="p", old=pod(), user=User("x"))
    request = json.loads(sent(a))["request"]
    assert (request["object"], request["oldObject"], request["options"]["kind"]) == (
        None,
        pod(),
        "DeleteOptions",
    )


def test_a_hook_that_speaks_no_version_we_know_cannot_be_called():
    with pytest.raises(CallFailed, match=r"does not accept known AdmissionReview versions \(v1, v1beta1\)"):
        review_version({"admissionReviewVersions": ["v3"]})


# --- what counts as an answer ---


def body(kind="AdmissionReview", version="v1", **response):
    review = {"kind": kind, "apiVersion": f"admission.k8s.io/{version}"}
    return json.dumps({**review, "response": {"uid": "u", "allowed": True, **response}}).encode()


PATCH = base64.b64encode(b'[{"op":"remove","path":"/a"}]').decode()


@pytest.mark.parametrize(
    ("answer", "mutating", "text"),
    [
        (b"{}", False, "webhook response was absent"),
        (body(uid="v"), False, 'expected response.uid="u", got "v"'),
        (
            body(version="v1").replace(b'"apiVersion": "admission.k8s.io/v1", ', b""),
            False,
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=AdmissionReview",
        ),
        (body(patch=PATCH, patchType="JSONPatch"), False, "validating webhook may not return response.patch"),
        (body(patchType="JSONPatch"), False, "validating webhook may not return response.patchType"),
        (body(patch=PATCH), True, "webhook returned response.patch but not response.patchType"),
        (body(patchType="JSONPatch"), True, "webhook returned response.patchType but not response.patch"),
    ],
)
def test_an_answer_that_is_none_is_a_failure_to_call(answer, mutating, text):
    with pytest.raises(CallFailed) as failed:
        read_answer(answer, "u", "v1", mutating=mutating)
    assert failed.value.reason == f"received invalid webhook response: {text}"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            b"<html>",
            "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value",
        ),
        (b"[]", "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value"),
        (b'{"a":', "couldn't get version/kind; json parse error: unexpected end of JSON input"),
        (b"\xff", "json parse error"),
        (body(kind="Pod"), 'no kind "Pod" is registered for version "admission.k8s.io/v1"'),
    ],
)
def test_a_body_that_is_no_review_is_a_failure_to_call(answer, text):
    with pytest.raises(CallFailed) as failed:
        read_answer(answer, "u", "v1", mutating=False)
    assert text in failed.value.reason


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            body(version="v2"),
            'no kind "AdmissionReview" is registered for version "admission.k8s.io/v2" in scheme',
        ),
        (
            body(version="v1beta1"),
            "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
        ),
        (
            b'{"kind":"Status","apiVersion":"v1"}',
            "converting (v1.Status) to (v1.AdmissionReview): unknown conversion",
        ),
        (
            b'{"response":"x"}',
            "json: cannot unmarshal string into Go struct field AdmissionReview.response of type",
        ),
        (body(patch="!", patchType="JSONPatch"), "illegal base64 data at input byte 0"),
        (
            body(warnings=[5]),
            "json: cannot unmarshal number into Go struct field AdmissionResponse.response.warnings",
        ),
        (
            body(status="x"),
            "json: cannot unmarshal string into Go struct field AdmissionResponse.response.status",
        ),
    ],
)
def test_an_answer_that_cannot_be_read_is_told_as_a_go_client_tells_it(answer, text):
    with pytest.raises(CallFailed) as failed:
        read_answer(answer, "u", "v1", mutating=True)
    assert failed.value.reason.startswith(f"failed to call webhook: {text}")


def test_a_warning_that_cannot_be_a_header_is_left_out():
    answer = read_answer(body(warnings=["a", "", "two\nlines"]), "u", "v1", mutating=False)
    assert answer.warnings == ("a",)


@pytest.mark.parametrize("patch", [base64.b64encode(b"{}").decode(), base64.b64encode(b"[1]").decode()])
def test_a_patch_that_is_none_is_a_failure_to_call(patch):
    with pytest.raises(CallFailed, match="received undecodable patch in webhook response"):
        read_answer(body(patch=patch, patchType="JSONPatch"), "u", "v1", mutating=True)


def test_the_old_review_version_is_not_held_to_uid_and_kind():
    assert read_answer(body(kind="", version="v1beta1", uid="other"), "u", "v1beta1", mutating=False).allowed


# --- how a refusal reads ---


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (None, 'admission webhook "w" denied the request without explanation', 400),
        ({"reason": "Forbidden"}, 'admission webhook "w" denied the request: Forbidden', 400),
        ({"message": "no", "code": 403}, 'admission webhook "w" denied the request: no', 403),
        ({"message": "no", "code": 200}, 'admission webhook "w" denied the request: no', 400),
        ({"message": "no", "code": 70000}, 'admission webhook "w" denied the request: no', 400),
    ],
)
def test_a_refusal_is_the_webhooks_status_said_to_come_from_it(status, message, code):
    error = refusal("w", status)
    assert (error.message, error.code, error.status()["status"]) == (message, code, "Failure")


def test_a_failure_to_call_reads_as_an_internal_error():
    error = CallFailed("failed to call webhook: EOF").error("w")
    text = 'failed calling webhook "w": failed to call webhook: EOF'
    assert (error.message, error.status()["reason"], error.details) == (
        f"Internal error occurred: {text}",
        "InternalError",
        {"causes": [{"message": text}]},
    )
    assert not isinstance(error, BadRequest)
