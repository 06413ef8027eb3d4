"""Claims about weir.apiserver.compat.webhooks.dispatch, against a real HTTPS server on loopback."""

import asyncio
import base64
import json
from datetime import UTC, datetime

import pytest
from aiohttp import web

from tests.unit.apiserver.admission_world import Objects, create, namespace, pod, stored, update
from weir.apiserver.admission.attributes import Attributes
from weir.apiserver.admission.chain import Chain
from weir.apiserver.auth import pki
from weir.apiserver.auth.authn import User
from weir.apiserver.auth.rbac import Action, Decision
from weir.apiserver.compat.webhooks.client import WebhookClient
from weir.apiserver.compat.webhooks.dispatch import Hook, Webhooks, hooks_of, wants
from weir.apiserver.compat.webhooks.review import (
    CallFailed,
    encoded,
    printed,
    read_answer,
    refusal,
    review_version,
)
from weir.apiserver.metrics import Metrics
from weir.apiserver.patches.json import patch as patched
from weir.compat.policies.matching import rule_matches
from weir.errors import ApiError, BadRequest, Forbidden, InternalError, NotFound
from weir.objects.kinds import by_kind

MATCHED_RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
WORLD = Objects(namespace("ns", metadata={"labels": {"tier": "gold"}}))


def wanted_by(*asked):
    """Whether a hook wants to see a write, in whatever version."""
    return wants(*asked) is not None


def sent(a, uid="u"):
    """The review of a write in its own version."""
    return encoded(a, uid, "v1", a.requested, printed(a), a.old)


def matched_hook(**rest):
    return Hook("c", 0, {"name": "w", "rules": [MATCHED_RULE], **rest})


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
    assert rule_matches({**MATCHED_RULE, **rule}, create(pod(), **attributes)) is covers


@pytest.mark.parametrize(("scope", "covers"), [("Cluster", True), ("Namespaced", False)])
def test_a_namespace_is_of_the_cluster_although_it_lies_in_itself(scope, covers):
    a = create(namespace("n"))
    a.namespace = "n"
    assert rule_matches({**MATCHED_RULE, "resources": ["namespaces"], "scope": scope}, a) is covers


@pytest.mark.parametrize(("tier", "wanted"), [("gold", True), ("tin", False)])
def test_the_namespace_must_match(tier, wanted):
    assert (
        wanted_by(matched_hook(namespaceSelector={"matchLabels": {"tier": tier}}), create(pod()), WORLD)
        is wanted
    )


def test_objects_of_the_cluster_are_never_exempt_by_namespace():
    nodes = matched_hook(namespaceSelector={"matchLabels": {"tier": "tin"}})
    nodes = Hook("c", 0, {**nodes.wire, "rules": [{**MATCHED_RULE, "resources": ["nodes"]}]})
    assert wanted_by(nodes, create(stored("v1", "Node", "n")), WORLD)


def test_a_namespace_being_made_is_matched_by_the_labels_it_will_have():
    wire = {
        "rules": [{**MATCHED_RULE, "resources": ["namespaces"]}],
        "namespaceSelector": {"matchLabels": {"a": "b"}},
    }
    asked = [create(namespace("new", metadata={"labels": labels})) for labels in ({"a": "b"}, {})]
    assert [wanted_by(Hook("c", 0, wire), a, WORLD) for a in asked] == [True, False]


def test_a_missing_namespace_is_not_found():
    with pytest.raises(NotFound):
        wanted_by(matched_hook(namespaceSelector={"matchLabels": {"a": "b"}}), create(pod()), Objects())


@pytest.mark.parametrize(
    ("new", "old", "wanted"),
    [({"a": "b"}, {}, True), ({}, {"a": "b"}, True), ({}, {}, False)],
)
def test_the_object_matches_by_what_it_was_or_will_be(new, old, wanted):
    documents = [
        {**pod(), "metadata": {"name": "p", "namespace": "ns", "labels": labels}} for labels in (new, old)
    ]
    updates = Hook(
        "c",
        0,
        {"rules": [{**MATCHED_RULE, "operations": ["*"]}], "objectSelector": {"matchLabels": {"a": "b"}}},
    )
    assert wanted_by(updates, update(*documents), WORLD) is wanted


def condition(*expressions, **rest):
    conditions = [{"name": f"c{i}", "expression": text} for i, text in enumerate(expressions)]
    return matched_hook(matchConditions=conditions, **rest)


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


RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}


@pytest.fixture(scope="module")
def credentials(tmp_path_factory):
    return pki.ensure(tmp_path_factory.mktemp("hook"), ["hook.ns.svc"], now=datetime.now(UTC))


