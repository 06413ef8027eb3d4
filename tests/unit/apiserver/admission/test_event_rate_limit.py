"""How many events may be written; the texts are a real server's (tests/kubernetes/test_flow_control.py)."""

from __future__ import annotations

from typing import Any

import pytest

from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes
from weir.apiserver.admission.event_rate_limit import OF_WEIR_UP, EventRateLimit, Limit
from weir.apiserver.auth.authn import User, proven
from weir.errors import TooManyRequests
from weir.objects.kinds import by_kind

CORE, NEW = by_kind("v1", "Event"), by_kind("events.k8s.io/v1", "Event")
JANE = proven("jane")
EVENT = {
    "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u1", "apiVersion": "v1"},
    "source": {"component": "c", "host": "h"},
}


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def event(user: User = JANE, namespace: str = "default", kind: Any = CORE, **rest: Any) -> Attributes:
    return Attributes(CREATE, kind, namespace=namespace, user=user, object=rest.pop("object", EVENT), **rest)


def refusal(plugin: EventRateLimit, attributes: Attributes) -> str:
    try:
        plugin.validate(attributes)
    except TooManyRequests as error:
        assert error.details is None and error.retry_after_seconds is None
        return error.message
    return ""


def test_every_limit_that_is_reached_is_named():
    limits = [
        Limit("Server", 9, 9),
        Limit("Namespace", 1, 2),
        Limit("User", 1, 3),
        Limit("SourceAndObject", 1, 1),
    ]
    plugin = EventRateLimit(limits, now=Clock())
    assert [refusal(plugin, event()) for _ in range(4)] == [
        "",
        "Too many requests: limit reached on type SourceAndObject for key chPoddefaultpu1v1",
        "Too many requests: [limit reached on type Namespace for key default, limit reached on type SourceAndObject "
        "for key chPoddefaultpu1v1]",
        "Too many requests: [limit reached on type Namespace for key default, limit reached on type User for key jane, "
        "limit reached on type SourceAndObject for key chPoddefaultpu1v1]",
    ]


def test_a_bucket_fills_up_again_and_not_beyond_its_burst():
    clock = Clock()
    plugin = EventRateLimit([Limit("User", 2, 3)], now=clock)
    assert [bool(refusal(plugin, event())) for _ in range(4)] == [False, False, False, True]
    clock.now += 1
    assert [bool(refusal(plugin, event())) for _ in range(3)] == [False, False, True]
    clock.now += 1000
    assert [bool(refusal(plugin, event())) for _ in range(4)] == [False, False, False, True]


@pytest.mark.parametrize(
    ("limit", "others"),
    [
        ("Namespace", [event(namespace="other")]),
        ("User", [event(proven("joe"))]),
        ("SourceAndObject", [event(object={**EVENT, "source": {"component": "d"}})]),
    ],
)
def test_each_key_has_a_bucket_of_its_own(limit, others):
    plugin = EventRateLimit([Limit(limit, 1, 1)], now=Clock())
    assert refusal(plugin, event()) == "" and refusal(plugin, event()) != ""
    assert [refusal(plugin, other) for other in others] == [""]


def test_the_other_group_is_no_side_door():
    plugin = EventRateLimit([Limit("SourceAndObject", 1, 1)], now=Clock())
    assert plugin.handles(CREATE, CORE, "") and plugin.handles(UPDATE, NEW, "")
    assert not plugin.handles(CREATE, by_kind("v1", "Pod"), "")
    told = {"regarding": EVENT["involvedObject"], "deprecatedSource": EVENT["source"]}
    assert refusal(plugin, event()) == ""
    assert "chPoddefaultpu1v1" in refusal(plugin, event(kind=NEW, object=told))


def test_a_trial_counts_nothing():
    plugin = EventRateLimit([Limit("Server", 1, 1)], now=Clock())
    assert [refusal(plugin, event(dry_run=True)) for _ in range(3)] == ["", "", ""]
    assert refusal(plugin, event()) == ""


def test_keys_are_forgotten_within_bounds():
    plugin = EventRateLimit([Limit("User", 1, 1, 10)], now=Clock())
    for number in range(1000):
        assert refusal(plugin, event(proven(f"user-{number}"))) == ""
    assert len(plugin._buckets[0]._held) == 10


def test_weir_up_limits_everybody_but_its_administrator():
    plugin = EventRateLimit(OF_WEIR_UP, spare_masters=True, now=Clock())
    assert sum(not refusal(plugin, event()) for _ in range(6000)) == 5000
    assert not any(refusal(plugin, event(proven("a", ["system:masters"]))) for _ in range(6000))
