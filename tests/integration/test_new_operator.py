"""An operator that weir does not have, added by one definition: every part of weir understands it.

Nothing but `OPERATORS` is told of `SemverGe` and `Ge`; they are taken out again after each test.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import pytest

from tests.story_needs import used
from tests.unit.advise.clusters import ask, entry, workload
from tests.unit.advise.clusters import node as rated_node
from tests.unit.ui.conftest import dump, screens_of  # noqa: F401
from weir.advise.workload import advise
from weir.apiserver.openapi import schemas
from weir.explain.phrases import requires
from weir.explain.pod import explain
from weir.explain.subject import Subject
from weir.explain.words import node_sentence
from weir.gates import ALL_FEATURES, SEMVER_COMPARISON, TOLERATION_COMPARISON
from weir.lint.check import lint
from weir.lowering.affinity import holds, mark_affinity
from weir.lowering.names import marker_key, toleration_hash
from weir.lowering.tolerations import complete, is_extended, mark, problems
from weir.lowering.triples import Triple
from weir.lowering.webhooks import _extended
from weir.objects.core import NodeSelectorRequirement, Taint, Toleration
from weir.objects.manifest import read_manifest
from weir.selectors.node import Match, match_requirement
from weir.simulation.cluster import Cluster
from weir.taints.features import needed_gates
from weir.taints.judge import TaintJudge
from weir.taints.operators import INTEGERS, OPERATORS, VERSIONS, Comparison, Outcome
from weir.taints.toleration import tolerates
from weir.validate import validate
from weir.whatif.skew import nodes_for, skew
from weir.world import World

OFF = ALL_FEATURES.replace({SEMVER_COMPARISON: False, TOLERATION_COMPARISON: False})
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AT_LEAST = {"key": "kernel", "operator": "SemverGe", "value": "5.15.0", "effect": "NoSchedule"}


@pytest.fixture(autouse=True)
def new_operators() -> Iterator[None]:
    added = (
        Comparison("SemverGe", operator.ge, "version ≥", "at or above", scale=VERSIONS),
        Comparison("Ge", operator.ge, "≥", "at or above", scale=INTEGERS, in_affinity=False),
    )
    OPERATORS.update({each.name: each for each in added})
    yield
    for each in added:
        del OPERATORS[each.name]


def pod(*tolerations: dict[str, Any], **spec: Any) -> dict[str, Any]:
    whole = {"containers": [{"name": "c", "image": "i"}], "tolerations": list(tolerations), **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": whole}


def node(name: str, **taints: str) -> dict[str, Any]:
    listed = [{"key": key, "value": value, "effect": "NoSchedule"} for key, value in taints.items()]
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": listed}}


def affinity(*values: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "kernel", "operator": "SemverGe", "values": list(values)}]}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}


# ── matching ──


@pytest.mark.parametrize(
    ("value", "gates", "outcome"),
    [
        ("5.15.0", ALL_FEATURES, Outcome.TOLERATED),
        ("v6.1", ALL_FEATURES, Outcome.TOLERATED),
        ("5.15.0-78-generic", ALL_FEATURES, Outcome.NOT_GREATER),
        ("high", ALL_FEATURES, Outcome.NOT_A_VERSION),
        ("6.1.0", OFF, Outcome.GATE_OFF),
    ],
)
def test_matching(value, gates, outcome):
    toleration, taint = Toleration("kernel", "SemverGe", "5.15.0"), Taint("kernel", value, "NoSchedule")
    assert tolerates(toleration, taint, gates) is outcome
    judge = TaintJudge(gates)
    judge.number(taint)
    assert judge.tolerated([toleration]).tolist() == [bool(outcome)]


def test_numbers_are_compared_many_at_a_time():
    judge = TaintJudge(ALL_FEATURES)
    for value in ("949", "950", "951", "high"):
        judge.number(Taint("sla", value, "NoSchedule"))
    assert judge.tolerated([Toleration("sla", "Ge", "950")]).tolist() == [False, True, True, False]
    assert judge.numeric["Ge", "match"] == 2


def test_node_affinity():
    newer = NodeSelectorRequirement("kernel", "SemverGe", ("5.15.0",))
    assert match_requirement(newer, {"kernel": "5.15.0"}, ALL_FEATURES) is Match.MATCHES
    assert match_requirement(newer, {"kernel": "5.14.9"}, ALL_FEATURES) is Match.NOT_GREATER
    assert match_requirement(newer, {"kernel": "5.15.0"}, OFF) is Match.GATE_OFF
    numeric = NodeSelectorRequirement("sla", "Ge", ("5",))
    assert match_requirement(numeric, {"sla": "5"}, ALL_FEATURES) is Match.UNREADABLE, "tolerations only"


def test_a_cluster_schedules_and_evicts_by_it():
    with Cluster() as cluster:
        cluster.add_node("old", taints=["kernel=5.14.0:NoExecute"], labels={"kernel": "5.14.0"})
        cluster.add_node("new", taints=["kernel=5.15.0:NoExecute"], labels={"kernel": "5.15.0"})
        cluster.apply(pod({**AT_LEAST, "effect": "NoExecute"}, affinity=affinity("5.0.0")))
        cluster.advance(5)
        assert cluster.get("Pod", "web")["spec"]["nodeName"] == "new"
        cluster.taint("new", "kernel=5.14.9:NoExecute")
        cluster.advance(60)
        assert not [each for each in cluster.list("Pod") if each["metadata"]["name"] == "web"]


# ── the API ──


def refusals(document, gates=ALL_FEATURES, old=None):
    return [str(error) for error in validate(document, old, gates=gates)]


def test_validation():
    assert refusals(pod(AT_LEAST, affinity=affinity("5.15.0"))) == []
    (value,) = refusals(pod({**AT_LEAST, "value": "5.x"}))
    assert value.startswith('spec.tolerations[0].value: Invalid value: "5.x"')
    (shape,) = refusals(pod(affinity=affinity("1.0.0", "2.0.0")))
    assert "'SemverLt' or 'SemverGt' or 'SemverEq' or 'SemverGe'" in shape
    assert refusals(pod(AT_LEAST), OFF) == [
        'spec.tolerations[0].operator: Unsupported value: "SemverGe": supported values: "Equal", "Exists"'
    ]
    (numeric,) = refusals(pod({"key": "sla", "operator": "Ge", "value": "5"}), OFF)
    assert numeric.endswith('supported values: "Equal", "Exists", "Lt", "Gt", "Ge"')


def test_an_update_may_keep_it_with_the_gate_off():
    stored = pod(AT_LEAST)
    assert refusals(stored, OFF, old=stored) == []


def test_the_published_schema_lists_it():
    assert "SemverGe" in schemas._added_values("Toleration", "operator")
    assert "SemverGe" in schemas._added_values("NodeSelectorRequirement", "operator")
    assert "Ge" not in schemas._added_values("NodeSelectorRequirement", "operator")


# ── explain ──


def test_explain_says_why_and_a_fix_moves_the_threshold():
    found = explain(Subject.of(pod(AT_LEAST)), World.of([node("n1", kernel="5.14.0")]), ALL_FEATURES)
    (sentence,) = [node_sentence(group.verdict) for group in found.groups]
    assert "needs version ≥ 5.15.0" in sentence
    (only,) = found.fix.edits
    assert only.say() == "also tolerate kernel = 5.14.0 (NoSchedule)"
    says = [edit.say() for edits in found.fix.alternatives for edit in edits]
    assert "tolerate kernel version ≥ 5.14.0 instead of version ≥ 5.15.0" in says
    assert requires(NodeSelectorRequirement("kernel", "SemverGe", ("5.15.0",))) == "version ≥ 5.15.0"


def test_explain_names_its_gate():
    found = explain(Subject.of(pod(AT_LEAST), stored=True), World.of([node("n1", kernel="6.1.0")]), OFF)
    (sentence,) = [node_sentence(group.verdict) for group in found.groups]
    assert f"not compared, feature gate {SEMVER_COMPARISON} is off" in sentence
    assert (
        needed_gates([pod(AT_LEAST)])
        == needed_gates([pod(affinity=affinity("1.0.0"))])
        == {SEMVER_COMPARISON}
    )


# ── lint and advise ──

MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec:
  containers: [{{name: c, image: i}}]
  tolerations: [{}]
"""
NODE = """\
apiVersion: v1
kind: Node
metadata: {{name: n}}
spec: {{taints: [{{key: kernel, value: "{}", effect: NoSchedule}}]}}
"""


