"""What clients say in options, as webhooks are shown it."""

from __future__ import annotations

import pytest

from weir.apiserver.transport.options import DeleteOptions, WriteOptions
from weir.errors import BadRequest, Invalid


def test_webhooks_see_what_the_client_said_about_a_write():
    options = WriteOptions.parse(
        {"fieldManager": "me", "fieldValidation": "Strict", "dryRun": "All"}, "CreateOptions"
    )
    assert options.document == {"fieldManager": "me", "fieldValidation": "Strict"}


def test_webhooks_see_what_the_client_said_about_a_delete():
    body = b'{"gracePeriodSeconds":0,"propagationPolicy":"Orphan","preconditions":{"uid":"u"}}'
    assert DeleteOptions.parse({}, body).document == {
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u"},
        "propagationPolicy": "Orphan",
    }


def test_a_manager_that_cannot_be_printed_is_refused():
    with pytest.raises(Invalid, match=r"invalid character U\+0001 \(at position 1\)"):
        WriteOptions.parse({"fieldManager": "a\x01b"}, "CreateOptions")


@pytest.mark.parametrize(
    "body, said",
    [
        (
            b"nope",
            "couldn't get version/kind; json parse error: invalid character 'o' in literal null (expecting 'u')",
        ),
        (
            b'{"kind":"Pod","apiVersion":"v1"}',
            'no kind "Pod" is registered for version "v1" in scheme "pkg/runtime/',
        ),
        (
            b'{"gracePeriodSeconds":"x"}',
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
        (
            b'{"orphanDependents":1}',
            "json: cannot unmarshal number into Go struct field DeleteOptions.orphanDependents",
        ),
    ],
)
def test_a_body_that_is_no_delete_options_is_refused_in_the_decoders_words(body, said):
    with pytest.raises(BadRequest) as caught:
        DeleteOptions.parse({}, body)
    assert caught.value.message.startswith(said)


def test_a_grace_period_of_zero_is_a_number():
    assert DeleteOptions.parse({}, b'{"gracePeriodSeconds":0}').grace_period_seconds == 0
