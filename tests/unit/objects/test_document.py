"""Decoding: what a body becomes, and the exact words when it cannot become anything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from tests.unit.objects.documents import documents
from weir.errors import BadRequest, DecodeError
from weir.objects import fast_decoder, schema
from weir.objects.document import check, decode, may_have_duplicates
from weir.objects.jsontext import Pairs, parse_json
from weir.objects.kinds import by_kind
from weir.objects.strict_decoder import Unreadable, decode_exactly

POD = by_kind("v1", "Pod")
HANDLED = 'Pod in version "v1" cannot be handled as a Pod: '


def pod(spec: str = '"containers":[{"name":"c"}]', metadata: str = '"name":"x"') -> bytes:
    return f'{{"apiVersion":"v1","kind":"Pod","metadata":{{{metadata}}},"spec":{{{spec}}}}}'.encode()


def message(body: bytes, kind: str = "Pod", api_version: str = "v1", **options: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        decode(body, by_kind(api_version, kind), **options)
    return caught.value.message


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            b'{"apiVersion":"v1","kind":"Pod",',
            'unexpected end of JSON input ({"apiVersion":"v1","kind":"Pod ...)',
        ),
        (b"", "unexpected end of JSON input (<empty>)"),
        (b"nul", "invalid character ' ' in literal null (expecting 'l') (6e756c)"),
        (b'{"a":1,}', "invalid character '}' looking for beginning of object key string ({\"a\":1,})"),
        (b'{"a" 1}', "invalid character '1' after object key ({\"a\" 1})"),
        (b'{"a":01}', "invalid character '1' after object key:value pair ({\"a\":01})"),
        (b'{"a":1.}', "invalid character '}' after decimal point in numeric literal ({\"a\":1.})"),
        (b'{"a":"\\q"}', 'invalid character \'q\' in string escape code ({"a":"\\q"})'),
        (b"[1 2]", "invalid character '2' after array element (5b3120325d)"),
        (b"{} x", "invalid character 'x' after top-level value ({} x)"),
        (
            b'{"kind":5}',
            'json: cannot unmarshal number into Go struct field .kind of type string ({"kind":5})',
        ),
    ],
)
def test_a_body_that_is_no_json_object_is_named_with_its_beginning(body: bytes, problem: str) -> None:
    assert message(body) == (
        "the object provided is unrecognized (must be of type Pod): "
        f"couldn't get version/kind; json parse error: {problem}"
    )


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            pod('"containers":"oops"'),
            "string into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (pod('"priority":"x"'), "string into Go struct field PodSpec.spec.priority of type int32"),
        (pod('"priority":1.0'), "number 1.0 into Go struct field PodSpec.spec.priority of type int32"),
        (
            pod('"priority":9999999999'),
            "number 9999999999 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            pod('"tolerations":[{"value":5}]'),
            "number into Go struct field Toleration.spec.tolerations.value of type string",
        ),
        (
            pod(metadata='"labels":{"a":1}'),
            "number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            pod(metadata='"creationTimestamp":5'),
            "number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            pod('"hostNetwork":"x","priority":"y"'),
            "string into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
        (
            pod('"volumes":[{"name":"a","hostPath":5}]'),
            "number into Go struct field Volume.spec.volumes.VolumeSource.hostPath of type v1.HostPathVolumeSource",
        ),
        (
            pod('"containers":[{"livenessProbe":{"httpGet":{"port":1.5}}}]'),
            "number 1.5 into Go struct field "
            "HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
        ),
    ],
)
def test_a_wrong_type_is_told_as_go_tells_it(body: bytes, problem: str) -> None:
    assert message(body) == f"{HANDLED}json: cannot unmarshal {problem}"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            pod('"containers":[{"resources":{"limits":{"cpu":"abc"}}}]'),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            pod(metadata='"creationTimestamp":"foo"'),
            'parsing time "foo" as "2006-01-02T15:04:05Z07:00": cannot parse "foo" as "2006"',
        ),
        (
            pod(metadata='"creationTimestamp":"2026-02-30T00:00:00Z"'),
            'parsing time "2026-02-30T00:00:00Z": day out of range',
        ),
    ],
)
def test_a_bad_quantity_or_time_ends_decoding(body: bytes, problem: str) -> None:
    assert message(body) == HANDLED + problem


def test_a_micro_time_needs_its_six_digits() -> None:
    body = (
        b'{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","spec":{"renewTime":"2026-01-01T00:00:00Z"}}'
    )
    assert message(body, "Lease", "coordination.k8s.io/v1").endswith(
        'parsing time "2026-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"'
    )


def test_an_unknown_version_is_not_registered() -> None:
    assert message(b'{"apiVersion":"v2","kind":"Pod"}') == (
        'Pod in version "v2" cannot be handled as a Pod: no kind "Pod" is registered for version "v2" '
        'in scheme "pkg/api/legacyscheme/scheme.go:30"'
    )


def test_another_kind_cannot_be_converted() -> None:
    assert message(b'{"apiVersion":"v1","kind":"Node"}') == (
        'Node in version "v1" cannot be handled as a Pod: converting (v1.Node) to (core.Pod): unknown conversion'
    )


def test_kind_and_version_come_from_the_url_when_absent() -> None:
    document, _ = decode(b'{"metadata":{"name":"a"}}', POD)
    assert (document["apiVersion"], document["kind"]) == ("v1", "Pod")


def test_unknown_and_duplicate_fields_warn_with_their_paths() -> None:
    body = pod('"bogus":1,"containers":[{"name":"c","foo":1,"name":"d"}]')
    assert decode(body, POD)[1] == [
        'unknown field "spec.bogus"',
        'unknown field "spec.containers[0].foo"',
        'duplicate field "spec.containers[0].name"',
    ]


def test_unknown_fields_are_dropped_silently_when_ignored() -> None:
    document, warnings = decode(pod('"bogus":1'), POD, field_validation="Ignore")
    assert ("bogus" in document["spec"], warnings) == (False, [])


def test_unknown_fields_are_refused_when_strict() -> None:
    assert message(pod('"bogus":1,"b":2'), field_validation="Strict") == (
        HANDLED + 'strict decoding error: unknown field "spec.bogus", unknown field "spec.b"'
    )


def test_a_duplicate_with_blanks_around_its_colon_is_still_found() -> None:
    assert decode(pod(metadata='"name":"x","name" :"y"'), POD)[1] == ['duplicate field "metadata.name"']


def test_field_names_are_case_sensitive() -> None:
    assert decode(pod('"hostnetwork":true'), POD)[1] == ['unknown field "spec.hostnetwork"']


def test_the_document_reads_as_the_server_prints_it() -> None:
    body = pod(
        '"containers":[{"name":"c","command":[],"resources":{"limits":{"cpu":"1000m","memory":1.5}}}],"tolerations":[]',
        '"name":"x","creationTimestamp":null,"labels":{}',
    )
    assert decode(body, POD)[0] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1500m"}}}]},
        "status": {},
    }


def test_the_added_expression_field_is_a_field() -> None:
    document, warnings = decode(pod('"tolerations":[{"expression":"true"}]'), POD, field_validation="Strict")
    assert (document["spec"]["tolerations"], warnings) == ([{"expression": "true"}], [])


def test_required_fields_print_their_zero_values() -> None:
    document, _ = decode(b'{"apiVersion":"v1","kind":"Event","metadata":{}}', by_kind("v1", "Event"))
    assert document == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {},
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    }


def test_both_readers_print_the_same_zero_values() -> None:
    structs = [schema.struct(name) for name in schema.struct_names()]
    assert [of for of in structs if (fast_decoder.convert({}, of), []) != decode_exactly(Pairs(), of)] == []


def test_yaml_words_are_booleans_as_in_yaml_1_1() -> None:
    assert message(b"kind: Pod\napiVersion: v1\nmetadata: {name: y}\n", yaml=True) == (
        HANDLED + "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.name of type string"
    )


def test_yaml_becomes_the_same_document_as_json() -> None:
    text = b"kind: Pod\napiVersion: v1\nmetadata: {name: x}\nspec:\n  containers:\n  - name: c\n"
    assert decode(text, POD, yaml=True) == decode(pod(), POD)


def test_base64_that_is_not_base64_names_the_byte() -> None:
    body = b'{"kind":"Secret","apiVersion":"v1","data":{"a":"x!"}}'
    assert message(body, "Secret").endswith("illegal base64 data at input byte 1")


def test_a_patched_document_fails_with_the_decoders_sentence_alone() -> None:
    with pytest.raises(DecodeError, match=r"^json: cannot unmarshal number into Go struct field PodSpec"):
        check({"spec": {"nodeName": 5}}, POD)


@pytest.mark.parametrize("depth", [2000, 100_000])
def test_bottomless_nesting_is_one_clear_error(depth: int) -> None:
    with pytest.raises(BadRequest):
        decode(b'{"kind":"Pod","apiVersion":"v1","a":' + b"[" * depth + b"]" * depth + b"x", POD)


ROOTS = sorted({name for name in schema.roots().values() if not name.endswith("List")})


@settings(max_examples=tries(120, 300), deadline=None)
@given(st.sampled_from(ROOTS).flatmap(lambda name: st.tuples(st.just(name), documents(name, odd=True))))
def test_what_the_fast_reader_accepts_the_exact_reader_reads_alike(
    sample: tuple[str, dict[str, Any]],
) -> None:
    name, document = sample
    root = schema.struct(name)
    try:
        fast = fast_decoder.convert(document, root)
    except fast_decoder.Refused:
        return
    assert decode_exactly(parse_json(json.dumps(document).encode()), root) == (fast, [])


@settings(max_examples=tries(80, 200), deadline=None)
@given(st.sampled_from(ROOTS).flatmap(lambda name: st.tuples(st.just(name), documents(name))))
def test_reading_is_idempotent_and_the_fast_reader_takes_what_was_printed(
    sample: tuple[str, dict[str, Any]],
) -> None:
    name, document = sample
    root = schema.struct(name)
    try:
        printed, _ = decode_exactly(parse_json(json.dumps(document).encode()), root)
    except Unreadable:
        return
    again, problems = decode_exactly(parse_json(json.dumps(printed).encode()), root)
    assert (again, problems) == (printed, [])


@given(st.binary(max_size=40))
def test_hostile_bytes_end_in_one_clear_error_or_a_document(body: bytes) -> None:
    try:
        decode(body, POD)
    except BadRequest as error:
        assert "\n" not in error.message or b"\n" in body


def test_pairs_remember_duplicates() -> None:
    assert parse_json(b'{"a":1,"a":2}') == Pairs([("a", 1), ("a", 2)])


KEYS = st.sampled_from(["a", "b", 'q"', "e\\", "c:", '":', "é", ""])
LEAVES = st.sampled_from(
    ['"x"', "1", "null", "{}", "[]", r'"\":"', r'"\u0022:"', r'"\\"', '": "', r'"\"\u003a"']
)


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, bool]:
    """JSON objects as text, and whether a key occurs twice in one of them."""
    spaced = draw(st.booleans())
    doubled = False

    def value(depth: int) -> str:
        nonlocal doubled
        if depth == 0 or draw(st.booleans()):
            return draw(LEAVES)
        return obj(depth - 1) if draw(st.booleans()) else f"[{value(depth - 1)},{value(depth - 1)}]"

    def obj(depth: int) -> str:
        nonlocal doubled
        keys = draw(st.lists(KEYS, max_size=3))
        doubled = doubled or len(keys) != len(set(keys))
        colon = " : " if spaced and draw(st.booleans()) else ":"
        return "{" + ",".join(json.dumps(key) + colon + value(depth) for key in keys) + "}"

    return obj(2), doubled


@given(texts())
def test_the_fast_way_never_overlooks_a_duplicate(sample: tuple[str, bool]) -> None:
    text, doubled = sample
    body = text.encode()
    assert may_have_duplicates(body, json.loads(text)) or not doubled


def test_an_ordinary_body_with_quotes_in_strings_takes_the_fast_way() -> None:
    body = pod(metadata=r'"name":"x","annotations":{"a":"{\"b\":\"c\"}"}')
    assert not may_have_duplicates(body, json.loads(body))
