"""Strategically merged objects that do not fit: the words only this patch type has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from weir.apiserver.patches.converter import patch
from weir.errors import Invalid
from weir.objects.kinds import by_kind

POD = by_kind("v1", "Pod")
DOCUMENT = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def apply(overlay: dict[str, Any], mode: str = "Warn") -> tuple[dict[str, Any], list[str]]:
    return patch(DOCUMENT, json.dumps(overlay).encode(), POD, field_validation=mode)


@pytest.mark.parametrize(
    ("spec", "shown", "problem"),
    [
        ({"containers": "x"}, "containers:x", "cannot restore slice from string"),
        ({"securityContext": 5}, "securityContext:5", "cannot restore struct from: int64"),
        ({"nodeSelector": []}, "nodeSelector:[]", "cannot restore map from slice"),
        ({"nodeName": 5}, "nodeName:5", "cannot convert int64 to string"),
        ({"restartPolicy": 5}, "restartPolicy:5", "cannot convert int64 to v1.RestartPolicy"),
        ({"nodeName": True}, "nodeName:true", "unrecognized type: string"),
        ({"priority": "x"}, "priority:x", "unrecognized type: int32"),
        ({"priority": 1.5}, "priority:1.5", "cannot convert float64 to int32"),
        ({"hostNetwork": "x"}, "hostNetwork:x", "unrecognized type: bool"),
        ({"priority": "x", "hostNetwork": "x"}, "hostNetwork:x priority:x", "unrecognized type: bool"),
        (
            {"overhead": {"cpu": "?"}},
            "overhead:map[cpu:?]",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ],
)
def test_a_wrong_type_shows_the_patch(spec: dict[str, Any], shown: str, problem: str) -> None:
    with pytest.raises(Invalid) as caught:
        apply({"spec": spec})
    assert (
        caught.value.message == f' "" is invalid: patch: Invalid value: "map[spec:map[{shown}]]": {problem}'
    )


def test_a_whole_fraction_is_an_integer() -> None:
    assert apply({"spec": {"priority": 2.0}})[0]["spec"]["priority"] == 2


def test_unknown_fields_warn_in_alphabetical_order() -> None:
    assert apply({"spec": {"zz": 1, "aa": 2}})[1] == ['unknown field "spec.aa"', 'unknown field "spec.zz"']


def test_unknown_fields_are_refused_when_strict() -> None:
    with pytest.raises(Invalid, match=r'strict decoding error: unknown field "spec\.zz"'):
        apply({"spec": {"zz": 1}}, "Strict")


def test_a_time_that_is_no_text_names_no_field() -> None:
    with pytest.raises(Invalid, match="json: cannot unmarshal number into Go value of type string"):
        apply({"metadata": {"creationTimestamp": 5}})


def test_a_key_written_twice_in_the_patch_warns() -> None:
    body = b'{"metadata": {"labels": {"a": "1", "a": "2"}}, "spec": {"zz": 1}}'
    assert patch(DOCUMENT, body, POD)[1] == ['duplicate field "metadata.labels.a"', 'unknown field "spec.zz"']
