"""Scalars of YAML mean what Kubernetes' own tools take them for."""

import pytest

from weir.objects.yaml_reader import plain_scalar


@pytest.mark.parametrize(
    "text, value",
    [("y", True), ("off", False), ("~", None), ("", None), ("0x1F", 31), ("010", 8), ("1_0", 10), ("1e3", 1000.0),
     ("12345678901234567890", 12345678901234567890), ("2001-01-01", "2001-01-01"), ("1:30", "1:30"), ("0950", 950.0),
     ("5m", "5m"), ("-", "-"), (".", "."), ("v1.2", "v1.2"), ("+1", 1), ("-0b11", -3), ("099", 99.0)],
)  # fmt: skip
def test_unquoted_words_mean_what_kubernetes_takes_them_for(text, value):
    assert plain_scalar(text) == value and type(plain_scalar(text)) is type(value)
