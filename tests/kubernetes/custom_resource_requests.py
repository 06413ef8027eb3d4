"""Requests about CustomResourceDefinitions and custom resources, asked of a real API server and of weir."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.kubernetes.more_requests import Questions
from tests.kubernetes.requests import (
    APPLY,
    JSON_PATCH,
    MERGE,
    PARTIAL,
    STRATEGIC,
    TABLE,
    Asked,
    Document,
)

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "/apis/stable.example.com/v1"
WIDGETS = f"{GROUP}/namespaces/default/widgets"
STRING, INTEGER, BOOLEAN, NUMBER = ({"type": name} for name in ("string", "integer", "boolean", "number"))


def objects(*required: str, **properties: Any) -> Document:
    found: Document = {"type": "object", **({"properties": properties} if properties else {})}
    return {**found, **({"required": list(required)} if required else {})}


def root(**properties: Any) -> Document:
    return objects(spec=objects(**properties))


def version(schema: Document | None = None, name: str = "v1", **rest: Any) -> Document:
    found: Document = {"name": name, "served": True, "storage": True, **rest}
    if schema is not None:
        found["schema"] = {"openAPIV3Schema": schema}
    return found


def crd(plural: str = "gadgets", *versions: Document, **spec: Any) -> Document:
    singular = plural.removesuffix("s")
    group = spec.pop("group", "stable.example.com")
    metadata = {"name": f"{plural}.{group}", **spec.pop("metadata", {})}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": singular.capitalize()},
            "versions": list(versions) or [version(objects())],
            **spec,
        },
    }


def refused() -> Iterator[Asked]:
    """Definitions that are wrong in one way each, or unusual."""
    q = Questions("definitions")

    def ask(name: str, body: Document) -> None:
        q.ask(name, "POST", f"{CRDS}?dryRun=All", body)

    def schema(name: str, found: Document) -> None:
        ask(name, crd("gadgets", version(found)))

    ask("fine", crd())
    ask("wrong name", crd(metadata={"name": "gadgets"}))
    ask("no group", crd(group=""))
    ask("short group", crd(group="example"))
    ask("odd group", crd(group="Example_.com"))
    ask("no scope", crd(scope=""))
    ask("odd scope", crd(scope="Galaxy"))
    ask("no names", crd(names={}))
    ask(
        "odd names",
        crd(
            names={
                "plural": "Gad_gets",
                "kind": "9",
                "singular": "-a",
                "listKind": "B!",
                "shortNames": ["X"],
                "categories": ["All"],
            }
        ),
    )
    ask("kind is list", crd(names={"plural": "gadgets", "kind": "Gadget", "listKind": "Gadget"}))
    ask("no versions", crd(versions=[]))
    ask("no storage", crd("gadgets", version(objects(), storage=False)))
    ask("two storages", crd("gadgets", version(objects()), version(objects(), "v2")))
    ask("two storages apart", crd("gadgets", version(objects()), version(root(a=STRING), "v2")))
    ask("same version twice", crd("gadgets", version(objects()), version(objects(), storage=False)))
    ask("odd version", crd("gadgets", version(objects(), "V1_")))
    ask("no schema", crd("gadgets", version()))
    ask("no schema of two", crd("gadgets", version(objects()), version(None, "v2", storage=False)))
    ask("preserve unknown", crd(preserveUnknownFields=True))
    ask("deprecated", crd("gadgets", version(objects(), deprecated=True, deprecationWarning="use another")))
    ask("warns without", crd("gadgets", version(objects(), deprecationWarning="use another")))
    ask("empty warning", crd("gadgets", version(objects(), deprecated=True, deprecationWarning="")))
    ask("long warning", crd("gadgets", version(objects(), deprecated=True, deprecationWarning="x\n" * 200)))
    ask("protected", crd(group="example.k8s.io"))
    ask(
        "protected odd",
        crd(group="example.k8s.io", metadata={"annotations": {"api-approved.kubernetes.io": "yes"}}),
    )
    ask(
        "unapproved",
        crd(
            group="example.k8s.io",
            metadata={"annotations": {"api-approved.kubernetes.io": "unapproved, test"}},
        ),
    )
    for name, conversion in {
        "odd": {"strategy": "Magic"},
        "none": {"strategy": ""},
        "webhook": {"strategy": "Webhook"},
        "without": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}},
        "both": {
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"url": "https://a", "service": {"name": "a", "namespace": "b"}},
                "conversionReviewVersions": ["v1"],
            },
        },
        "http": {
            "strategy": "Webhook",
            "webhook": {"clientConfig": {"url": "http://a"}, "conversionReviewVersions": ["v3", "v3", "V"]},
        },
        "service": {
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"service": {"name": "", "namespace": "b", "port": 0, "path": "x"}},
                "conversionReviewVersions": [],
            },
        },
        "unneeded": {
            "strategy": "None",
            "webhook": {"clientConfig": {"url": "https://a"}, "conversionReviewVersions": ["v1"]},
        },
        "fine": {
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"service": {"name": "a", "namespace": "b"}},
                "conversionReviewVersions": ["v1"],
            },
        },
    }.items():
        ask(f"conversion {name}", crd(conversion=conversion))
    for name, columns in {
        "empty": [{}],
        "odd": [{"name": "a", "type": "text", "format": "huge", "jsonPath": "spec"}],
        "fine": [{"name": "a", "type": "date", "jsonPath": ".spec.a", "priority": 1}],
    }.items():
        ask(f"column {name}", crd("gadgets", version(objects(), additionalPrinterColumns=columns)))
    for name, found in {
        "empty": {"scale": {}},
        "relative": {
            "scale": {
                "specReplicasPath": "spec.n",
                "statusReplicasPath": "status.n",
                "labelSelectorPath": "a",
            }
        },
        "elsewhere": {
            "scale": {
                "specReplicasPath": ".status.n",
                "statusReplicasPath": ".spec.n",
                "labelSelectorPath": ".a",
            }
        },
        "status": {"status": {}},
    }.items():
        ask(f"subresource {name}", crd("gadgets", version(root(n=INTEGER), subresources=found)))
    for name, fields in {
        "empty": [{"jsonPath": ""}],
        "unknown": [{"jsonPath": ".spec.b"}],
        "metadata": [{"jsonPath": ".metadata.name"}],
        "array": [{"jsonPath": ".spec['a']"}],
        "relative": [{"jsonPath": "spec.a"}],
        "object": [{"jsonPath": ".spec"}],
        "twice": [{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.a"}],
        "many": [{"jsonPath": f".spec.f{i}"} for i in range(9)],
        "fine": [{"jsonPath": ".spec.a"}],
    }.items():
        inner = {"a": STRING, **{f"f{i}": STRING for i in range(9)}}
        ask(f"selectable {name}", crd("gadgets", version(root(**inner), selectableFields=fields)))
    # schemas
    schema("no type", {})
    schema("array at the root", {"type": "array", "items": STRING})
    schema("odd type", root(a={"type": "text"}))
    schema("null type", root(a={"type": "null"}))
    schema("untyped field", root(a={}))
    schema("untyped items", root(a={"type": "array", "items": {}}))
    schema("no items", root(a={"type": "array"}))
    schema("items list", root(a={"type": "array", "items": [STRING]}))
    schema("nullable root", {"type": "object", "nullable": True})
    schema("additional at root", {"type": "object", "additionalProperties": STRING})
    schema("both", root(a={"type": "object", "properties": {"b": STRING}, "additionalProperties": STRING}))
    schema(
        "forbidden additional",
        root(a={"type": "object", "properties": {"b": STRING}, "additionalProperties": False}),
    )
    schema("allowed additional", root(a={"type": "object", "additionalProperties": True}))
    schema("unique", root(a={"type": "array", "items": STRING, "uniqueItems": True}))
    schema("ref", root(a={"$ref": "#/a"}))
    schema("id", root(a={**STRING, "id": "x"}))
    schema("definitions", {**objects(), "definitions": {"a": STRING}})
    schema("dependencies", {**objects(), "dependencies": {"a": ["b"]}})
    schema("pattern properties", root(a={"type": "object", "patternProperties": {"a": STRING}}))
    schema("additional items", root(a={"type": "array", "items": STRING, "additionalItems": True}))
    schema("bad pattern", root(a={**STRING, "pattern": "("}))
    schema("preserve false", root(a={"type": "object", "x-kubernetes-preserve-unknown-fields": False}))
    schema("preserve", root(a={"x-kubernetes-preserve-unknown-fields": True}))
    schema("int or string", root(a={"x-kubernetes-int-or-string": True, "anyOf": [INTEGER, STRING]}))
    schema(
        "int or string deep",
        root(
            a={"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": [INTEGER, STRING]}, {"pattern": "^a"}]}
        ),
    )
    schema("int or string typed", root(a={"x-kubernetes-int-or-string": True, "type": "string"}))
    schema(
        "int or string kept",
        root(a={"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True}),
    )
    schema("any of types", root(a={"type": "string", "anyOf": [INTEGER, STRING, BOOLEAN]}))
    schema(
        "nested",
        root(
            a={
                "type": "object",
                "properties": {"b": STRING},
                "anyOf": [
                    {
                        "properties": {
                            "b": {"description": "x", "default": "y", "nullable": True, "title": "t"},
                            "c": {"minLength": 1},
                        },
                        "required": ["b"],
                    }
                ],
            }
        ),
    )
    schema("nested additional", root(a={"type": "object", "not": {"additionalProperties": STRING}}))
    schema(
        "nested extensions",
        root(
            a={
                "type": "array",
                "items": STRING,
                "oneOf": [
                    {
                        "x-kubernetes-list-type": "set",
                        "x-kubernetes-map-type": "atomic",
                        "x-kubernetes-preserve-unknown-fields": True,
                        "x-kubernetes-int-or-string": True,
                        "x-kubernetes-embedded-resource": True,
                        "x-kubernetes-list-map-keys": ["a"],
                        "x-kubernetes-validations": [{"rule": "true"}],
                    }
                ],
            }
        ),
    )
    schema("nested metadata", {**objects(), "allOf": [{"properties": {"metadata": {"minProperties": 1}}}]})
    schema("missing items", root(a={"type": "string", "allOf": [{"items": {"minLength": 1}}]}))
    schema("embedded", root(a={"type": "object", "x-kubernetes-embedded-resource": True}))
    schema("embedded string", root(a={"type": "string", "x-kubernetes-embedded-resource": True}))
    schema(
        "embedded map",
        root(a={"type": "object", "x-kubernetes-embedded-resource": True, "additionalProperties": STRING}),
    )
    schema(
        "embedded odd",
        root(
            a={
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "properties": {"kind": INTEGER, "apiVersion": INTEGER, "metadata": STRING},
            }
        ),
    )
    schema("metadata described", objects(metadata=objects(name=STRING)))
    schema(
        "metadata too much",
        objects(metadata=objects(name=STRING, labels={"type": "object", "additionalProperties": STRING})),
    )
    schema("metadata no object", objects(metadata=STRING, kind=INTEGER))
    schema(
        "metadata default",
        objects(metadata={**objects(name={**STRING, "default": "x"})}, kind={**STRING, "default": "Gadget"}),
    )
    for name, found in {
        "set of objects": {"type": "array", "x-kubernetes-list-type": "set", "items": objects(a=STRING)},
        "set of atoms": {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "items": {**objects(a=STRING), "x-kubernetes-map-type": "atomic"},
        },
        "set of lists": {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "items": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
        },
        "set on string": {"type": "string", "x-kubernetes-list-type": "set"},
        "odd list": {"type": "array", "x-kubernetes-list-type": "bag", "items": STRING},
        "map without keys": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "items": objects("a", a=STRING),
        },
        "map of strings": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a"],
            "items": STRING,
        },
        "map with odd keys": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a", "a", "b", "c"],
            "items": objects("a", a=STRING, b=objects()),
        },
        "keys may be absent": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a", "b"],
            "items": objects(a=STRING, b={**STRING, "default": "x", "nullable": True}),
        },
        "nullable items": {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "items": {**STRING, "nullable": True},
        },
        "keys without type": {
            "type": "array",
            "x-kubernetes-list-map-keys": ["a"],
            "items": objects(a=STRING),
        },
        "keys of a set": {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "x-kubernetes-list-map-keys": ["a"],
            "items": STRING,
        },
        "odd map": {"type": "object", "x-kubernetes-map-type": "loose"},
        "map on string": {"type": "string", "x-kubernetes-map-type": "atomic"},
        "map on nothing": {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-map-type": "atomic"},
        "unknown format": {"type": "string", "format": "unheard-of"},
        "wrong default": {"type": "integer", "default": "x"},
        "small default": {"type": "integer", "minimum": 5, "default": 1},
        "default with more": {**objects(a=STRING), "default": {"a": "x", "b": 1}},
        "default of object": {**objects("a", a=STRING), "default": {}},
        "null default": {"type": "string", "default": None},
        "default list": {"type": "array", "items": STRING, "default": ["a", 1]},
    }.items():
        schema(name, root(a=found))
    status = {"subresources": {"status": {}}}
    ask("status with anyOf", crd("gadgets", version({**objects(), "anyOf": [{"required": ["a"]}]}, **status)))
    ask(
        "status with map",
        crd("gadgets", version({"type": "object", "x-kubernetes-map-type": "atomic"}, **status)),
    )
    for name, rule in {
        "empty": {"rule": " "},
        "blank message": {"rule": "true", "message": " "},
        "two lines": {"rule": "true", "message": "a\nb"},
        "rule in two lines": {"rule": "true ||\nfalse"},
        "blank expression": {"rule": "true", "messageExpression": " "},
        "odd reason": {"rule": "true", "reason": "Because"},
        "odd path": {"rule": "true", "fieldPath": ".b"},
        "blank path": {"rule": "true", "fieldPath": " "},
    }.items():
        schema(f"rule {name}", root(a={**objects(c=STRING), "x-kubernetes-validations": [rule]}))
    unknown = crd()
    unknown["spec"]["bogus"] = 1
    unknown["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["propertys"] = {}
    q.ask("unknown fields", "POST", f"{CRDS}?dryRun=All&fieldValidation=Strict", unknown)
    q.ask("unknown fields warned", "POST", f"{CRDS}?dryRun=All&fieldValidation=Warn", unknown)
    ask("wrong types", crd(names="x"))
    ask("bool or schema", crd("gadgets", version(root(a={"type": "object", "additionalProperties": "yes"}))))
    yield from q.asked


SPEC = objects(
    size={**INTEGER, "minimum": 1, "maximum": 10, "default": 3},
    name={**STRING, "maxLength": 8},
    replicas=INTEGER,
    mode={**STRING, "enum": ["Fast", "Slow"]},
    ratio=NUMBER,
    flag=BOOLEAN,
    perhaps={**STRING, "nullable": True},
    port={"x-kubernetes-int-or-string": True},
    tags={"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
    rows={
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["key"],
        "items": objects("key", key=STRING, value=INTEGER, more={**STRING, "default": "m"}),
    },
    plain={"type": "array", "items": objects(a=STRING)},
    labels={"type": "object", "additionalProperties": STRING},
    atom={"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": STRING, "b": STRING}},
    free={
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"known": objects(a=STRING)},
    },
    pod={
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    inner={**objects(a={**STRING, "default": "x"}, b=STRING), "default": {}},
)
STATUS = objects(
    replicas=INTEGER,
    selector=STRING,
    phase=STRING,
    conditions={"type": "array", "items": objects(type=STRING, status=STRING)},
)
COLUMNS = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {"name": "Flag", "type": "boolean", "jsonPath": ".spec.flag", "priority": 1},
    {"name": "Labels", "type": "string", "jsonPath": ".spec.labels"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]
WIDGET_CRD = crd(
    "widgets",
    version(
        objects(spec=SPEC, status=STATUS),
        subresources={
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        additionalPrinterColumns=COLUMNS,
        selectableFields=[{"jsonPath": ".spec.mode"}, {"jsonPath": ".spec.size"}],
    ),
    names={"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all", "things"]},
)
#: two versions that differ in one field, cluster-wide, and no status of its own
TWO = crd(
    "planets",
    version(objects(spec=objects(a=STRING, b={**STRING, "default": "one"})), "v1", storage=True),
    version(objects(spec=objects(a=STRING, c={**STRING, "default": "two"})), "v2", storage=False),
    version(objects(spec=objects(a=STRING)), "v1beta1", storage=False, deprecated=True),
    scope="Cluster",
)
PLANETS = "/apis/stable.example.com/{}/planets"
#: asked before all others; both servers get the time to establish them
SETUP = [Asked(f"custom define {body['metadata']['name']}", "POST", CRDS, body) for body in (WIDGET_CRD, TWO)]


def widget(name: str, metadata: Document | None = None, **rest: Any) -> Document:
    return {
        "apiVersion": "stable.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, **(metadata or {})},
        **rest,
    }


def resources() -> Iterator[Asked]:
    q = Questions("custom resources")
    for path in (
        *("/apis/stable.example.com", GROUP, "/apis/stable.example.com/v2", "/apis/stable.example.com/v3"),
        *(f"{CRDS}/widgets.stable.example.com", f"{GROUP}/nothings", f"{CRDS}/planets.stable.example.com"),
    ):
        q.ask(path, "GET", path)
    q.ask("definitions as a table", "GET", f"{CRDS}/widgets.stable.example.com", accept=TABLE)
    q.ask("create", "POST", WIDGETS, widget("one", spec={"name": "a", "mode": "Fast", "labels": {"a": "b"}}))
    q.ask("again", "POST", WIDGETS, widget("one"))
    q.ask("below a name", "POST", f"{WIDGETS}/another?dryRun=All", widget("below"))
    q.ask("below its name", "POST", f"{WIDGETS}/one", widget("one"))
    for method, path, content in (
        ("PUT", WIDGETS, "application/json"), ("PATCH", WIDGETS, MERGE), ("PATCH", WIDGETS, "application/x"),
        ("PATCH", WIDGETS, APPLY), ("OPTIONS", WIDGETS, "application/json"), ("HEAD", WIDGETS, "application/json"),
        ("HEAD", f"{WIDGETS}/one", "application/json"), ("HEAD", f"{WIDGETS}/none", "application/json"),
        ("POST", f"{WIDGETS}/one/status", "application/json"), ("DELETE", f"{WIDGETS}/one/status", "application/json"),
        ("POST", f"{WIDGETS}/one/none", "application/json"), ("PUT", f"{GROUP}/widgets", "application/json"),
        ("POST", f"{GROUP}/widgets", "application/json"), ("PATCH", f"{GROUP}/widgets", MERGE),
        ("DELETE", f"{GROUP}/widgets", "application/json"), ("GET", f"{GROUP}/widgets/one", "application/json"),
    ):  # fmt: skip
        q.ask(f"route {method} {path} {content}", method, path, widget("one"), content=content)
    q.ask("below a name without one", "POST", f"{WIDGETS}/one", {**widget("one"), "metadata": {}})
    q.ask("get", "GET", f"{WIDGETS}/one")
    q.ask("missing", "GET", f"{WIDGETS}/none")
    q.ask("missing subresource", "GET", f"{WIDGETS}/one/logs")
    q.ask(
        "with status", "POST", WIDGETS, widget("two", spec={"flag": True, "size": 5}, status={"phase": "Up"})
    )
    q.ask("no spec", "POST", WIDGETS, widget("bare"))
    q.ask("generate", "POST", WIDGETS, {**widget("x"), "metadata": {"generateName": "made-"}})
    q.ask("odd name", "POST", WIDGETS, widget("Odd_"))
    q.ask("other namespace", "POST", WIDGETS, widget("three", {"namespace": "other"}))
    q.ask("other kind", "POST", WIDGETS, {**widget("three"), "kind": "Gadget"})
    q.ask("other version", "POST", WIDGETS, {**widget("three"), "apiVersion": "stable.example.com/v2"})
    q.ask("no kind", "POST", WIDGETS, {"apiVersion": "stable.example.com/v1", "metadata": {"name": "a"}})
    q.ask("no version", "POST", WIDGETS, {"kind": "Widget", "metadata": {"name": "a"}})
    q.ask("no json", "POST", WIDGETS, "{")
    q.ask("a list", "POST", WIDGETS, "[1]")
    q.ask(
        "yaml",
        "POST",
        WIDGETS,
        "apiVersion: stable.example.com/v1\nkind: Widget\nmetadata: {name: yaml}\nspec: {size: 4}\n",
        "application/yaml",
    )
    for name, spec in {
        "values": {"size": 11, "name": "much too long", "mode": "Odd", "ratio": "x", "flag": 1},
        "sets": {"tags": ["a", "b", "a"]},
        "maps": {"rows": [{"key": "a"}, {"key": "a"}]},
        "map without key": {"rows": [{"value": 1}]},
        "nulls": {"perhaps": None, "size": None, "name": None, "inner": None},
        "port": {"port": "http"},
        "wrong port": {"port": 1.5},
        "whole float": {"size": 4.0, "ratio": 2.0},
        "embedded": {
            "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "bogus": 1}, "x": 1}
        },
        "embedded odd": {"pod": {"metadata": {"name": "A", "labels": {"a b": "c"}}, "x": 1}},
        "free": {"free": {"known": {"a": "b", "c": "d"}, "else": {"x": [1]}}},
        "negative": {"replicas": -1},
        "defaults inside": {"inner": {"b": "c"}, "rows": [{"key": "a"}]},
        "unknown": {"bogus": 1, "plain": [{"a": "b", "c": "d"}], "inner": {"z": 1}},
    }.items():
        body = widget("dry", spec=spec)
        q.ask(f"{name}", "POST", f"{WIDGETS}?dryRun=All", body)
        q.ask(f"{name} strict", "POST", f"{WIDGETS}?dryRun=All&fieldValidation=Strict", body)
    q.ask("unknown metadata", "POST", f"{WIDGETS}?dryRun=All", widget("dry", {"bogus": 1}, more=1))
    q.ask(
        "unknown warned",
        "POST",
        f"{WIDGETS}?dryRun=All&fieldValidation=Warn",
        widget("dry", {"bogus": 1}, more=1),
    )
    q.ask(
        "unknown refused",
        "POST",
        f"{WIDGETS}?dryRun=All&fieldValidation=Strict",
        widget("dry", {"bogus": 1}, more=1),
    )
    q.ask("wrong metadata", "POST", f"{WIDGETS}?dryRun=All", widget("dry", {"labels": 5}))
    q.ask(
        "odd finalizers",
        "POST",
        f"{WIDGETS}?dryRun=All",
        widget("dry", {"finalizers": ["a", "b.c", "d.e/f"]}),
    )
    q.ask(
        "duplicates",
        "POST",
        f"{WIDGETS}?dryRun=All&fieldValidation=Strict",
        '{"apiVersion":"stable.example.com/v1","kind":"Widget","metadata":{"name":"dry"},"spec":{"size":1,"size":2}}',
    )
    yield from q.asked
    yield from changes()


def changes() -> Iterator[Asked]:
    q = Questions("custom changes")
    q.ask("list", "GET", WIDGETS)
    q.ask("everywhere", "GET", f"{GROUP}/widgets")
    q.ask("table", "GET", WIDGETS, accept=TABLE)
    q.ask("one as a table", "GET", f"{WIDGETS}/two", accept=TABLE)
    q.ask("partial", "GET", f"{WIDGETS}/one", accept=PARTIAL)
    q.ask("by mode", "GET", f"{WIDGETS}?fieldSelector=spec.mode%3DFast")
    q.ask("by size", "GET", f"{WIDGETS}?fieldSelector=spec.size%3D5")
    q.ask("by another", "GET", f"{WIDGETS}?fieldSelector=spec.name%3Da")
    q.ask("by name", "GET", f"{WIDGETS}?fieldSelector=metadata.name%3Done")
    q.ask("by label", "GET", f"{WIDGETS}?labelSelector=a%3Db")
    q.ask("watch", "GET", f"{WIDGETS}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Done")
    q.ask(
        "watch a table",
        "GET",
        f"{WIDGETS}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Done",
        accept=TABLE,
    )
    q.ask("put without version", "PUT", f"{WIDGETS}/one", widget("one", spec={"size": 7}))
    q.ask("put", "PUT", f"{WIDGETS}/one", widget("one", {"resourceVersion": "0"}, spec={"size": 7}))
    q.ask("put missing", "PUT", f"{WIDGETS}/none", widget("none", spec={"size": 7}))
    q.ask(
        "merge",
        "PATCH",
        f"{WIDGETS}/one",
        {"spec": {"size": 6, "name": None}, "status": {"phase": "x"}},
        MERGE,
    )
    q.ask("merge nothing", "PATCH", f"{WIDGETS}/one", {"spec": {"size": 6}}, MERGE)
    q.ask("merge wrong", "PATCH", f"{WIDGETS}/one", {"spec": {"size": 66}}, MERGE)
    q.ask("merge unknown", "PATCH", f"{WIDGETS}/one?fieldValidation=Strict", {"spec": {"bogus": 1}}, MERGE)
    q.ask("merge labels", "PATCH", f"{WIDGETS}/one", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    q.ask(
        "json patch",
        "PATCH",
        f"{WIDGETS}/one",
        [{"op": "replace", "path": "/spec/size", "value": 2}],
        JSON_PATCH,
    )
    q.ask("json patch wrong", "PATCH", f"{WIDGETS}/one", [{"op": "remove", "path": "/spec/none"}], JSON_PATCH)
    q.ask("strategic", "PATCH", f"{WIDGETS}/one", {"spec": {"size": 1}}, STRATEGIC)
    q.ask(
        "status",
        "PATCH",
        f"{WIDGETS}/one/status",
        {
            "spec": {"size": 9},
            "metadata": {"labels": {"x": "y"}},
            "status": {
                "phase": "Up",
                "replicas": 2,
                "selector": "a=b",
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        MERGE,
    )
    q.ask("status wrong", "PATCH", f"{WIDGETS}/one/status", {"status": {"phase": 5}}, MERGE)
    q.ask(
        "status put",
        "PUT",
        f"{WIDGETS}/two/status",
        widget("two", {"resourceVersion": "0"}, status={"phase": "Up"}),
    )
    q.ask("table again", "GET", WIDGETS, accept=TABLE)
    q.ask("no scale", "GET", f"{WIDGETS}/one/scale")
    q.ask("replicas", "PATCH", f"{WIDGETS}/one", {"spec": {"replicas": 2}}, MERGE)
    q.ask("scale", "GET", f"{WIDGETS}/one/scale")
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "one", "namespace": "default"},
    }
    q.ask("scale up", "PUT", f"{WIDGETS}/one/scale", {**scale, "spec": {"replicas": 4}})
    q.ask("scale patched", "PATCH", f"{WIDGETS}/one/scale", {"spec": {"replicas": 5}}, MERGE)
    q.ask("scale below", "PATCH", f"{WIDGETS}/one/scale", {"spec": {"replicas": -5}}, MERGE)
    q.ask("scaled", "GET", f"{WIDGETS}/one")
    apply = f"{WIDGETS}/applied?fieldManager=a"
    rows = [{"key": "a", "value": 1}, {"key": "b"}]
    q.ask(
        "apply",
        "PATCH",
        apply,
        widget(
            "applied",
            spec={
                "rows": rows,
                "tags": ["x"],
                "atom": {"a": "1"},
                "labels": {"l": "1"},
                "free": {"some": {"thing": [1]}},
            },
        ),
        APPLY,
    )
    q.ask(
        "apply by another",
        "PATCH",
        f"{WIDGETS}/applied?fieldManager=b",
        widget("applied", spec={"rows": [{"key": "c"}], "tags": ["y"], "labels": {"m": "2"}}),
        APPLY,
    )
    q.ask(
        "apply conflict",
        "PATCH",
        f"{WIDGETS}/applied?fieldManager=b",
        widget("applied", spec={"rows": [{"key": "a", "value": 2}], "atom": {"b": "2"}}),
        APPLY,
    )
    q.ask(
        "apply forced",
        "PATCH",
        f"{WIDGETS}/applied?fieldManager=b&force=true",
        widget("applied", spec={"rows": [{"key": "a", "value": 2}], "atom": {"b": "2"}}),
        APPLY,
    )
    q.ask("apply less", "PATCH", apply, widget("applied", spec={"rows": [{"key": "b"}]}), APPLY)
    q.ask("apply unknown", "PATCH", apply, widget("applied", spec={"bogus": 1}), APPLY)
    q.ask("apply wrong", "PATCH", apply, widget("applied", spec={"size": "x"}), APPLY)
    q.ask(
        "apply status",
        "PATCH",
        f"{WIDGETS}/applied/status?fieldManager=c",
        widget("applied", status={"phase": "Up"}),
        APPLY,
    )
    q.ask("delete", "DELETE", f"{WIDGETS}/two")
    q.ask("delete again", "DELETE", f"{WIDGETS}/two")
    q.ask("hold", "PATCH", f"{WIDGETS}/yaml", {"metadata": {"finalizers": ["example.com/hold"]}}, MERGE)
    q.ask("delete held", "DELETE", f"{WIDGETS}/yaml")
    q.ask("let go", "PATCH", f"{WIDGETS}/yaml", {"metadata": {"finalizers": None}}, MERGE)
    q.ask("gone", "GET", f"{WIDGETS}/yaml")
    q.ask("several", "DELETE", f"{WIDGETS}?labelSelector=a%3Db")
    for name in ("v1", "v2", "v1beta1"):
        body = {
            "apiVersion": f"stable.example.com/{name}",
            "kind": "Planet",
            "metadata": {"name": f"p-{name}"},
            "spec": {"a": "x", "b": "y", "c": "z"},
            "status": {"x": 1},
        }
        q.ask(f"planet {name}", "POST", PLANETS.format(name), body)
        q.ask(f"planets {name}", "GET", PLANETS.format(name))
    q.ask("planet table", "GET", PLANETS.format("v1"), accept=TABLE)
    q.ask("planet in a namespace", "GET", "/apis/stable.example.com/v1/namespaces/default/planets")
    q.ask("planet status", "GET", f"{PLANETS.format('v1')}/p-v1/status")
    q.ask("planet changed", "PATCH", f"{PLANETS.format('v2')}/p-v1", {"spec": {"a": "new"}}, MERGE)
    q.ask("planet as v1", "GET", f"{PLANETS.format('v1')}/p-v1")
    q.ask(
        "rename",
        "PATCH",
        f"{CRDS}/widgets.stable.example.com",
        {"spec": {"names": {"kind": "Other"}, "scope": "Cluster", "group": "x.y"}},
        MERGE,
    )
    q.ask("crd without version", "PUT", f"{CRDS}/widgets.stable.example.com", WIDGET_CRD)
    q.ask(
        "drop a stored version",
        "PATCH",
        f"{CRDS}/planets.stable.example.com",
        [{"op": "remove", "path": "/spec/versions/0"}],
        JSON_PATCH,
    )
    yield from q.asked


CASES = [*refused(), *resources()]
