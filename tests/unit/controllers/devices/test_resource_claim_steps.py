"""What a pod lacks of its claims; the controller's tests (test_resource_claim.py) go through it as well."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.controllers.devices.test_resource_claim import ALLOCATION, claim, consumer, pod
from weir.controllers.devices.resource_claim_steps import (
    MOST_CONSUMERS,
    generate_name,
    missing_reservations,
    needs_work,
)
from weir.controllers.runtime.listers import Listers
from weir.objects.kinds import RESOURCE_CLAIMS as CLAIMS


@given(
    st.text("abcdefgh-", min_size=1, max_size=253).filter(lambda text: text.strip("-") == text),
    st.text("abc", min_size=1, max_size=63),
)
def test_a_generated_name_leaves_room_and_keeps_something_of_both_parts(name, pod_claim):
    base = generate_name(name, pod_claim)
    assert len(base) <= 57 and base[0] == name[0]


@pytest.mark.parametrize(
    ("others", "reserved"), [(0, True), (MOST_CONSUMERS - 1, True), (MOST_CONSUMERS, False)]
)
def test_a_claim_is_reserved_for_a_placed_pod_while_it_has_room(others, reserved):
    held = [consumer(f"q{number}", f"u-q{number}") for number in range(others)]
    listers = Listers.of([], (CLAIMS,))
    listers.put(pod(claim="c", node="n"))
    listers.put({**claim(), "status": {"allocation": ALLOCATION, "reservedFor": held}})
    placed = listers.pod("default", "p")
    patches = [patch.patch["status"] for patch in missing_reservations(placed, listers)]
    assert patches == ([{"reservedFor": [*held, consumer()]}] if reserved else [])
    assert needs_work(placed, listers) is reserved
