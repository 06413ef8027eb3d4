"""Path secrets: made, settled before they are used, accepted long enough after, and never guessed bit by bit."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest

from weir.fields.webhook_client import validate_client_service
from weir.objects.times import format_time
from weir.operator.path_secrets import OVERLAP, PATHS, ROTATION, SETTLED, PathSecrets, redacted, renewed

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MOMENT = timedelta(seconds=1)


def test_a_day_of_one_secret_and_the_change_to_the_next():
    """Replicas accept the new one first, then configurations name it, and only much later is the old one refused."""
    first = renewed(None, NOW)
    (old,) = (secret for secret, _ in first.made)
    assert first.in_use(NOW) == (old,), "the only one is used at once"
    assert renewed(first, NOW + ROTATION - MOMENT) is first
    second = renewed(first, NOW + ROTATION)
    new = second.made[-1][0]
    assert second.accepts(old) and second.accepts(new)
    assert second.in_use(NOW + ROTATION + SETTLED - MOMENT)[0] == old
    assert second.in_use(NOW + ROTATION + SETTLED) == (new,)
    still = renewed(second, NOW + ROTATION + SETTLED + OVERLAP - MOMENT)
    assert still is second
    last = renewed(second, NOW + ROTATION + SETTLED + OVERLAP)
    assert [secret for secret, _ in last.made] == [new] and not last.accepts(old)


def test_whoever_asks_again_and_again_makes_one_new_secret_at_a_time():
    found = renewed(None, NOW)
    for second in range(600):
        found = renewed(found, NOW + second * MOMENT, rotate_after=timedelta(0))
        assert len(found.made) <= 4
        assert len(found.in_use(NOW + second * MOMENT)) <= 2


def test_a_clock_that_was_ahead_ends_nothing_and_rotates_again():
    ahead = renewed(None, NOW + timedelta(days=300))
    assert ahead.in_use(NOW)
    assert len(renewed(ahead, NOW).made) == 2


def test_the_path_is_one_that_an_api_server_takes_and_is_long_enough_not_to_be_guessed():
    ((secret, _),) = renewed(None, NOW).made
    service = {"namespace": "weir-system", "name": "weir-operator"}
    assert list(validate_client_service({**service, "path": f"/{secret}/node-barrier"}, "service")) == []
    assert len(secret) == 48 and secret != renewed(None, NOW).made[0][0]


def test_it_is_read_as_it_was_written():
    found = renewed(renewed(None, NOW), NOW + ROTATION)
    assert PathSecrets.read(found.data()) == found


ROW = ["0123456789ab" * 4, format_time(NOW)]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        {},
        [ROW[0]],
        [[*ROW, 1]],
        [["", ROW[1]]],
        [["a/b", ROW[1]]],
        [[ROW[0].upper(), ROW[1]]],
        [[ROW[0], "yesterday"]],
        [[ROW[0], "2026-01-01T00:00:00"]],
        [ROW] * 5,
        "x",
        5,
    ],
)
def test_what_is_damaged_is_made_anew(rows):
    data = {PATHS: base64.b64encode(json.dumps(rows).encode()).decode()}
    assert PathSecrets.read(data) is None


@pytest.mark.parametrize("data", [None, {}, {PATHS: "!"}, {PATHS: 5}, {PATHS: "W1tb" * 5000}, []])
def test_what_is_no_data_at_all_is_made_anew(data):
    assert PathSecrets.read(data) is None


@pytest.mark.parametrize("candidate", ["", "0" * 48, ROW[0][:-1], ROW[0] + "0", "é\udcff", ROW[0].upper()])
def test_nothing_else_is_accepted(candidate):
    found = PathSecrets(((ROW[0], NOW),))
    assert found.accepts(ROW[0]) and not found.accepts(candidate)


def test_secrets_are_compared_in_constant_time(monkeypatch):
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda a, b: compared.append((a, b)) or a == b)
    found = renewed(renewed(None, NOW), NOW + ROTATION)
    assert found.accepts(found.made[0][0]) and len(compared) == 2, "all, whichever matches"


def test_an_error_of_the_api_server_is_shown_without_the_secret():
    text = f'Post "https://weir-operator.weir-system.svc:443/{ROW[0]}/pods?timeout=10s": refused'
    assert ROW[0] not in redacted(text) and "/pods?timeout" in redacted(text)
