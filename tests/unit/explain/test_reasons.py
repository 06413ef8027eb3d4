"""What holds a pod back before any filter is asked, in words and as data."""

from __future__ import annotations

import pytest

from weir.explain.reasons import Gated, Over, Refused


@pytest.mark.parametrize(
    "reason, message, data",
    [
        (Gated(("a", "b")), "waiting for scheduling gates: [a b]", {"gates": ["a", "b"]}),
        (Over("Failed"), "it has ended (Failed)", {"phase": "Failed"}),
        (Over(""), "it is being deleted", {"phase": ""}),
        (Refused(("first", "second")), "first", {"errors": ["first", "second"]}),
    ],
)
def test_a_reason_is_said_and_kept(reason, message, data):
    assert (reason.message(), reason.data()) == (message, data)
