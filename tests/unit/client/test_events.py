"""Events are counted, combined and limited as Kubernetes' recorders do it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from tests.unit.client.fake_server import FakeServer
from weir.client.api import Client, Unreachable
from weir.client.events import Correlator, Event, Names, ObjectReference, Recorder, reference
from weir.client.series import AT_ONCE, EventSeries, Occurrence, Series, SeriesRecorder
from weir.clock import VirtualClock
from weir.errors import Forbidden

T0 = datetime(2026, 1, 1, tzinfo=UTC)
POD = ObjectReference("Pod", "web", "default", uid="u1")
EVENT = Event(POD, "Warning", "FailedScheduling", "0/3 nodes are available", "default-scheduler")
SECOND = timedelta(seconds=1)


# ------------------------------------------------------------------------------------------- core events


def test_the_same_event_again_raises_the_count_of_the_first() -> None:
    correlator = Correlator()
    told = [correlator.correlate(EVENT, T0 + n * SECOND) for n in range(3)]
    assert [(one.count, one.first, one.last) for one in told if one] == [
        (n + 1, T0, T0 + n * SECOND) for n in range(3)
    ]
    assert len({one.name for one in told if one}) == 1


def test_events_of_another_object_reason_or_message_are_told_for_themselves() -> None:
    correlator = Correlator()
    others = [
        EVENT,
        replace(EVENT, message="other"),
        replace(EVENT, reason="Other"),
        replace(EVENT, about=replace(POD, name="db", uid="u2")),
    ]
    told = [correlator.correlate(event, T0 + n * SECOND) for n, event in enumerate(others)]
    assert [one.count for one in told if one] == [1, 1, 1, 1]


def test_the_tenth_different_message_and_those_after_it_are_combined() -> None:
    correlator = Correlator()
    told = [correlator.correlate(replace(EVENT, message=f"m{n}"), T0 + n * SECOND) for n in range(13)]
    combined = [
        one for one in told if one and one.event.message.startswith("(combined from similar events): ")
    ]
    assert [one.count for one in combined] == [1, 2, 3, 4]
    assert combined[-1].event.message == "(combined from similar events): m12"


def test_combining_ends_after_ten_quiet_minutes() -> None:
    correlator = Correlator()
    for n in range(12):
        correlator.correlate(replace(EVENT, message=f"m{n}"), T0)
    later = correlator.correlate(replace(EVENT, message="fresh"), T0 + timedelta(minutes=10, seconds=1))
    assert later is not None and later.event.message == "fresh"


def test_after_a_burst_one_source_tells_one_event_about_an_object_every_five_minutes() -> None:
    correlator = Correlator()
    told = [correlator.correlate(EVENT, T0) for _ in range(30)]
    assert sum(one is not None for one in told) == 25
    assert correlator.correlate(EVENT, T0 + timedelta(minutes=4)) is None
    late = correlator.correlate(EVENT, T0 + timedelta(minutes=5, seconds=1))
    assert late is not None and late.count == 32  # what was not told is counted


class Scene:
    def __init__(self) -> None:
        self.server, self.clock = FakeServer(), VirtualClock(T0)
        self.client = Client(self.server, clock=self.clock)
        self.lost: list[str] = []


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
async def recorder(scene: Scene) -> AsyncIterator[Recorder]:
    made = Recorder(
        scene.client, scene.clock, "weir", lost=lambda event, error: scene.lost.append(event.reason)
    )
    task = asyncio.create_task(made.run())
    yield made
    task.cancel()


async def test_a_recorded_event_is_written_with_everything_kubectl_shows(
    scene: Scene, recorder: Recorder
) -> None:
    recorder.record(POD, "Normal", "Evicting", "leaves")
    await recorder.flush()
    [event] = scene.server.objects.values()
    assert event["metadata"]["name"].startswith("web.") and event["metadata"]["namespace"] == "default"
    assert {key: event[key] for key in ("type", "reason", "message", "count", "firstTimestamp")} == {
        "type": "Normal",
        "reason": "Evicting",
        "message": "leaves",
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
    }
    assert event["involvedObject"] == {
        "kind": "Pod",
        "namespace": "default",
        "name": "web",
        "uid": "u1",
        "apiVersion": "v1",
    }


async def test_repetitions_patch_the_count(scene: Scene, recorder: Recorder) -> None:
    for _ in range(3):
        recorder.record(POD, "Normal", "Evicting", "leaves")
    await recorder.flush()
    [event] = scene.server.objects.values()
    assert event["count"] == 3
    assert [line.split(" ")[0] for line in scene.server.requests] == ["POST", "PATCH", "PATCH"]


async def test_an_event_that_expired_is_written_anew_with_its_count(scene: Scene, recorder: Recorder) -> None:
    recorder.record(POD, "Normal", "Evicting", "leaves")
    await recorder.flush()
    scene.server.objects.clear()
    recorder.record(POD, "Normal", "Evicting", "leaves")
    await recorder.flush()
    assert [event["count"] for event in scene.server.objects.values()] == [2]


async def test_events_about_cluster_objects_go_to_the_default_namespace(
    scene: Scene, recorder: Recorder
) -> None:
    recorder.record(ObjectReference("Node", "n1"), "Normal", "Tainted", "x")
    await recorder.flush()
    assert next(iter(scene.server.objects)).startswith("/api/v1/namespaces/default/events/n1.")


async def test_a_server_that_is_away_is_tried_again_and_order_is_kept(
    scene: Scene, recorder: Recorder
) -> None:
    scene.server.failures = [Unreachable("away")] * 3
    recorder.record(POD, "Normal", "First", "x")
    recorder.record(POD, "Normal", "Second", "x")
    await scene.clock.advance(40)
    assert [event["reason"] for event in scene.server.objects.values()] == ["First", "Second"]


async def test_an_event_the_server_refuses_is_lost_and_said_so(scene: Scene, recorder: Recorder) -> None:
    scene.server.failures = [Forbidden("no")]
    recorder.record(POD, "Normal", "First", "x")
    recorder.record(POD, "Normal", "Second", "x")
    await recorder.flush()
    assert scene.lost == ["First"] and len(scene.server.objects) == 1


async def test_an_event_that_cannot_be_written_for_long_is_given_up(scene: Scene, recorder: Recorder) -> None:
    scene.server.failures = [Unreachable("away")] * 12
    recorder.record(POD, "Normal", "First", "x")
    await scene.clock.advance(200)
    assert scene.lost == ["First"]


def test_a_reference_names_the_object_of_a_document() -> None:
    document = {
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7"},
    }
    assert reference(document) == ObjectReference("Pod", "a", "b", "u", "v1", "7")


# ------------------------------------------------------------------------------------------------ series

HAPPENED = Occurrence(POD, "Warning", "FailedScheduling", "Scheduling", "0/3", "default-scheduler", "host")


def test_the_first_is_an_event_the_second_makes_it_a_series_the_rest_is_counted() -> None:
    series = Series()
    told = [series.occurred(HAPPENED, T0 + n * SECOND) for n in range(5)]
    assert [one is not None for one in told] == [True, True, False, False, False]
    assert told[1] is not None and told[1].count == 5


def test_another_note_belongs_to_the_same_series() -> None:
    series = Series()
    series.occurred(HAPPENED, T0)
    again = series.occurred(replace(HAPPENED, note="0/4"), T0)
    assert again is not None and again.count == 2


def test_a_series_is_written_every_half_hour_and_when_it_is_over() -> None:
    series = Series()
    written = []
    for minute in range(60):
        now = T0 + timedelta(minutes=minute)
        if minute <= 40:
            series.occurred(HAPPENED, now)
        written += [(minute, told.count) for told in series.due(now)]
    assert written == [(31, 32), (47, 41)]


def test_the_same_long_after_is_a_new_event() -> None:
    series = Series()
    first = series.occurred(HAPPENED, T0)
    second = series.occurred(HAPPENED, T0 + timedelta(minutes=7))
    assert first is not None and second is not None and first.name != second.name and second.count == 1


async def test_a_series_reaches_the_server(scene: Scene) -> None:
    recorder = SeriesRecorder(scene.client, scene.clock, "default-scheduler", "host")
    task = asyncio.create_task(recorder.run())
    for _ in range(4):
        recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "0/3 nodes")
        await scene.clock.settle()
    [event] = scene.server.objects.values()
    assert event["series"]["count"] == 2 and event["eventTime"] == "2026-01-01T00:00:00.000000Z"
    await scene.clock.advance(timedelta(minutes=8))
    [event] = scene.server.objects.values()
    assert event["series"]["count"] == 4
    task.cancel()


async def test_events_are_written_together_a_series_after_its_event(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: set[str] = set()
    most = []
    plain = SeriesRecorder._write

    async def slow(self: SeriesRecorder, series: EventSeries) -> None:
        assert series.name not in running, "twice at once"
        running.add(series.name)
        most.append(len(running))
        await scene.clock.sleep(1)
        await plain(self, series)
        running.discard(series.name)

    monkeypatch.setattr(SeriesRecorder, "_write", slow)
    recorder = SeriesRecorder(scene.client, scene.clock, "default-scheduler", "host")
    for number in (*range(20), 3, 19):
        pod = ObjectReference("Pod", f"web-{number}", "default")
        recorder.record(pod, "Normal", "Scheduled", "Binding", "assigned")
    task = asyncio.create_task(recorder.run())
    await scene.clock.advance(4)
    await recorder.flush()
    assert max(most) == AT_ONCE and len(most) == 22
    counts = {
        event["regarding"]["name"]: event.get("series", {}).get("count", 1)
        for event in scene.server.objects.values()
    }
    assert counts == {f"web-{number}": 2 if number in (3, 19) else 1 for number in range(20)}
    task.cancel()


async def test_a_burst_of_events_waits_for_its_end_but_not_for_long(scene: Scene) -> None:
    recorder = SeriesRecorder(scene.client, scene.clock, "default-scheduler", "host")
    task = asyncio.create_task(recorder.run())
    number = 0

    async def go_on(seconds: float, each: int) -> int:
        """Let so many happen every hundredth of a second; return how many are written."""
        nonlocal number
        for _ in range(round(seconds * 100)):
            for _ in range(each):
                number += 1
                recorder.record(
                    ObjectReference("Pod", f"web-{number}", "default"), "Normal", "Scheduled", "Binding", "x"
                )
            await scene.clock.advance(0.01)
        return len(scene.server.objects)

    assert await go_on(0.05, 2) == 10, "few are told at once"
    assert await go_on(0.9, 20) <= 10 + 2 * AT_ONCE
    assert await go_on(3, 20) >= 10 + 3 * AT_ONCE
    assert await go_on(0.5, 0) == number, "when it is over, all are told"
    task.cancel()


def test_two_sources_that_tell_of_one_object_at_the_same_moment_do_not_share_a_name():
    about = ObjectReference("DeviceTaintRule", "bad")
    names = {
        Names().name(about, T0, source)
        for source in ("default-scheduler", "device-taint-eviction-controller")
    }
    assert len(names) == 2
