"""Claims about the whole server: proofs, rights, admission and its refusals, as one request meets them all."""

import base64
import json
import ssl
from datetime import UTC, datetime

import pytest
from aiohttp import web

from weir.apiserver.auth import pki
from weir.apiserver.build import build
from weir.apiserver.compat.webhooks.review import request_of
from weir.apiserver.options import Options, open_store
from weir.apiserver.transport.http import Request
from weir.clock import RealClock

POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"


class Cluster:
    """A server without sockets, and how to ask it as somebody."""

    def __init__(self, running):
        self.running = running
        self._certificates = {}

    def certificate(self, name, *groups):
        key = (name, *groups)
        if key not in self._certificates:
            pair = self.running.credentials.issue_client(pki.Identity(name, groups), datetime.now(UTC))
            self._certificates[key] = ssl.PEM_cert_to_DER_cert(pair.certificate.decode())
        return self._certificates[key]

    async def ask(self, method, path, body=None, *, user="admin", groups=(), token=None, headers=None):
        """Return (code, document) of the answer; the admin is in system:masters."""
        if user == "admin":
            groups = ("system:masters",)
        sent = {b"content-type": b"application/json", **(headers or {})}
        if token:
            sent[b"authorization"] = f"Bearer {token}".encode()
        request = Request(
            method,
            path.partition("?")[0],
            path.partition("?")[2],
            sent,
            json.dumps(body).encode() if body is not None else b"",
            peer="127.0.0.1:9",
            peer_certificate=self.certificate(user, *groups) if user else None,
        )
        answer = await self.running.server.handle(request)
        try:
            return answer.code, json.loads(answer.body)
        except ValueError:
            return answer.code, answer.body

    async def grant(self, user, *rules, name="granted"):
        role = {"metadata": {"name": name}, "rules": list(rules)}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        assert (await self.ask("POST", f"{RBAC}/clusterroles", role))[0] == 201
        assert (await self.ask("POST", f"{RBAC}/clusterrolebindings", binding))[0] == 201


@pytest.fixture
async def cluster(tmp_path):
    clock = RealClock()
    options = Options(data_dir=tmp_path, store="memory", audit_log=tmp_path / "audit.log")
    running = await build(options, await open_store(options, clock), clock)
    yield Cluster(running)
    await running.stop()


@pytest.mark.parametrize(("path", "code"), [("/healthz", 200), ("/readyz", 200), ("/api", 401), (PODS, 401)])
async def test_without_a_proof_only_health_is_told(cluster, path, code):
    assert (await cluster.ask("GET", path, user=None))[0] == code


async def test_a_user_without_rights_is_refused_and_a_binding_changes_that(cluster):
    code, status = await cluster.ask("GET", PODS, user="jane")
    assert (code, status["message"]) == (
        403,
        'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default"',
    )
    await cluster.grant("jane", {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]})
    assert (await cluster.ask("GET", PODS, user="jane"))[0] == 200


async def test_a_group_nobody_serves_is_refused_before_it_is_missed(cluster):
    refused = await cluster.ask("GET", "/apis/nope.example/v1/things", user="jane")
    missed = await cluster.ask("GET", "/apis/nope.example/v1/things")
    assert (refused[0], refused[1]["message"], missed) == (
        403,
        'things.nope.example is forbidden: User "jane" cannot list resource "things" in API group "nope.example" '
        "at the cluster scope",
        (404, b"404 page not found\n"),
    )