class HookServer:
    """Answers every path with what the test put there: a function of the request's `request` part."""

    def __init__(self):
        self.answers, self.seen = {}, []

    async def handle(self, request):
        review = await request.json()
        self.seen.append((request.path, review["request"], str(request.rel_url), request.headers["Host"]))
        answer = self.answers[request.path](review["request"])
        if asyncio.iscoroutine(answer):
            answer = await answer
        if isinstance(answer, web.Response):
            return answer
        response = {"uid": review["request"]["uid"], "allowed": True, **answer}
        return web.json_response({**{k: review[k] for k in ("kind", "apiVersion")}, "response": response})


@pytest.fixture
async def server(credentials):
    hooks = HookServer()
    app = web.Application()
    app.router.add_post("/{any:.*}", hooks.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=pki.serving_context(credentials))
    await site.start()
    hooks.port = runner.addresses[0][1]
    hooks.authority = base64.b64encode(credentials.ca_pem).decode()
    yield hooks
    await runner.cleanup()


@pytest.fixture
async def client():
    opened = WebhookClient()
    yield opened
    await opened.close()


def labelled():
    return {**pod(), "metadata": {"name": "p", "namespace": "ns", "labels": {}}}


def label(key, value):
    patch = [{"op": "add", "path": f"/metadata/labels/{key}", "value": value}]
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}


def hook(server, path, name="w", **rest):
    config = {"url": f"https://127.0.0.1:{server.port}{path}", "caBundle": server.authority}
    return {
        "name": name,
        "clientConfig": config,
        "rules": [RULE],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 5,
        **rest,
    }


def configuration(kind, *hooks, name="c"):
    return stored(
        "admissionregistration.k8s.io/v1", f"{kind}WebhookConfiguration", name, webhooks=list(hooks)
    )


def chain(client, *configurations, more=(), **rest):
    objects = Objects(namespace(), stored("v1", "ServiceAccount", "default", "ns"), *configurations, *more)
    return Chain.build(
        objects, webhooks=Webhooks(objects, client, patched, lambda document, kind: document, **rest)
    )


async def run(built, a):
    for step in (built.mutate, built.validate):
        pending = step(a)
        if pending is not None:
            await pending
    return a.object


async def test_without_a_matching_hook_nothing_is_awaited(client, server):
    elsewhere = hook(server, "/m", rules=[{**RULE, "resources": ["nodes"]}])
    built = chain(client, configuration("Mutating", elsewhere), configuration("Validating", elsewhere))
    a = create(pod())
    assert (built.mutate(a), built.validate(a)) == (None, None)


async def test_a_patch_is_applied_and_each_hook_sees_what_the_one_before_left(client, server):
    server.answers["/1"] = lambda request: label("a", "1")
    server.answers["/2"] = lambda request: label("b", request["object"]["metadata"]["labels"]["a"] + "2")
    built = chain(client, configuration("Mutating", hook(server, "/1"), hook(server, "/2")))
    assert (await run(built, create(labelled())))["metadata"]["labels"] == {"a": "1", "b": "12"}


async def test_the_object_stays_the_same_dict(client, server):
    server.answers["/1"] = lambda request: label("a", "1")
    document = labelled()
    await run(chain(client, configuration("Mutating", hook(server, "/1"))), create(document))
    assert document["metadata"]["labels"] == {"a": "1"}


async def test_in_tree_plugins_look_again_after_a_patch(client, server):
    def drop_tolerations(request):
        patch = [{"op": "add", "path": "/spec/tolerations", "value": []}]
        return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}

    server.answers["/1"] = drop_tolerations
    after = await run(chain(client, configuration("Mutating", hook(server, "/1"))), create(pod()))
    assert [t["tolerationSeconds"] for t in after["spec"]["tolerations"]] == [300, 300]


@pytest.mark.parametrize(("policy", "calls"), [("IfNeeded", 2), ("Never", 1)])
async def test_a_hook_is_called_once_more_only_when_it_asks_for_it(client, server, policy, calls):
    server.answers["/first"] = lambda request: {}
    server.answers["/second"] = lambda request: label("x", "y")
    hooks = hook(server, "/first", reinvocationPolicy=policy), hook(server, "/second")
    await run(chain(client, configuration("Mutating", *hooks)), create(labelled()))
    assert [path for path, *_ in server.seen].count("/first") == calls


