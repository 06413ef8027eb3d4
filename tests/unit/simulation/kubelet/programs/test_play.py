"""What a container's command does: its end, what it prints, writes and leaves in the status."""

from __future__ import annotations

import math
import random
import time
import tracemalloc

import pytest

from weir.simulation.kubelet.programs.files import Files, Place
from weir.simulation.kubelet.programs.play import Stage
from weir.simulation.kubelet.programs.shell import text_of

INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_VARIABLE = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}},
}
FALLBACK = {"terminationMessagePolicy": "FallbackToLogsOnError"}
DATA = [{"name": "data", "mountPath": "/data"}]
FAIL_ONCE = """
    if [[ -r /data/foo-$JOB_COMPLETION_INDEX ]]
    then
        exit 0
    else
        touch /data/foo-$JOB_COMPLETION_INDEX
        exit 42
    fi
"""


def pod_of(*command, image="busybox", uid="u", index="1", volume=None, **container):
    spec = {"name": "c", "image": image, "command": list(command), **container}
    return {
        "metadata": {"name": "p", "namespace": "d", "uid": uid, "annotations": {INDEX: index}},
        "spec": {
            "nodeName": "n",
            "containers": [spec],
            "volumes": [{"name": "data", **(volume or {"emptyDir": {}})}],
        },
    }


def play(pod, *, stage=None, start=0, now=100.0):
    stage = stage or Stage({}, Files(), random.Random(1))
    return stage.play(pod, pod["spec"]["containers"][0], start, now)


def script(text, **how):
    return play(pod_of("sh", "-c", text, **how))


@pytest.mark.parametrize(
    ("command", "seconds", "code"),
    [
        (["/bin/true"], 0, 0),
        (["/bin/false"], 0, 1),
        (["sleep", "1000000"], 1_000_000, 0),
        (["sleep", "1m", "0.5"], 60.5, 0),
        (["/bin/sh", "-c", "exit 42"], 0, 42),
        (["sh", "-c", "exit 300"], 0, 44),
        (["sh", "-c", "sleep 5; exit 3"], 5, 3),
        (["/bin/sh", "-c", "sleep 5", "/crash/missing"], 5, 0),
        (["sh", "-c", "false || exit 4; exit 5"], 0, 4),
        (["sh", "-c", "true && ! false && exit 6"], 0, 6),
        (["sh", "-c", "false; true"], 0, 0),
        (["sh", "-ec", "false; true"], 0, 1),
        (["sh", "-ec", "if false; then :; fi; false || true; exit 7"], 0, 7),
        (["sh", "-c", "set -e\nfalse\nexit 8"], 0, 1),
        (["sh", "-c", "(exit 9); exit $?"], 0, 9),
        (["sh", "-c", "for i in 1 2 3; do sleep $i; done"], 6, 0),
        (["sh", "-c", "i=0; while [ $i -lt 4 ]; do sleep 2; i=$((i+1)); done; exit $i"], 8, 4),
        (["sh", "-c", "until false; do exit 3; done"], 0, 3),
        (["sh", "-c", "exit $(( (1 + 2) * 3 - 8 % 5 ))"], 0, 6),
        (["sh", "-c", "[ $(expr 7 % 2) -ne 0 ] && exit 1"], 0, 1),
        (["sh", "-c", "exec sleep 3"], 3, 0),
        (["sh", "-c", "f() { sleep $1; return_code=5; }; f 2; exit $return_code"], 2, 5),
        (["sh", "-c", "while true; do sleep 1; done"], math.inf, 0),
        (["sh", "-c", "tail -f /dev/null"], math.inf, 0),
        (["sh", "-c", "sleep infinity"], math.inf, 0),
    ],
)
def test_a_command_decides_how_long_its_container_runs_and_how_it_ends(command, seconds, code):
    found = play(pod_of(*command))
    assert (found.seconds, found.exit_code) == (seconds, code)


