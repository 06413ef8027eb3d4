"""Whatever a file holds, validation answers with lines and never with a traceback.

Documents straight from YAML may have any JSON in any place. A wrong type is one FieldError at its place and hides
nothing behind an exception; everything else is judged as usual.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import tries
from tests.validation_vectors import load, pod
from weir.errors import DecodeError
from weir.fields.field import TYPE_INVALID
from weir.gates import ALL_FEATURES
from weir.objects import defaults, document, kinds
from weir.validate import validate, validate_served

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["", "a", "Exists", "-1", "1Gi", "a/b/c", "\ud800", "x" * 300, "9" * 40])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
#: Objects with much in them, to spoil one place at a time.
WHOLE = [vector.object for vector in load()] + [
    pod(
        volumes=[{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}],
        resourceClaims=[{"name": "r", "resourceClaimName": "x"}],
        initContainers=[{"name": "i", "image": "i", "env": [{"name": "A", "valueFrom": {"fieldRef": {}}}]}],
        topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}],
        securityContext={"sysctls": [{"name": "a", "value": "b"}], "supplementalGroups": [1]},
    )
]
EVERY_KIND = sorted({(kind.api_version, kind.kind) for kind in kinds.KINDS if kind.stored})
brief = settings(max_examples=tries(30, 60), deadline=None, suppress_health_check=list(HealthCheck))


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += _places(inner, (*path, key))
    return found


def _spoil(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    spoilt = copy.deepcopy(document)
    inside: Any = spoilt
    for part in path[:-1]:
        inside = inside[part]
    inside[path[-1]] = value
    return spoilt


@brief
@given(values)
def test_any_value_as_a_document_gets_lines(document: Any) -> None:
    assert all(str(error) for error in validate(document))


@settings(max_examples=tries(160, 400), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_sound_object_with_one_spoilt_place_gets_lines(data: st.DataObject) -> None:
    document = data.draw(st.sampled_from(WHOLE))
    path = data.draw(st.sampled_from(_places(document)))
    spoilt = _spoil(document, path, data.draw(values))
    assert all(str(error) for error in validate(spoilt, None, "AllAlpha=true"))


@brief
@given(st.sampled_from(EVERY_KIND), values, values, values)
def test_every_kind_takes_any_spec_status_and_metadata(
    kind: tuple[str, str], meta: Any, spec: Any, status: Any
) -> None:
    document = {"apiVersion": kind[0], "kind": kind[1], "metadata": meta, "spec": spec, "status": status}
    assert all(str(error) for error in validate(document))


@brief
@given(st.sampled_from(WHOLE), st.data())
def test_an_update_to_a_spoilt_object_gets_lines(old: dict[str, Any], data: st.DataObject) -> None:
    new = _spoil(old, data.draw(st.sampled_from(_places(old))), data.draw(values))
    assert all(str(error) for error in validate(new, old))


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ({"tolerations": 7}, "spec.tolerations: Invalid value: 7: must be a list, not an integer"),
        ({"tolerations": [7]}, "spec.tolerations[0]: Invalid value: 7: must be an object, not an integer"),
        (
            {"tolerations": [{"key": 7}]},
            "spec.tolerations[0].key: Invalid value: 7: must be a string, not an integer",
        ),
        (
            {"nodeSelector": {"a": 1}},
            "spec.nodeSelector[a]: Invalid value: 1: must be a string, not an integer",
        ),
        ({"hostNetwork": "yes"}, 'spec.hostNetwork: Invalid value: "yes": must be a boolean, not a string'),
        ({"containers": "x" * 10_000_000}, None),
    ],
)
def test_a_wrong_type_is_one_line_that_names_its_place(spec: dict[str, Any], line: str | None) -> None:
    errors = validate(pod(**spec))
    assert [error.type for error in errors] == [TYPE_INVALID] and len(str(errors[0])) < 200
    assert line is None or str(errors[0]) == line


def test_a_value_of_ten_megabytes_is_refused_in_linear_time() -> None:
    errors = validate(pod(tolerations=[{"key": "a", "value": "-" * 10_000_000}]))
    assert [error.field for error in errors] == ["spec.tolerations[0].operator"]


def test_a_kind_nobody_serves_has_metadata_rules_only() -> None:
    assert (
        validate({"apiVersion": "x.example/v9", "kind": "Thing", "metadata": {"name": "ok"}, "spec": 7}) == []
    )


def test_a_missing_api_version_is_one_of_the_problems() -> None:
    assert "apiVersion: Required value" in map(str, validate({"kind": "Pod", "metadata": {"name": "p"}}))


@settings(max_examples=tries(120, 300), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_the_server_can_decode_and_default_it_can_validate(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from(WHOLE))
    path = data.draw(st.sampled_from(_places(whole)))
    spoilt = _spoil(whole, path, data.draw(values))
    kind = kinds.find_kind(str(spoilt.get("apiVersion")), str(spoilt.get("kind")))
    if kind is None:
        return
    try:
        decoded, _ = document.check(spoilt, kind, field_validation="Ignore")
    except DecodeError:
        return
    defaults.default(decoded, kind)
    assert all(str(error) for error in validate_served(decoded, None, kind, ALL_FEATURES))
