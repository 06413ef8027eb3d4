"""Weir's validators against Kubernetes' own, on sound objects spoilt in one or two random places.

The program of `tools/validators` decodes, defaults and validates as a kube-apiserver does. What the two projects are
about (tolerations, taints, node selection, names, labels) must agree to the letter and in order; over all kinds a few
rare fields (volume plugins nobody can use any more) may differ, and the test says how many may.
"""

from __future__ import annotations

import copy
import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kubernetes.oracles import oracle
from weir.fields.field import TYPE_INVALID
from weir.gates import Gates
from weir.objects import defaults, document, kinds, schema
from weir.validate import validate, validate_served

HERE = Path(__file__).parent
GATE = "AllAlpha=false,TaintTolerationComparisonOperators=true"
GATES = Gates.parse(GATE)
TEXTS = [
    "",
    "Bad_Value!",
    "a",
    "a.b",
    "x" * 64,
    "x" * 254,
    "a/b",
    "/abs",
    "../up",
    "-x",
    "UPPER",
    "1.2.3.4",
    "*",
    "a b",
]
NUMBERS = [0, -1, 1, 70000, 2**31 - 1, 101, 5]
#: Fields the server fills in, or that a create never reads.
LEFT_ALONE = frozenset(
    {
        "managedFields", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "uid",
        "resourceVersion", "generation", "generateName", "status", "expression", "apiVersion", "kind", "namespace",
    }
)  # fmt: skip
Row = tuple[str, str, str]


