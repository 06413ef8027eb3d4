"""Nothing in a cluster, a manifest, a file's name or the command line reaches the terminal as a control character, and
nothing of it forges a line: hostile strings go through every command that answers questions with text."""

from __future__ import annotations

import ast
import io
import json
import re
import tempfile
import unicodedata
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import weir.cli
from tests.cases import tries
from weir.cli.main import run
from weir.exit_codes import BUG
from weir.values.printable import printable

CLI = Path(weir.cli.__file__).parent
#: What weir itself writes where colour is on: red, green, yellow, grey, default; bold; the end of them.
SGR = re.compile(r"\x1b\[(?:0|1|31|32|33|39|90)m")
FORGED = "Pod default/web fits on 3 nodes"
HOSTILE = [
    "\x1b]0;owned\x07",
    "\x1b[2J\x1b[H",
    "\x1b[8mhidden\x1b[0m",
    f"\r\n{FORGED}\n",
    "\x9b2J\x85",
    "\u202eevil\u2066\u200b\ufeff",
    f"\u2028{FORGED}\u2029",
    "\x00\x08\x7f\x0b\x0c\x1c",
    "\U000f0000\U000fffff\U000e0041\ufdd0",
]
hostile = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(categories=("Cc", "Cf", "Zl", "Zp", "Co")), min_size=1, max_size=6),
)
CALM = settings(
    max_examples=tries(2, 4),  # beside the examples that are always tried
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def objects(odd: str) -> list[dict]:
    """Return a cluster in which everything a person can name has *odd* in its name."""

    def meta(name: str, **more: object) -> dict:
        return {"name": f"{name}{odd}x", "labels": {f"l{odd}": f"v{odd}"}, **more}

    taint = {"key": f"key{odd}k", "value": f"value{odd}v", "effect": "NoSchedule"}
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": room, "capacity": room}
    pool = f"pool{odd}p"
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"rs{odd}",
        "uid": "u",
        "controller": True,
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": meta("spot"),
            "spec": {"taints": [taint]},
            "status": ready,
        },
        {"apiVersion": "v1", "kind": "Node", "metadata": meta("od"), "spec": {}, "status": ready},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta("web", namespace=f"shop{odd}", ownerReferences=[owner], uid="p"),
            "spec": {
                "nodeName": f"od{odd}x",
                "containers": [{"name": f"c{odd}", "image": f"i{odd}"}],
                "tolerations": [{"key": f"t{odd}", "operator": "Exists"}],
            },
            "status": {
                "phase": "Running",
                "conditions": [{"type": "PodScheduled", "status": "False", "message": f"no {odd} node"}],
            },
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": meta("slice"),
            "spec": {
                "driver": f"gpu{odd}.example.com",
                "nodeName": f"od{odd}x",
                "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
                "devices": [
                    {"name": f"d{odd}0", "attributes": {f"a{odd}": {"string": f"s{odd}"}}, "taints": [taint]}
                ],
            },
        },
    ]


def asked_pod(odd: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"asked{odd}x", "labels": {"app": f"w{odd}"}},
        "spec": {
            "nodeSelector": {f"disk{odd}": f"ssd{odd}"},
            "tolerations": [{"key": f"key{odd}", "operator": f"Lt{odd}", "value": f"v{odd}"}],
            "containers": [
                {"name": f"c{odd}x", "image": "i", "resources": {"requests": {"cpu": "64", f"r{odd}": "1"}}}
            ],
        },
    }


