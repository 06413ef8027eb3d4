"""Objects of resource.k8s.io that use every field, and a way to spoil them in random places.

Left out on purpose: what weir takes beyond Kubernetes (D-01, D-03, D-05, D-15) or refuses where Kubernetes does not
(D-08), and empty lists, which weir does not tell from absent ones.
"""

from __future__ import annotations

import copy
import random
from typing import Any

from weir.objects import schema

Document = dict[str, Any]
DRIVER = "gpu.example.com"
POOL = {"name": "n1/a", "generation": 3, "resourceSliceCount": 2}
WHEN = "2026-01-01T00:00:00Z"


def of(kind: str, spec: Document, version: str = "v1") -> Document:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": "f"},
        "spec": spec,
    }


def selecting(*expressions: Document, **more: Any) -> Document:
    return {"nodeSelectorTerms": [{"matchExpressions": list(expressions), **more}]}


TOLERATIONS = [
    {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"},
    {"key": "n", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
    {"operator": "Exists"},
]
STEPS = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}}
VALUES = {"default": "10", "validValues": ["5", "10", "20"]}
SLICES = [
    of(
        "ResourceSlice",
        {
            "driver": DRIVER,
            "nodeName": "n1",
            "pool": POOL,
            "devices": [
                {
                    "name": "g0",
                    "attributes": {
                        "a": {"int": 3},
                        "b": {"bool": True},
                        "x.io/c": {"string": "s"},
                        "v": {"version": "1.2.3-rc.1+b"},
                    },
                    "capacity": {"mem": {"value": "80Gi"}, "y.io/q": {"value": "1.5"}},
                    "taints": [
                        {"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": WHEN},
                        {"key": "x.io/k", "effect": "None", "timeAdded": WHEN},
                    ],
                    "consumesCounters": [{"counterSet": "cs", "counters": {"m": {"value": "1Gi"}}}],
                },
                {
                    "name": "g1",
                    "bindsToNode": True,
                    "bindingConditions": ["a.io/x", "Y"],
                    "bindingFailureConditions": ["z"],
                },
                {
                    "name": "g2",
                    "allowMultipleAllocations": True,
                    "capacity": {
                        "mem": {"value": "10Gi", "requestPolicy": STEPS},
                        "c": {"value": "100", "requestPolicy": VALUES},
                    },
                },
            ],
        },
    ),
    of(
        "ResourceSlice",
        {
            "driver": DRIVER,
            "perDeviceNodeSelection": True,
            "pool": POOL,
            "devices": [
                {"name": "g0", "nodeName": "n1"},
                {"name": "g1", "allNodes": True},
                {
                    "name": "g2",
                    "nodeSelector": selecting(
                        {"key": "k", "operator": "In", "values": ["a", "b"]},
                        {"key": "l", "operator": "Gt", "values": ["5"]},
                        matchFields=[{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
                    ),
                },
            ],
        },
    ),
    of(
        "ResourceSlice",
        {
            "driver": "Gpu.example.com",
            "nodeSelector": selecting({"key": "e", "operator": "Exists"}),
            "pool": POOL,
            "sharedCounters": [
                {"name": "cs", "counters": {"m": {"value": "80Gi"}, "n": {"value": "7"}}},
                {"name": "c2", "counters": {"o": {"value": "1"}}},
            ],
        },
    ),
    of("ResourceSlice", {"driver": DRIVER, "allNodes": True, "pool": POOL}),
]
ASKED = {
    "devices": {
        "requests": [
            {
                "name": "r",
                "exactly": {
                    "deviceClassName": DRIVER,
                    "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
                    "count": 2,
                    "tolerations": TOLERATIONS,
                    "capacity": {"requests": {"mem": "2Gi", "x.io/q": "1"}},
                },
            },
            {
                "name": "s",
                "firstAvailable": [
                    {
                        "name": "s0",
                        "deviceClassName": "big",
                        "allocationMode": "All",
                        "tolerations": TOLERATIONS[:1],
                    },
                    {"name": "s1", "deviceClassName": "small", "count": 3},
                ],
            },
            {"name": "t", "exactly": {"deviceClassName": DRIVER, "allocationMode": "All"}},
        ],
        "constraints": [
            {"requests": ["r", "s/s0"], "matchAttribute": "gpu.example.com/model"},
            {"distinctAttribute": "gpu.example.com/idx"},
        ],
        "config": [
            {"requests": ["r", "s"], "opaque": {"driver": DRIVER, "parameters": {"a": [1, {"b": None}]}}}
        ],
    }
}
CLAIM = of("ResourceClaim", ASKED)
TEMPLATE = of(
    "ResourceClaimTemplate",
    {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": ASKED},
)
CLASS = of(
    "DeviceClass",
    {
        "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
        "config": [{"opaque": {"driver": DRIVER, "parameters": {"x": 1}}}],
        "extendedResourceName": "example.com/gpu",
    },
)
RULE = of(
    "DeviceTaintRule",
    {
        "deviceSelector": {"driver": DRIVER, "pool": "n1/a", "device": "g0"},
        "taint": {"key": "x.io/k", "value": "v", "effect": "NoExecute", "timeAdded": WHEN},
    },
)
SOUND = [*SLICES, CLAIM, TEMPLATE, CLASS, RULE]
SHARE = "11111111-2222-3333-4444-555555555555"
STATUS = {
    "allocation": {
        "devices": {
            "results": [
                {
                    "request": "r",
                    "driver": DRIVER,
                    "pool": "n1/a",
                    "device": "g0",
                    "tolerations": TOLERATIONS,
                },
                {
                    "request": "s/s0",
                    "driver": DRIVER,
                    "pool": "p",
                    "device": "g1",
                    "shareID": SHARE,
                    "consumedCapacity": {"mem": "1Gi"},
                    "bindingConditions": ["a"],
                    "bindingFailureConditions": ["b"],
                },
            ],
            "config": [
                {
                    "source": "FromClass",
                    "requests": ["r"],
                    "opaque": {"driver": DRIVER, "parameters": {"a": 1}},
                }
            ],
        },
        "nodeSelector": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
            ]
        },
        "allocationTimestamp": WHEN,
    },
    "reservedFor": [
        {"resource": "pods", "name": "p", "uid": "u1"},
        {"apiGroup": "x.io", "resource": "things", "name": "t", "uid": "u2"},
    ],
    "devices": [
        {
            "driver": DRIVER,
            "pool": "n1/a",
            "device": "g0",
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "Ok",
                    "message": "m",
                    "lastTransitionTime": WHEN,
                }
            ],
            "data": {"x": 1},
            "networkData": {
                "interfaceName": "eth0",
                "ips": ["10.0.0.1/24", "2001:db8::1/64"],
                "hardwareAddress": "aa:bb",
            },
        },
        {"driver": DRIVER, "pool": "p", "device": "g1", "shareID": SHARE},
    ],
}

