"""Requests of one form that differ in every name and value: nothing of them is kept beside bounded caches.

Every body, patch, selector, path and header is new each time, and nothing is stored. `make test` asks every fourth
form, `make test-fresh` all. The caches are emptied first: tests/property/test_cache_memory.py fills each of them.
"""

from __future__ import annotations

import gc
import hashlib
import json
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cases import sample, table
from tests.unit.apiserver.compat.customresources.world import server
from weir.apiserver.transport.http import Request, Response
from weir.caches import BoundedDict, every

Document = dict[str, Any]
DEFAULT = "/api/v1/namespaces/default"
NODE = "/api/v1/nodes/n"
JSON = "application/json"
DRY = "dryRun=All"
REQUESTS = 12
#: What a request may leave behind, of its bytes, and what all may: small ones are sent until half of their bytes is
#: well above it.
KEPT = 0.5
FREE_BYTES = 128 << 10
LEAST_SENT = 8 * FREE_BYTES


class Form(NamedTuple):
    """How requests look: each is made of its number."""

    method: str
    path: Callable[[int], str] | str
    body: Callable[[int], Any] | None = None
    query: Callable[[int], str] | str = DRY
    content: Callable[[int], str] | str = JSON
    headers: Callable[[int], dict[bytes, bytes]] = lambda number: {}
    codes: tuple[int, ...] = (200, 201)


def text(number: int, length: int) -> str:
    """Return letters that no other number gives."""
    digits = hashlib.shake_256(str(number).encode()).hexdigest((length + 1) // 2)[:length]
    return digits.translate(str.maketrans("0123456789", "ghijklmnop"))


def texts(number: int, count: int, length: int = 20) -> list[str]:
    return [text(number * 1000 + index, length) for index in range(count)]


def keys(number: int, count: int) -> dict[str, str]:
    return dict.fromkeys(texts(number, count), "x")


def pod(number: int, **spec: Any) -> Document:
    variables = [{"name": each, "value": each} for each in texts(number, 100)]
    containers = [{"name": "c", "image": text(number, 200), "env": variables}]
    metadata = {"name": f"p{number}", "annotations": keys(number, 200)}
    return {"metadata": metadata, "spec": {"containers": containers, **spec}}


def template(number: int, **spec: Any) -> Document:
    return {
        "metadata": {"labels": {"a": "b"}, **pod(number)["metadata"]},
        "spec": pod(number, **spec)["spec"],
    }


def terms(number: int) -> Document:
    found = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in texts(number, 50)]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": found}}}


def named(number: int, **fields: Any) -> Document:
    return {"metadata": {"name": f"o{number}"}, **fields}


def tolerations(number: int) -> list[Document]:
    return [{"key": key, "operator": "Gt", "value": str(number)} for key in texts(number, 30)] + [
        {"expression": f"taint.key == '{value}'"} for value in texts(-number, 20)
    ]


def schema(number: int) -> Document:
    fields = {
        key: {
            "type": "string",
            "maxLength": 9,
            "pattern": key,
            "x-kubernetes-validations": [{"rule": f"self != '{key}'"}],
        }
        for key in texts(number, 10)
    }
    return {"openAPIV3Schema": {"type": "object", "properties": fields}}


def custom(number: int) -> Document:
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema(number)}]
    names = {"plural": f"o{number}s", "kind": f"O{number}"}
    spec = {"group": "x.io", "scope": "Namespaced", "names": names, "versions": versions}
    return {"metadata": {"name": f"o{number}s.x.io"}, "spec": spec}


def policy(number: int) -> Document:
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    found = [{"expression": f"object.x == '{each}'"} for each in texts(number, 20)]
    return named(number, spec={"matchConstraints": {"resourceRules": [rule]}, "validations": found})


def hook(number: int) -> Document:
    conditions = [{"name": each, "expression": f"object.x == '{each}'"} for each in texts(number, 20)]
    webhook = {
        "name": "a.b.c",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://x/"},
        "matchConditions": conditions,
    }
    return named(number, webhooks=[webhook])


