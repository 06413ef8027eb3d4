"""Claims about weir.apiserver.transport.limits: lanes fill, empty, and tell when to come back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.apiserver.transport.limits import InFlight, timed_out, too_large
from weir.apiserver.transport.paths import RequestInfo
from weir.errors import TooManyRequests


def asks(verb, subresource=""):
    return RequestInfo("", verb, subresource=subresource)


def test_a_full_lane_says_when_to_come_back():
    lanes = InFlight(1, 1)
    lanes.enter(asks("create"))
    with pytest.raises(TooManyRequests) as refused:
        lanes.enter(asks("patch"))
    assert (refused.value.message, refused.value.retry_after_seconds) == (
        "Too many requests, please try again later.",
        1,
    )


def test_writes_do_not_fill_the_lane_of_reads():
    lanes = InFlight(1, 1)
    lanes.enter(asks("create"))
    assert lanes.enter(asks("list")).name == "readOnly"


def test_leaving_makes_room():
    lanes = InFlight(1, 1)
    lanes.leave(lanes.enter(asks("create")))
    assert lanes.enter(asks("create")).now == 1


@pytest.mark.parametrize(("verb", "subresource"), [("watch", ""), ("get", "log"), ("create", "exec")])
def test_long_running_requests_take_no_place(verb, subresource):
    lanes = InFlight(1, 1)
    assert [lanes.enter(asks(verb, subresource)) for _ in range(3)] == [None, None, None]


def test_masters_get_in_when_it_is_full():
    lanes = InFlight(1, 1)
    lanes.enter(asks("create"))
    assert lanes.enter(asks("create"), groups=("system:masters",)).now == 2


def test_no_limit_is_no_limit():
    lanes = InFlight(0, 0)
    assert [lanes.enter(asks("get")).now for _ in range(3)] == [1, 2, 3]


@given(st.lists(st.sampled_from(["enter", "leave"])))
def test_a_lane_never_holds_more_than_its_limit_and_never_less_than_nothing(steps):
    lanes, held = InFlight(3, 3), []
    for step in steps:
        if step == "leave" and held:
            lanes.leave(held.pop())
        elif step == "enter":
            try:
                held.append(lanes.enter(asks("create")))
            except TooManyRequests:
                assert len(held) == 3
        assert lanes.writing.now == len(held) <= 3


def test_refusals_read_as_upstreams():
    assert (too_large().code, too_large().message) == (413, "Request entity too large: limit is 3145728")
    assert timed_out().message == "Timeout: request did not complete within the allotted timeout"
