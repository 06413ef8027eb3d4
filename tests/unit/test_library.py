"""The front door of the library: what it promises, what it accepts, and that it opens fast."""

from __future__ import annotations

import gc
import json
import re
import subprocess
import sys
from datetime import timedelta

import pytest

import weir
from weir.cel import CompileError
from weir.gates import ALL_FEATURES, GateError, Gates
from weir.objects.core import Node, Pod, Taint, Toleration, ViewError, read
from weir.taints.toleration import Outcome
from weir.world import World

ON = "TaintTolerationComparisonOperators=true"
TAINT = {"key": "sla", "value": "940", "effect": "NoSchedule"}
TOLERATION = {"key": "sla", "operator": "Gt", "value": "900"}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"taints": [TAINT]}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [TOLERATION]},
}


def test_the_promise_is_exactly_this():
    assert weir.__all__ == [
        "Cluster", "Gates", "compile", "explain", "load", "tolerates", "untolerated", "validate", "what_if",
    ]  # fmt: skip


def test_importing_weir_imports_nothing_of_it():
    code = "import sys, weir; print([m for m in sys.modules if m.startswith(('weir.', 'msgspec', 'yaml'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_everything_promised_is_there_and_nothing_else_is_made_up():
    assert all(callable(getattr(weir, name)) for name in weir.__all__)
    with pytest.raises(AttributeError, match="no attribute 'tolerate'"):
        weir.tolerate