TEXTS = [
    *("", "Bad_Value!", "a", "a.b", "x" * 33, "x" * 64, "x" * 254, "a/b", "a/b/c", "-x", "UPPER", "a b", "é"),
    *("1.2.3", "1.2", "v1.2.3", "01.2.3", "X.io/y", "/y", "y/", "r", "s/s0", "s/s9", "NoSchedule", "All"),
    *("In", "Exists", "DoesNotExist", "metadata.name", "kubernetes.io/x", "requests.x/y", "10.0.0.1/024"),
    *("true", "device.foo", "1 +", "device.attributes['a'].b"),
]
NUMBERS = [0, -1, 1, 2, 5, 33, 2**31, 2**63 - 1]
AMOUNTS = ["1", "0", "-1", "500m", "1Gi", "1.5", "80Gi", "1e3", "100", "9223372036854775808", 5, "1Gx", ""]
LEFT_ALONE = frozenset(
    {
        "managedFields", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "uid",
        "resourceVersion", "generateName", "apiVersion", "kind", "namespace", "ownerReferences", "generation",
        "data", "description", "evictionsPerSecond", "timeAdded",
        "ints", "bools", "strings", "versions", "operator", "parameters",
    }
)  # fmt: skip
BEYOND = (
    ("spec", "taints"),
    ("deviceSelector", "selectors"),
    ("deviceSelector", "deviceClassName"),
)