async def test_a_denial_is_told_in_the_hooks_words(client, server):
    server.answers["/v"] = lambda request: {"allowed": False, "status": {"message": "not today", "code": 403}}
    with pytest.raises(ApiError) as refused:
        await run(chain(client, configuration("Validating", hook(server, "/v", "v.example"))), create(pod()))
    assert (refused.value.message, refused.value.code) == (
        'admission webhook "v.example" denied the request: not today',
        403,
    )


async def test_warnings_reach_the_client(client, server):
    server.answers["/v"] = lambda request: {"warnings": ["old field"]}
    a = create(pod())
    await run(chain(client, configuration("Validating", hook(server, "/v"))), a)
    assert a.warnings == ["old field"]


async def test_validating_hooks_are_asked_at_the_same_time(client, server):
    arrived = asyncio.Event()
    waiting = []

    async def meet(request):
        waiting.append(1)
        if len(waiting) == 2:
            arrived.set()
        await arrived.wait()  # neither answers before both have been asked
        return {}

    server.answers["/1"] = server.answers["/2"] = meet
    await run(
        chain(client, configuration("Validating", hook(server, "/1"), hook(server, "/2"))), create(pod())
    )
    assert len(waiting) == 2


async def test_the_time_limit_travels_and_is_kept(client, server):
    async def never(request):
        await asyncio.Event().wait()

    server.answers["/v"] = never
    slow = hook(server, "/v", timeoutSeconds=1)
    client_post = client.post

    async def hasty(place, body, seconds):
        return await client_post(place, body, seconds / 20)

    client.post = hasty
    with pytest.raises(InternalError) as failed:
        await run(chain(client, configuration("Validating", slow)), create(pod()))
    assert failed.value.message == (
        'Internal error occurred: failed calling webhook "w": failed to call webhook: '
        f'Post "https://127.0.0.1:{server.port}/v?timeout=0.05s": context deadline exceeded'
    )


async def test_a_failure_is_ignored_when_the_policy_says_so(client, server):
    server.answers["/v"] = lambda request: web.Response(status=500, text="boom")
    metrics = Metrics()
    built = chain(
        client,
        configuration("Validating", hook(server, "/v", failurePolicy="Ignore")),
        counts=metrics.webhooks,
    )
    await run(built, create(pod()))
    assert (
        'apiserver_admission_webhook_fail_open_count{name="w",type="validating"} 1'
        in metrics.render().decode()
    )


async def test_a_server_error_is_told(client, server):
    server.answers["/v"] = lambda request: web.Response(status=500, text="boom")
    with pytest.raises(InternalError) as failed:
        await run(chain(client, configuration("Validating", hook(server, "/v"))), create(pod()))
    assert failed.value.message == (
        'Internal error occurred: failed calling webhook "w": failed to call webhook: '
        'an error on the server ("boom") has prevented the request from succeeding'
    )


async def test_nobody_there_is_connection_refused(client, server):
    nobody = hook(server, "/v")
    nobody["clientConfig"] = {"url": "https://127.0.0.1:1/v", "caBundle": server.authority}
    with pytest.raises(InternalError, match=r"dial tcp 127\.0\.0\.1:1: connect: connection refused"):
        await run(chain(client, configuration("Validating", nobody)), create(pod()))


async def test_a_certificate_nobody_vouches_for_is_refused(client, server, tmp_path):
    stranger = pki.ensure(tmp_path, now=datetime.now(UTC))
    wrong = hook(server, "/v")
    wrong["clientConfig"]["caBundle"] = base64.b64encode(stranger.ca_pem).decode()
    with pytest.raises(InternalError, match="x509: certificate signed by unknown authority"):
        await run(chain(client, configuration("Validating", wrong)), create(pod()))


SERVICE = stored("v1", "Service", "hook", "ns", spec={"ports": [{"name": "https", "port": 443}]})