@pytest.fixture(scope="module")
def kubernetes() -> Iterator[Any]:
    """Return a function that asks Kubernetes about an object: its causes, or None when it could not be decoded."""
    with subprocess.Popen(
        [oracle("validators"), GATE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin and process.stdout

        def ask(new: dict[str, Any], old: dict[str, Any] | None = None) -> list[Row] | None:
            question = {"Obj": new, **({} if old is None else {"Old": old})}
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            if "causes" not in answer:
                return None
            causes = [(c["reason"], c["field"], c["message"].partition("\n")[0]) for c in answer["causes"]]
            return list(dict.fromkeys(causes))

        yield ask
        process.stdin.close()


def _weir(new: dict[str, Any]) -> list[Row] | None:
    """Return weir's causes for a create as the API server would ask: decoded and defaulted."""
    if any(error.type == TYPE_INVALID for error in validate(new, None, GATES)):
        return None
    kind = kinds.by_kind(new["apiVersion"], new["kind"])
    whole, _ = document.check(copy.deepcopy(new), kind, field_validation="Ignore")
    defaults.default(whole, kind)
    errors = validate_served(whole, None, kind, GATES)
    return list(dict.fromkeys((e.type, e.field, e.body.partition("\n")[0]) for e in errors))


def _objects() -> list[dict[str, Any]]:
    return list(yaml.load_all((HERE / "validation_objects.yaml").read_text(), Loader=yaml.BaseLoader))


def _typed(value: Any, shape: schema.Shape) -> Any:
    """Return a value read as text in the type its field has."""
    if shape.kind == "struct":
        fields = schema.struct(shape.struct_name).fields
        return {k: _typed(v, fields[k].shape) if k in fields else v for k, v in value.items()}
    if shape.kind == "list" and shape.item is not None:
        return [_typed(item, shape.item) for item in value]
    if shape.kind == "map" and shape.item is not None:
        return {key: _typed(item, shape.item) for key, item in value.items()}
    if shape.kind == "bool":
        return value == "true"
    if shape.kind.startswith("int") or (shape.kind == "IntOrString" and value.isdecimal()):
        return int(value)
    return value


def _root(value: dict[str, Any]) -> schema.Shape:
    found = schema.find_root(value["apiVersion"], value["kind"])
    assert found is not None
    return schema.Shape("struct", "", False, None, found.name)


SOUND = [_typed(value, _root(value)) for value in _objects()]


class Spoiler:
    """Changes one random place of an object to something its type allows."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def spoil(self, whole: dict[str, Any], under: str = "") -> dict[str, Any]:
        spoilt = copy.deepcopy(whole)
        places = [
            place
            for place in self._places(spoilt, _root(spoilt), ())
            if place[0] and place[0][-1] not in LEFT_ALONE and (not under or under in place[0])
        ]
        path, value, shape, inside = self._random.choice(places)
        roll = self._random.random()
        if roll < 0.3:
            del inside[path[-1]]
        elif shape.kind == "list" and value and roll < 0.6:
            value.append(copy.deepcopy(self._random.choice(value)))
        elif shape.kind == "struct" and roll < 0.7:
            self._add_field(value, shape)
        elif shape.kind == "map" and shape.item is not None and roll < 0.8:
            value[self._random.choice(["Bad Key!", "x" * 70, "a/b/c", "ok", ""])] = self._value(shape.item, 0)
        else:
            inside[path[-1]] = self._value(shape, 0)
        return spoilt

    def _add_field(self, value: dict[str, Any], shape: schema.Shape) -> None:
        fields = [f for f in schema.struct(shape.struct_name).fields.values() if f.name not in LEFT_ALONE]
        field = self._random.choice(fields)
        value[field.name] = self._value(field.shape, 0)

    def _places(
        self, value: Any, shape: schema.Shape, path: tuple[Any, ...], inside: Any = None
    ) -> list[Any]:
        found = [(path, value, shape, inside)]
        if shape.kind == "struct" and isinstance(value, dict):
            fields = schema.struct(shape.struct_name).fields
            for key, item in value.items():
                if key in fields and (path or key != "status"):
                    found += self._places(item, fields[key].shape, (*path, key), value)
        elif shape.item is not None:
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in items:
                found += self._places(item, shape.item, (*path, key), value)
        return found

    def _value(self, shape: schema.Shape, depth: int) -> Any:
        choose = self._random.choice
        match shape.kind:
            case "string":
                return choose(TEXTS)
            case "bool":
                return choose([True, False])
            case "IntOrString":
                return choose([*NUMBERS, "50%", "x", "150%", "", "http"])
            case "Quantity":
                return choose(["1", "0", "-1", "500m", "1Gi", "1.5"])
            case "Time":
                return "2026-01-01T00:00:00Z"
            case "MicroTime":
                return "2026-01-01T00:00:00.000000Z"
            case "list":
                return (
                    [self._value(shape.item, depth + 1) for _ in range(choose([0, 1, 1, 2]))]
                    if depth < 4
                    else []
                )
            case "map":
                key = choose(["a", "cpu", "Bad Key!", "example.com/x"])
                return {} if choose([True, False, False]) else {key: self._value(shape.item, depth + 1)}
            case "struct":
                fields = [
                    f for f in schema.struct(shape.struct_name).fields.values() if f.name not in LEFT_ALONE
                ]
                some = (
                    self._random.sample(fields, min(len(fields), choose([0, 1, 2, 3]))) if depth < 4 else []
                )
                return {field.name: self._value(field.shape, depth + 1) for field in some}
            case kind if kind.startswith(("int", "uint")):
                return choose(NUMBERS)
        return {} if shape.kind in ("RawExtension", "any", "FieldsV1") else "AAE="


def _differences(kubernetes: Any, spoilt: list[dict[str, Any]], *, ordered: bool) -> tuple[int, list[str]]:
    """Return how many questions both sides answered, and the answers that differ; maps have no order upstream."""
    asked, different = 0, []
    for new in spoilt:
        wanted, said = kubernetes(new), _weir(new)
        if wanted is None or said is None:
            continue
        asked += 1
        if said != wanted and sorted(said) != sorted(wanted):
            different.append(
                f"{new['kind']}: wants {sorted(set(wanted) - set(said))}, said {sorted(set(said) - set(wanted))}"
            )
    return asked, different


def test_kubernetes_takes_the_objects_that_are_to_be_spoilt(kubernetes: Any) -> None:
    assert [
        (new["kind"], kubernetes(new), _weir(new)) for new in SOUND if kubernetes(new) or _weir(new)
    ] == []


@pytest.mark.parametrize(
    ("kind", "under"),
    [
        ("Pod", "tolerations"),
        ("Pod", "nodeAffinity"),
        ("Pod", "nodeSelector"),
        ("Pod", "topologySpreadConstraints"),
        ("Pod", "labels"),
        ("Node", "taints"),
        ("PersistentVolume", "nodeAffinity"),
        ("Deployment", "tolerations"),
    ],
)
def test_what_weir_is_about_is_refused_in_the_same_words(kubernetes: Any, kind: str, under: str) -> None:
    spoiler = Spoiler(5471)
    bases = [new for new in SOUND if new["kind"] == kind and f"'{under}'" in repr(new)]
    spoilt = [spoiler.spoil(base, under) for base in bases for _ in range(150)]
    asked, different = _differences(kubernetes, spoilt, ordered=under not in ("labels", "nodeSelector"))
    assert asked >= 100 and different == []


def test_over_all_kinds_at_most_one_answer_in_twenty_differs(kubernetes: Any) -> None:
    spoiler = Spoiler(5721)
    asked, different = _differences(
        kubernetes, [spoiler.spoil(base) for base in SOUND for _ in range(40)], ordered=False
    )
    assert len(different) * 20 <= asked, "\n".join(different[:20])