def accepted_pod(odd: str) -> dict:
    """Return a pod that the API server accepts, with *odd* where anything may stand, and that a small change helps."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "asked", "annotations": {"note": f"a{odd}b"}},
        "spec": {
            "nodeSelector": {"disk": "ssd"},
            "containers": [{"name": "c", "image": "i", "args": [f"a{odd}b"]}],
        },
    }


def story(odd: str) -> dict:
    step = {"event": f"it{odd}rains", "after": "1s"}
    return {"title": f"t{odd}t", "source": f"s{odd}s", "asks": f"a{odd}a", "steps": [step]}


def plan(odd: str) -> dict:
    eviction = {
        "pod": f"shop{odd}/web{odd}x",
        "node": f"n{odd}",
        "workload": f"shop{odd}/ReplicaSet/web{odd}",
        "afterSeconds": 0,
    }
    state = {"workload": f"shop{odd}/ReplicaSet/web{odd}", "running": 3, "lowest": 0, "nodes": {f"n{odd}": 1}}
    wave = {
        "number": 1,
        "nodes": [f"n{odd}"],
        "changes": [f"cordon n{odd}"],
        "evictions": [eviction],
        "waitFor": {"workloads": [state]},
    }
    return {
        "schema": "weir.plan/v1",
        "made": {"at": "2026-01-01T12:00:00Z", "command": f"weir{odd}"},
        "waves": [wave],
        "totals": {"waves": 1, "nodes": 1, "movedPods": 1},
    }


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """Let no command find a cluster, settings or colours of the person who runs the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def called(words: list[str]) -> tuple[int, str, str]:
    """Return the exit code of `weir *words*`, and what it wrote to stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(words)
    return code, out.getvalue(), err.getvalue()


def files(folder: Path, odd: str) -> tuple[str, ...]:
    """Write a dump, a pod that is refused, one that is accepted and a plan, in files whose names hold *odd*, too."""
    folder = folder / "files"
    folder.mkdir(exist_ok=True)
    name = odd.replace("\0", "").replace("/", "")
    contents = {
        "cluster": {"kind": "List", "apiVersion": "v1", "items": objects(odd)},
        "asked": asked_pod(odd),
        "accepted": accepted_pod(odd),
        "plan": plan(odd),
    }
    paths = [folder / f"{what}{name}.yaml" for what in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        path.write_text(json.dumps(content))
    return tuple(map(str, paths))


def yaml_comment(odd: str) -> str:
    """Return what of *odd* may stand in a comment."""
    return "".join(char for char in odd if unicodedata.category(char) == "Cf")


def text_commands(folder: Path, odd: str) -> dict[str, list[str]]:
    cluster, asked, accepted, foreseen = files(folder, odd)
    stories = folder / "stories"
    stories.mkdir(exist_ok=True)
    (stories / "one.yaml").write_text(json.dumps(story(odd)))
    source = folder / "source.yaml"
    source.write_text(
        f"kind: Pod # \u202e\t\u2066{yaml_comment(odd)}\napiVersion: v1\nmetadata: {{name: Z}}\t# \u202e\n"
    )
    word = odd.replace("\0", "")
    explain = ["explain", "--cluster", cluster]
    return {
        "explain": [*explain, "-f", asked],
        "explain all": [*explain, "-f", asked, "--all"],
        "explain fix": [*explain, "-f", accepted],
        "explain patch": [*explain, "-f", accepted, "--patch"],
        "explain markdown": [*explain, "-f", asked, "-o", "markdown"],
        "explain a name": [*explain, f"web{word}y", "-n", f"shop{word}"],
        "explain a kind": [*explain, f"ki{word}nd/web"],
        "explain no file": [*explain, "-f", f"none{word}.yaml"],
        "lint": ["lint", cluster, asked],
        "lint github": ["lint", cluster, asked, "-o", "github"],
        "lint statistics": ["lint", cluster, asked, "--statistics"],
        "lint junit": ["lint", cluster, asked, "-o", "junit"],
        "lint source": ["lint", str(source)],
        "cel check": ["cel", "check", f"taint.key == '''{word}'''"],
        "cel refused": ["cel", "check", f"taint.kex == '''{word}'''"],
        "cel eval": ["cel", "eval", "taint.key == 'a' && taint.value == 'b'", "-f", cluster],
        "cel eval taint": ["cel", "eval", "taint.key == 'a'", f"key{word}=v{word}:NoSchedule"],
        "cel eval device": ["cel", "eval", "--env", "device", "device.driver == 'a'", "-f", cluster],
        "what-if drain": ["what-if", "drain", f"od{word}x", "--cluster", cluster, "--force", "--all"],
        "what-if cordon": ["what-if", "cordon", "--cluster", cluster, f"spot{word}x"],
        "what-if no node": ["what-if", "cordon", "--cluster", cluster, f"no{word}"],
        "what-if gates": ["what-if", "gates", f"No{word}Gate=true", "--cluster", cluster],
        "what-if verify": ["what-if", "verify", foreseen, "--cluster", cluster],
        "what-if no plan": ["what-if", "verify", asked, "--cluster", cluster],
        "device list": ["device", "list", "--cluster", cluster],
        "device wide": ["device", "list", "--cluster", cluster, "-o", "wide"],
        "device name": ["device", "list", "--cluster", cluster, "-o", "name"],
        "demo": ["demo", f"no{word}story"],
        "demo list": ["demo", "--folder", str(stories), "--list"],
        "demo play": ["demo", "--folder", str(stories)],
        "no command": [f"expl{word}ain"],
        "no option": ["lint", f"--no{word}option"],
    }


with tempfile.TemporaryDirectory() as folder:
    TEXT = sorted(text_commands(Path(folder), "x"))


def unprintable(text: str) -> set[str]:
    return {char for char in text if char != "\n" and unicodedata.category(char)[0] in "CZ" and char != " "}


@pytest.mark.parametrize("name", TEXT)
@given(odd=hostile)
@example(odd=HOSTILE[0])
@example(odd=HOSTILE[3])
@example(odd=HOSTILE[6])
@CALM
def test_no_control_character_is_shown(tmp_path, name, odd):
    code, out, err = called(text_commands(tmp_path, odd)[name])
    assert code != BUG, err
    assert not unprintable(out) and not unprintable(err)
    assert not [line for line in (out + err).splitlines() if line.startswith(FORGED)]


@pytest.mark.parametrize("name", TEXT)
@given(odd=hostile)
@example(odd=HOSTILE[2])
@CALM
def test_colour_is_weirs_own(tmp_path, name, odd):
    with mock.patch.dict("os.environ", {"FORCE_COLOR": "1"}):
        code, out, err = called(text_commands(tmp_path, odd)[name])
    assert code != BUG, err
    assert not unprintable(SGR.sub("", out + err))


@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize("breaks", ["\n", "\r\n\r\n", "\u2028\x85\x0b"], ids=ascii)
def test_line_breaks_in_names_make_no_lines(tmp_path, name, breaks):
    forged, plain = (called(text_commands(tmp_path, odd)[name]) for odd in (breaks, "\t" * len(breaks)))
    assert [len(text.splitlines()) for text in forged[1:]] == [len(text.splitlines()) for text in plain[1:]]


def documents(folder: Path, odd: str) -> list[tuple[list[str], str]]:
    cluster, asked, accepted, _ = files(folder, odd)
    return [
        (["explain", "-f", asked, "--cluster", cluster], "json yaml"),
        (["explain", "-f", accepted, "--cluster", cluster], "json yaml"),
        (["lint", cluster, asked], "json sarif junit"),
        (["cel", "eval", "taint.key == 'a'", "-f", cluster], "json"),
        (["device", "list", "--cluster", cluster], "json yaml"),
        (
            ["what-if", "drain", "--force", "--cluster", cluster, f"od{odd}x".replace("\0", "")],
            "json yaml plan",
        ),
    ]


@given(odd=hostile)
@example(odd=HOSTILE[4])
@example(odd=HOSTILE[5])
@CALM
def test_documents_stay_valid_and_show_nothing_unprintable(tmp_path, odd):
    read = {"yaml": yaml.safe_load, "junit": ElementTree.fromstring}
    for words, forms in documents(tmp_path, odd):
        for form in forms.split():
            code, out, err = called([*words, "-o", form])
            assert code != BUG, err
            assert not unprintable(out + err), (words, form)
            if out:
                read.get(form, json.loads)(out)


@given(odd=hostile)
@CALM
def test_documents_mean_what_stands_in_the_cluster(tmp_path, odd):
    cluster, *_ = files(tmp_path, odd)
    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        _, out, _ = called(["device", "list", "--cluster", cluster, "-o", form])
        assert [each["name"] for each in read(out)["devices"]] == [f"d{odd}0"]


@given(st.text())
def test_printable_is_one_printable_line_and_leaves_printable_text_alone(text):
    shown = printable(text)
    assert shown.isprintable()
    assert shown == text or not text.isprintable()
    assert printable(shown) == shown


@pytest.mark.parametrize("path", sorted(CLI.glob("*.py")), ids=lambda path: path.stem)
def test_commands_write_only_through_render(path):
    """A new command cannot forget to escape: nothing but render has a way to a stream."""
    direct = {"click.echo", "click.secho", "click.style", "sys.stdout.write", "sys.stderr.write", "print"}
    found = {
        (ast.unparse(node.func), node.lineno)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in direct
    }
    allowed = {"render": {"click.echo", "click.style"}, "main": {"click.echo"}}.get(path.stem, set())
    assert not [each for each in found if each[0] not in allowed]