async def test_a_service_is_reached_through_its_endpoints_under_its_own_name(client, server):
    server.answers["/v"] = lambda request: {}
    endpoints = stored(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        "hook-1",
        "ns",
        metadata={"labels": {"kubernetes.io/service-name": "hook"}},
        endpoints=[{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
        ports=[{"name": "https", "port": server.port}],
    )
    by_service = hook(server, "/v")
    service = {"namespace": "ns", "name": "hook", "path": "/v"}
    by_service["clientConfig"] = {"service": service, "caBundle": server.authority}
    built = chain(client, configuration("Validating", by_service), more=(SERVICE, endpoints))
    await run(built, create(pod()))
    assert server.seen[0][3] == "hook.ns.svc:443"


@pytest.mark.parametrize(
    ("more", "text"),
    [((), 'service "hook" not found'), ((SERVICE,), 'no endpoints available for service "hook"')],
)
async def test_a_service_nobody_serves_is_told(client, server, more, text):
    by_service = hook(server, "/v")
    by_service["clientConfig"] = {
        "service": {"namespace": "ns", "name": "hook"},
        "caBundle": server.authority,
    }
    with pytest.raises(InternalError) as failed:
        await run(chain(client, configuration("Validating", by_service), more=more), create(pod()))
    assert failed.value.message.endswith(f'Post "https://hook.ns.svc:443/?timeout=5s": {text}')


@pytest.mark.parametrize(
    ("side_effects", "reached"), [("None", True), ("NoneOnDryRun", True), ("Some", False)]
)
async def test_a_dry_run_reaches_only_hooks_without_side_effects(client, server, side_effects, reached):
    server.answers["/v"] = lambda request: {}
    built = chain(client, configuration("Validating", hook(server, "/v", sideEffects=side_effects)))
    a = create(pod(), dry_run=True)
    if reached:
        await run(built, a)
        assert server.seen[0][1]["dryRun"] is True
    else:
        with pytest.raises(BadRequest, match='admission webhook "w" does not support dry run'):
            await run(built, a)


async def test_a_patch_that_does_not_fit_is_an_internal_error(client, server):
    server.answers["/m"] = lambda request: label("a", "b")  # there are no labels to add to
    with pytest.raises(InternalError, match=r"^Internal error occurred: "):
        await run(chain(client, configuration("Mutating", hook(server, "/m"))), create(pod()))


async def test_a_delete_cannot_be_patched(client, server):
    server.answers["/m"] = lambda request: label("a", "b")
    a = Attributes("DELETE", by_kind("v1", "Pod"), namespace="ns", name="p", old=pod(), user=User("x"))
    with pytest.raises(InternalError, match="attempted to modify the object, which is not supported"):
        await run(chain(client, configuration("Mutating", hook(server, "/m"))), a)


async def test_webhook_configurations_are_not_shown_to_webhooks(client, server):
    built = chain(client, configuration("Validating", hook(server, "/v")))
    assert built.validate(create(configuration("Validating", name="other"))) is None


async def test_a_new_configuration_is_noticed(client, server):
    server.answers["/v"] = lambda request: {}
    objects = Objects(namespace())
    webhooks = Webhooks(objects, client, patched, lambda document, kind: document)
    before = webhooks.validate(create(pod()))
    objects.add(configuration("Validating", hook(server, "/v")))
    after = webhooks.validate(create(pod()))
    await after
    assert (before, len(server.seen)) == (None, 1)


async def test_calls_and_refusals_are_counted(client, server):
    server.answers["/v"] = lambda request: {"allowed": False, "status": {"code": 403}}
    metrics = Metrics()
    with pytest.raises(ApiError):
        await run(
            chain(client, configuration("Validating", hook(server, "/v")), counts=metrics.webhooks),
            create(pod()),
        )
    page = metrics.render().decode()
    assert 'rejection_count{error_type="no_error",name="w",operation="CREATE",rejection_code="403"' in page
    assert (
        'apiserver_admission_webhook_request_total{code="403",name="w",operation="CREATE",rejected="true"'
        in page
    )


@pytest.mark.parametrize(
    "body", ["[" * 200_000, '{"response":' * 100_000, '{"kind":"Status","a":' + "[" * 200_000]
)
@pytest.mark.parametrize("status", [200, 400])
async def test_an_answer_nested_without_end_is_a_failed_call(client, server, body, status):
    server.answers["/v"] = lambda request: web.Response(
        status=status, text=body, content_type="application/json"
    )
    await run(
        chain(client, configuration("Validating", hook(server, "/v", failurePolicy="Ignore"))), create(pod())
    )
    with pytest.raises(InternalError, match='failed calling webhook "w": failed to call webhook: '):
        await run(chain(client, configuration("Validating", hook(server, "/v"))), create(pod()))


async def test_a_port_that_there_is_not_is_a_failed_call(client, server):
    nowhere = hook(server, "/v")
    nowhere["clientConfig"] = {"url": "https://127.0.0.1:99999/v", "caBundle": server.authority}
    with pytest.raises(InternalError, match="dial tcp: address 99999: invalid port"):
        await run(chain(client, configuration("Validating", nowhere)), create(pod()))
    nowhere["failurePolicy"] = "Ignore"
    await run(chain(client, configuration("Validating", nowhere)), create(pod()))
