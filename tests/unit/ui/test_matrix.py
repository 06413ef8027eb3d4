"""The matrix says of every node what `weir explain` says of it, however workloads and nodes are gathered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ui.large import documents
from weir.explain.pod import explain
from weir.gates import ALL_FEATURES
from weir.objects.manifest import read_values
from weir.ui.matrix import VERDICTS, make_matrix
from weir.ui.workloads import find_workloads
from weir.world import World, flatten

EXAMPLES = Path(__file__).parents[3] / "examples"
CLUSTERS = sorted(
    path for path in (*EXAMPLES.glob("*.yaml"), *EXAMPLES.glob("*/cluster.yaml")) if path.name != "story.yaml"
)


def read(path):
    paths = [path, *(path.parent.glob("p*.yaml") if path.name == "cluster.yaml" else ())]
    return list(
        flatten(value for each in paths for value in read_values(each.read_bytes(), each.name) if value)
    )


def judged(found):
    world, workloads = World.of(found), find_workloads(found)
    return world, workloads, make_matrix(workloads, world, ALL_FEATURES)


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_cell_agrees_with_explain(path):
    world, workloads, matrix = judged(read(path))
    assert sorted(name for group in matrix.groups for name in group.nodes) == sorted(world.nodes)
    for workload in workloads:
        answer = explain(workload.subject, world, ALL_FEATURES)
        row = matrix.rows[workload.id]
        assert row.fits == answer.fits, workload.id
        fitting = set() if answer.blockers else set(answer.fitting)
        for group, cell in zip(matrix.groups, row.cells, strict=True):
            assert cell.fitting == len(fitting & set(group.nodes)), (workload.id, group.title)
            whole = cell.fitting == len(group.nodes)
            assert (cell.verdict == "fits") == whole and (cell.verdict == "some") == (
                cell.fitting > 0 and not whole
            )


def test_workloads_that_are_judged_as_one_get_the_answer_that_each_gets_alone():
    found = documents(nodes=60, workloads=40, pods=2)
    world, workloads, matrix = judged(found)
    for workload in workloads:
        alone = make_matrix([workload], world, ALL_FEATURES)
        counts = [cell.fitting for cell in matrix.rows[workload.id].cells]
        own = {name: cell.fitting for group, cell in zip(alone.groups, alone.rows[workload.id].cells, strict=True)
               for name in [group.nodes[0]]}  # fmt: skip
        assert sum(counts) == sum(own.values()), workload.id
        assert sum(counts) == len(explain(workload.subject, world, ALL_FEATURES).fitting), workload.id


def test_a_missed_threshold_is_a_small_change_and_says_both_sides_of_the_comparison():
    _, _, matrix = judged(read(EXAMPLES / "gpu-fleet.yaml"))
    row = matrix.rows["Deployment/shop/inference"]
    (near,) = [cell for cell in row.cells if cell.verdict == "change"]
    assert "sla=940, needs > 950" in near.text and "would help: also tolerate sla = 940" in near.text


def test_a_taint_that_a_workload_never_heard_of_is_no_small_change():
    _, _, matrix = judged(read(EXAMPLES / "rated-cluster.yaml"))
    cells = [cell for row in matrix.rows.values() for cell in row.cells if "burn-in" in cell.text]
    assert cells and {cell.verdict for cell in cells} == {"taint"}


def test_the_document_names_texts_by_number_and_counts_pods_where_they_run():
    _, _, matrix = judged(read(EXAMPLES / "gpu-fleet.yaml"))
    document = matrix.document()
    assert document["verdicts"] == list(VERDICTS)
    rows = {each["id"]: each for each in document["workloads"]}
    assert [each["id"] for each in document["workloads"]][:3] == [
        "StatefulSet/research/pretrain",
        "StatefulSet/shop/vector-db",
        "Deployment/shop/web",
    ]
    assert sum(cell[3] for cell in rows["Deployment/shop/web"]["cells"]) == 3
    assert rows["Deployment/shop/web"]["pending"] == 1
    assert all(cell[2] < len(document["texts"]) for row in rows.values() for cell in row["cells"])


def test_a_pod_that_runs_is_judged_as_if_it_did_not():
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1", "pods": "9"}}}
    spec = {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec, "status": {"phase": "Running"}}
    other = {**pod, "metadata": {"name": "q"}, "spec": {k: v for k, v in spec.items() if k != "nodeName"}}
    _, _, matrix = judged([node, pod, other])
    assert matrix.rows["Pod/default/p"].fits and not matrix.rows["Pod/default/q"].fits
    assert matrix.rows["Pod/default/q"].cells[0].verdict == "room"


def test_a_workload_that_cannot_be_read_is_unknown_and_the_others_are_not():
    node = {"kind": "Node", "metadata": {"name": "n"}}
    bad = {
        "kind": "Deployment",
        "metadata": {"name": "bad"},
        "spec": {"template": {"spec": {"tolerations": 3}}},
    }
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    good = {"kind": "Deployment", "metadata": {"name": "good"}, "spec": spec}
    _, _, matrix = judged([node, bad, good])
    assert matrix.rows["Deployment/default/bad"].verdict == "unknown"
    assert matrix.rows["Deployment/default/good"].fits


def test_five_thousand_nodes_and_two_thousand_workloads_cost_what_is_distinct():
    """The engine is asked for sixty kinds of workloads, not for two thousand."""
    found = documents(nodes=500, workloads=400, pods=1)
    world, workloads = World.of(found), find_workloads(found)
    asked = []
    from weir.ui import matrix as module

    judged_by = module.Judging._judged

    def counting(self, workload, *rest):
        asked.append(workload.id)
        return judged_by(self, workload, *rest)

    module.Judging._judged = counting
    try:
        made = make_matrix(workloads, world, ALL_FEATURES)
    finally:
        module.Judging._judged = judged_by
    assert len(made.rows) == 400 and len(asked) <= 60
