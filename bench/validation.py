"""The cost of validating an ordinary pod on its way to the store.

The API server asks on every create; the claim is at most 40 µs of one core. The baseline is decoding the same pod from
JSON to a plain dict, which every create pays too.
"""

from __future__ import annotations

import time

import msgspec

from bench import Figure
from weir.gates import ALL_FEATURES
from weir.objects import kinds
from weir.validate import validate_served

RESOURCES = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}}
EVICTION = [
    {
        "key": f"node.kubernetes.io/{name}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for name in ("not-ready", "unreachable")
]
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-7d4b9c-x2k8q",
        "namespace": "default",
        "labels": {"app": "web", "pod-template-hash": "7d4b9c"},
    },
    "spec": {
        "containers": [
            {
                "name": "web",
                "image": "registry.example/web:1",
                "resources": RESOURCES,
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [{"key": "sla", "operator": "Gt", "value": "900", "effect": "NoSchedule"}, *EVICTION],
    },
}


def run() -> list[Figure]:
    kind, rounds = kinds.by_kind("v1", "Pod"), 5_000
    text = msgspec.json.encode(POD)
    assert not validate_served(POD, None, kind, ALL_FEATURES)
    cost, baseline = [], []
    for _ in range(5):
        started = time.process_time()
        for _ in range(rounds):
            validate_served(POD, None, kind, ALL_FEATURES)
        cost.append((time.process_time() - started) / rounds * 1e6)
        started = time.process_time()
        for _ in range(rounds):
            msgspec.json.decode(text)
        baseline.append((time.process_time() - started) / rounds * 1e6)
    return [
        Figure(
            "validate one ordinary pod",
            round(min(cost), 1),
            "µs",
            round(min(baseline), 1),
            round(min(baseline) / min(cost), 2),
            "at most 40 µs",
        )
    ]
