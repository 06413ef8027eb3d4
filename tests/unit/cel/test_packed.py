"""What is packed in a google.protobuf.Any: bytes from anybody, which must be a value or one clear error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.cel.errors import CostLimitExceeded, EvaluationError
from weir.cel.packed import _READERS, MOST_NESTED, PREFIX, Empty, printed, unpack
from weir.cel.values import UInt
from weir.cel.work import begin


def field(number: int, content: bytes) -> bytes:
    size, length = len(content), b""
    while size >= 0x80:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def nested_lists(depth: int) -> bytes:
    """A Value that is a list of a list of … nothing."""
    content = field(6, b"")
    for _ in range(depth):
        content = field(6, field(1, content))
    return content


@pytest.mark.parametrize(
    ("message", "data", "value"),
    [
        ("UInt32Value", b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", UInt(2**32 - 1)),
        ("Int32Value", b"\x0b\x0c\x08\x05", 5),
        ("Struct", field(1, field(1, b"k") + field(2, field(3, b"v"))), {"k": "v"}),
        ("Value", field(6, field(1, b"\x20\x01")) + field(6, field(1, field(3, b"b"))), [True, "b"]),
        ("Value", field(6, b"") + field(3, b"last"), "last"),
        ("Any", field(1, b"/google.protobuf.StringValue") + field(2, field(1, b"inner")), "inner"),
        ("Empty", b"", Empty()),
    ],
)
def test_a_message_is_the_value_it_stands_for(message: str, data: bytes, value: object) -> None:
    assert unpack(f"type.googleapis.com/{PREFIX}{message}", data) == value


@pytest.mark.parametrize(
    "data", [b"\x08", b"\x07", b"\x00", b"\x0c", b"\x0b", b"\x0a\x05ab", b"\x08" + b"\xff" * 9 + b"\x02"]
)
def test_bytes_that_are_no_message_are_an_error_that_shows_them(data: bytes) -> None:
    with pytest.raises(EvaluationError, match=r"^unsupported conversion to ref\.Val: .*type_url:"):
        unpack(PREFIX + "Int64Value", data)


def test_an_any_in_an_any_is_printed_with_what_is_inside() -> None:
    assert printed(PREFIX + "Any", field(1, b"x") + field(2, b'\x00\xff\n"')) == (
        '[google.protobuf.Any]:{type_url:"x" value:"\\x00\\xff\\n\\""}'
    )


def test_deep_nesting_is_an_error_not_the_end_of_the_stack() -> None:
    begin()
    unpack(PREFIX + "Value", nested_lists(MOST_NESTED // 2 - 1))
    with pytest.raises(EvaluationError):
        unpack(PREFIX + "Value", nested_lists(3000))
    packed = b""
    for _ in range(1000):
        packed = field(1, PREFIX.encode() + b"Any") + field(2, packed)
    with pytest.raises((EvaluationError, CostLimitExceeded)):
        unpack(PREFIX + "Any", packed)


@given(st.sampled_from(sorted(_READERS)), st.binary(max_size=40))
def test_whatever_the_bytes_are_the_answer_is_a_value_or_an_evaluation_error(name: str, data: bytes) -> None:
    begin()
    try:
        unpack(PREFIX + name, data)
    except EvaluationError as error:
        assert str(error).startswith(("unsupported conversion to ref.Val: ", "timestamp overflow"))
