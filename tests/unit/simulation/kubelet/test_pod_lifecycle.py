"""A pod's life on its node: what happens to its containers, and when. No server, time is a number."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from weir.simulation.kubelet.behaviour import Behaviour, Life
from weir.simulation.kubelet.container_lifecycle import Ending, State
from weir.simulation.kubelet.pod_lifecycle import PodLife
from weir.simulation.kubelet.pod_status import phase_of, status_of

DELETED = Ending()


def document(restart="Always", annotations=None, containers=None, init=(), **spec):
    return {
        "metadata": {
            "name": "p",
            "namespace": "default",
            "uid": "u",
            "annotations": {f"weir.dev/{name}": value for name, value in (annotations or {}).items()},
        },
        "spec": {
            "restartPolicy": restart,
            "containers": containers or [{"name": "c", "image": "i"}],
            **({"initContainers": list(init)} if init else {}),
            **spec,
        },
        "status": {},
    }


def begin(pod, life=None):
    return PodLife.begin(pod, Behaviour(pod, life or Life(), random.Random(1)), 0.0)


def play(life, until, steps=1000):
    """Let time pass from due to due; return what each container looked like after every step that changed something."""
    seen = []
    for _ in range(steps):
        due = life.due()
        if due > until:
            break
        if life.advance(max(due, 0.0)):
            seen.append((due, phase_of(life), tuple(look(each) for each in life.containers)))
    return seen


def look(container):
    if container.state is State.TERMINATED:
        return f"{container.name} exited {container.ended.exit_code}"
    return f"{container.name} {container.reason or 'runs'}"


def test_a_server_starts_and_stays():
    life = begin(document())
    assert play(life, 10_000) == [(1.0, "Running", ("c runs",))]


def test_a_job_ends_by_itself():
    life = begin(document("Never"))
    assert play(life, 100) == [(1.0, "Running", ("c runs",)), (6.0, "Succeeded", ("c exited 0",))]


def test_a_container_that_fails_fails_its_pod():
    life = begin(document("Never", {"exit-code": "3", "run-seconds": "2"}))
    assert play(life, 100)[-1] == (3.0, "Failed", ("c exited 3",))


def test_restarts_come_at_once_then_after_ten_seconds_doubling_to_five_minutes():
    life = begin(document(annotations={"run-seconds": "0.5", "exit-code": "1"}))
    starts = [at for at, _, (looks,) in play(life, 3000) if looks == "c runs"]
    gaps = [round(later - sooner - 0.5, 3) for sooner, later in itertools.pairwise(starts)]
    assert gaps[:8] == [1.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]


def test_a_container_that_ran_well_starts_again_without_back_off():
    life = begin(document(annotations={"run-seconds": "1,1,700,1", "exit-code": "1"}))
    starts = [at for at, _, (looks,) in play(life, 3000) if looks == "c runs"]
    assert starts[:4] == [1.0, 3.0, 14.0, 715.0]


def test_a_pod_in_back_off_still_runs_and_says_why_it_waits():
    life = begin(document(annotations={"run-seconds": "1", "exit-code": "1"}))
    play(life, 5)
    (container,) = status_of(life, "172.16.0.1", "10.0.0.1", (), "now")["containerStatuses"]
    assert (
        phase_of(life),
        container["state"],
        container["restartCount"],
        container["lastState"]["terminated"]["exitCode"],
    ) == (
        "Running",
        {
            "waiting": {
                "reason": "CrashLoopBackOff",
                "message": "back-off 10s restarting failed container=c pod=p_default(u)",
            }
        },
        1,
        1,
    )


@pytest.mark.parametrize(
    ("policy", "codes", "phase", "starts"),
    [
        ("OnFailure", "1,1,0", "Succeeded", 3),
        ("OnFailure", "0", "Succeeded", 1),
        ("Never", "1,0", "Failed", 1),
    ],
)
def test_the_restart_policy_decides(policy, codes, phase, starts):
    life = begin(document(policy, {"exit-code": codes, "run-seconds": "1"}))
    play(life, 1000)
    assert (phase_of(life), life.containers[0].starts, life.over) == (phase, starts, True)


def with_rule(action, *codes, operator="In"):
    rule = {"action": action, "exitCodes": {"operator": operator, "values": list(codes)}}
    return {"name": "c", "restartPolicy": "Never", "restartPolicyRules": [rule]}


@pytest.mark.parametrize(
    ("container", "starts", "phase"),
    [
        (with_rule("Restart", 42), 2, "Failed"),
        (with_rule("Restart", 1), 1, "Failed"),
        (with_rule("Restart", 1, operator="NotIn"), 2, "Failed"),
    ],
)
def test_a_restart_rule_decides_before_the_policy(container, starts, phase):
    life = begin(document("Never", {"exit-code": "42,1", "run-seconds": "1"}, [container]))
    play(life, 100)
    assert (life.containers[0].starts, phase_of(life)) == (starts, phase)


def test_a_rule_may_restart_all_containers_from_the_first_init_container_on():
    containers = [with_rule("RestartAllContainers", 42), {"name": "other"}]
    behaves = {
        "exit-code.c": "42,0",
        "run-seconds.c": "2",
        "run-seconds.other": "9",
        "run-seconds.setup": "1",
    }
    life = begin(document("Never", behaves, containers, init=[{"name": "setup"}]))
    seen = play(life, 100)
    assert [(at, looks) for at, _, looks in seen][2:6] == [
        (4.0, ("setup PodInitializing", "c PodInitializing", "other PodInitializing")),
        (5.0, ("setup runs", "c PodInitializing", "other PodInitializing")),
        (6.0, ("setup exited 0", "c runs", "other runs")),
        (8.0, ("setup exited 0", "c exited 0", "other runs")),
    ]
    assert (phase_of(life), life.containers[2].last.reason) == ("Succeeded", "RestartingAllContainers")


# ── init containers and sidecars ─────────────────────────────────────────────────────────────────

SETUP, MIGRATE = {"name": "setup"}, {"name": "migrate"}
PROXY, LOGS = {"name": "proxy", "restartPolicy": "Always"}, {"name": "logs", "restartPolicy": "Always"}


def test_init_containers_run_one_after_the_other():
    life = begin(
        document(annotations={"run-seconds.setup": "2", "run-seconds.migrate": "3"}, init=[SETUP, MIGRATE])
    )
    assert play(life, 100) == [
        (1.0, "Pending", ("setup runs", "migrate PodInitializing", "c PodInitializing")),
        (3.0, "Pending", ("setup exited 0", "migrate runs", "c PodInitializing")),
        (6.0, "Running", ("setup exited 0", "migrate exited 0", "c runs")),
    ]


def test_a_failing_init_container_keeps_the_others_from_starting():
    life = begin(document("Never", {"exit-code.setup": "2", "run-seconds.setup": "1"}, init=[SETUP, MIGRATE]))
    assert play(life, 100)[-1] == (
        2.0,
        "Failed",
        ("setup exited 2", "migrate PodInitializing", "c PodInitializing"),
    )


def test_an_init_container_is_tried_again_until_it_succeeds():
    life = begin(document(annotations={"exit-code.setup": "1,1,0", "run-seconds.setup": "1"}, init=[SETUP]))
    assert play(life, 100)[-1][1:] == ("Running", ("setup exited 0", "c runs"))
    assert life.containers[0].starts == 3


def test_sidecars_start_first_stay_and_end_last_in_reverse_order():
    life = begin(document("Never", init=[PROXY, LOGS]))
    seen = play(life, 100)
    assert seen[0] == (1.0, "Running", ("proxy runs", "logs runs", "c runs"))
    assert seen[1:] == [
        (6.0, "Running", ("proxy runs", "logs runs", "c exited 0")),
        (7.0, "Running", ("proxy runs", "logs exited 0", "c exited 0")),
        (8.0, "Succeeded", ("proxy exited 0", "logs exited 0", "c exited 0")),
    ]


def test_a_sidecar_that_fails_is_restarted_and_does_not_fail_the_pod():
    life = begin(
        document(
            "Never", {"run-seconds.proxy": "1,1000", "exit-code.proxy": "1", "run-seconds": "9"}, init=[PROXY]
        )
    )
    play(life, 100)
    assert (phase_of(life), life.containers[0].starts) == ("Succeeded", 2)


# ── the end ──────────────────────────────────────────────────────────────────────────────────────


def running(pod):
    life = begin(pod)
    play(life, 2.0)
    return life


def test_a_deleted_pod_ends_as_soon_as_its_containers_do():
    life = running(document())
    life.end(10.0, DELETED, 30.0)
    assert play(life, 100) == [(11.0, "Succeeded", ("c exited 0",))]


def test_a_deleted_batch_pod_was_interrupted():
    life = running(document("Never", {"run-seconds": "1000"}))
    life.end(10.0, DELETED, 30.0)
    assert play(life, 100) == [(11.0, "Failed", ("c exited 143",))]


@pytest.mark.parametrize(
    ("annotations", "hook", "grace", "end", "code"),
    [
        ({"stop-seconds": "ignore"}, None, 30.0, 40.0, 137),
        ({"stop-seconds": "45"}, None, 30.0, 40.0, 137),
        ({"stop-seconds": "45", "stop-exit-code": "7"}, None, 60.0, 55.0, 7),
        ({}, {"sleep": {"seconds": 5}}, 30.0, 16.0, 0),
        ({"pre-stop-seconds": "20"}, {"exec": {"command": ["x"]}}, 30.0, 31.0, 0),
        ({"pre-stop-seconds": "20"}, None, 30.0, 11.0, 0),
        ({}, {"sleep": {"seconds": 50}}, 30.0, 41.0, 0),  # 2 s are left for SIGTERM
        ({"stop-seconds": "ignore"}, {"sleep": {"seconds": 50}}, 30.0, 42.0, 137),
        ({}, {"sleep": {"seconds": 50}}, 0.0, 10.0, 137),
    ],
)
def test_pre_stop_and_sigterm_have_the_grace_period_then_comes_sigkill(annotations, hook, grace, end, code):
    container = {"name": "c", **({"lifecycle": {"preStop": hook}} if hook else {})}
    life = running(document(annotations=annotations, containers=[container]))
    life.end(10.0, DELETED, grace)
    ((at, _, looks),) = play(life, 100)
    assert (at, looks) == (end, (f"c exited {code}",))


def test_a_second_deletion_may_only_shorten_the_grace_period():
    life = running(document(annotations={"stop-seconds": "ignore"}))
    life.end(10.0, DELETED, 600.0)
    life.end(20.0, DELETED, 1000.0)
    life.end(30.0, DELETED, 5.0)
    assert [at for at, *_ in play(life, 10_000)] == [35.0]


def test_a_pod_that_never_started_ends_at_once_and_failed():
    life = begin(document())
    life.end(0.5, DELETED, 30.0)
    assert (life.advance(0.5), life.over, phase_of(life)) == (True, True, "Failed")


def test_a_pod_in_back_off_ends_at_once():
    life = begin(document(annotations={"run-seconds": "1", "exit-code": "1"}))
    play(life, 5)
    life.end(5.0, DELETED, 30.0)
    assert (life.advance(5.0), life.over) == (True, True)


def test_the_deadline_ends_the_pod_as_failed_after_its_grace_period():
    life = begin(document("Never", {"run-seconds": "1000", "stop-seconds": "4"}, activeDeadlineSeconds=20))
    seen = play(life, 100)
    status = status_of(life, "172.16.0.1", "10.0.0.1", (), "now")
    assert (seen[-1], status["reason"], status["message"]) == (
        (24.0, "Failed", ("c exited 143",)),
        "DeadlineExceeded",
        "Pod was active on the node longer than the specified deadline",
    )


# ── images, ephemeral containers, restored lives ─────────────────────────────────────────────────


def test_an_image_that_cannot_be_pulled_is_tried_with_back_off():
    life = begin(document(annotations={"image-pull": "fail"}))
    seen = play(life, 100)
    assert [(at, looks) for at, _, looks in seen] == [
        (1.0, ("c ErrImagePull",)),
        (2.0, ("c ImagePullBackOff",)),
        (12.0, ("c ErrImagePull",)),
        (13.0, ("c ImagePullBackOff",)),
        (33.0, ("c ErrImagePull",)),
        (34.0, ("c ImagePullBackOff",)),
        (74.0, ("c ErrImagePull",)),
        (75.0, ("c ImagePullBackOff",)),
    ]
    assert phase_of(life) == "Pending"


def test_an_image_may_come_at_the_second_try():
    life = begin(document(annotations={"image-pull": "1"}))
    assert play(life, 100)[-1][1:] == ("Running", ("c runs",))


def test_an_ephemeral_container_starts_beside_the_others_and_ends_with_them():
    pod = document()
    life = running(pod)
    life.refresh({**pod, "spec": {**pod["spec"], "ephemeralContainers": [{"name": "debug"}]}})
    life.advance(5.0)
    assert look(life.containers[-1]) == "debug runs"
    assert status_of(life, "", "", (), "now")["ephemeralContainerStatuses"][0]["name"] == "debug"
    life.end(10.0, DELETED, 30.0)
    assert play(life, 100)[-1][1:] == ("Succeeded", ("c exited 0", "debug exited 0"))


def test_another_process_goes_on_where_the_status_says():
    pod = document("Never", {"run-seconds": "100"})
    life = running(pod)
    pod["status"] = status_of(life, "172.16.0.1", "10.0.0.1", (), "1970-01-01T00:00:01Z")
    again = PodLife.restore(pod, Behaviour(pod, Life(), random.Random(1)), 50.0)
    assert play(again, 1000) == [(101.0, "Succeeded", ("c exited 0",))]
    assert again.containers[0].starts == 1


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_every_life_ends_after_its_deletion(seed):
    """Random pods, deleted at random: no container runs when it is over, and it is over in time."""
    rng = random.Random(seed)
    containers = [{"name": f"c{n}"} for n in range(rng.randrange(1, 3))]
    init = [
        {"name": f"i{n}", **rng.choice([{}, {"restartPolicy": "Always"}])} for n in range(rng.randrange(0, 3))
    ]
    annotations = {"run-seconds": rng.choice(["1", "30", "400"]), "exit-code": rng.choice(["0", "1", "1,0"])}
    for each in (*containers, *init):
        annotations[f"stop-seconds.{each['name']}"] = rng.choice(["0", "3", "ignore"])
        annotations[f"exit-code.{each['name']}"] = rng.choice(["0", "1,0", "1"])
        annotations[f"image-pull.{each['name']}"] = rng.choice(["0", "0", "2"])
    life = begin(document(rng.choice(["Always", "OnFailure", "Never"]), annotations, containers, init))
    deleted, grace = rng.random() * 200, rng.choice([0.0, 2.0, 30.0])
    play(life, deleted)
    if not life.over:
        life.end(deleted, DELETED, grace)
    play(life, deleted + grace)
    assert (
        life.over,
        life.due(),
        [each.name for each in life.containers if each.state is State.RUNNING],
    ) == (
        True,
        math.inf,
        [],
    )


@pytest.mark.parametrize("restart", ["Always", "Never"])
def test_a_container_whose_image_changes_is_started_anew_without_back_off(restart):
    life = begin(document(restart, {"run-seconds": "1000"}))
    play(life, 20)
    life.refresh(document(restart, containers=[{"name": "c", "image": "other"}]))
    life.advance(20)
    assert look(life.containers[0]) == "c runs"
    life.advance(21)
    assert look(life.containers[0]).startswith("c exited")
    assert (life.advance(22), look(life.containers[0]), life.containers[0].starts) == (True, "c runs", 2)
    assert "Container c definition changed, will be restarted" in [each.message for each in life.occurrences]


def test_a_missing_image_that_is_changed_to_one_that_exists_is_pulled_at_once():
    life = begin(document(containers=[{"name": "c", "image": "web:404"}]))
    play(life, 500)
    assert look(life.containers[0]) == "c ImagePullBackOff"
    life.refresh(document(containers=[{"name": "c", "image": "web:1"}]))
    life.advance(500)
    assert look(life.containers[0]) == "c runs"


def test_an_image_without_a_name_is_never_pulled():
    life = begin(document(containers=[{"name": "c", "image": "!!!"}]))
    play(life, 1000)
    status = status_of(life, "h", "p", (), "now")["containerStatuses"][0]["state"]["waiting"]
    assert status["reason"] == "InvalidImageName"
    assert status["message"].endswith('couldn\'t parse image name "!!!": invalid reference format')


def started(container, restart="Always", annotations=None, **spec):
    return begin(document(restart, annotations, [{"name": "c", "image": "busybox", **container}], **spec))


def readiness(life):
    status = status_of(life, "h", "p", (), "now")
    return next(each["status"] for each in status["conditions"] if each["type"] == "Ready")


def test_a_readiness_probe_delays_being_ready():
    life = started({"readinessProbe": {"httpGet": {"port": 80}, "initialDelaySeconds": 60}})
    play(life, 30)
    assert (phase_of(life), readiness(life), life.due()) == ("Running", "False", 61.0)
    play(life, 70)
    assert readiness(life) == "True"


@pytest.mark.parametrize(
    ("annotations", "command"),
    [({"ready-seconds": "never"}, ["x"]), ({}, ["false"]), ({}, ["sh", "-c", "sleep 2"])],
)
def test_a_readiness_probe_that_never_succeeds(annotations, command):
    life = started({"readinessProbe": {"exec": {"command": command}}}, annotations=annotations)
    play(life, 1000)
    assert (phase_of(life), readiness(life)) == ("Running", "False")


def test_a_liveness_probe_that_fails_ends_its_container():
    probe = {"exec": {"command": ["cat", "/tmp/health"]}, "periodSeconds": 1, "failureThreshold": 1}
    life = started({"livenessProbe": probe}, annotations={"healthy-seconds": "10"})
    play(life, 40)
    (container,) = life.containers
    assert (container.starts, container.last.exit_code) == (3, 137)
    assert "Container c failed liveness probe, will be restarted" in [
        each.message for each in life.occurrences
    ]


def test_a_liveness_command_that_fails_ends_its_container():
    life = started({"livenessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1}})
    play(life, 5)
    assert life.containers[0].last.exit_code == 137


def test_a_startup_probe_holds_back_the_containers_behind_a_sidecar():
    probe = {"exec": {"command": ["cat", "/tmp/up"]}, "periodSeconds": 1, "failureThreshold": 60}
    sidecar = {"name": "s", "image": "busybox", "restartPolicy": "Always", "startupProbe": probe}
    life = started({}, annotations={"startup-seconds.s": "5"}, initContainers=[sidecar])
    play(life, 4)
    assert [look(each) for each in life.containers] == ["s runs", "c PodInitializing"]
    play(life, 10)
    assert [look(each) for each in life.containers] == ["s runs", "c runs"]


def test_a_pre_stop_command_takes_its_time():
    hook = {"preStop": {"exec": {"command": ["/bin/sh", "-c", "sleep 15"]}}}
    life = started({"command": ["sleep", "1000"], "lifecycle": hook})
    play(life, 20)
    life.end(20.0, DELETED)
    play(life, 100)
    assert life.containers[0].ended.finished_at == 36.0


@pytest.mark.parametrize(
    ("annotations", "code"), [({}, 9), ({"stop-exit-code": "4"}, 4), ({"stop-seconds": "ignore"}, 137)]
)
def test_a_trap_decides_the_exit_code_after_sigterm(annotations, code):
    life = started({"command": ["sh", "-c", "trap 'exit 9' TERM; sleep 1000"]}, "Never", annotations)
    play(life, 20)
    life.end(20.0, DELETED)
    play(life, 100)
    assert life.containers[0].ended.exit_code == code


def test_annotations_come_before_the_command():
    life = started(
        {"command": ["sh", "-c", "echo a; sleep 5; exit 3"]},
        "Never",
        {"run-seconds": "2", "exit-code": "4", "output": "b\n", "termination-message": "out of memory"},
    )
    play(life, 100)
    ended = life.containers[0].ended
    assert (ended.finished_at, ended.exit_code, ended.message) == (3.0, 4, "out of memory")
    assert [each.output for each in life.take_printed()] == [((0.0, "b\n"),)]


def test_a_container_that_is_stopped_leaves_no_message():
    life = started({"command": ["sleep", "100"]}, annotations={"termination-message": "done"})
    play(life, 20)
    life.end(20.0, DELETED)
    play(life, 100)
    assert life.containers[0].ended.message == ""


@pytest.mark.parametrize(
    ("container", "outputs"),
    [
        ({"command": ["sh", "-c", "echo a; sleep 9; echo b"]}, [((0.0, "a\n"), (9.0, "b\n"))]),
        ({"command": ["sleep", "9"]}, [()]),  # an empty log
        ({"image": "registry.k8s.io/pause:3.10"}, []),
        ({"command": ["unknown"]}, []),  # no log
    ],
)
def test_output_is_known_when_the_container_starts(container, outputs):
    life = started(container, "Never")
    play(life, 2)
    assert [each.output for each in life.take_printed()] == outputs
