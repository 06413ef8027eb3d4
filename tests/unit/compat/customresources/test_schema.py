"""How the schema of a definition is read."""

from __future__ import annotations

import pytest

from weir.compat.customresources.schema import SchemaError, read_schema


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        ({"type": "string", "format": "date-time"}, "datetime"),
        ({"type": "string", "format": "int32"}, ""),
        ({"type": "integer", "format": "int32"}, "int32"),
        ({"type": "integer", "format": "uri"}, ""),
        ({"type": "number", "format": "double"}, "double"),
        ({"type": "object", "format": "uuid"}, ""),
    ],
)
def test_a_format_counts_only_with_its_type(found, kept):
    assert read_schema(found).format == kept


@pytest.mark.parametrize("found", [None, [], {"type": ["string"]}, {"properties": ["a"]}, {"items": 1}])
def test_what_is_no_schema_is_refused_with_its_place(found):
    with pytest.raises(SchemaError, match="openAPIV3Schema"):
        read_schema(found)


def test_the_names_of_formats_are_those_that_are_checked():
    from weir.compat.customresources.formats import CHECKS
    from weir.compat.customresources.schema import FORMAT_NAMES

    assert CHECKS.keys() == FORMAT_NAMES
