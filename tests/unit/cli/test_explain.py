"""`weir explain` as a command: what it reads, its exit codes, and that bad input is one line with the place."""

from __future__ import annotations

import gzip
import io
import json
import re
import resource
import signal
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir.cli.main import run
from weir.client.known_gates import KnownGates
from weir.client.snapshot import MAY_NOT_LIST, Missing
from weir.exit_codes import CANNOT_SAY, FINDINGS, FINE, INTERRUPTED, USAGE
from weir.inputs.cluster import ClusterObjects

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: c, image: i}]
  tolerations:
  - {key: sla, operator: Gt, value: "900", effect: NoSchedule}
"""
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "spec": {"taints": [{"key": "sla", "value": "950", "effect": "NoSchedule"}]},
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))  # no kubeconfig of whoever runs the tests
    monkeypatch.delenv("KUBECONFIG", raising=False)
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump(NODE))
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, Any]:
    code = run(["explain", *args, "-o", "json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out else captured.err


# ── what is read ──


def test_a_manifest_and_a_snapshot(here, capsys):
    code, document = answer(capsys, "-f", "pod.yaml", "--cluster", "nodes.yaml")
    assert (code, document["pods"][0]["nodes"]) == (FINE, {"total": 1, "fitting": 1})


def test_a_kubectl_dump_in_json(here, capsys):
    dump = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [NODE, {"kind": "Service", "metadata": {"name": "s"}}],
    }
    (here / "dump.json").write_text(json.dumps(dump))
    assert answer(capsys, "-f", "pod.yaml", "--cluster", "dump.json")[0] == FINE


def test_a_directory_with_everything_below_it(here, capsys):
    (here / "cluster" / "nodes").mkdir(parents=True)
    (here / "cluster" / "nodes" / "n1.yml").write_text(yaml.safe_dump(NODE))
    (here / "cluster" / "n2.json").write_text(json.dumps({**NODE, "metadata": {"name": "n2"}}))
    (here / "cluster" / "notes.txt").write_text("{not yaml")
    _, document = answer(capsys, "-f", "pod.yaml", "--cluster", "cluster")
    assert document["pods"][0]["nodes"]["total"] == 2


def test_several_places_are_one_cluster(here, capsys):
    (here / "more.yaml").write_text(yaml.safe_dump({**NODE, "metadata": {"name": "n2"}}))
    _, document = answer(capsys, "-f", "pod.yaml", "--cluster", "nodes.yaml", "--cluster", "more.yaml")
    assert document["pods"][0]["nodes"]["total"] == 2


def test_a_node_beside_the_pod_is_as_if_it_were_there(here, capsys):
    (here / "pod.yaml").write_text(POD + "---\n" + yaml.safe_dump({**NODE, "metadata": {"name": "planned"}}))
    _, document = answer(capsys, "-f", "pod.yaml", "--cluster", "nodes.yaml")
    assert document["pods"][0]["nodes"]["total"] == 2


def test_manifests_on_standard_input(here, capsys, monkeypatch):
    both = POD + "---\n" + yaml.safe_dump(NODE)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(both.encode())))
    assert answer(capsys, "-f", "-")[0] == FINE


def test_a_pod_of_the_snapshot_by_name(here, capsys):
    stored = yaml.safe_load(POD) | {"metadata": {"name": "web", "namespace": "shop"}}
    (here / "dump.yaml").write_text(yaml.safe_dump_all([NODE, stored]))
    _, document = answer(capsys, "web", "-n", "shop", "--cluster", "dump.yaml")
    assert document["pods"][0]["namespace"] == "shop"


def test_a_workload_of_the_snapshot_by_kind_and_name(here, capsys):
    template = {"spec": yaml.safe_load(POD)["spec"]}
    stored = {"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": template}}
    (here / "dump.yaml").write_text(yaml.safe_dump_all([NODE, stored]))
    _, document = answer(capsys, "deploy/web", "--cluster", "dump.yaml")
    assert document["pods"][0]["kind"] == "Deployment"


def test_a_name_asked_for_in_the_wrong_namespace_is_answered_with_where_it_is(here, capsys):
    (here / "dump.yaml").write_text(POD)
    assert (
        "did you mean default/web?" in answer(capsys, "web", "-n", "production", "--cluster", "dump.yaml")[1]
    )


def several_pods() -> Iterator[dict[str, Any]]:
    """Yield pods that wait (two of one ReplicaSet, one alone elsewhere), one that runs and one that has ended."""
    pod = yaml.safe_load(POD)
    for name, namespace, controller, spec, phase in (
        ("web-1", "shop", "uid-1", {}, "Pending"),
        ("web-2", "shop", "uid-1", {}, "Pending"),
        ("lone", "default", "", {}, None),
        ("runs", "shop", "", {"nodeName": "n1"}, "Running"),
        ("done", "shop", "", {}, "Succeeded"),
    ):
        owner = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "w",
            "uid": controller,
            "controller": True,
        }
        metadata = {"name": name, "namespace": namespace, "labels": {"app": name[:3]}}
        yield {
            **pod,
            "metadata": metadata | ({"ownerReferences": [owner]} if controller else {}),
            "spec": pod["spec"] | spec,
            "status": {"phase": phase} if phase else {},
        }


@pytest.mark.parametrize("written", [yaml.safe_dump, json.dumps])
@pytest.mark.parametrize(
    ("args", "names"),
    [
        (("-A",), ["shop/web-1", "default/lone"]),
        (("pods", "-A", "-n", "shop"), ["shop/web-1", "default/lone"]),  # as kubectl
        (("-l", "app=web", "-n", "shop"), ["shop/web-1"]),
        (("po", "-l", "app notin (web)", "-A"), ["default/lone"]),
        (("-l", "app=web"), []),
        (("Deployments", "-A"), ["shop/web"]),
        (("deploy", "-l", "app=web"), []),
    ],
)
def test_all_that_waits_is_explained_and_each_workload_once(here, capsys, written, args, names):
    template = {"metadata": {"labels": {"app": "web"}}, "spec": yaml.safe_load(POD)["spec"]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    items = {"apiVersion": "v1", "kind": "List", "items": [NODE, deployment, *several_pods()]}
    (here / "dump").write_text(written(items))
    code, document = answer(capsys, *args, "--cluster", "dump")
    assert (code, [f"{each['namespace']}/{each['name']}" for each in document["pods"]]) == (FINE, names)


def test_nothing_that_waits_is_one_line(here, capsys):
    assert run(["explain", "-l", "app=web", "--cluster", "nodes.yaml"]) == FINE
    assert (
        capsys.readouterr().out == "No pod that waits for a node with labels app=web in namespace default\n"
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("web", "-A"), "kind 'web' has no pods"),
        (("pod/web", "-A"), "'pod/web' names one; -A and -l are for many"),
        (("pod", "web", "-l", "a=b"), "'pod web' names one; -A and -l are for many"),
        (("-l", "a in"), "Invalid value for --selector"),
    ],
)
def test_what_names_one_is_not_asked_of_many(here, capsys, args, words):
    code, said = answer(capsys, *args, "--cluster", "nodes.yaml")
    assert (code, words in said) == (USAGE, True)


def test_a_name_that_is_near_to_none_gets_no_guess(here, capsys):
    (here / "dump.yaml").write_text(POD)
    assert "did you mean" not in answer(capsys, "zzz", "--cluster", "dump.yaml")[1]


def test_a_kind_without_pods_is_told_so(here, capsys):
    code, said = answer(capsys, "service/web", "--cluster", "nodes.yaml")
    assert (code, "kind 'service' has no pods; expected one of Pod" in said) == (USAGE, True)


def test_a_pod_that_is_being_deleted_is_not_said_to_need_a_change(here, capsys):
    leaving = yaml.safe_load(POD)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    (here / "dump.yaml").write_text(yaml.safe_dump_all([NODE, leaving]))
    code = run(["explain", "web", "--cluster", "dump.yaml"])
    assert (code, "Nothing brings this pod back" in capsys.readouterr().out) == (FINDINGS, True)


def test_a_preference_that_cannot_be_read_is_answered_with_a_patch(here, capsys):
    pod = yaml.safe_load(POD)
    asked = {"key": "size", "operator": "Gt", "values": ["many"]}
    terms = [{"weight": 1, "preference": {"matchExpressions": [asked]}}]
    pod["spec"]["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    (here / "pod.yaml").write_text(yaml.safe_dump(pod))
    (here / "nodes.yaml").write_text(yaml.safe_dump_all([NODE, {**NODE, "metadata": {"name": "n2"}}]))
    code, document = answer(capsys, "-f", "pod.yaml", "--cluster", "nodes.yaml")
    assert (code, document["pods"][0]["fix"]["patch"]) == (FINDINGS, {"spec": {"affinity": None}})


def test_a_mistyped_name_is_answered_with_a_near_one(here, capsys):
    (here / "dump.yaml").write_text(POD)
    assert "did you mean default/web?" in answer(capsys, "wbe", "--cluster", "dump.yaml")[1]


# ── exit codes and form ──


def test_fitting_nowhere_is_one(here, capsys):
    (here / "pod.yaml").write_text(POD.replace("900", "950"))
    assert answer(capsys, "-f", "pod.yaml", "--cluster", "nodes.yaml")[0] == FINDINGS


def test_no_node_is_said_to_fit_where_something_keeps_the_pod_off_all(here, capsys):
    volume = "  volumes: [{name: v, persistentVolumeClaim: {claimName: missing}}]\n"
    (here / "pod.yaml").write_text(POD + volume)
    (here / "nodes.yaml").write_text(
        yaml.safe_dump_all(
            [NODE, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "other"}}]
        )
    )
    assert run(["explain", "-f", "pod.yaml", "--cluster", "nodes.yaml"]) != FINE
    printed = capsys.readouterr().out
    assert "×1  n1  ✓ nothing else in the way" in printed and "✓ fits" not in printed


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "nothing to explain"),
        (["web"], "or give a dump with --cluster"),
        (["-f", "-", "--cluster", "-"], "only once"),
        (["-f", "missing.yaml"], "missing.yaml: No such file"),
        (["-f", "nodes.yaml"], "no pod or workload in nodes.yaml"),
        (["-f", "pod.yaml", "--feature-gates", "Nope=true"], "unrecognized feature gate: Nope"),
        (["-f", "pod.yaml", "--output", "xml"], "'xml' is not one of"),
        (["-f", "pod.yaml", "--nope"], "No such option"),
    ],
)
def test_wrong_usage_is_two_and_one_line(here, capsys, args, said):
    assert run(["explain", *args]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_plain_text_has_no_colour_and_ends_with_what_was_not_considered(here, capsys):
    run(["explain", "-f", "pod.yaml", "--cluster", "nodes.yaml"])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.splitlines()[-1].startswith("Not considered: ")


def test_a_terminal_sees_colour(here, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    run(["explain", "-f", "pod.yaml", "--cluster", "nodes.yaml"])
    assert "\x1b[32m\x1b[1mPod default/web fits" in capsys.readouterr().out


def test_all_gates_are_on_and_said_so_in_one_line(here, capsys):
    run(["explain", "-f", "pod.yaml", "--cluster", "nodes.yaml"])
    assert (
        sum(
            "all features of the four KEPs on (weir's default" in line
            for line in capsys.readouterr().out.splitlines()
        )
        == 1
    )


def test_operators_are_never_shown_by_their_api_names(here, capsys):
    (here / "pod.yaml").write_text(POD.replace("900", "950"))
    run(["explain", "-f", "pod.yaml", "--cluster", "nodes.yaml"])
    before_the_diff = capsys.readouterr().out.partition("--- ")[0]
    assert "sla=950, needs > 950: refused" in before_the_diff
    assert not {"Gt", "Lt", "Equal"} & set(before_the_diff.split())


# ── bad input ──

BOMB = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"kind: Pod\n\tmetadata: x", "pod.yaml:2:1"),
        (b"kind: Pod\nspec: {tolerations: 7}\n", "pod.yaml:2:21: Pod default/(no name): spec.tolerations"),
        (
            b"kind: Pod\nspec:\n  tolerations:\n  - value: 950\n",
            "pod.yaml:4:12: Pod default/(no name): spec.tolerations[0].value: Expected `str`, got `int` (write it",
        ),
        (b"kind: Pod\nspec: 7\n", "pod.yaml:2:7"),
        (b"kind: Pod\nmetadata: {name: a}\nmetadata: {name: b}\n", "pod.yaml:3:1: duplicate key 'metadata'"),
        (b"\x00\x01\x02ELF", "pod.yaml:1:1: this is not text"),
        (b"kind: Pod\nname: \xfa\xfb", "pod.yaml:2:1: this is not text"),
        (b"kind: Pod\nspec: " + b"[" * 5000, "pod.yaml:2"),
        (b"kind: Pod\nspec: " + b'{"a":' * 5000 + b"1" + b"}" * 5000, "nested more than 200 levels"),
        (BOMB.encode(), "expands beyond reason"),
        (b"a: &a [*a]", "pod.yaml:1"),
        (b"- kind: Pod", "no pod or workload"),
        (b"", "nothing was read: the file is empty"),
        (b"# later", "no pod or workload"),
        (b"kind: Pod\nspec: {containers: [{resources: {requests: {cpu: 1kk}}}]}", "cpu: '1kk'"),
        (b"kind: Pod\nspec: {containers: [{resources: {requests: {cpu: 1e999999999}}}]}", "pod.yaml:1:1"),
    ],
)
def test_bad_input_is_one_line_with_the_place(here, capsys, content, said):
    (here / "pod.yaml").write_bytes(content)
    assert run(["explain", "-f", "pod.yaml", "--cluster", "nodes.yaml"]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert len(line) < 500


@pytest.mark.parametrize(
    "content",
    [
        b"kind: Node\nmetadata: {name: n1}\nspec: {taints: 7}",
        b"kind: Node\nspec: {}",
        b"kind: NodeList\nitems: [{spec: {taints: [{key: 7}]}}]",
        b'{"kind": "Node", "metadata": {"name": "n1"',
        b"kind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: lots}}",
    ],
)
def test_a_bad_snapshot_is_one_line(here, capsys, content):
    (here / "nodes.yaml").write_bytes(content)
    assert run(["explain", "-f", "pod.yaml", "--cluster", "nodes.yaml"]) in (CANNOT_SAY, USAGE)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_name_of_ten_megabytes_does_not_become_a_line_of_ten_megabytes(here, capsys):
    (here / "pod.yaml").write_text(POD.replace('"900"', '"' + "9" * 10_000_000 + '"'))
    assert run(["explain", "-f", "pod.yaml", "--cluster", "nodes.yaml"]) == FINDINGS
    assert max(map(len, capsys.readouterr().out.splitlines())) < 2000


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["Gt", "SemverGt", "Exists", "1", "v1.2.3", "NoExecute", "cpu", "1Gi", "-1", "NaN"]),
)
FIELDS = st.sampled_from(
    [
        "tolerations", "key", "operator", "value", "effect", "tolerationSeconds", "expression", "nodeSelector",
        "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms",
        "matchExpressions", "values", "containers", "initContainers", "resources", "requests", "limits", "cpu",
        "volumes", "persistentVolumeClaim", "claimName", "nodeName", "schedulingGates", "overhead", "ports",
        "taints", "unschedulable", "allocatable", "labels", "name", "status", "metadata", "spec", "kind", "items",
    ]
)  # fmt: skip
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=15,
)
DOCUMENTS = st.one_of(
    TREES,
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["Pod", "Deployment", "CronJob", "Node", "List", "PersistentVolumeClaim"])},
        optional={"metadata": TREES, "spec": TREES, "status": TREES, "items": TREES},
    ),
)


@given(pod=DOCUMENTS, cluster=DOCUMENTS)
@settings(max_examples=tries(60, 150), suppress_health_check=list(HealthCheck))
def test_no_document_makes_a_traceback(here, capsys, pod, cluster):
    (here / "pod.yaml").write_text(json.dumps([pod]) if isinstance(pod, list) else yaml.safe_dump(pod))
    (here / "nodes.yaml").write_text(yaml.safe_dump(cluster))
    code = run(["explain", "-f", "pod.yaml", "--cluster", "nodes.yaml"])
    captured = capsys.readouterr()
    assert code in (FINE, FINDINGS, USAGE, CANNOT_SAY)
    assert len(captured.err.splitlines()) == (1 if code in (USAGE, CANNOT_SAY) else 0)


@given(content=st.binary(max_size=200))
@settings(max_examples=tries(60, 150), suppress_health_check=list(HealthCheck))
def test_no_bytes_make_a_traceback(here, capsys, content):
    (here / "pod.yaml").write_bytes(content)
    assert run(["explain", "-f", "pod.yaml", "--cluster", "nodes.yaml"]) == USAGE
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(("kind", "code"), [("PersistentVolume", FINE), ("Pod", CANNOT_SAY)])
def test_what_may_not_be_listed_matters_only_to_a_pod_that_needs_it(here, capsys, monkeypatch, kind, code):
    missing = Missing(kind, f"{kind.lower()}s", MAY_NOT_LIST)
    held = ClusterObjects([("the cluster", NODE)], missing=(missing,))
    monkeypatch.setattr("weir.cli._explain_run.read_cluster", lambda *asked, **how: held)
    monkeypatch.setattr("weir.cli._explain_run.known_gates", lambda *asked: KnownGates.default({}))
    assert run(["explain", "-f", "pod.yaml"]) == code
    said = "weir: cannot say where Pod default/web fits: pods could not be read: you may not list them\n"
    assert capsys.readouterr().err == ("" if code == FINE else said)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_lines_fit_the_terminal_and_no_word_is_broken(here, capsys, monkeypatch, width):
    import weir.cli._explain_run as command

    (here / "pod.yaml").write_text(POD.replace("900", "950"))
    run(["explain", "-f", "pod.yaml", "--cluster", "nodes.yaml"])
    words = capsys.readouterr().out.split()
    monkeypatch.setattr(command, "width", lambda: width)
    run(["explain", "-f", "pod.yaml", "--cluster", "nodes.yaml"])
    narrow = capsys.readouterr().out
    around = re.sub(r"    --- .*?(?=\n  or:)", "", narrow, flags=re.DOTALL)  # lines of the file stay whole
    assert around != narrow
    assert max(len(line) for line in around.splitlines()) <= width
    assert narrow.split() == words


def test_kind_and_name_may_be_two_words(here, capsys):
    deployment = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
        "spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, "
        "spec: {containers: [{name: c, image: i}]}}}\n"
    )
    (here / "all.yaml").write_text(deployment + "---\n" + (here / "nodes.yaml").read_text())
    for asked in (["deployment", "web"], ["deploy/web"], ["deploy", "web"]):
        run(["explain", *asked, "--cluster", "all.yaml"])
        assert capsys.readouterr().out.startswith("Deployment default/web")


LIST = {"apiVersion": "v1", "kind": "List"}
AMOUNTS = {"cpu": "4", "memory": "8Gi", "pods": "110"}
SOUND_NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": AMOUNTS},
}


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ({**SOUND_NODE, "status": {"allocatable": {"cpu": "four"}}}, "Node n1"),
        (
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "namespace": "default"},
                "spec": {"nodeName": "n1", "containers": [{"resources": {"requests": {"cpu": "1xyz"}}}]},
            },
            "Pod default/p",
        ),
        (
            {
                "apiVersion": "v1",
                "kind": "LimitRange",
                "metadata": {"name": "l", "namespace": "default"},
                "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "x"}}]},
            },
            "LimitRange l",
        ),
        (
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": "s"},
                "spec": {"devices": [{"name": "g", "capacity": {"memory": {"value": "big"}}}]},
            },
            "ResourceSlice s",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_amount_of_the_cluster_that_cannot_be_read_is_named_and_nothing_is_said(
    here, capsys, document, named
):
    (here / "pod.yaml").write_text(POD)
    (here / "dump.json").write_text(json.dumps({**LIST, "items": [SOUND_NODE, document]}))
    assert run(["explain", "-f", "pod.yaml", "--cluster", "dump.json"]) == 3
    said = capsys.readouterr().err
    assert named in said and "the cluster's dump cannot be read" in said and said.count("\n") == 1


# ── following ──


class Clock:
    """Time that passes only where the command waits; what happens meanwhile is done then, one event a wait."""

    def __init__(self, *events: Callable[[], object]) -> None:
        self.events, self.waits = list(events), list[float]()

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        assert self.events, "it waits though nothing more is to come"
        self.events.pop(0)()


@pytest.fixture
def following(here, monkeypatch):
    """Return a function that runs `weir explain --watch` while events happen: exit code and waits."""
    import weir.cli._explain_run as command

    (here / "pod.yaml").write_text(POD.replace("900", "950"))

    def follow(*events: Callable[[], object]) -> tuple[int, list[float]]:
        clock = Clock(*events)
        monkeypatch.setattr(command, "time", clock)
        return run(["explain", "-f", "pod.yaml", "--cluster", "nodes.yaml", "--watch"]), clock.waits

    return follow


def test_watch_follows_until_it_fits_and_says_again_only_what_changed(here, capsys, following):
    def add_node(name: str, value: str) -> None:
        taint = {"key": "sla", "value": value, "effect": "NoSchedule"}
        more = {**NODE, "metadata": {"name": name}, "spec": {"taints": [taint]}}
        with (here / "nodes.yaml").open("a") as file:
            file.write("---\n" + yaml.safe_dump(more))

    code, waits = following(lambda: None, lambda: add_node("n2", "900"), lambda: add_node("n3", "999"))
    verdicts = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Pod default/web")]
    assert (code, waits) == (FINE, [2.0, 2.0, 2.0])
    assert verdicts == [
        "Pod default/web fits on none of 1 node",
        "Pod default/web fits on none of 2 nodes",
        "Pod default/web fits on 1 of 3 nodes: n3",
    ]


def test_watch_follows_the_manifest_too(here, following):
    code, waits = following(lambda: (here / "pod.yaml").write_text(POD))
    assert (code, len(waits)) == (FINE, 1)


def test_watch_of_what_fits_does_not_wait(here, following):
    (here / "pod.yaml").write_text(POD)
    assert following() == (FINE, [])


@pytest.fixture
def interruptible():
    """Take Ctrl-C as Python does: a command that finds it untouched lets it end the process, here that of the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_watch_at_once(capsys, following):
    code, waits = following(lambda: None, lambda: signal.raise_signal(signal.SIGINT))
    captured = capsys.readouterr()
    assert (code, len(waits), captured.err.strip()) == (INTERRUPTED, 2, "weir: interrupted")
    assert captured.out.startswith("Pod default/web fits on none of 1 node\n")