def codes(*tolerations: str, kernel: str = "", gates=ALL_FEATURES) -> list[str]:
    text = MANIFEST.format(", ".join(tolerations))
    nodes = read_manifest(NODE.format(kernel), "nodes.yaml") if kernel else []
    found = lint(read_manifest(text, "f.yaml"), gates, known=nodes)
    return [finding.rule.code for finding in found if finding.severity.fails]


ENTRY = '{{key: kernel, operator: {}, value: "{}"}}'


@pytest.mark.parametrize(
    ("tolerations", "kernel", "expected"),
    [
        ([("SemverGe", "5.15.0")], "5.15.0", []),
        ([("SemverGt", "5.15.0")], "5.15.0", ["W005", "W006"]),
        ([("SemverGe", "5.15.0")], "calico", ["W004", "W006"]),
        ([("SemverGe", "5.15.0")], "5.15.0-78-generic", ["W006", "W008"]),
        ([("SemverGe", "5.15.0"), ("SemverGt", "5.15.0")], "", ["W007"]),
        ([("SemverGt", "5.15.0"), ("SemverGe", "5.15.0")], "", ["W007"]),
        ([("SemverGe", "5.15.0"), ("SemverEq", "5.15.0")], "", ["W007"]),
        ([("Ge", "05")], "", ["W001", "W012"]),
    ],
)
def test_lint(tolerations, kernel, expected):
    assert sorted(set(codes(*(ENTRY.format(*each) for each in tolerations), kernel=kernel))) == expected