async def test_who_may_write_roles_may_not_give_away_more_than_they_have(cluster):
    verbs = {"verbs": ["create"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"]}
    await cluster.grant("jane", verbs)
    wide = {"metadata": {"name": "wide"}, "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}
    code, status = await cluster.ask("POST", f"{RBAC}/clusterroles", wide, user="jane")
    assert code == 403 and "is attempting to grant RBAC permissions not currently held" in status["message"]


async def test_a_service_account_token_opens_until_its_account_is_gone(cluster):
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await cluster.ask("POST", accounts, {"metadata": {"name": "robot"}})
    code, answer = await cluster.ask("POST", f"{accounts}/robot/token", {"spec": {}})
    token = answer["status"]["token"]
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    _, who = await cluster.ask("POST", path, {}, user=None, token=token)
    await cluster.ask("DELETE", f"{accounts}/robot")
    after, _ = await cluster.ask("POST", path, {}, user=None, token=token)
    assert (code, who["status"]["userInfo"]["username"], after) == (
        201,
        "system:serviceaccount:default:robot",
        401,
    )


async def test_an_administrator_may_speak_for_somebody(cluster):
    code, status = await cluster.ask("GET", PODS, headers={b"impersonate-user": b"joe"})
    assert code == 403 and 'User "joe" cannot list' in status["message"]


async def test_a_kubelet_may_not_take_its_taints_off(cluster):
    taints = [{"key": "a", "effect": "NoSchedule"}]
    await cluster.ask("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}, "spec": {"taints": taints}})
    code, status = await cluster.ask(
        "PATCH",
        "/api/v1/nodes/n1",
        {"spec": {"taints": []}},
        user="system:node:n1",
        groups=("system:nodes",),
        headers={b"content-type": b"application/merge-patch+json"},
    )
    assert (code, status["message"]) == (
        403,
        'nodes "n1" is forbidden: node "n1" is not allowed to modify taints',
    )


@pytest.mark.parametrize("name", ["default", "kube-system"])
async def test_system_namespaces_stay(cluster, name):
    code, status = await cluster.ask("DELETE", f"/api/v1/namespaces/{name}")
    assert (code, status["message"]) == (
        403,
        f'namespaces "{name}" is forbidden: this namespace may not be deleted',
    )


async def test_a_quota_is_kept_over_http(cluster):
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
    await cluster.ask("POST", "/api/v1/namespaces/default/resourcequotas", quota)
    codes = [(await cluster.ask("POST", PODS, {**POD, "metadata": {"name": name}}))[0] for name in ("a", "b")]
    assert codes == [201, 403]


async def test_a_webhook_changes_and_refuses_what_is_written(cluster, tmp_path):
    credentials = cluster.running.credentials

    async def review(request):
        asked = (await request.json())["request"]
        response = {
            "uid": asked["uid"],
            "allowed": "bad" not in asked["name"],
            "status": {"message": "no bad names"},
        }
        if request.path == "/mutate":
            patch = b'[{"op":"add","path":"/metadata/labels","value":{"seen":"yes"}}]'
            response |= {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}
        document = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}
        return web.json_response(document)

    app = web.Application()
    app.router.add_post("/{any:.*}", review)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=pki.serving_context(credentials)).start()
    port = runner.addresses[0][1]
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    for kind, path in (("mutating", "/mutate"), ("validating", "/validate")):
        client = {
            "url": f"https://127.0.0.1:{port}{path}",
            "caBundle": base64.b64encode(credentials.ca_pem).decode(),
        }
        hook = {
            "name": "w.example.com",
            "clientConfig": client,
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        configuration = {"metadata": {"name": "w"}, "webhooks": [hook]}
        collection = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations"
        assert (await cluster.ask("POST", collection, configuration))[0] == 201
    _, good = await cluster.ask("POST", PODS, POD)
    code, bad = await cluster.ask("POST", PODS, {**POD, "metadata": {"name": "bad"}})
    await runner.cleanup()
    assert good["metadata"]["labels"] == {"seen": "yes"}
    assert (code, bad["message"]) == (
        400,
        'admission webhook "w.example.com" denied the request: no bad names',
    )


async def test_the_audit_log_tells_who_did_what(cluster, tmp_path):
    await cluster.ask("DELETE", f"{PODS}/ghost", user="jane")
    event = json.loads((tmp_path / "audit.log").read_text().splitlines()[-1])
    assert (event["user"]["username"], event["verb"], event["responseStatus"]["code"]) == (
        "jane",
        "delete",
        403,
    )


async def test_what_happened_is_counted(cluster):
    await cluster.ask("POST", PODS, POD)
    _, page = await cluster.ask("GET", "/metrics")
    assert b'apiserver_request_total{verb="POST",dry_run="",group="",version="v1",resource="pods"' in page
    assert b'apiserver_current_inflight_requests{request_kind="readOnly"}' in page


@pytest.mark.parametrize("subresource", ["binding", "eviction", "token"])
async def test_admission_of_what_is_posted_to_a_subresource_sees_the_options_of_the_request(
    cluster, monkeypatch, subresource
):
    path, body = {
        "binding": (
            f"{PODS}/p/binding",
            {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}},
        ),
        "eviction": (f"{PODS}/p/eviction", {"metadata": {"name": "p"}}),
        "token": ("/api/v1/namespaces/default/serviceaccounts/robot/token", {"spec": {}}),
    }[subresource]
    await cluster.ask("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}})
    await cluster.ask("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    await cluster.ask("POST", PODS, POD)
    verbs, seen = cluster.running.server.verbs, []
    admit = verbs.admit

    async def noted(attributes, *more, **named):
        if attributes.subresource == subresource:
            seen.append(request_of(attributes, "uid", attributes.kind)["options"])
        return await admit(attributes, *more, **named)

    monkeypatch.setattr(verbs, "admit", noted)
    for query, wanted in (
        ("?dryRun=All&fieldManager=me", {"dryRun": ["All"], "fieldManager": "me"}),
        ("", {}),
    ):
        code, answer = await cluster.ask("POST", path + query, body)
        assert code == 201, answer
        assert seen == [{"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions", **wanted}]
        seen.clear()
