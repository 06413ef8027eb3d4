"""Logs of simulated containers: what has been printed by now, as readers may ask for it."""

from __future__ import annotations

import msgspec
import pytest

from weir import errors
from weir.apiserver.registry.container_logs import MOST_OF_ONE, ContainerLogs, LogOptions

START = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def pod(state=None, *, restarts=0, last=None, more=(), node="n", **spec):
    status = {
        "name": "c",
        "restartCount": restarts,
        "state": state or {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }
    if last:
        status["lastState"] = {"terminated": {"finishedAt": last}}
    containers = [{"name": name} for name in ("c", *more)]
    return {
        "metadata": {"name": "p", "uid": "u"},
        "spec": {"nodeName": node, "containers": containers, **spec},
        "status": {"containerStatuses": [status]},
    }


def run(*printed, start=0, uid="u", at=START):
    return msgspec.json.encode(
        {"uid": uid, "container": "c", "start": start, "started_at": at, "printed": printed}
    )


def logs(*bodies, **how):
    made = ContainerLogs(**how)
    for body in bodies:
        made.write(body)
    return made


def read(made, shown, after=100.0, **params):
    now = START + after
    return made.read(shown, LogOptions.parse(params, now), now).decode()


LINES = run((0.0, "a\n"), (2.0, "b"), (3.0, "b\nc\n"), (60.0, "late\n"))


def test_a_reader_sees_what_has_been_printed_by_now():
    assert [read(logs(LINES), pod(), after) for after in (1.0, 2.5, 10.0)] == ["a\n", "a\nbb\n", "a\nbb\nc\n"]


def test_a_container_that_ended_has_printed_nothing_after_its_end():
    ended = {"terminated": {"finishedAt": "2026-01-01T00:00:05Z"}}
    assert read(logs(LINES), pod(ended), follow="true") == "a\nbb\nc\n"


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"tailLines": "1"}, "late\n"),
        ({"tailLines": "0"}, ""),
        ({"limitBytes": "3"}, "a\nb"),
        ({"sinceSeconds": "50"}, "late\n"),
        ({"sinceTime": "2026-01-01T00:00:03Z"}, "c\nlate\n"),
        ({"tailLines": "1", "timestamps": "true"}, "2026-01-01T00:01:00.000000Z late\n"),
        ({"container": "c", "tailLines": "9"}, "a\nbb\nc\nlate\n"),
    ],
)
def test_parts_of_a_log(params, text):
    assert read(logs(LINES), pod(), **params) == text


def test_the_run_before_this_one():
    made = logs(run((0.0, "first\n")), run((0.0, "second\n"), start=1, at=START + 10))
    again = pod(restarts=1, last="2026-01-01T00:00:05Z")
    assert (read(made, again), read(made, again, previous="true")) == ("second\n", "first\n")


def test_a_container_that_waits_for_its_next_start_shows_its_last_run():
    waiting = pod({"waiting": {"reason": "CrashLoopBackOff"}}, last="2026-01-01T00:00:01Z")
    assert read(logs(run((0.0, "x\n"))), waiting) == "x\n"


@pytest.mark.parametrize(
    ("shown", "params", "said"),
    [
        (pod(), {"container": "other"}, "container other is not valid for pod p"),
        (pod(), {"previous": "true"}, 'previous terminated container "c" in pod "p" not found'),
        (
            pod({"waiting": {"reason": "ImagePullBackOff"}}),
            {},
            'container "c" in pod "p" is waiting to start: ImagePullBackOff',
        ),
        (pod(more=["d"]), {}, "a container name must be specified for pod p, choose one of: [c d]"),
        (
            pod(more=["d"], initContainers=[{"name": "i"}]),
            {},
            "a container name must be specified for pod p, choose one of: [i c d]",
        ),
        (pod(), {"tailLines": "-1"}, "tailLines must be greater than or equal to 0"),
        (pod(), {"limitBytes": "0"}, "limitBytes must be greater than 0"),
        (pod(), {"sinceTime": "soon"}, "sinceTime: 'soon' is no time of RFC 3339"),
    ],
)
def test_what_is_refused_as_a_bad_request(shown, params, said):
    with pytest.raises(errors.BadRequest) as caught:
        read(logs(LINES), shown, **params)
    assert caught.value.message == said


def test_what_is_not_known_is_said_to_be_not_known():
    with pytest.raises(errors.NotImplementedHere):
        read(logs(), pod())
    with pytest.raises(errors.NotImplementedHere):
        read(logs(LINES), pod(), follow="true")


def test_a_pod_without_a_node_has_an_empty_log():
    assert read(logs(), pod(node="")) == ""


@pytest.mark.parametrize("body", [b"", b"[]", b'{"uid": 1}', run((0.0, "x" * MOST_OF_ONE))])
def test_what_is_no_run_is_refused(body):
    with pytest.raises(errors.BadRequest):
        ContainerLogs().write(body)


def test_the_oldest_pods_are_forgotten_first_and_runs_of_long_ago():
    made = logs(*(run((0.0, "x" * 1000), uid=f"u{n}") for n in range(20)), most_bytes=5000)
    assert list(made._runs) == ["u16", "u17", "u18", "u19"]
    made = logs(*(run((0.0, "x"), start=n) for n in range(5)))
    assert (list(made._runs["u"]["c"]), made._bytes) == ([3, 4], 2 * 251)