def test_watch_ends_when_what_it_reads_is_gone(here, capsys, following):
    code, _ = following(lambda: (here / "pod.yaml").unlink())
    assert code == USAGE
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_watch_cannot_read_stdin_again(here, capsys):
    assert run(["explain", "-f", "-", "--cluster", "nodes.yaml", "--watch"]) == USAGE
    assert "stdin (-) can be read only once" in capsys.readouterr().err


@pytest.mark.parametrize("replicas, missing", [(None, 0), (1, 0), (2, 1)])
def test_a_pod_that_preempts_runs_and_says_whom(tmp_path, capsys, replicas, missing):
    cluster = tmp_path / "cluster.yaml"
    room = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    documents = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n3"}, "status": {"allocatable": room}},
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 1000,
        },
        *(
            {**asking("low-1", "2"), "status": {"phase": "Running"}},
            {**asking("low-2", "2"), "status": {"phase": "Running"}},
        ),
    ]
    for each in documents[2:]:
        each["spec"]["nodeName"] = "n3"
    cluster.write_text(yaml.safe_dump_all(documents))
    asked = asking("important", "4")
    asked["spec"]["priorityClassName"] = "high"
    if replicas is not None:
        labels = {"app": "important"}
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": asked["spec"]},
        }
        asked = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "important"},
            "spec": spec,
        }
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(yaml.safe_dump(asked))
    command = ["explain", "-f", str(manifest), "--cluster", str(cluster)]
    code, strict = run(command), run([*command, "--fail-on-preemption"])
    said = capsys.readouterr().out.splitlines()
    if missing:
        assert (code, strict) == (FINDINGS, FINDINGS) and "runs after preempting" not in said[0]
    else:
        assert (code, strict) == (FINE, FINDINGS)
        assert said[0].endswith("default/important runs after preempting 2 pods of lower priority on n3")
        assert said[1] == "  preempted: default/low-1 and default/low-2"