@pytest.mark.parametrize(
    "text",
    [
        "nginx -g 'daemon off;'",
        "curl http://example.com",
        "sleep 5 & wait",
        "while true; do :; done",
        "ls *.txt",
        "if true; then exit 1",
        "echo 'open",
        "echo `date`",
        "cat /etc/passwd",
        "trap 'exit 0' EXIT; sleep 5",
        "f() { f; }; f",
        "(" * 100 + "true" + ")" * 100,
        "exit $((1 / 0))",
    ],
)
def test_what_is_not_understood_whole_is_not_played(text):
    assert script(text) is None


def test_a_file_that_a_command_wrote_is_there_for_the_next_run():
    stage = Stage({}, Files(), random.Random(1))
    pod = pod_of("/bin/sh", "-c", FAIL_ONCE, env=[INDEX_VARIABLE], volumeMounts=DATA)
    assert [play(pod, stage=stage, start=n, now=100.0 + n).exit_code for n in range(3)] == [42, 0, 0]


def test_a_directory_of_the_node_is_shared_by_its_pods_and_not_by_others():
    stage = Stage({}, Files(), random.Random(1))
    how = {"env": [INDEX_VARIABLE], "volumeMounts": DATA, "volume": {"hostPath": {"path": "/tmp/x"}}}
    pods = [pod_of("sh", "-c", FAIL_ONCE, uid=uid, **how) for uid in ("a", "b", "c")]
    pods[2]["spec"]["nodeName"] = "other"
    assert [play(pod, stage=stage).exit_code for pod in pods] == [42, 0, 42]


def test_a_containers_own_files_are_gone_when_it_is_started_again():
    stage = Stage({}, Files(), random.Random(1))
    pod = pod_of("sh", "-c", "if [ -f /tmp/x ]; then exit 0; fi; touch /tmp/x; exit 1")
    assert [play(pod, stage=stage, start=n).exit_code for n in range(2)] == [1, 1]


def test_what_is_written_after_a_sleep_is_not_there_before_and_never_when_the_container_is_killed():
    files = Files()
    stage = Stage({}, files, random.Random(1))
    pod = pod_of("sh", "-c", "sleep 10; touch /data/x", volumeMounts=DATA)
    play(pod, stage=stage, now=100.0)
    place = Place("emptyDir", "u", "data")
    assert [files.read(place, "/x", at) for at in (105.0, 110.0)] == [None, ""]
    stage.stop(pod, pod["spec"]["containers"][0], 0, 105.0)
    assert files.read(place, "/x", 110.0) is None


def test_indexes_reach_the_command():
    text = "if [ $(expr ${JOB_COMPLETION_INDEX} % 2) -ne 0 ]; then exit 1; else exit 0; fi"
    codes = [script(text, env=[INDEX_VARIABLE], index=str(index)).exit_code for index in range(4)]
    assert codes == [0, 1, 0, 1]


def test_what_is_printed_has_its_time():
    found = script("echo a; sleep 2; echo -n b; printf 'c%s\\n' 1 2; echo lost > /dev/null; echo err >&2")
    assert text_of(found.printed) == "a\nbc1\nc2\nerr\n"
    assert text_of(found.printed, 1.0) == "a\n"


def test_a_loop_that_prints_for_ever_is_played_for_a_while():
    found = script("while true; do echo polo; sleep 2; done")
    assert found.seconds == math.inf
    assert text_of(found.printed, 5.0) == "polo\npolo\npolo\n"


@pytest.mark.parametrize(
    ("text", "container", "message"),
    [
        ("echo -n DONE > /dev/termination-log", {}, "DONE"),
        ("echo -n DONE > /tmp/other", {"terminationMessagePath": "/tmp/other"}, "DONE"),
        ("echo -n DONE; false", FALLBACK, "DONE"),
        ("echo -n DONE; true", FALLBACK, ""),
        (
            "echo OK > /dev/termination-log; echo DONE; false",
            FALLBACK,
            "OK\n",
        ),
        ("echo DONE; false", {}, ""),
    ],
)
def test_what_a_container_leaves_in_the_status(text, container, message):
    assert script(text, **container).message == message


