"""Messages of every kind against Kubernetes' own serializer, byte for byte, on random documents."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import msgspec
from hypothesis import given

from tests.kubernetes.test_machinery import MANY, Ask, ask, known_to_both, of_kinds
from weir.apiserver.transport import protobuf
from weir.errors import ApiError
from weir.objects.document import decode
from weir.objects.kind import Kind

__all__ = ["ask"]  # a fixture


@MANY
@given(of_kinds(odd=False))
def test_messages_are_the_bytes_of_kubernetes(ask: Ask, sample: tuple[Kind, dict[str, Any]]) -> None:
    kind, drawn = sample
    if not known_to_both(kind, drawn):
        return
    try:
        document, _ = decode(
            json.dumps({**drawn, "apiVersion": kind.api_version, "kind": kind.kind}).encode(), kind
        )
    except ApiError:
        return
    body = msgspec.json.encode(document).decode()  # compact: a nested document is sent as it was written
    theirs = ask("protobuf", kind, body=body)
    assert "error" not in theirs
    assert protobuf.to_bytes(document) == base64.b64decode(theirs["object"])


def test_lists_and_what_has_no_version_are_the_bytes_of_kubernetes(ask: Ask) -> None:
    pods = [{"metadata": {"name": f"p{at}"}, "spec": {"nodeName": f"n{at}"}} for at in range(200)]
    random.Random(1).shuffle(pods)
    metadata = {"resourceVersion": "7", "continue": "x", "remainingItemCount": 3}
    for document in (
        {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": pods},
        {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": []},
        {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "details": {"name": "a"}},
    ):
        theirs = ask("protobuf", body=json.dumps(document))
        assert protobuf.to_bytes(document) == base64.b64decode(theirs["object"])
