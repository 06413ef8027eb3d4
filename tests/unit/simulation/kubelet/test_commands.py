"""Known commands: how long a container runs, how it ends, what it prints and leaves in the status."""

from __future__ import annotations

import math

import msgspec
import pytest

from tests.work import count_calls
from weir.apiserver.registry.container_logs import ContainerLogs
from weir.simulation.kubelet.commands import (
    MOST_CHARACTERS,
    command_outcome,
    is_missing,
    outcome_of,
    reference,
)

FALLBACK = {"terminationMessagePolicy": "FallbackToLogsOnError"}


def script(text, **container):
    return outcome_of({"image": "busybox", "command": ["sh", "-c", text], **container})


def printed(outcome, until=math.inf):
    return "".join(text for after, text in outcome.output if after <= until)


@pytest.mark.parametrize(
    ("command", "seconds", "code"),
    [
        (["/bin/true"], 0, 0),
        (["/bin/false"], 0, 1),
        (["sleep", "1000000"], 1_000_000, 0),
        (["sleep", "1m", "0.5"], 60.5, 0),
        (["sleep", "infinity"], math.inf, 0),
        (["tail", "-f", "/dev/null"], math.inf, 0),
        (["/bin/sh", "-c", "exit 42"], 0, 42),
        (["sh", "-c", "exit 300"], 0, 44),
        (["sh", "-c", "sleep 5; exit 3"], 5, 3),
        (["sh", "-c", "\n  sleep 5\n\n  exit 3\n"], 5, 3),
        (["bash", "-c", "sleep 5 && exit 3"], 5, 3),
        (["/bin/sh", "-c", "sleep 5", "/crash/missing"], 5, 0),
        (["sh", "-c", "false || exit 4; exit 5"], 0, 4),
        (["sh", "-c", "true || exit 4; exit 5"], 0, 5),
        (["sh", "-c", "false && exit 4"], 0, 1),
        (["sh", "-c", "true &&\n  exit 4"], 0, 4),
        (["sh", "-c", "false; true"], 0, 0),
        (["sh", "-ec", "false; true"], 0, 1),
        (["sh", "-ec", "true; exit 7"], 0, 7),
        (["sh", "-ec", "while true; do sleep 1; false; done"], 1, 1),
        (["sh", "-c", "false; exit"], 0, 1),
        (["sh", "-c", "exec sleep 3; exit 9"], 3, 0),
        (["sh", "-c", "sleep 'infinity'; exit 9"], math.inf, 0),
        (["sh", "-c", "while true; do sleep 1; done"], math.inf, 0),
        (["sh", "-c", "sleep 2; while :; do sleep 1; exit 6; done"], 3, 6),
        (["sh", "-c", ""], 0, 0),
    ],
)
def test_a_command_decides_how_long_its_container_runs_and_how_it_ends(command, seconds, code):
    outcome = command_outcome(command)
    assert (outcome.seconds, outcome.exit_code) == (seconds, code)


@pytest.mark.parametrize(
    "text",
    [
        "curl http://example.com",
        "sleep 5 & wait",
        "sleep",
        "sleep soon",
        "sleep ٣",
        "exit soon",
        "exit 1 2",
        "exit $CODE",
        'echo "$HOME"',
        "echo `date`",
        "echo $(date)",
        "echo a | cat",
        "echo ~ *.txt",
        "echo -e 'a\\n'",
        "echo a > /tmp/file",
        "echo a > /dev/null > /dev/null",
        "echo a >",
        "> /dev/null",
        "cat < /etc/passwd",
        "printf %d 1",
        "printf '%s %s' 1",
        "if true; then exit 1; fi",
        "while false; do sleep 1; done",
        "while true; do true; done",
        "while true; do sleep 1; done; exit 3",
        "while true; do done",
        "true && while true; do sleep 1; done",
        "&& true",
        "true && ",
        "echo 'open",
        "(exit 3)",
        "trap 'exit 0' EXIT; sleep 5",
        "trap '' TERM; sleep 5",
        "trap cleanup TERM; sleep 5",
        "trap; sleep 5",
        "A=1 true",
    ],
)
def test_another_command_has_no_known_outcome(text):
    assert script(text) is None


