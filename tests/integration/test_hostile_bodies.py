"""Compressed bodies and schemas that are dear to check, as whole requests."""

import gzip
from itertools import product

import pytest

from tests.unit.apiserver.compat.customresources.world import definition, server
from weir.apiserver.transport.http import Request

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MEDIA_TYPES = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]


ENCODINGS = ["gzip", "x-gzip", "deflate", "br", "gzip, gzip"]


async def test_a_compressed_body_is_not_unpacked(tmp_path):
    """Neither a bomb nor a small valid object: Kubernetes reads no compressed bodies either."""
    small = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"small"}}'
    async with server(tmp_path) as world:
        bodies = [gzip.compress(small), gzip.compress(bytes(50_000_000), 1)]
        for body, media_type, encoding in product(bodies, MEDIA_TYPES, ENCODINGS):
            headers = {
                b"authorization": b"Bearer " + world.running.admin_token.encode(),
                b"content-type": media_type.encode(),
                b"content-encoding": encoding.encode(),
            }
            answer = await world.running.server.handle(Request("POST", CONFIG_MAPS, "", headers, body))
            assert answer.code == 400 and len(answer.body) < 2 * len(body) + 10_000
        assert (await world.ask("GET", f"{CONFIG_MAPS}/small"))[0] == 404


ENUM = {"type": "string", "enum": [f"e{n}" for n in range(20_000)]}
LIST_OF_ENUMS = {"type": "object", "properties": {"l": {"type": "array", "items": ENUM}}}
PROPERTIES = {f"p{n}": {"type": "string", "maxLength": 5, "default": "d"} for n in range(10_000)}
PATTERN = {"type": "object", "properties": {"s": {"type": "string", "pattern": "^(a+)+$"}}}
SCHEMAS = {
    "a long enum and a long list": (LIST_OF_ENUMS, {"l": [f"n{n}" for n in range(2000)]}, 422),
    "a long enum and values of it": (LIST_OF_ENUMS, {"l": [f"e{19_999 - n}" for n in range(2000)]}, 201),
    "ten thousand properties": ({"type": "object", "properties": PROPERTIES}, {}, 201),
    "a pattern that backtracks": (PATTERN, {"s": "a" * 20_000 + "b"}, 422),
}


@pytest.mark.parametrize("case", SCHEMAS)
async def test_an_object_of_a_dear_schema_is_answered(tmp_path, case):
    schema, spec, expected = SCHEMAS[case]
    async with server(tmp_path) as world:
        await world.define(definition(schema))
        document = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec}
        code, answer = await world.ask("POST", "/apis/example.com/v1/namespaces/default/widgets", document)
        assert code == expected, answer["message"][:300]
        assert len(str(answer)) < 8 << 20


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "object", "properties": {"a": {"$ref": "#/definitions/x"}}}, "$ref"),
        (
            {
                "type": "object",
                "properties": {"l": {"type": "array", "items": {"type": "string"}}},
                "x-kubernetes-validations": [{"rule": "self.l.all(x, self.l.all(y, self.l.all(z, x != y)))"}],
            },
            "cost",
        ),
    ],
)
async def test_a_schema_that_cannot_be_bounded_is_refused(tmp_path, schema, message):
    async with server(tmp_path) as world:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        code, answer = await world.ask("POST", path, definition(schema))
        assert code == 422 and message in answer["message"], answer["message"][:500]
