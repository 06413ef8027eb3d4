"""The skew matrix: rows that are lived through, the cells that matter, and what is said about bad questions."""

from __future__ import annotations

from typing import Any

import pytest

from weir.gates import TOLERATION_CEL, TOLERATION_COMPARISON
from weir.whatif.skew import (
    NodeShape,
    SkewError,
    component_gates,
    component_sets,
    node_for,
    node_shapes,
    skew,
)


def pod(*tolerations: dict[str, Any], **spec: Any) -> dict[str, Any]:
    whole = {"containers": [{"name": "c", "image": "i"}], "tolerations": list(tolerations), **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": whole}


GT = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute"}
CEL = {"expression": "taint.key == 'rack'"}


def cells(matrix: Any) -> dict[str, str]:
    """Each row's cells as letters: y, n, -; capitals are dangerous."""

    def letter(cell: Any) -> str:
        found = {True: "y", False: "n", None: "-"}[cell.fine]
        return found.upper() if cell.danger else found

    return {row.name: "".join(letter(cell) for cell in row.cells.values()) for row in matrix.rows}


def test_a_number_in_every_mix_of_an_upgrade() -> None:
    found = skew(pod(GT))
    assert cells(found) == {
        "everything on": "yyyy",
        "apiserver off": "N--y",
        "apiserver older": "N--y",
        "apiserver of 1.35": "N--y",
        "scheduler off": "yn-y",
        "controllers off": "yyNN",
        "kubelet off": "yyNy",
        "everything off": "N--N",
        "apiserver off, scheduler off, controllers off": "N--N",
        "apiserver off, scheduler off": "N--y",
    }
    assert found.dangerous
    assert found.rows[1].cells["accepted"].seen.startswith("spec.tolerations[0].operator: Unsupported value")


def test_components_that_never_heard_of_expressions_place_pods_wrongly() -> None:
    nodes = [NodeShape("racked", ("rack=7:NoSchedule",)), NodeShape("in-repair", ("repair:NoSchedule",))]
    rows = {row.name: row.cells for row in skew(pod(CEL), nodes).rows}
    assert rows["scheduler older"]["scheduled"].seen == "in-repair"
    assert "does not tolerate" in rows["scheduler older"]["scheduled"].danger
    assert rows["scheduler off"]["scheduled"].fine is False
    assert rows["scheduler off"]["scheduled"].danger == ""


def test_every_combination_is_there_when_asked_for() -> None:
    assert len(component_sets([TOLERATION_COMPARISON], every=True)) == 4 * 2**3
    assert len(component_sets([TOLERATION_CEL], every=True)) == 3**4
    gates = component_gates(
        dict.fromkeys(("apiserver", "scheduler", "controllers", "kubelet"), "off"), [TOLERATION_CEL]
    )
    assert not (gates.apiserver.cel or gates.kubelet.cel)
    assert gates.scheduler.numeric


@pytest.mark.parametrize(
    ("document", "nodes", "message"),
    [
        ({"kind": "Service", "metadata": {"name": "s"}}, [], "Service has no pod template"),
        (pod(), [], "needs none of the KEPs' features"),
        (pod(CEL), [], "an expression does not say which taint"),
        (pod(GT), [NodeShape("n", ("sla=800:NoExecute",))], "does not run even with every feature on"),
        (pod({**GT, "value": "x"}), [], "the API server refuses it even with every feature on"),
    ],
)
def test_what_cannot_be_judged_is_said(
    document: dict[str, Any], nodes: list[NodeShape], message: str
) -> None:
    with pytest.raises(SkewError, match=message):
        skew(document, nodes)


def test_nodes_that_differ_only_in_name_count_once() -> None:
    def node(name: str, value: str) -> dict[str, Any]:
        taints = [{"key": "sla", "value": value, "effect": "NoExecute"}]
        labels = {"kubernetes.io/hostname": name}
        return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}

    found = node_shapes([node("a", "1"), node("b", "1"), node("c", "2")])
    assert [(shape.name, shape.taints) for shape in found] == [
        ("a", ("sla=1:NoExecute",)),
        ("c", ("sla=2:NoExecute",)),
    ]


def test_a_node_is_made_up_from_what_the_pod_asks_for() -> None:
    terms = [{"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["5.0.0"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    found = node_for(pod(GT, affinity={"nodeAffinity": required}))
    assert (found.taints, found.labels) == (("sla=901:NoExecute",), (("kernel", "5.0.1"),))
