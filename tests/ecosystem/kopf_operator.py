"""An operator as its author would write it: knows Kubernetes and kopf, and nothing of weir.

A Pond gets a Deployment of frogs, which follows the Pond and goes with it; whoever drains it leaves an obituary.
"""

import json
import os
import urllib.request

import kopf
import yaml

with open(os.environ["KUBECONFIG"]) as file:  # noqa: PTH123
    CONFIG = yaml.safe_load(file)
SERVER = CONFIG["clusters"][0]["cluster"]["server"]
HEADERS = {"Authorization": f"Bearer {CONFIG['users'][0]['user']['token']}"}


def call(method, path, body, media="application/json"):
    request = urllib.request.Request(
        SERVER + path,
        method=method,
        data=json.dumps(body).encode(),
        headers={**HEADERS, "Content-Type": media},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


@kopf.on.login()
def login(**words):
    return kopf.login_with_kubeconfig(**words)


def deployments(namespace):
    return f"/apis/apps/v1/namespaces/{namespace}/deployments"


@kopf.on.create("example.com", "v1", "ponds")
def created(spec, name, namespace, **_):
    labels = {"pond": name}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"{name}-frogs"},
        "spec": {
            "replicas": spec["frogs"],
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "frog", "image": "registry.example/frog:1"}]},
            },
        },
    }
    kopf.adopt(deployment)
    call("POST", deployments(namespace), deployment)
    return {"frogs": spec["frogs"]}


@kopf.on.field("example.com", "v1", "ponds", field="spec.frogs")
def grown(old, new, name, namespace, body, **_):
    if old is None:
        return
    patch = {"spec": {"replicas": new}}
    call("PATCH", f"{deployments(namespace)}/{name}-frogs", patch, "application/merge-patch+json")
    kopf.event(body, type="Normal", reason="Grown", message=f"{old} frogs are {new} now")


@kopf.on.delete("example.com", "v1", "ponds")
def drained(spec, name, namespace, **_):
    obituary = {"metadata": {"name": f"{name}-obituary"}, "data": {"frogs": str(spec["frogs"])}}
    call("POST", f"/api/v1/namespaces/{namespace}/configmaps", obituary)


@kopf.on.event("", "v1", "nodes")
def tainted(spec, meta, patch, **_):
    for taint in spec.get("taints") or ():
        if taint["key"] == "sla" and meta.get("annotations", {}).get("example.com/sla") != taint["value"]:
            patch.metadata.annotations["example.com/sla"] = taint["value"]
