"""Puts the objects in place that a recorded kubectl found, before it runs.

The first request about a name tells: answered, the object was there; 404, it was not. What the object held follows
from a manifest an earlier command was given, else it is the plainest object of its kind. What a description prints as
labels, the object had.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from tests.golden.kubectl_compare import Command
from weir.apiserver.transport import paths
from weir.client.api import Client
from weir.errors import NotFound
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind, find

Document = dict[str, Any]
Named = tuple[str, str, str, str]  #: apiVersion, plural, namespace, name


NODES = by_kind("v1", "Node")
ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}


class Missing(Exception):
    """An object the command needs cannot be made up."""


def wanted_before(command: Command) -> dict[Named, bool]:
    """Return for each object the requests name whether it was there before the command."""
    found: dict[Named, bool] = {}
    for request in command.requests:
        path = request.path.partition("?")[0]
        info = paths.parse(request.method, path, "watch=true" in request.path)
        kind = info.kind
        if kind is None or not kind.stored or not info.name:
            continue
        named = (kind.api_version, kind.plural, info.namespace if kind.namespaced else "", info.name)
        if request.status == 404:
            found.setdefault(named, False)
        elif request.status < 400:
            found.setdefault(named, "force=" not in request.path or request.status != 201)
    for named in listed(command):
        found.setdefault(named, True)
    for named in command.manifests():  # what is created was not there
        posted = any(
            r.method == "POST" and r.status in (201, 400, 422) and "/pods/" not in r.path
            for r in command.requests
        )
        if posted:
            found.setdefault(named, False)
    return found


def listed(command: Command) -> Iterator[Named]:
    """Yield what a printed table shows of the one collection the command lists."""
    asked = [paths.parse(r.method, r.path.partition("?")[0], False) for r in command.requests]
    head, *rows = command.stdout.splitlines() or [""]
    if command.arguments[0] != "get" or len(asked) != 1 or "NAME" not in head.split():
        return
    kind, column = asked[0].kind, head.split().index("NAME")
    if kind is None or asked[0].name or kind.kind == "Event":
        return
    for row in rows:
        cells = row.split()
        namespace = cells[0] if column else asked[0].namespace
        yield kind.api_version, kind.plural, namespace if kind.namespaced else "", cells[column]


async def arrange(
    client: Client, before: dict[Named, bool], manifests: dict[Named, Document], command: Command
) -> None:
    """Make the cluster hold what the command found, and not what it missed."""
    for named, there in before.items():
        api_version, plural, namespace, name = named
        group, _, version = api_version.rpartition("/")
        kind = find(group, version, plural)
        assert kind is not None
        live = await client.find(kind, name, namespace)
        if live is None and there:
            document = manifests.get(named) or plain(kind, name, command)
            if document is None:
                raise Missing(f"the command finds {plural} {name!r}, and no earlier one was given it")
            await client.create(
                kind, applied(document) if command.arguments[0] == "apply" else document, namespace
            )
        elif live is not None and not there:
            try:
                await client.delete(kind, name, namespace, grace_period_seconds=0)
            except NotFound:
                continue
    await _nodes_before(client, command)
    labels = described_labels(command)
    for named, there in before.items():
        if there and labels is not None:
            group, _, version = named[0].rpartition("/")
            kind = find(group, version, named[1])
            assert kind is not None
            if kind.kind != "Lease":
                patch = {"metadata": {"labels": labels}}
                await client.patch(kind, named[3], patch, named[2])


async def _nodes_before(client: Client, command: Command) -> None:
    """Give nodes the cordons and taints that what the command said about them presupposes."""
    for name, said in re.findall(
        r"^node/(\S+) (cordoned|uncordoned|tainted|modified|untainted)$", command.stdout, re.M
    ):
        node = await client.find(NODES, name)
        if node is None:
            continue
        spec = node.get("spec", {})
        if said in ("cordoned", "uncordoned"):
            if bool(spec.get("unschedulable")) is (said == "cordoned"):
                patch: Document = {"spec": {"unschedulable": True if said == "uncordoned" else None}}
                await client.patch(NODES, name, patch)
            continue
        for key, value, effect in re.findall(
            r"(?:^| )([^ =:-]+)(?:=([^ :]*))?:(\w+)-?(?= |$)", " ".join(command.arguments)
        ):
            there = [
                taint
                for taint in spec.get("taints") or ()
                if (taint["key"], taint["effect"]) == (key, effect)
            ]
            others = [taint for taint in spec.get("taints") or () if taint not in there]
            if bool(there) is (said == "tainted"):
                own = [] if said == "tainted" else [{"key": key, "value": value or "1", "effect": effect}]
                await client.patch(NODES, name, {"spec": {"taints": [*others, *own]}})


def applied(document: Document) -> Document:
    """Return an object as `kubectl apply` leaves it, with what it remembers of the manifest."""
    metadata = dict(document["metadata"])
    text = msgspec.json.encode(
        {**document, "metadata": {"annotations": {}, **metadata}}, order="sorted"
    ).decode()
    notes = {
        **metadata.get("annotations", {}),
        "kubectl.kubernetes.io/last-applied-configuration": text + "\n",
    }
    return {**document, "metadata": {**metadata, "annotations": notes}}


def described_labels(command: Command) -> dict[str, str] | None:
    """Return the labels a recorded description prints.

    >>> described_labels(Command(["describe", "node", "n1"], "", [], [], 0, "Name:  n1\\nLabels:  zone=a\\n", []))
    {'zone': 'a'}
    """
    if command.arguments[0] != "describe":
        return None
    found = re.search(r"^Labels: +(.*(?:\n {4,}\S+)*)", command.stdout, re.MULTILINE)
    if found is None or found[1] == "<none>":
        return None
    return dict(part.strip().partition("=")[::2] for part in found[1].splitlines())


def plain(kind: Kind, name: str, command: Command) -> Document | None:
    """Return the plainest object of a kind that can be called *name*, None when nobody can know."""
    labels = {"app": name}
    for request in command.requests:
        asked = dict(parse_qsl(request.path.partition("?")[2])).get("labelSelector", "")
        labels.update(dict(part.partition("=")[::2] for part in asked.split(",") if part.count("=") == 1))
    pod = {"containers": [{"name": "c", "image": "registry.example/app:1"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    sets = {"selector": {"matchLabels": labels}, "template": template}
    specs: dict[str, Document] = {
        "Pod": {"spec": {**pod, "terminationGracePeriodSeconds": 0}},
        "Node": {"spec": {}, "status": {"capacity": ROOM, "allocatable": ROOM, "conditions": [READY]}},
        "Namespace": {},
        "ConfigMap": {},
        "Secret": {},
        "ServiceAccount": {},
        "Deployment": {"spec": {"replicas": 0, **sets}},
        "ReplicaSet": {"spec": {"replicas": 0, **sets}},
        "DaemonSet": {"spec": sets},
        "StatefulSet": {"spec": {"replicas": 0, "serviceName": name, **sets}},
        "Job": {"spec": {"template": {"spec": {**pod, "restartPolicy": "Never"}}}},
        "Service": {"spec": {"ports": [{"port": 80}], "selector": labels}},
    }
    if kind.kind not in specs:
        return None
    metadata = {"name": name, "labels": labels} if kind.kind != "Namespace" else {"name": name}
    whole = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **specs[kind.kind]}
    copied: Document = msgspec.json.decode(msgspec.json.encode(whole))
    return copied
