"""A real API server and weir say the same about custom resources: values, unknown fields, lists.

Only what `weir lint` needs: the server takes the definition, weir reads it, and both judge the same objects.
Errors are compared as sets, because the server walks Go maps.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml

from tests.kubernetes.real_server import real_server
from tests.kubernetes.requests import Asked
from tests.kubernetes.test_same_requests import TOKEN, call
from weir.compat.customresources.definition import find_custom_kinds
from weir.compat.customresources.pruning import find_unknown_fields
from weir.fields.documents import show_path
from weir.fields.field import context_for
from weir.gates import Gates

STRING, INTEGER, NUMBER, BOOLEAN = ({"type": name} for name in ("string", "integer", "number", "boolean"))


def objects(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


FORMATS = (
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "date-time",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8s-short-name",
    "k8s-long-name",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "unheard-of",
)
SPEC = objects(
    count={**INTEGER, "minimum": 1, "maximum": 5},
    strictly={**INTEGER, "minimum": 1, "maximum": 5, "exclusiveMinimum": True, "exclusiveMaximum": True},
    narrow={**INTEGER, "format": "int32"},
    ratio={**NUMBER, "minimum": 0.5, "maximum": 1.5, "multipleOf": 0.25},
    even={**INTEGER, "multipleOf": 2},
    mode={**STRING, "enum": ["Fast", "Slow"]},
    level={**INTEGER, "enum": [1, 2]},
    name={**STRING, "minLength": 2, "maxLength": 4, "pattern": "^a[0-9]*$"},
    perhaps={**STRING, "nullable": True},
    flag=BOOLEAN,
    port={"x-kubernetes-int-or-string": True},
    tags={"type": "array", "items": STRING, "x-kubernetes-list-type": "set", "minItems": 1, "maxItems": 3},
    rows={
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["key"],
        "items": {**objects(key=STRING, value=INTEGER), "required": ["key"]},
    },
    limits={"type": "object", "additionalProperties": INTEGER, "maxProperties": 2, "minProperties": 1},
    free={
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"known": objects(a=STRING)},
    },
    embedded={**objects(spec=objects(a=STRING)), "x-kubernetes-embedded-resource": True},
    either={**objects(a=STRING, b=STRING), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    some={**objects(a=INTEGER, b=INTEGER), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    every={
        **objects(a=INTEGER, b=INTEGER),
        "allOf": [{"required": ["a"]}, {"properties": {"b": {"minimum": 3}}}],
        "not": {"required": ["c"]},
    },
    **{name.replace("-", ""): {**STRING, "format": name} for name in FORMATS},
)
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {**objects(spec={**SPEC, "required": ["count"]}), "required": ["spec"]}
                },
            }
        ],
    },
}
SPECS: list[dict[str, Any]] = [
    {},
    {"count": 0},
    {"count": 6},
    {"count": "1"},
    {"count": 1.5},
    {"count": 2.0},
    {"count": None},
    {"count": True},
    {"count": [1]},
    {"strictly": 1},
    {"strictly": 5},
    {"narrow": 2**31},
    {"narrow": -(2**31)},
    {"ratio": 0.4},
    {"ratio": 2},
    {"ratio": 0.75},
    {"ratio": 0.8},
    {"ratio": 1},
    {"even": 3},
    {"mode": "fast"},
    {"mode": None},
    {"mode": 1},
    {"level": 3},
    {"level": 2},
    {"name": "a"},
    {"name": "a12345"},
    {"name": "b1"},
    {"name": ""},
    {"perhaps": None},
    {"flag": None},
    {"flag": "true"},
    {"port": "http"},
    {"port": 80},
    {"port": 1.5},
    {"port": []},
    {"tags": []},
    {"tags": ["a", "b", "c", "d"]},
    {"tags": ["a", "b", "a"]},
    {"tags": ["a", 1]},
    {"tags": "a"},
    {"rows": [{"key": "a"}, {"key": "b"}, {"key": "a", "value": 2}]},
    {"rows": [{"value": 1}]},
    {"rows": [{"key": "a", "valeu": 1}]},
    {"limits": {}},
    {"limits": {"a": 1, "b": 2, "c": 3}},
    {"limits": {"a": "x"}},
    {"free": {"anything": {"goes": 1}, "known": {"a": "x", "b": 1}}},
    {"embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"b": 1}}},
    {"either": {}},
    {"either": {"a": "x", "b": "y"}},
    {"either": {"a": "x"}},
    {"some": {}},
    {"some": {"a": 1, "b": "x"}},
    {"every": {"b": 2}},
    {"every": {"a": 1, "b": 2}},
    {"every": {"a": 1, "b": 3}},
    {"unknown": 1, "nmae": "a"},
    {"tags": ["a", None]},
    {"limits": {"a": None}},
    {"rows": [{"key": None}]},
    {"rows": [None]},
    {"ratio": -0.5, "even": 0.5},
    {"limits": {"a.b": "x", "c/d": "y"}},
    {"either": {"a": 1}},
    {"either": None},
    {"port": None},
    {"count": 10**19},
    {"ratio": 1e300},
    {"level": 2.0},
    {"level": "2"},
]
TEXTS = {
    "bsonobjectid": ["507f1f77bcf86cd799439011", "5"],
    "byte": ["YQ==", "a", ""],
    "cidr": ["10.0.0.0/8", "10.0.0.01/08", "10.0.0.0", "::/0"],
    "creditcard": ["4111-1111-1111-1111", "4111-1111-1111-1112"],
    "date": ["2026-02-28", "2026-02-30", "26-02-28"],
    "datetime": ["2026-02-28T01:02:03Z", "2026-02-28t01:02:03.5+01:00", "2026-02-28 01:02:03Z", "2026-02-28"],
    "duration": ["1h30m", "22 ns", "3 weeks", "1.5h", "soon", "5", "-2s", ""],
    "email": ["a@example.com", "Ann <a@example.com>", "a", "a@b", "@b", "a b@c"],
    "hexcolor": ["#fff", "ffffff", "#ff"],
    "hostname": ["a.example", "a", "a_b", "-a", "a.b", "a-b.example.com", "1.2.3.4", "é.example"],
    "ipv4": ["10.0.0.1", "10.0.0.01", "::1", "::ffff:1.2.3.4", "10.0.0"],
    "ipv6": ["::1", "10.0.0.1", "fe80::1%eth0"],
    "isbn": ["0321751043", "978-0321751041", "1"],
    "isbn10": ["0321751043", "0321751042"],
    "isbn13": ["978-0321751041", "978-0321751042"],
    "k8sshortname": ["a", "a-", "A", "a" * 64],
    "k8slongname": ["a.b", "a..b", "a" * 254],
    "mac": ["01:23:45:67:89:ab", "01-23-45-67-89-ab", "0123.4567.89ab", "01:23", "01:23-45:67:89:ab"],
    "password": ["", "x"],
    "rgbcolor": ["rgb(0,31,255)", "rgb(0,31,256)", "rgb(1,2)"],
    "ssn": ["123-45-6789", "123456789", "12-345-6789"],
    "uri": ["http://example.com/a", "/a", "a", ""],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000", "x"],
    "uuid3": ["123e4567-e89b-32d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"],
    "uuid4": ["123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-42d3-c456-426614174000"],
    "uuid5": ["123e4567-e89b-52d3-a456-426614174000", "123e4567-e89b-42d3-a456-426614174000"],
    "unheardof": ["x"],
}
CASES = [
    *({"count": 1, **spec} if "count" not in spec and spec else spec for spec in SPECS),
    *({"count": 1, name: text} for name, texts in TEXTS.items() for text in texts),
]


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> list[tuple[set[str], set[str]]]:
    """What the real server and weir say to each case."""
    path = "/apis/example.com/v1/namespaces/default/widgets"
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    with real_server(
        tmp_path_factory.mktemp("custom"), users=[f'{TOKEN},me,2,"system:masters"']
    ) as kubeconfig:
        real = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        code, answer, _ = call(real, Asked("define", "POST", definitions, DEFINITION))
        assert code == 201, answer
        deadline = time.monotonic() + 60
        while call(real, Asked("served", "GET", path))[0] != 200:
            assert time.monotonic() < deadline, "the definition is not served"
            time.sleep(0.1)
        asked = f"{path}?dryRun=All&fieldValidation=Strict"
        answers = [call(real, Asked("", "POST", asked, widget(spec))) for spec in CASES]
        return [
            (_of_server(code, answer), _of_weir(widget(spec)))
            for spec, (code, answer, _) in zip(CASES, answers, strict=True)
        ]


def widget(spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "w", "namespace": "default"}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec}


def _of_server(code: int, answer: Any) -> set[str]:
    if code == 201:
        return set()
    if code == 400:
        return {
            part.rpartition("strict decoding error: ")[2]
            for part in answer["message"].split(", unknown ")[:1]
        }
    return {f"{cause.get('field')}: {cause['message']}" for cause in answer["details"].get("causes") or ()}


def _of_weir(document: dict[str, Any]) -> set[str]:
    kind = find_custom_kinds([DEFINITION])["example.com/v1", "Widget"]
    unknown = sorted(show_path(path) for path, _ in find_unknown_fields(document, kind.schema))
    if unknown:
        return {f'unknown field "{unknown[0]}"'}
    return {str(error) for error in kind.validate(document, context_for(Gates.of(None), "", True, True))}


@pytest.mark.parametrize("index", range(len(CASES)), ids=lambda i: str(CASES[i])[:60])
def test_both_say_the_same(said, index):
    real, weir = said[index]
    assert weir == real