class Spoiler:
    """Changes one or two random places of an object to something their types allow."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def spoil(self, whole: Document, under: str = "spec") -> Document:
        spoilt = copy.deepcopy(whole)
        root = schema.find_root(whole["apiVersion"], whole["kind"])
        assert root is not None
        for _ in range(self._random.choice([1, 1, 2])):
            shape = schema.Shape("struct", "", False, None, root.name)
            self._change(*self._random.choice(list(self._places(spoilt, shape, (), None, under))))
        return spoilt

    def _change(self, path: tuple[Any, ...], value: Any, shape: schema.Shape, inside: Any) -> None:
        roll = self._random.random()
        if roll < 0.2 and len(inside) > 1:
            del inside[path[-1]]
        elif shape.kind == "list" and value and roll < 0.6:
            value.extend(
                copy.deepcopy(self._random.choice(value)) for _ in range(self._random.choice([1, 9, 33]))
            )
        elif shape.kind == "map" and isinstance(value, dict) and roll < 0.8:
            for n in range(self._random.choice([1, 1, 33])):
                value[self._random.choice(TEXTS) + str(n or "")] = self._value(shape.item, path, 1)
        elif shape.kind == "struct" and roll < 0.7:
            fields = [
                field
                for field in schema.struct(shape.struct_name).fields.values()
                if not _left_alone((*path, field.name))
            ]
            if fields:
                field = self._random.choice(fields)
                value[field.name] = self._value(field.shape, (*path, field.name), 0)
        else:
            inside[path[-1]] = self._value(shape, path, 0)

    def _places(self, value: Any, shape: schema.Shape, path: tuple[Any, ...], inside: Any, under: str) -> Any:
        if len(path) > 1 and path[0] == under:
            yield path, value, shape, inside
        if shape.kind == "struct" and isinstance(value, dict):
            fields = schema.struct(shape.struct_name).fields
            for key, item in list(value.items()):
                if key in fields and not _left_alone((*path, key)):
                    yield from self._places(item, fields[key].shape, (*path, key), value, under)
        elif shape.item is not None and isinstance(value, dict | list):
            for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
                yield from self._places(item, shape.item, (*path, key), value, under)

    def _value(self, shape: schema.Shape, path: tuple[Any, ...], depth: int) -> Any:
        choose = self._random.choice
        if shape.kind == "string":
            return choose(TEXTS)
        if shape.kind == "bool":
            return choose([True, False])
        if shape.kind == "Quantity":
            return choose(AMOUNTS)
        if shape.kind == "Time":
            return WHEN
        if shape.kind == "list":
            return [self._value(shape.item, (*path, 0), depth + 1) for _ in range(choose([1, 1, 2, 5]))]
        if shape.kind == "map":
            return {
                choose(["a", "Bad Key!", "example.com/x"]): self._value(shape.item, (*path, ""), depth + 1)
            }
        if shape.kind == "struct":
            fields = [
                field
                for field in schema.struct(shape.struct_name).fields.values()
                if not _left_alone((*path, field.name))
            ]
            some = self._random.sample(fields, min(len(fields), choose([1, 2, 3]))) if depth < 3 else []
            return {field.name: self._value(field.shape, (*path, field.name), depth + 1) for field in some}
        return choose(NUMBERS) if shape.kind.startswith("int") else {}


def _left_alone(path: tuple[Any, ...]) -> bool:
    return (
        path[-1] in LEFT_ALONE
        or path[-2:] in BEYOND
        or ("tolerations" in path and path[-1] in ("key", "expression", "tolerations"))
        or (
            "tolerations" in path[:-1]
            and isinstance(path[-1], str)
            and path[-1] not in ("value", "effect", "tolerationSeconds")
        )
    )
