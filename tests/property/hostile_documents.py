"""Hostile manifests, snapshots and stories: texts that are large, deep, cyclic, or of wrong types where it matters."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default", "uid": "p"},
    "spec": {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
        "tolerations": [{"key": "sla", "operator": "Gt", "value": "5"}],
    },
}
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"a": "b"}},
    "spec": {"taints": [{"key": "sla", "value": "950", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "4", "pods": "10"}},
}
#: What stands where something else is expected.
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    10**30,
    1e308,
    "",
    "a\x00b",
    [],
    [[]],
    {},
    {"a": {"b": []}},
    [None, 1, "x", {}],
]


def lists_of_lists(count: int, wide: int) -> bytes:
    """Return a billion laughs: each list repeats the one before."""
    lines = ["a0: &a0 [" + ",".join(["lol"] * wide) + "]"]
    lines += [f"a{n}: &a{n} [" + ",".join([f"*a{n - 1}"] * wide) + "]" for n in range(1, count)]
    return "\n".join(lines).encode()


def pod_with(tolerations: str) -> bytes:
    head = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: a, image: b}]\n"
    return (head + "  tolerations:\n" + tolerations).encode()


def texts() -> Iterator[tuple[str, bytes]]:
    """Yield hostile texts with their names."""
    yield "billion laughs", lists_of_lists(10, 10)
    yield "billion laughs of mappings", lists_of_lists(10, 10).replace(b"[", b"[{x: [").replace(b"]", b"]}]")
    yield (
        "laughs below every bound",
        pod_with("  - &t {key: sla, operator: Gt, value: '5'}\n" + "  - *t\n" * 7_000),
    )
    yield (
        "pods by alias",
        (b"kind: List\napiVersion: v1\nitems:\n- &p " + json.dumps(POD).encode() + b"\n" + b"- *p\n" * 2_500),
    )
    yield (
        "merges of merges",
        (
            "m0: &m0 {k: v}\n" + "".join(f"m{n}: &m{n} {{<<: *m{n - 1}, k{n}: v}}\n" for n in range(1, 5_000))
        ).encode(),
    )
    yield (
        "deep by alias",
        ("a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 5_000))).encode(),
    )
    yield "alias of itself", b"kind: Pod\nspec: &s {a: *s}\n"
    yield "deep brackets", b"[" * 100_000
    yield "deep brackets behind quotes", b'{"}": ' * 100_000 + b"}" * 100_000
    yield "deep brackets behind comments", b"[ #]\n" * 100_000 + b"]" * 100_000
    yield "deep json", b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    yield "variables behind brackets", b"[${a}" * 100_000
    yield "unrendered blocks", b"[{%" * 100_000
    yield "deep blocks", "\n".join(" " * n + "a:" for n in range(1_500)).encode()
    yield "a million tolerations", pod_with("  - {key: sla, operator: Gt, value: '5'}\n" * 1_000_000)
    yield (
        "a million tolerations in json",
        (
            json.dumps(POD)
            .encode()
            .replace(b'"tolerations": [', b'"tolerations": [' + b'{"key": "a"},' * 1_000_000)
        ),
    )
    yield (
        "ten thousand wrong tolerations",
        pod_with("".join(f"  - {{key: k{n}, operator: Exist, value: '5'}}\n" for n in range(10_000))),
    )
    yield "not a number", b"kind: Node\napiVersion: v1\nmetadata: {name: n1}\nspec: {podCIDR: .nan}\n"
    yield "infinity", b"kind: Pod\napiVersion: v1\nmetadata: {name: p}\nspec: {priority: -.inf}\n"
    yield "NaN in json", b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},"spec":{"priority":NaN}}'
    yield (
        "an integer without end",
        (
            b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},"spec":{"priority":'
            + b"9" * 200_000
            + b"}}"
        ),
    )
    yield (
        "duplicate keys",
        b'{"kind":"Pod","kind":"Node","metadata":{"name":"p","name":"n1"},"spec":{},"spec":[]}',
    )
    yield "gzip of a gigabyte", gzip.compress(b"a: b\n" * 1_000_000)
    yield "utf-16", json.dumps(POD).encode("utf-16")
    yield "one long line", b"kind: " + b"x" * 3_000_000
    yield "many documents", b"---\nkind: Pod\n" * 300
    yield (
        "cyclic owners",
        json.dumps({"kind": "List", "apiVersion": "v1", "items": list(cyclic_owners())}).encode(),
    )
    for name, item in odd_objects():
        yield f"odd {name}", json.dumps({"kind": "List", "apiVersion": "v1", "items": item}).encode()


def cyclic_owners() -> Iterator[dict[str, Any]]:
    """Yield a node and objects that own each other in a circle, and one that owns itself."""
    yield NODE
    for number, kind in enumerate(("ReplicaSet", "Deployment", "Pod", "Job")):
        owner = ("Deployment", "Pod", "Job", "ReplicaSet")[number]
        reference = {
            "apiVersion": "v1",
            "kind": owner,
            "name": owner.lower(),
            "uid": owner,
            "controller": True,
        }
        spec = {**POD["spec"], "template": {"spec": POD["spec"]}, "selector": {"matchLabels": {}}}
        metadata = {"name": kind.lower(), "namespace": "default", "uid": kind, "ownerReferences": [reference]}
        yield {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}
    itself = {"apiVersion": "v1", "kind": "Pod", "name": "self", "uid": "self", "controller": True}
    metadata = {"name": "self", "namespace": "default", "uid": "self", "ownerReferences": [itself]}
    yield {**POD, "metadata": metadata}


def odd_objects() -> Iterator[tuple[str, list[Any]]]:
    """Yield a pod and a node in which one field after the other is of another type."""
    for kind, other in ((POD, NODE), (NODE, POD)):
        for path in _paths(kind):
            for number, odd in enumerate(ODD):
                changed = json.loads(json.dumps(kind))
                holder = changed
                for part in path[:-1]:
                    holder = holder[part]
                holder[path[-1]] = odd
                yield f"{kind['kind']} {'.'.join(map(str, path))} {number}", [changed, other]


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, member in members:
        yield (*path, key)
        yield from _paths(member, (*path, key))
