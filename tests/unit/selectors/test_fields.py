"""Field selectors: the grammar, what each kind offers, the messages."""

import pytest

from weir.selectors import fields

POD = {"metadata": {"name": "l1", "namespace": "ns"}, "spec": {}, "status": {"phase": "Pending"}}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("metadata.name=l1", True),
        ("metadata.name!=l1", False),
        ("spec.nodeName=", True),
        ("spec.hostNetwork=false", True),
        ("metadata.name==l1,status.phase=Pending", True),
        ("metadata.name=l1,status.phase=Running", False),
        ("", True),
    ],
)
def test_a_pod_is_selected_by_its_fields(text, selected):
    assert fields.parse(text).matches(POD, "", "Pod") is selected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        (
            "metadata.name in (l1)",
            "invalid selector: 'metadata.name in (l1)'; can't understand 'metadata.name in (l1)'",
        ),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ("a=\\b", "invalid field selector: invalid escape sequence: \\b"),
    ],
)
def test_a_malformed_selector_is_refused_in_the_servers_words(text, message):
    with pytest.raises(fields.SelectorError) as raised:
        fields.parse(text)
    assert str(raised.value) == message


def test_a_field_the_kind_does_not_offer_is_refused():
    with pytest.raises(fields.SelectorError, match=r"^field label not supported: spec\.bogus$"):
        fields.parse("spec.bogus=1").bind("", "Pod")


def test_escaped_commas_and_equal_signs_belong_to_the_value():
    assert fields.parse(r"a=1\,2\=3").value_of("a") == "1,2=3"


def test_a_selector_of_too_many_requirements_is_not_read():
    assert (
        len(fields.parse("a=b," * (fields.MOST_REQUIREMENTS - 1)).requirements)
        == fields.MOST_REQUIREMENTS - 1
    )
    with pytest.raises(fields.SelectorError, match="more than 4096 requirements"):
        fields.parse("a=b," * fields.MOST_REQUIREMENTS)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (r"a=b\,c,d=e", ["b,c", "e"]),
        (r"a=b\\,d=e", ["b\\", "e"]),
        (r"a=\=\,\\,d=", ["=,\\", ""]),
        (",,a=b,", ["b"]),
    ],
)
def test_a_comma_behind_a_backslash_does_not_end_a_requirement(text, values):
    assert [requirement.value for requirement in fields.parse(text).requirements] == values
