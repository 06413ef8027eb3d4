"""Label selectors: the grammar, the messages, and what they select."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.selectors import labels


@pytest.mark.parametrize(
    ("text", "selected", "missed"),
    [
        ("app=a", {"app": "a"}, {"app": "b"}),
        ("app==a", {"app": "a"}, {}),
        ("app!=a", {}, {"app": "a"}),
        ("app in (a, b)", {"app": "b"}, {"app": "c"}),
        ("app notin (a,b)", {}, {"app": "a"}),
        ("app", {"app": ""}, {}),
        ("!app", {}, {"app": ""}),
        ("idx>4", {"idx": "5"}, {"idx": "4"}),
        ("idx<4", {"idx": "-3"}, {"idx": "x"}),
        ("app=", {"app": ""}, {"app": "a"}),
        ("in in (in)", {"in": "in"}, {"in": "notin"}),
        ("a=1,b=2", {"a": "1", "b": "2"}, {"a": "1"}),
    ],
)
def test_a_selector_selects_what_it_says_and_nothing_else(text, selected, missed):
    selector = labels.parse(text)
    assert (selector.matches(selected), selector.matches(missed)) == (True, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("app in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
        (
            "bad key!=x",
            "unable to parse requirement: found 'key', expected: in, notin, =, ==, !=, gt, lt",
        ),
        (
            "idx>abc",
            'unable to parse requirement: values[0]: Invalid value: "abc": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
    ],
)
def test_a_malformed_selector_is_refused_in_the_servers_words(text, message):
    with pytest.raises(labels.SelectorError) as raised:
        labels.parse(text)
    assert str(raised.value) == message


names = st.text("abz019", min_size=1, max_size=4)
label_maps = st.dictionaries(names, names, max_size=4)


@given(label_maps, label_maps)
def test_equality_requirements_select_exactly_the_supersets(wanted, have):
    text = ",".join(f"{key}={value}" for key, value in wanted.items())
    assert labels.parse(text).matches(have) == (wanted.items() <= have.items())


@given(label_maps)
def test_the_printed_form_reads_back_as_the_same_selector(wanted):
    selector = labels.from_object({"matchLabels": wanted})
    assert labels.parse(str(selector)) == selector


def test_no_selector_object_selects_nothing_and_an_empty_one_everything():
    assert (labels.from_object(None), labels.from_object({})) == (None, labels.EVERYTHING)