def claim(number: int) -> Document:
    requests = [
        {
            "name": f"r{index}",
            "exactly": {
                "deviceClassName": "x",
                "selectors": [{"cel": {"expression": f"device.driver == '{each}'"}}],
                "tolerations": [{"key": each, "operator": "Exists"}],
            },
        }
        for index, each in enumerate(texts(number, 16))
    ]
    return named(number, spec={"devices": {"requests": requests}})


def resource_slice(number: int) -> Document:
    devices = [
        {
            "name": f"d{index}",
            "attributes": {each: {"string": each}},
            "capacity": {"m": {"value": f"{number}{index}Mi"}},
        }
        for index, each in enumerate(texts(number, 60))
    ]
    pool = {"name": text(number, 60), "generation": 1, "resourceSliceCount": 1}
    return named(number, spec={"driver": "d.x", "nodeName": "n", "pool": pool, "devices": devices})


def access(number: int) -> Document:
    attributes = {"verb": text(number, 2000), "resource": text(number, 2000), "name": text(number, 3000)}
    return {
        "spec": {
            "user": text(number, 3000),
            "groups": texts(number, 100, 300),
            "resourceAttributes": attributes,
        }
    }


FORMS = {
    "pods": Form("POST", f"{DEFAULT}/pods", pod),
    "pods of many shapes": Form(
        "POST", f"{DEFAULT}/pods", lambda n: pod(n, nodeSelector=keys(n, 100), affinity=terms(n))
    ),
    "pods with expressions": Form("POST", f"{DEFAULT}/pods", lambda n: pod(n, tolerations=tolerations(n))),
    "configmaps": Form("POST", f"{DEFAULT}/configmaps", lambda n: named(n, data=keys(n, 300))),
    "deployments": Form(
        "POST",
        "/apis/apps/v1/namespaces/default/deployments",
        lambda n: named(n, spec={"selector": {"matchLabels": {"a": "b"}}, "template": template(n)}),
    ),
    "jobs": Form(
        "POST",
        "/apis/batch/v1/namespaces/default/jobs",
        lambda n: named(n, spec={"template": template(n, restartPolicy="Never")}),
    ),
    "unknown fields": Form(
        "POST", f"{DEFAULT}/configmaps", lambda n: named(n, **keys(n, 200)), f"{DRY}&fieldValidation=Warn"
    ),
    "definitions": Form("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", custom),
    "policies": Form("POST", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", policy),
    "webhooks": Form("POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", hook),
    "claims": Form("POST", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", claim),
    "slices": Form("POST", "/apis/resource.k8s.io/v1/resourceslices", resource_slice),
    "roles": Form(
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        lambda n: named(
            n, rules=[{"apiGroups": [text(n, 60)], "resources": texts(n, 200), "verbs": ["get"]}]
        ),
    ),
    "managers that apply": Form(
        "PATCH",
        lambda n: f"{DEFAULT}/configmaps/o{n}",
        lambda n: named(n, apiVersion="v1", kind="ConfigMap", data=keys(n, 300)),
        lambda n: f"{DRY}&fieldManager={text(n, 120)}",
        "application/apply-patch+yaml",
    ),
    "strategic patches": Form(
        "PATCH",
        NODE,
        lambda n: {
            "metadata": {"annotations": keys(n, 200)},
            "spec": {"taints": [{"key": text(n, 60), "effect": "NoSchedule"}]},
        },
        content="application/strategic-merge-patch+json",
    ),
    "merge patches": Form("PATCH", NODE, lambda n: keys(n, 300), content="application/merge-patch+json"),
    "JSON patches": Form(
        "PATCH",
        NODE,
        lambda n: [
            {"op": "add", "path": f"/metadata/annotations/{key}", "value": "x"} for key in texts(n, 100)
        ],
        content="application/json-patch+json",
    ),
    "access reviews": Form("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", access, ""),
    "token reviews": Form(
        "POST",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        lambda n: {"spec": {"token": text(n, 20_000)}},
        "",
    ),
    "label selectors": Form(
        "GET", f"{DEFAULT}/pods", query=lambda n: "labelSelector=" + "!%3Dx,".join(texts(n, 100)) + "!%3Dx"
    ),
    "field selectors": Form(
        "GET", f"{DEFAULT}/pods", query=lambda n: f"fieldSelector=metadata.name!%3D{text(n, 3000)}"
    ),
    "continue tokens": Form(
        "GET", f"{DEFAULT}/pods", query=lambda n: f"limit=5&continue={text(n, 6000)}", codes=(400,)
    ),
    "names": Form("GET", lambda n: f"{DEFAULT}/pods/{text(n, 6000)}", query="", codes=(404,)),
    "paths": Form(
        "GET", lambda n: f"/apis/{text(n, 3000)}/v1/namespaces/{text(n, 3000)}/x", query="", codes=(404,)
    ),
    "media types": Form(
        "GET",
        f"{DEFAULT}/pods",
        query="",
        headers=lambda n: {b"accept": b"application/json;x=" + text(n, 7000).encode()},
    ),
    "user agents": Form(
        "POST", f"{DEFAULT}/configmaps", named, headers=lambda n: {b"user-agent": text(n, 7000).encode()}
    ),
    "content types": Form(
        "POST", f"{DEFAULT}/configmaps", named, content=lambda n: f"{JSON};x={text(n, 7000)}"
    ),
    "impersonated users": Form(
        "GET",
        f"{DEFAULT}/pods",
        query="",
        headers=lambda n: {
            b"impersonate-user": text(n, 3000).encode(),
            b"impersonate-group": text(-n, 3000).encode(),
        },
        codes=(403,),
    ),
    "credentials": Form(
        "GET",
        f"{DEFAULT}/pods",
        query="",
        headers=lambda n: {b"authorization": b"Bearer " + text(n, 7000).encode()},
        codes=(401,),
    ),
}


def made(value: Callable[[int], str] | str, number: int) -> str:
    return value if isinstance(value, str) else value(number)


def request(form: Form, number: int, token: str) -> Request:
    """Return request *number* of a form."""
    headers = {
        b"authorization": b"Bearer " + token.encode(),
        b"content-type": made(form.content, number).encode(),
        **form.headers(number),
    }
    body = b"" if form.body is None else json.dumps(form.body(number)).encode()
    return Request(form.method, made(form.path, number), made(form.query, number), headers, body)


def size(sent: Request) -> int:
    headers = sum(len(name) + len(value) for name, value in sent.headers.items())
    return len(sent.path) + len(sent.query) + len(sent.body) + headers


def forget() -> None:
    """Empty every bounded cache."""
    for cache in every([module for name, module in list(sys.modules.items()) if name.startswith("weir.")]):
        if cache.most is not None:
            cache.clear()
    for each in gc.get_objects():
        if isinstance(each, BoundedDict):
            each.clear()


@table
@pytest.mark.parametrize("name", sample(FORMS, 4))
async def test_a_request_leaves_no_more_than_it_brings(name: str, tmp_path: Path) -> None:
    form = FORMS[name]
    async with server(tmp_path) as there:
        token = there.running.admin_token
        handle = there.running.server.handle
        await there.ask("POST", "/api/v1/nodes", {"metadata": {"name": "n", "annotations": {"a": "b"}}})
        for number in range(1, 4):  # what is made at first use
            answer = await handle(request(form, number, token))
            assert isinstance(answer, Response) and answer.code in form.codes, answer
        count = max(REQUESTS, LEAST_SENT // size(request(form, 100, token)) + 1)
        requests = [request(form, number, token) for number in range(100, 100 + count)]
        sent = sum(map(size, requests))
        forget()
        gc.collect()
        tracemalloc.start()
        try:
            while requests:
                await handle(requests.pop())
            forget()
            gc.collect()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert kept < KEPT * sent + FREE_BYTES, f"{kept} bytes of {sent}"