def test_lint_knows_its_gate_and_its_name():
    assert codes(ENTRY.format("SemverGe", "1.0.0"), gates=OFF) == ["W001", "W014"]
    (finding,) = lint(
        read_manifest(MANIFEST.format(ENTRY.format("SemverGE", "1.0.0")), "f.yaml"), ALL_FEATURES
    )
    assert "did you mean SemverGe?" in finding.fix


def test_advise_moves_its_threshold():
    nodes = [rated_node("n1", kernel="5.15.0"), rated_node("n2", kernel="5.14.0")]
    found = advise(ask(workload(entry("kernel", "SemverGe", "6.0.0"), replicas=2), *nodes), keep=2)
    assert [(each.kind, each.value) for each in found.changes] == [("loosen", "5.14.0")]


# ── what-if and the ui ──


def test_what_if_skew_builds_a_node_that_it_tolerates():
    document = pod({**AT_LEAST, "effect": "NoExecute"}, affinity=affinity("5.10.0"))
    (shape,) = nodes_for(document)
    assert shape.taints == ("kernel=5.15.0:NoExecute",) and shape.labels == (("kernel", "5.10.0"),)
    rows = {row.name: row.cells for row in skew(document).rows}
    assert all(cell.fine for cell in rows["everything on"].values())
    assert not all(cell.fine for cell in rows["scheduler off"].values())


def test_the_timeline_stops_on_both_sides_of_its_threshold(dump):  # noqa: F811
    pods = workload({**AT_LEAST, "effect": "NoExecute"})
    question = {
        "change": "taint",
        "nodes": {"all": True},
        "key": "kernel",
        "value": "",
        "effect": "NoExecute",
    }
    code, found = dump(node("n1"), pods).post("ticks", question)
    assert code == 200
    at = {each["value"]: each["thresholds"] for each in found["ticks"]}
    assert at == {"5.15.0-0": [], "5.15.0": ["SemverGe 5.15.0 (Deployment/shop/web)"]}


# ── stock clusters ──


def test_lowering_writes_an_entry_for_each_value_that_it_meets():
    assert is_extended(AT_LEAST) and is_extended(AT_LEAST, native_numeric=True)
    numeric = {"key": "sla", "operator": "Ge", "value": "5"}
    assert is_extended(numeric) and not is_extended(numeric, native_numeric=True)
    marked = mark([AT_LEAST])
    triples = [Triple("kernel", value, "NoSchedule") for value in ("5.14.0", "5.15.0", "6.1.0", "high")]
    lowered = complete(marked.tolerations, marked.originals, triples).tolerations
    assert lowered[0] == {"key": marker_key(toleration_hash(AT_LEAST)), "operator": "Exists"}
    assert [each["value"] for each in lowered[1:]] == ["5.15.0", "6.1.0"]
    assert {each["operator"] for each in lowered[1:]} == {"Equal"}
    assert problems([{**AT_LEAST, "value": "x"}], "spec.tolerations")[0].startswith(
        "spec.tolerations[0].value"
    )


def test_lowering_of_node_affinity():
    lowered, originals = mark_affinity(affinity("5.15.0"))
    ((_, original),) = originals.items()
    assert original["operator"] == "SemverGe"
    assert holds(original, {"kernel": "5.15.0"}) and not holds(original, {"kernel": "5.14.0"})
    (term,) = lowered["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["operator"] == "In"
    assert '"SemverGe"' in _extended("object.spec", marked=False)


def test_stories_need_the_feature_it_belongs_to():
    assert used(pod(AT_LEAST)) == {"semver"} and used(pod(affinity=affinity("1.0.0"))) == {"semver-affinity"}
    assert used(pod({"key": "sla", "operator": "Ge", "value": "5"})) == {"numeric"}
