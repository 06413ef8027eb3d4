"""What an older component does not know of is gone, and nothing else."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from weir.client.version_skew import forget

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["spec", "items", "expression", "tolerations", "key"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


def without(value):
    """The plain rule: in a list called tolerations no mapping has an expression."""
    if isinstance(value, list):
        return [without(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: without(each) for name, each in value.items()}
    entries = found.get("tolerations")
    if isinstance(entries, list):
        found["tolerations"] = [
            {k: v for k, v in each.items() if k != "expression"} if isinstance(each, dict) else each
            for each in entries
        ]
    return found


@given(values)
def test_only_the_expressions_of_tolerations_are_forgotten(value):
    assert json.loads(forget(json.dumps(value).encode())) == without(value)


def test_text_that_is_no_json_comes_back_as_it_is():
    assert forget(b'"expression" of a metric 1\n') == b'"expression" of a metric 1\n'
