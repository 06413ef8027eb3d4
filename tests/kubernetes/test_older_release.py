"""`--older apiserver` answers as the real kube-apiserver of that release: what is dropped, refused, and in which words.

The programs of the older releases lie beside those of the current one, in folders named after their version.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request

import pytest
import yaml

from tests.kubernetes.programs import of_release
from tests.kubernetes.real_server import real_server
from weir.simulation.cluster import Cluster, ComponentGates

APPLY, MERGE, JSON = "application/apply-patch+yaml", "application/merge-patch+json", "application/json"
PODS, SLICES = "/api/v1/namespaces/default/pods", "/apis/resource.k8s.io/v1/resourceslices"
EXPRESSION = {"expression": "taint.key == 'a'"}


def pod(name, *tolerations, **spec):
    containers = [{"name": "c", "image": "i"}]
    body = {"containers": containers, "tolerations": list(tolerations), "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {**body, **spec}}


def deployment(name, *tolerations):
    inner = pod("x", *tolerations)["spec"]
    labels = {"app": name}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": inner}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def affinity(operator, value):
    term = {"matchExpressions": [{"key": "kernel", "operator": operator, "values": [value]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


def devices(name, **taint):
    device = {"name": "gpu-0", "taints": [{"key": "k", "effect": "NoSchedule", **taint}]}
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": "n", "pool": pool, "devices": [device]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": spec,
    }


def requests():
    """Yield name, method, path, body and content type of every request, in order."""
    gt = {"key": "sla", "operator": "Gt", "value": "900"}
    for check in ("", "Warn", "Strict", "Ignore"):
        query = f"?fieldValidation={check}" if check else ""
        seconds = {**EXPRESSION, "tolerationSeconds": 5, "effect": "NoExecute"}
        keyed = {**EXPRESSION, "operator": "Exists"}
        yield f"expression {check}", "POST", PODS + query, pod(f"e{check.lower()}", EXPRESSION), JSON
        yield f"expression, seconds {check}", "POST", PODS + query, pod(f"s{check.lower()}", seconds), JSON
        yield f"expression, Exists {check}", "POST", PODS + query, pod(f"k{check.lower()}", keyed), JSON
        path = "/apis/apps/v1/namespaces/default/deployments" + query
        yield f"template {check}", "POST", path, deployment(f"d{check.lower()}", keyed), JSON
    for operator, value in (
        ("Gt", "900"),
        ("Lt", "x"),
        ("SemverGt", "1.0.0"),
        ("SemverEq", "x"),
        ("gt", "1"),
    ):
        entry = {"key": "sla", "operator": operator, "value": value}
        yield f"operator {operator}", "POST", PODS, pod("o", entry), JSON
        if operator != "Lt":
            yield f"affinity {operator}", "POST", PODS, pod("a", **affinity(operator, value)), JSON
    yield "plain", "POST", PODS, pod("plain"), JSON
    both = {"spec": {"tolerations": [{"operator": "Exists", "key": "x", **EXPRESSION}]}}
    yield "merge patch", "PATCH", f"{PODS}/plain", both, MERGE
    yield "merge patch strict", "PATCH", f"{PODS}/plain?fieldValidation=Strict", both, MERGE
    yield "merge patch Gt", "PATCH", f"{PODS}/plain", {"spec": {"tolerations": [gt]}}, MERGE
    query = "?fieldManager=m&force=true"
    yield "apply", "PATCH", f"{PODS}/applied{query}", pod("applied", EXPRESSION), APPLY
    yield "apply Gt", "PATCH", f"{PODS}/gt{query}", pod("gt", gt), APPLY
    yield "dry run", "POST", f"{PODS}?dryRun=All", pod("dry", {**EXPRESSION, "operator": "Exists"}), JSON
    yield "device taint", "POST", SLICES, devices("plain"), JSON
    yield "device taint, None", "POST", SLICES, devices("none", effect="None"), JSON
    path = "/apis/resource.k8s.io/v1/devicetaintrules"
    yield "rules", "GET", path, None, JSON
    yield "older rules", "GET", path.replace("/v1/", "/v1alpha3/"), None, JSON


def summary(code, headers, body):
    """Return what of an answer is compared."""
    try:
        found = json.loads(body)
    except ValueError:
        return code, body.decode(errors="replace")[:100], []
    warnings = sorted(headers)
    if code == 422 and "is invalid: patch:" in found.get("message", ""):
        # Which text is shown, of the patch or of what it would have made, is left out.
        return code, found.get("reason"), found["message"].rpartition('": ')[2], warnings
    if code >= 400:
        causes = [
            (c.get("field"), c.get("message")) for c in (found.get("details") or {}).get("causes") or ()
        ]
        return code, found.get("reason"), found.get("message"), causes, warnings
    spec = found.get("spec") or {}
    template = (spec.get("template") or {}).get("spec") or spec
    own = [
        t
        for t in template.get("tolerations") or ()
        if not str(t.get("key")).startswith("node.kubernetes.io/")
    ]
    devices = [device.get("taints") for device in spec.get("devices") or ()]
    untimed = [[{k: v for k, v in t.items() if k != "timeAdded"} for t in taints or ()] for taints in devices]
    return code, own, untimed, warnings


def real(kubeconfig):
    server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    context = ssl._create_unverified_context()

    def ask(method, path, body, content_type):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": "Bearer admin-token", "Content-Type": content_type}
        request = urllib.request.Request(server + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=context, timeout=60) as answer:
                return summary(answer.status, answer.headers.get_all("Warning") or [], answer.read())
        except urllib.error.HTTPError as error:
            return summary(error.code, error.headers.get_all("Warning") or [], error.read())

    return ask


def played(cluster):
    def ask(method, path, body, content_type):
        path, _, query = path.partition("?")
        asked = dict(each.split("=") for each in query.split("&")) if query else None
        answer = cluster._wait(cluster.client.exchange(method, path, asked, body, content_type))
        said = answer.headers.get("warning", "")
        return summary(answer.code, [each for each in said.split(", 299 ") if each], answer.body)

    return ask


@pytest.mark.parametrize("release", ["1.34", "1.35"])
def test_an_older_api_server_is_played_as_the_real_one_answers(tmp_path, release):
    rules = "--runtime-config=resource.k8s.io/v1alpha3=true"  # as whoever uses them then has it
    with real_server(tmp_path, rules, gates="", programs=of_release(release)) as kubeconfig:
        ask = real(kubeconfig)
        theirs = {name: ask(*rest) for name, *rest in requests()}
    older = ComponentGates(older=frozenset({f"apiserver={release}"}))
    with Cluster(gates=older, controllers=("serviceaccount",)) as cluster:
        cluster.advance(5)
        ask = played(cluster)
        ours = {name: ask(*rest) for name, *rest in requests()}
    assert {name: (ours[name], theirs[name]) for name in theirs if ours[name] != theirs[name]} == {}