@pytest.mark.parametrize("name", ["explain", "validate"])
def test_importing_a_package_of_the_same_name_leaves_the_function_callable(name):
    code = (
        f"import weir.{name}, weir\n"
        f"answer = weir.{name}({POD!r}, [{NODE!r}]) if {name!r} == 'explain' else weir.validate({POD!r})\n"
        "print(type(answer).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == {"explain": "Explanation", "validate": "list"}[name]


@pytest.mark.parametrize("gates", [ON, {"TaintTolerationComparisonOperators": True}, Gates.parse(ON)])
def test_gates_are_a_value_a_mapping_or_kubernetes_own_form(gates):
    assert weir.tolerates(TOLERATION, TAINT, gates) is Outcome.TOLERATED


def test_the_features_of_the_keps_are_on_unless_switched_off():
    assert weir.tolerates(TOLERATION, TAINT) is Outcome.TOLERATED
    assert weir.tolerates(TOLERATION, TAINT, "AllAlpha=false") is Outcome.GATE_OFF


def test_compile_knows_what_a_taint_is():
    program = weir.compile("taint.value == '940'")
    assert program.evaluate({"taint": read(Taint, TAINT)}) is True


def test_compile_refuses_with_the_compilers_text():
    with pytest.raises(CompileError, match="undeclared reference to 'pod'"):
        weir.compile("pod.name == 'a'")


def test_an_unknown_gate_is_refused_with_the_known_ones():
    with pytest.raises(GateError, match=r"known gates: .*TaintTolerationCEL"):
        weir.tolerates(TOLERATION, TAINT, "Nope=true")


def test_dicts_and_views_give_the_same_answer():
    views = weir.tolerates(read(Toleration, TOLERATION), read(Taint, TAINT), ON)
    assert views is weir.tolerates(TOLERATION, TAINT, ON)


def test_untolerated_keeps_order_and_looks_only_at_blocking_effects():
    soft = {**TAINT, "effect": "PreferNoSchedule"}
    other = {"key": "gpu", "effect": "NoExecute"}
    assert list(map(str, weir.untolerated([other, soft, TAINT], [TOLERATION], "AllAlpha=false"))) == [
        "gpu:NoExecute",
        "sla=940:NoSchedule",
    ]


def test_untolerated_can_be_asked_about_other_effects():
    soft = {**TAINT, "effect": "PreferNoSchedule"}
    assert weir.untolerated([soft, TAINT], [], effects=["PreferNoSchedule"]) == [read(Taint, soft)]


def test_validate_speaks_the_api_servers_words():
    assert list(map(str, weir.validate(POD, gates="AllAlpha=false"))) == [
        'spec.tolerations[0].operator: Unsupported value: "Gt": supported values: "Equal", "Exists", "Lt", "Gt"'
    ]
    assert weir.validate(POD) == weir.validate(POD, gates=ON) == []


def test_validate_lets_an_update_keep_what_it_had():
    assert weir.validate(POD, old=POD) == []


@pytest.mark.parametrize(
    "cluster",
    [
        World.of([NODE]),
        [NODE],
        iter([NODE]),
        {"kind": "List", "items": [NODE]},
        {"kind": "NodeList", "items": [{k: v for k, v in NODE.items() if k != "kind"}]},
        [read(Node, NODE)],
    ],
    ids=["World", "documents", "iterator", "List", "NodeList", "views"],
)
def test_explain_takes_a_cluster_in_every_form(cluster):
    assert weir.explain(POD, cluster, ALL_FEATURES).fitting == ("n1",)


def test_an_explanation_prints_its_verdict_and_gives_itself_as_data():
    answer = weir.explain(POD, [NODE], ON)
    assert (str(answer), answer.data()["verdict"]) == ("Pod default/web fits on 1 of 1 node: n1",) * 2


def test_explain_takes_a_typed_pod():
    assert weir.explain(read(Pod, POD), [NODE], ON).fits


def test_explain_with_the_gates_off_says_what_the_api_server_would():
    answer = weir.explain(POD, [NODE], "AllAlpha=false")
    assert (answer.fits, answer.blockers[0].kind) == (False, "invalid")


@pytest.mark.parametrize("wrong", [7, None, [], {"kind": "Service"}, {"kind": 7}, {"kind": "Pod", "spec": 7}])
def test_what_is_no_pod_is_one_clear_error(wrong):
    with pytest.raises(ViewError):
        weir.explain(wrong, [NODE])


@pytest.mark.parametrize("name", ["explain.pod", "validate.registry"])
def test_a_module_of_such_a_package_is_imported_under_its_own_name(name):
    code = f"import weir\nweir.explain, weir.validate\nimport weir.{name} as found\n"
    code += f"print(found.__name__, weir.{name}.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [f"weir.{name}"] * 2


@pytest.mark.parametrize(
    "toleration, taint, said",
    [
        ({"kye": "sla"}, TAINT, "Toleration has no field 'kye': did you mean 'key'?"),
        (TOLERATION, {**TAINT, "efect": "NoExecute"}, "Taint has no field 'efect': did you mean 'effect'?"),
        ({**TOLERATION, "zzz": 1}, TAINT, "Toleration has no field 'zzz'"),
    ],
)
def test_an_unknown_field_is_an_error_with_what_may_be_meant(toleration, taint, said):
    with pytest.raises(ViewError, match=re.escape(said)):
        weir.tolerates(toleration, taint)
    with pytest.raises(ViewError, match=re.escape(said)):
        weir.untolerated([taint], [toleration])


def test_an_explanation_shows_its_verdict_not_its_tree():
    shown = repr(weir.explain(POD, [NODE]))
    assert shown.startswith("<Explanation: ") and len(shown) < 200


def test_the_version_is_that_of_the_package():
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", weir.__version__)


class TestCluster:
    @pytest.mark.parametrize(
        "given, said",
        [
            ("a: b", "it has no apiVersion (its fields: a)"),
            ("just words", "not a Kubernetes object: str 'just words'"),
            ("{apiVersion: v1, kind: Pdo, metadata: {name: p}}", "this cluster serves no Pdo in v1"),
            ("{apiVersion: v1, kind: Deployment, metadata: {name: p}}", "it is served in apps/v1"),
            ("{apiVersion: v1, kind: Pod}", "Pod without metadata"),
            ({"kind": "Pod"}, "it has no apiVersion"),
        ],
    )
    def test_what_is_no_object_is_refused_in_words(self, given, said):
        with weir.Cluster() as cluster, pytest.raises(ValueError, match=re.escape(said)):
            cluster.apply(given)

    def test_a_closed_cluster_says_so(self):
        cluster = weir.Cluster()
        cluster.close()
        cluster.close()
        for ask in (lambda: cluster.list("Pod"), lambda: cluster.advance(1), lambda: cluster.apply(NODE)):
            with pytest.raises(RuntimeError, match="this cluster is closed"):
                ask()

    def test_ctrl_c_leaves_nothing_behind(self, caplog):
        def interrupt():
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt), weir.Cluster(nodes=1) as cluster:
            cluster._loop.call_soon(interrupt)
            cluster.advance(60)
        gc.collect()
        assert [record.message for record in caplog.records] == []

    @pytest.mark.parametrize("by", [-1, float("nan"), float("inf"), timedelta(seconds=-1)])
    def test_time_only_passes_forward(self, by):
        with weir.Cluster() as cluster:
            before = cluster.now
            with pytest.raises(ValueError, match="time only passes forward"):
                cluster.advance(by)
            assert cluster.now == before


