"""Claims about weir.apiserver.handlers: what the one route of custom resources refuses, and how."""

import pytest

from weir import errors
from weir.apiserver.handlers import check_route
from weir.apiserver.transport.http import Request
from weir.apiserver.transport.paths import parse_served
from weir.compat.customresources.served import rows_of
from weir.objects.served_kinds import ServedKinds

SPEC = {
    "group": "example.com",
    "scope": "Namespaced",
    "names": {"plural": "things", "kind": "Thing"},
    "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}],
}
THINGS = "/apis/example.com/v1/namespaces/default/things"
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def served():
    found = ServedKinds()
    status = {"acceptedNames": SPEC["names"], "conditions": [{"type": "NamesAccepted", "status": "True"}]}
    definition = {"metadata": {"name": "things.example.com"}, "spec": SPEC, "status": status}
    found.join("things.example.com", rows_of(definition))
    return found


def check(served, method, path, content="application/json"):
    info = parse_served(method, path, False, served)
    assert info.kind is not None
    check_route(Request(method, path, "", {b"content-type": content.encode()}, b""), info.kind, info)


@pytest.mark.parametrize(
    ("method", "below"),
    [
        ("GET", ""), ("HEAD", ""), ("POST", ""), ("DELETE", ""), ("POST", "/a"), ("GET", "/a"), ("HEAD", "/a"),
        ("PUT", "/a"), ("PATCH", "/a"), ("DELETE", "/a"), ("GET", "/a/status"), ("PUT", "/a/status"),
    ],
)  # fmt: skip
def test_what_it_takes(served, method, below):
    check(served, method, THINGS + below)


@pytest.mark.parametrize(
    ("method", "below", "content", "code", "message"),
    [
        ("OPTIONS", "", MERGE, 405, ' is not supported on resources of kind "things.example.com"'),
        (
            "POST",
            "/a/status",
            MERGE,
            405,
            'create is not supported on resources of kind "things.example.com"',
        ),
        (
            "DELETE",
            "/a/status",
            MERGE,
            405,
            'delete is not supported on resources of kind "things.example.com"',
        ),
        ("GET", "/a/scale", MERGE, 404, 'things.example.com "a" not found'),
        ("PUT", "", MERGE, 400, "name must be provided"),
        ("PATCH", "", MERGE, 400, "name must be provided"),
    ],
)
def test_what_it_refuses(served, method, below, content, code, message):
    with pytest.raises(errors.ApiError) as refused:
        check(served, method, THINGS + below, content)
    assert (refused.value.code, str(refused.value)) == (code, message)


def test_the_type_of_a_patch_comes_before_its_name(served):
    with pytest.raises(errors.UnsupportedMediaType):
        check(served, "PATCH", THINGS, "application/x")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_across_namespaces_they_are_only_read(served, method):
    everywhere = THINGS.replace("/namespaces/default", "")
    assert parse_served(method, everywhere, False, served).kind is None
    assert parse_served("GET", everywhere, False, served).kind is not None
