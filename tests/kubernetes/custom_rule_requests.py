"""Requests about `x-kubernetes-validations`, asked of a real API server and of weir."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.kubernetes.custom_resource_requests import (
    BOOLEAN,
    CRDS,
    INTEGER,
    NUMBER,
    STRING,
    crd,
    objects,
    root,
    version,
)
from tests.kubernetes.more_requests import Questions
from tests.kubernetes.requests import MERGE, Asked, Document

SHORT = {**STRING, "maxLength": 20}
FEW = {"type": "array", "items": SHORT, "maxItems": 5}


def ruled(schema: Document, *rules: Any) -> Document:
    listed = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
    return {**schema, "x-kubernetes-validations": listed}


def definitions() -> Iterator[Asked]:
    """Rules that do not compile, cost too much, or are odd."""
    q = Questions("rules")

    def schema(name: str, found: Document) -> None:
        q.ask(name, "POST", f"{CRDS}?dryRun=All", crd("gadgets", version(found)))

    part = objects(name=SHORT, size=INTEGER, tags=FEW, when={**STRING, "format": "date-time"}, ratio=NUMBER)
    for name, rule in {
        "fine": "self.size > 0",
        "unknown field": "self.bogus > 0",
        "unknown variable": "other.size > 0",
        "wrong type": "self.size == 'a'",
        "no bool": "self.size + 1",
        "syntax": "self.size >",
        "unknown function": "self.name.shout()",
        "number": "self.ratio < 1.5",
        "number and int": "self.ratio < self.size",
        "time": "self.when < timestamp('2026-01-01T00:00:00Z')",
        "presence": "!has(self.name) || self.name.size() < 5",
        "list": "self.tags.all(t, t.startsWith('a'))",
        "bad regex": "self.name.matches('(')",
        "old": "self.size >= oldSelf.size",
        "metadata": "self.metadata.name == 'a'",
    }.items():
        schema(name, objects(spec=ruled(part, rule)))
    schema("metadata at the root", ruled(root(a=SHORT), "self.metadata.name != 'x' && self.kind == 'Gadget'"))
    schema("labels at the root", ruled(root(a=SHORT), "self.metadata.labels.size() > 1"))
    schema(
        "reserved names",
        objects(
            spec=ruled(objects(**{"namespace": SHORT, "a-b": SHORT}), "self.__namespace__ == self.a__dash__b")
        ),
    )
    for name, rule in {
        "as they are": "self.namespace == self.while",
        "there": "has(self.void)",
        "optional": "self.?while.orValue('a') == 'a'",
        "import": "self.import == 'a' && self.package == 'a'",
        "words": "self.true == 'a'",
        "more words": "self.in == 'a'",
        "escaped": "self.__while__ == self.__var__ && has(self.__void__)",
        "not escaped": "self.a__b == 1",
        "wrong": "self.while == 1",
        "in an object": "self.var.x == 1",
    }.items():
        words = {"namespace": SHORT, "while": SHORT, "var": SHORT, "void": objects(x=SHORT), "a__b": INTEGER}
        words |= {"import": SHORT, "package": SHORT, "true": SHORT, "in": SHORT}
        schema(f"reserved names {name}", objects(spec=ruled(objects(**words), rule)))
    schema(
        "kept fields",
        objects(spec=ruled({**part, "x-kubernetes-preserve-unknown-fields": True}, "self.other == 1")),
    )
    schema(
        "int or string",
        objects(
            spec=ruled(
                objects(p={"x-kubernetes-int-or-string": True}),
                "type(self.p) == int ? self.p < 5 : self.p == 'x'",
            )
        ),
    )
    schema(
        "message",
        objects(
            spec=ruled(
                part,
                {
                    "rule": "self.size > 0",
                    "messageExpression": "'size is ' + string(self.size)",
                    "reason": "FieldValueForbidden",
                    "fieldPath": ".size",
                },
            )
        ),
    )
    schema(
        "message of no text",
        objects(spec=ruled(part, {"rule": "self.size > 0", "messageExpression": "self.size"})),
    )
    schema(
        "message with a fault",
        objects(spec=ruled(part, {"rule": "self.size > 0", "messageExpression": "self.bogus"})),
    )
    schema(
        "optional old",
        objects(
            spec=ruled(
                part,
                {"rule": "!oldSelf.hasValue() || self.size > oldSelf.value().size", "optionalOldSelf": True},
            )
        ),
    )
    schema(
        "optional old unused", objects(spec=ruled(part, {"rule": "self.size > 0", "optionalOldSelf": True}))
    )
    schema(
        "old in a list",
        objects(
            spec=objects(l={"type": "array", "maxItems": 3, "items": ruled(part, "self.size > oldSelf.size")})
        ),
    )
    schema(
        "old in a set",
        objects(
            spec=objects(
                l={
                    "type": "array",
                    "x-kubernetes-list-type": "set",
                    "maxItems": 3,
                    "items": ruled(SHORT, "self != oldSelf"),
                }
            )
        ),
    )
    keyed = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "maxItems": 3,
    }
    schema(
        "old in a map",
        objects(
            spec=objects(l={**keyed, "items": ruled(objects("k", k=SHORT, v=INTEGER), "self.v >= oldSelf.v")})
        ),
    )
    # cost
    schema(
        "dear",
        objects(
            spec=ruled(objects(l={"type": "array", "items": STRING}), "self.l.all(a, self.l.all(b, a == b))")
        ),
    )
    schema(
        "dear by length",
        objects(
            spec=ruled(
                objects(l={"type": "array", "maxItems": 1000, "items": STRING}),
                "self.l.all(a, a.contains('x'))",
            )
        ),
    )
    schema(
        "slightly dear",
        objects(
            spec=ruled(
                objects(l={"type": "array", "maxItems": 4000, "items": SHORT}),
                "self.l.all(a, self.l.exists(b, a == b))",
            )
        ),
    )
    item = objects(items={**FEW, "maxItems": 3}, name={**STRING, "maxLength": 100_000}, few=FEW)
    for name, rule in {
        "a sibling's size": "self.l.all(x, x.items.all(y, y != x.name))",
        "a sibling's size, asked before": "self.l.all(x, x.name != 'a' && x.items.all(y, y != 'b'))",
        "of two variables": "self.m.n.all(i, s, i >= 0 && s.matches('a+'))",
        "of two variables of a map": "self.m.o.all(k, v, k.matches('[a-z]+') && v.size() > 1)",
        "nested in two": "self.l.all(i, x, x.items.all(j, y, x.few.all(k, z, y + z != x.name)))",
    }.items():
        schema(
            name,
            objects(
                spec=ruled(
                    objects(
                        l={"type": "array", "maxItems": 100, "items": item},
                        m=objects(
                            n={"type": "array", "maxItems": 100_000, "items": STRING},
                            o={"type": "object", "maxProperties": 50_000, "additionalProperties": STRING},
                        ),
                    ),
                    rule,
                )
            ),
        )
    schema(
        "dear by place",
        objects(
            spec=objects(
                l={
                    "type": "array",
                    "items": ruled(
                        objects(a=SHORT, m=objects()), "self.a == 'x' || self.a.matches('[a-z]+')"
                    ),
                }
            )
        ),
    )
    schema(
        "dear by map",
        objects(
            spec=objects(
                m={
                    "type": "object",
                    "additionalProperties": ruled(SHORT, "self.startsWith('a') && self.endsWith('b')"),
                }
            )
        ),
    )
    schema(
        "bounded by map",
        objects(
            spec=objects(
                m={
                    "type": "object",
                    "maxProperties": 10,
                    "additionalProperties": ruled(SHORT, "self.startsWith('a') && self.endsWith('b')"),
                }
            )
        ),
    )
    schema(
        "dear together",
        objects(
            spec=ruled(
                objects(l={"type": "array", "maxItems": 900, "items": SHORT}),
                *["self.l.all(a, self.l.exists(b, a == b))"] * 12,
            )
        ),
    )
    schema(
        "dear message",
        objects(
            spec=ruled(
                objects(l={"type": "array", "items": STRING}),
                {
                    "rule": "self.l.size() > 1",
                    "messageExpression": "self.l.filter(a, self.l.exists(b, a == b)).map(x, x)[0]",
                },
            )
        ),
    )
    schema("default breaks it", objects(spec=objects(n=ruled({**INTEGER, "default": 1}, "self > 5"))))
    schema("enum", objects(spec=ruled(objects(m={**STRING, "enum": ["a", "bb"]}), "self.m == 'a'")))
    schema(
        "nullable",
        objects(spec=ruled(objects(m={**SHORT, "nullable": True}), "self.m == null || self.m == 'a'")),
    )
    schema("bytes", objects(spec=ruled(objects(m={**STRING, "format": "byte"}), "self.m.size() < 5")))
    schema(
        "duration",
        objects(spec=ruled(objects(m={**STRING, "format": "duration"}), "self.m > duration('1h')")),
    )
    schema("quantity", objects(spec=ruled(objects(m=SHORT), "quantity(self.m).isLessThan(quantity('1Gi'))")))
    yield from q.asked


PART = objects(
    name=SHORT,
    size=INTEGER,
    tags=FEW,
    when={**STRING, "format": "date-time"},
    wait={**STRING, "format": "duration"},
    **{"while": SHORT},
    ratio=NUMBER,
    flag=BOOLEAN,
    port={"x-kubernetes-int-or-string": True},
    fixed=ruled(SHORT, {"rule": "self == oldSelf", "message": "fixed is immutable"}),
    rows={
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "maxItems": 5,
        "items": ruled(
            objects("k", k=SHORT, v=INTEGER), {"rule": "self.v >= oldSelf.v", "message": "v may not shrink"}
        ),
    },
    loose={"type": "array", "maxItems": 5, "items": ruled(objects(n=INTEGER), "self.n < 10")},
    table={"type": "object", "maxProperties": 5, "additionalProperties": ruled(SHORT, "self != 'bad'")},
    both={
        **ruled(
            objects(low=INTEGER, high=INTEGER),
            {
                "rule": "self.low <= self.high",
                "messageExpression": "self.low > 100 ? 'far too low a high' : 'low above high'",
                "fieldPath": ".low",
                "reason": "FieldValueForbidden",
            },
        )
    },
    needs=ruled(
        objects(a=SHORT, b=SHORT),
        {"rule": "has(self.a) == has(self.b)", "reason": "FieldValueRequired", "fieldPath": ".b"},
    ),
    twice=ruled(SHORT, {"rule": "self != 'twice'", "reason": "FieldValueDuplicate"}),
    once=ruled(
        SHORT,
        {
            "rule": "!oldSelf.hasValue() || oldSelf.value() != 'done'",
            "optionalOldSelf": True,
            "message": "done is done",
        },
    ),
)
RULED = crd(
    "charters",
    version(
        ruled(
            objects(
                spec=ruled(
                    PART,
                    "!has(self.size) || self.size < 100",
                    {"rule": "!has(self.name) || self.name != 'odd'", "message": "name must not be odd"},
                    "!has(self.ratio) || self.ratio < 1.0",
                    "!has(self.port) || type(self.port) == string || self.port > 80",
                    "!has(self.when) || self.when > timestamp('2020-01-01T00:00:00Z')",
                    "!has(self.wait) || self.wait < duration('1h')",
                    "!has(self.while) || self.while != self.__while__ + self.name",
                    "!has(self.tags) || self.tags[0] == 'first'",
                    {"rule": "!has(self.flag) || self.flag", "messageExpression": "self.name"},
                ),
                status=ruled(objects(phase=SHORT), "!has(self.phase) || self.phase != 'Bad'"),
            ),
            {"rule": "self.metadata.name.startsWith('c-')", "message": "name must start with c-"},
        ),
        subresources={"status": {}},
    ),
)
SPEC_PATH = "/spec/versions/0/schema/openAPIV3Schema/properties/spec"
CHARTERS = "/apis/stable.example.com/v1/namespaces/default/charters"
RULE_SETUP = [Asked("custom define charters", "POST", CRDS, RULED)]


def charter(name: str, /, **spec: Any) -> Document:
    return {
        "apiVersion": "stable.example.com/v1",
        "kind": "Charter",
        "metadata": {"name": name},
        "spec": spec,
    }


def objects_judged() -> Iterator[Asked]:
    q = Questions("ruled")
    for name, spec in {
        "empty": {},
        "size": {"size": 100},
        "name": {"name": "odd"},
        "ratio": {"ratio": 1},
        "ratio fine": {"ratio": 0.5},
        "port": {"port": 80},
        "port text": {"port": "x"},
        "when": {"when": "2019-01-01T00:00:00Z"},
        "wait": {"wait": "2h"},
        "no tags": {"tags": []},
        "reserved name": {"while": "odd", "name": ""},
        "reserved name fine": {"while": "odd", "name": "a"},
        "tags": {"tags": ["second"]},
        "flag": {"flag": False, "name": "because"},
        "flag without": {"flag": False},
        "loose": {"loose": [{"n": 1}, {"n": 10}, {}]},
        "table": {"table": {"a": "bad", "b": "good"}},
        "both": {"both": {"low": 5, "high": 3}},
        "needs": {"needs": {"a": "x"}},
        "twice": {"twice": "twice"},
        "several": {"size": 100, "name": "odd", "twice": "twice"},
        "blocked": {"size": "x", "name": "odd"},
        "new transitions": {"fixed": "a", "rows": [{"k": "a", "v": 1}], "once": "done"},
    }.items():
        q.ask(name, "POST", f"{CHARTERS}?dryRun=All", charter("c-dry", **spec))
    q.ask("wrong name", "POST", CHARTERS, charter("dry"))
    q.ask(
        "made",
        "POST",
        CHARTERS,
        charter("c-one", fixed="a", rows=[{"k": "a", "v": 5}, {"k": "b", "v": 1}], once="done", size=5),
    )
    one = f"{CHARTERS}/c-one"

    def patch(name: str, **spec: Any) -> None:
        q.ask(name, "PATCH", one, {"spec": spec}, MERGE)

    patch("immutable", fixed="b")
    patch("removed", fixed=None)
    patch("set again", fixed="c")
    patch("grown", rows=[{"k": "b", "v": 2}, {"k": "a", "v": 6}])
    patch("shrunk", rows=[{"k": "a", "v": 1}, {"k": "b", "v": 9}])
    patch("exchanged", rows=[{"k": "c", "v": 0}])
    patch("done is done", once="else")
    patch("once again", once="done", size=6)
    q.ask("status", "PATCH", f"{one}/status", {"status": {"phase": "Bad"}}, MERGE)
    q.ask("status fine", "PATCH", f"{one}/status", {"status": {"phase": "Good"}}, MERGE)
    # what is wrong already: the rule comes later than the object
    q.ask("made before", "POST", CHARTERS, charter("c-two", size=50, name="ok", table={"k": "v"}))
    tighter = [
        {
            "op": "add",
            "path": f"{SPEC_PATH}/x-kubernetes-validations/-",
            "value": {"rule": "!has(self.size) || self.size < 10", "message": "smaller"},
        },
        {
            "op": "add",
            "path": f"{SPEC_PATH}/properties/table/additionalProperties/x-kubernetes-validations/-",
            "value": {"rule": "self != 'v'", "message": "not v"},
        },
    ]
    q.ask("tightened", "PATCH", f"{CRDS}/charters.stable.example.com", tighter, "application/json-patch+json")
    yield from q.asked


def ratcheted() -> Iterator[Asked]:
    """Asked once both servers have noticed the tighter rules."""
    q = Questions("ratcheted")
    two = f"{CHARTERS}/c-two"
    q.ask("labels only", "PATCH", two, {"metadata": {"labels": {"a": "b"}}}, MERGE)
    q.ask("another entry", "PATCH", two, {"spec": {"size": 5, "table": {"other": "w"}}}, MERGE)
    q.ask("the entry itself", "PATCH", two, {"spec": {"table": {"other": "v"}}}, MERGE)
    q.ask("new one", "POST", CHARTERS, charter("c-three", size=50))
    yield from q.asked


RULE_CASES = [*definitions(), *objects_judged()]
RATCHETED = [*ratcheted()]