@pytest.mark.parametrize(
    "command",
    [
        ["echo", "$(NAME)"],
        ["sh", "-ec", "false && true; exit 7"],
        ["sh"],
        ["sh", "-x", "exit 1"],
        ["python", "-c", "exit(3)"],
        ["/x/true"],
        [],
    ],
)
def test_another_program_has_no_known_outcome(command):
    assert outcome_of({"image": "busybox", "command": command}) is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("trap exit TERM; while true; do sleep 1; done", 0),
        ("trap 'exit 9' INT SIGTERM; sleep 1000", 9),
        ("sleep 1000", None),
    ],
)
def test_a_trap_that_exits_decides_the_exit_code_after_sigterm(text, code):
    assert script(text).stop_exit_code == code


def test_output_has_its_time():
    outcome = script("echo a ';' 'b  c'; sleep 2; echo -n d; printf '%s-%s\\n' 1 2; echo lost > /dev/null")
    assert printed(outcome) == "a ; b  c\nd1-2\n"
    assert printed(outcome, 1.0) == "a ; b  c\n"


def test_an_endless_loop_prints_round_by_round():
    outcome = script("while true; do echo polo; sleep 2; done")
    assert (outcome.seconds, printed(outcome, 5.0)) == (math.inf, "polo\npolo\npolo\n")


@pytest.mark.parametrize(
    "loop",
    ["echo " + "a" * 4000 + "; sleep 1", "sleep 1" + ";echo a" * 500, "sleep 1" + ";:" * 2000 + ";echo a"],
)
def test_the_output_that_is_kept_is_one_that_the_server_takes(loop):
    output = script(f"while true; do {loop}; done").output
    run = {"uid": "u", "container": "c", "start": 0, "started_at": 0.0, "printed": output}
    ContainerLogs().write(msgspec.json.encode(run))
    assert len(output) > 10


@pytest.mark.parametrize(
    ("text", "container", "message"),
    [
        ("echo -n DONE > /dev/termination-log", {}, "DONE"),
        ("echo -n DONE > /tmp/other", {"terminationMessagePath": "/tmp/other"}, "DONE"),
        ("/bin/echo -n DONE; /bin/false", FALLBACK, "DONE"),
        ("echo -n DONE; true", FALLBACK, ""),
        ("echo OK > /dev/termination-log; echo DONE; false", FALLBACK, "OK\n"),
        ("echo DONE; false", {}, ""),
    ],
)
def test_the_termination_message_of_a_command(text, container, message):
    assert script(text, **container).message == message


def test_images_that_run_until_they_are_stopped():
    for image, arguments in (
        ("registry.k8s.io/pause:3.10", []),
        ("nginx:1.27", []),
        ("e2e/agnhost:2", ["netexec"]),
        ("e2e/agnhost:2", []),
    ):
        assert outcome_of({"image": image, "args": arguments}).seconds == math.inf
    assert outcome_of({"image": "e2e/agnhost:2", "args": ["mounttest"]}) is None
    assert outcome_of({"image": "example.com/web:1"}) is None


@pytest.mark.parametrize(
    "text",
    [
        "true;" * 100_000,
        "'" * 100_001,
        "echo " + "a" * MOST_CHARACTERS,
        "while true; do " * 300,
        "sleep 9" + "9" * 4000,
    ],
    ids=lambda text: text[:12],
)
def test_no_script_holds_its_node_up(text):
    answers = []
    assert count_calls(lambda: answers.append(script(text))) < 1_000_000
    assert answers == [None]


@pytest.mark.parametrize(
    ("image", "missing"),
    [
        ("nginx", False),
        ("registry.example:5000/team/web:1.2", False),
        ("localhost/web", False),
        ("i", False),
        ("webserver:404", True),
        ("invalid.registry.k8s.io/invalid/alpine:3.1", True),
        ("registry.invalid/web", True),
        ("localhost/some-image-that-doesnt-exist", True),
        ("broken-image", True),
        ("example.com/invalid:1", False),
    ],
)
def test_images_that_do_not_exist_are_known_by_their_names(image, missing):
    assert reference(image) is not None
    assert is_missing(image) is missing


@pytest.mark.parametrize("image", ["!!!", "a b", "web:", "-web:1:2", "web@sha256:1"])
def test_what_is_no_name_of_an_image(image):
    assert reference(image) is None
