"""What follows from the control plane as it is seen, and from not seeing it for a while."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from weir import errors
from weir.clock import RealClock
from weir.operator import precautions
from weir.operator.control_plane import Managers
from weir.operator.metrics import OperatorMetrics
from weir.operator.precautions import GRACE_SECONDS, Precautions

APART = ("taint-eviction-controller",)
AWAY = errors.ServiceUnavailable("away")


@pytest.fixture
def look(monkeypatch):
    """Give what looks once at kube-controller-managers and API servers, and returns what is apart and the grace."""
    barrier, entries = SimpleNamespace(apart=""), SimpleNamespace(grace_seconds=0)
    recorder = SimpleNamespace(record=lambda *event: None)
    made = Precautions(
        SimpleNamespace(), RealClock(), "weir-system", barrier, entries, OperatorMetrics(), recorder, None
    )

    def shows(name, value):
        async def answer(client):
            if isinstance(value, Exception):
                raise value
            return value

        monkeypatch.setattr(precautions, name, answer)

    def once(managers, servers):
        shows("managers", managers)
        shows("api_servers", servers)
        asyncio.run(made.look())
        return barrier.apart, entries.grace_seconds

    return once


def test_what_is_seen_decides(look):
    assert look(Managers(1, ()), 1) == ("", 0)
    assert look(Managers(1, ()), 3) == ("", GRACE_SECONDS)


@pytest.mark.parametrize("managers", [AWAY, Managers(0, ())], ids=["no answer", "none is there"])
@pytest.mark.parametrize("servers", [AWAY, 0, 1])
def test_what_was_seen_counts_while_the_control_plane_fails_over(look, managers, servers):
    """A barrier that refuses must not let a taint pass because an API server was away when somebody looked."""
    assert look(Managers(2, APART), 3) == (APART[0], GRACE_SECONDS)
    assert look(managers, servers) == (APART[0], GRACE_SECONDS)


def test_a_control_plane_that_is_put_together_again_is_seen(look):
    assert look(Managers(1, APART), 1) == (APART[0], GRACE_SECONDS)
    assert look(Managers(1, ()), 1) == ("", 0)


def test_nothing_seen_at_all_counts_as_in_order(look):
    assert look(AWAY, AWAY) == ("", 0)
