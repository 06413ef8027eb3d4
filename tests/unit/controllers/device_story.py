"""The device taint eviction controller alone: changes go in, what it does is followed as a server would."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.unit.controllers.device_cluster import DRIVER, VERSION, rule_document, slice_document, tolerate
from weir.controllers.devices.taint_eviction import CLASSES, RULES, SLICES, DeviceTaintEviction, EvictPod
from weir.controllers.runtime.controller import Patch, Record, WakeAt
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.pod_eviction import Evicted
from weir.gates import ALL_FEATURES
from weir.objects.kinds import PODS
from weir.objects.kinds import RESOURCE_CLAIMS as CLAIMS

T0 = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
KINDS = (CLASSES, RULES, SLICES, CLAIMS)
ADDED = "2026-01-01T00:00:00Z"


def claim_document(name, devices, tolerations=(), users=()):
    results = [
        {"request": "r", "driver": DRIVER, "pool": pool, "device": unit, "tolerations": list(tolerations)}
        for pool, unit in devices
    ]
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": user, "uid": f"u-{user}"} for user in users],
    }
    return {
        "apiVersion": VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"u-{name}"},
        "spec": {},
        "status": status,
    }


def pod_document(name, claim):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"u-{name}"},
        "spec": {
            "nodeName": "n",
            "containers": [],
            "resourceClaims": [{"name": "x", "resourceClaimName": claim}],
        },
        "status": {"phase": "Running"},
    }


def identified(document):
    document["metadata"] |= {"uid": f"u-{document['metadata']['name']}", "generation": 1}
    return document


class Story:
    """The controller alone: changes go in, actions are followed as a server would, and time passes when told to."""

    def __init__(self):
        self.controller, self.listers, self.now = DeviceTaintEviction(ALL_FEATURES), Listers.of([], KINDS), T0
        self.keys, self.later, self.told, self.left = [], [], [], []
        self.said = []  # what rules' statuses say, with the second
        self.refused = set()  # pods whose deletion the server does not carry out
        for kind in (*KINDS, PODS):
            self.listers.caches[kind].listen(
                lambda old, new, kind=kind: self.keys.extend(self.controller.changed(kind, old, new))
            )

    def work(self, rng=None):
        while self.keys:
            key = self.keys.pop(rng.randrange(len(self.keys)) if rng else 0)
            for action in self.controller.reconcile(key, self.listers, self.now):
                self.follow(action)
        return self

    def follow(self, action):
        if isinstance(action, WakeAt):
            (self.keys if action.at <= self.now else self.later).append(
                action.key if action.at <= self.now else (action.at, action.key)
            )
        elif isinstance(action, Record):
            self.told.append((action.about.name, action.message))
        elif isinstance(action, Patch):
            (condition,) = action.patch["status"]["conditions"]
            self.said.append((self.seconds, condition["reason"], condition["message"]))
        elif isinstance(action, EvictPod):
            if action.pod.name in self.refused:
                return
            self.left.append((action.pod.name, self.seconds))
            for each in self.controller.carried_out(action, Evicted.DELETED, self.now):
                self.follow(each)

    def until(self, seconds):
        end = T0 + seconds * SECOND
        while due := [entry for entry in self.later if entry[0] <= end]:
            first = min(due, key=lambda entry: entry[0])
            self.later.remove(first)
            self.now = max(self.now, first[0])
            self.keys.append(first[1])
            self.work()
        self.now = end
        return self

    @property
    def seconds(self):
        return (self.now - T0).total_seconds()

    @property
    def waiting(self):
        return {
            key.name: (eviction.at, [str(r) for r in eviction.reasons])
            for key, eviction in self.pending.items()
        }

    @property
    def pending(self):
        return self.controller.pending


def told_in_order(order, rng=None):
    story = Story()
    for document in order:
        story.listers.put(document)
        if rng is None or rng.random() < 0.5:
            story.work(rng)
    return story.work(rng)


def held_and_hit(seconds=None, text="k:NoExecute", **metadata):
    """A pod whose device one rule taints; it may stay for *seconds*."""
    tolerations = () if seconds is None else (tolerate("k", seconds=seconds),)
    return [
        identified(slice_document("node-0", 2)),
        claim_document("c", [("node-0", "gpu-0")], tolerations, ["p"]),
        pod_document("p", "c"),
        identified(rule_document("r", text, {"pool": "node-0"}, timeAdded=ADDED)),
    ]
