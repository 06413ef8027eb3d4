"""What the API server says about ingresses and their classes; the texts are a real server's (tests/kubernetes)."""

from __future__ import annotations

from typing import Any

import pytest

from weir.validate import validate

WEB = {"service": {"name": "web", "port": {"number": 80}}}


def problems(spec: dict[str, Any], old: dict[str, Any] | None = None, kind: str = "Ingress") -> list[str]:
    def whole(found: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": "x", "namespace": "default", "resourceVersion": "1"}
        return {"apiVersion": "networking.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": found}

    return [str(each) for each in validate(whole(spec), None if old is None else whole(old))]


def one_path(**values: Any) -> dict[str, Any]:
    path = {"path": "/", "pathType": "Prefix", "backend": WEB, **values}
    return {"rules": [{"host": "a.example.com", "http": {"paths": [path]}}]}


INGRESSES = [
    ({"defaultBackend": WEB}, ""),
    ({}, "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"),
    (one_path(), ""),
    (one_path(path="a"), '[0].path: Invalid value: "a": must be an absolute path'),
    (one_path(path="/a/.."), "cannot end with '/..'"),
    (one_path(pathType="Suffix"), 'supported values: "Exact", "ImplementationSpecific", "Prefix"'),
    (one_path(backend={}), '.backend: Invalid value: "": resource or service backend is required'),
    ({"rules": [{"host": "10.0.0.1"}]}, "must be a DNS name, not an IP address"),
    ({"rules": [{"host": "*bar.com"}]}, "a wildcard DNS-1123 subdomain must start with '*.'"),
    ({"defaultBackend": WEB, "tls": [{"secretName": "A_"}]}, "spec.tls[0].secretName: Invalid value"),
]


@pytest.mark.parametrize(("spec", "text"), INGRESSES)
def test_ingresses(spec, text):
    found = problems(spec)
    assert len(found) == bool(text) and text in "".join(found)


def test_a_secret_name_that_was_broken_before_may_stay():
    broken = {"defaultBackend": WEB, "tls": [{"secretName": "A_"}]}
    assert problems(broken, broken) == []


def test_a_class_keeps_its_controller():
    before, after = {"controller": "a.io/b"}, {"controller": "a.io/c"}
    assert problems(after, before, "IngressClass") == [
        'spec.controller: Invalid value: "a.io/c": field is immutable'
    ]