def test_variables_of_kubernetes_are_replaced_before_the_shell_sees_them():
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2"}]
    found = play(pod_of("sh", "-c", "exit $(B)", env=env))
    assert found.exit_code == 12


def test_a_variable_that_is_not_known_makes_the_command_one_that_is_not():
    source = {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}
    assert script("exit 3", env=[{"name": "A", "valueFrom": source}]) is None


def test_images_that_run_until_they_are_stopped():
    for image, arguments in (
        ("registry.k8s.io/pause:3.10", []),
        ("e2e/agnhost:2", ["netexec"]),
        ("e2e/agnhost:2", []),
    ):
        assert play(pod_of(image=image, args=arguments)).seconds == math.inf
    assert play(pod_of(image="example.com/web:1")) is None


HOSTILE = [
    "a=xxxxxxxxxx; while true; do a=$a$a; done",
    "a=xxxxxxxxxx; while true; do a=$a$a; echo $a > /tmp/f; done",
    "echo 0123456789 > /tmp/f; while true; do cat /tmp/f /tmp/f > /tmp/g; cat /tmp/g > /tmp/f; i=$((i+1)); done",
    "while true; do echo 0123456789012345678901234567890123456789 >> /tmp/f; i=$((i+1)); done",
    "i=2; while true; do i=$((i*i)); done",
    'a=\'sh -c "$a"\'; export a; sh -c "$a"',
    "echo $((" + "(" * 2000 + "1" + ")" * 2000 + "))",
    "echo $((" + "-" * 2000 + "1))",
    "$(" * 2000,
    "(" * 2000,
    "exec " * 2000 + "unknown",
    "test " + "! " * 2000 + "a",
    "test a " + "-o a " * 2000,
    "echo " + "a" * 40 + " | grep -E '" + "(a|a)" * 40 + "b'",
    "while true; do touch /tmp/$i; [ -d /x ]; i=$((i+1)); done",
    "a=" + "b\\ " * 8000 + "; for i in $a; do for j in $a; do true; done; done",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:30])
def test_no_script_holds_its_node_up(text):
    tracemalloc.start()
    began = time.process_time()
    try:
        assert script(text) is None
        assert time.process_time() - began < 3
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_a_file_that_counts_the_runs():
    script = """
f=/data/restartCount
count=$(echo 'hello' >> $f ; wc -l $f | awk {'print $1'})
if [ $count -eq 1 ]; then
\texit 1
fi
if [ $count -eq 2 ]; then
\texit 0
fi
while true; do sleep 1; done
"""
    stage = Stage({}, Files(), random.Random(1))
    pod = pod_of("sh", "-c", script, volumeMounts=DATA)
    runs = [play(pod, stage=stage, start=n, now=100.0 + n) for n in range(3)]
    assert [(each.exit_code, each.seconds) for each in runs] == [(1, 0.0), (0, 0.0), (0, math.inf)]


def test_names_of_the_host():
    pod = pod_of("sh", "-c", "echo $(hostname)';'$(hostname -f)';'")
    pod["spec"]["hostnameOverride"] = "override-host"
    assert text_of(play(pod).printed) == "override-host;override-host;\n"


def test_the_image_that_prints_its_arguments():
    shown = pod_of(image="registry.k8s.io/e2e-test-images/agnhost:2", args=["entrypoint-tester", "a", "b"])
    assert text_of(play(shown).printed) == "[/agnhost entrypoint-tester a b]\n"
    shown = pod_of(
        "/agnhost-2", image="registry.k8s.io/e2e-test-images/agnhost:2", args=["entrypoint-tester"]
    )
    assert text_of(play(shown).printed) == "[/agnhost-2 entrypoint-tester]\n"