def asking(name, cpu):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container]},
    }


@pytest.mark.parametrize("measured, code", [(0, CANNOT_SAY), (1, FINE)])
def test_room_that_nobody_knows_of_makes_an_answer_uncertain(tmp_path, capsys, measured, code):
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{each}"}} for each in range(3)]
    for each in nodes[:measured]:
        each["status"] = {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110"}}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 20, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    cluster, asked = tmp_path / "cluster.json", tmp_path / "web.json"
    cluster.write_text(json.dumps({"kind": "List", "items": nodes}))
    asked.write_text(json.dumps(deployment))
    assert run(["explain", "-f", str(asked), "-c", str(cluster)]) == code
    out = capsys.readouterr().out
    uncertain = "not certain: it is not known how much room any node has (no allocatable in the snapshot)"
    assert (uncertain in out, "20 of 20 would run, as far as is known" in out) == (not measured, not measured)


def test_a_compressed_bomb_is_refused_without_being_unpacked(here: Path, capsys: Any) -> None:
    packed = zlib.compressobj(9, wbits=31)
    content = b"".join(packed.compress(bytes(1 << 20)) for _ in range(300)) + packed.flush()
    (here / "bomb.yaml.gz").write_bytes(content)
    assert run(["explain", "-f", "pod.yaml", "--cluster", "bomb.yaml.gz"]) == USAGE
    assert "more than 250 times its compressed size" in capsys.readouterr().err
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert run(["explain", "-f", "bomb.yaml.gz", "--cluster", "nodes.yaml"]) == USAGE
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < peak + (150 << 10)


def test_a_file_of_several_compressed_members_is_read_whole(here: Path) -> None:
    text = POD.encode()
    (here / "pod.yaml.gz").write_bytes(gzip.compress(text[:40]) + gzip.compress(text[40:]))
    assert run(["explain", "-f", "pod.yaml.gz", "--cluster", "nodes.yaml"]) == FINE


@pytest.mark.parametrize(
    "text, cause",
    [
        ("spec:\n\tcontainers: []\n", "line 2 is indented with a tab, which YAML does not allow"),
        (
            "a: b\nspec: {{- if .Values.x }}\n",
            "an unrendered template stands on line 2, so this is no manifest yet",
        ),
    ],
)
def test_a_manifest_that_cannot_be_read_says_why_as_lint_does(here, capsys, text, cause):
    (here / "pod.yaml").write_text(text)
    (here / "dump.json").write_text(json.dumps({**LIST, "items": [SOUND_NODE]}))
    assert run(["explain", "-f", "pod.yaml", "--cluster", "dump.json"]) == 2
    assert f": {cause} (" in capsys.readouterr().err
    assert run(["lint", "pod.yaml"]) == 1
    assert cause in capsys.readouterr().out


def test_a_dump_that_is_no_yaml_ends_like_one_that_is_not_there(here, capsys):
    (here / "pod.yaml").write_text(POD)
    (here / "broken.yaml").write_text("a: [b\n")
    codes = [
        run(["explain", "-f", "pod.yaml", "--cluster", name]) for name in ("missing.yaml", "broken.yaml")
    ]
    assert codes == [2, 2]
    assert "broken.yaml:1:4: the cluster's dump cannot be read" in capsys.readouterr().err