def test_an_expression_may_be_spelt_as_stock_clusters_need_it():
    entry = {"operator": "CEL", "value": "taint.key == 'sla'"}
    assert weir.tolerates(entry, {"key": "sla", "effect": "NoSchedule"})
    assert not weir.tolerates(entry, {"key": "gpu", "effect": "NoSchedule"})
    assert weir.untolerated([{"key": "sla", "effect": "NoSchedule"}], [entry]) == []
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    pod["spec"] = {"containers": [{"name": "c", "image": "i"}], "tolerations": [entry]}
    assert weir.validate(pod) == []
    node = {
        "kind": "Node",
        "metadata": {"name": "n"},
        "spec": {"taints": [{"key": "sla", "effect": "NoSchedule"}]},
    }
    assert weir.explain(pod, [node]).fits


# ── one cluster, many questions ──────────────────────────────────────────────────────────────────


def dump(tmp_path):
    documents = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"conditions": [READY]}}
        for name in ("n1", "n2")
    ]
    pod = {"name": "web", "namespace": "shop", "uid": "u", "labels": {"app": "web"}}
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    documents.append(
        {"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": spec, "status": {"phase": "Running"}}
    )
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
    return path


READY = {"type": "Ready", "status": "True"}


def test_a_loaded_cluster_is_read_once_and_asked_often(tmp_path, monkeypatch):
    from weir.objects.core import Taint
    from weir.objects.pod_reader import SnapshotPods
    from weir.scheduler.node_table import NodeTable
    from weir.whatif.changes import Nodes, TaintEdit
    from weir.whatif.changes import Taint as TaintNodes

    snapshot = weir.load(dump(tmp_path))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}, "spec": {"containers": []}}
    first = weir.explain(pod, snapshot)
    change = TaintNodes(Nodes(("n1",)), (TaintEdit(Taint("sla", "1", "NoExecute")),))
    forecast = weir.what_if([change], snapshot)
    assert first.fits and [each.pod for each in forecast.leaving] == ["shop/web"]
    monkeypatch.setattr(SnapshotPods, "of", None)
    monkeypatch.setattr(NodeTable, "load_pods", None)  # the columns of the first question serve the second
    assert weir.explain(pod, snapshot) == first
    monkeypatch.undo()
    assert weir.what_if([change], snapshot).leaving == forecast.leaving


def test_a_change_that_cannot_be_made_or_a_file_that_cannot_be_read_is_a_value_error(tmp_path):
    from weir.whatif.changes import Cordon, Nodes

    with pytest.raises(ValueError, match="no node gone"):
        weir.what_if([Cordon(Nodes(("gone",)))], weir.load(dump(tmp_path)))
    (tmp_path / "broken.json").write_text('{"kind": "List", "items": [{"kind": "Pod", "metadata": 5}]}')
    with pytest.raises(ValueError, match=r"broken.json: Pod: metadata must be a mapping"):
        weir.load(tmp_path / "broken.json")


@pytest.mark.parametrize("changes", ["cordon n1", ["cordon n1"], [{"kind": "Node"}]])
def test_what_is_no_change_is_a_type_error_that_names_one(changes, tmp_path):
    with pytest.raises(
        TypeError, match=r"is no change: give a list of changes of weir\.whatif\.changes, such as"
    ):
        weir.what_if(changes, weir.load(dump(tmp_path)))
