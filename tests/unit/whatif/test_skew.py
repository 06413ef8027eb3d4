"""The skew matrix: rows that are lived through, the cells that matter, and what is said about bad questions."""

from __future__ import annotations

import json
from itertools import permutations, product
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from weir.gates import TOLERATION_CEL, TOLERATION_COMPARISON
from weir.whatif.skew import (
    COMPONENTS,
    Matrix,
    NodeShape,
    SkewError,
    component_gates,
    component_sets,
    node_shapes,
    nodes_for,
    skew,
)
from weir.whatif.skew_picture import report


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


def test_nodes_are_made_up_from_what_the_pod_asks_for() -> None:
    def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
        return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}

    terms = [
        {"matchExpressions": [expression("kernel", "SemverGt", "5.0.0")]},
        {
            "matchExpressions": [
                expression("gen", "Gt", "3"),
                expression("gen", "Lt", "5"),
                expression("old", "DoesNotExist"),
                expression("zone", "NotIn", "a"),
            ]
        },
        {"matchFields": [expression("metadata.name", "In", "special")]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    found = nodes_for(pod(GT, affinity={"nodeAffinity": required}, nodeSelector={"disk": "ssd"}))
    assert {shape.taints for shape in found} == {("sla=901:NoExecute",)}
    assert [(shape.name, dict(shape.labels)) for shape in found] == [
        ("node-0", {"kernel": "5.0.1", "disk": "ssd"}),
        ("node-1", {"gen": "4", "disk": "ssd"}),
        ("special", {"disk": "ssd"}),
    ]


def test_every_term_of_the_affinity_is_lived_through() -> None:
    """The second term needs no feature: a scheduler without Semver operators still finds its node."""
    terms = [
        {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["5.0.0"]}]},
        {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["spare"]}]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    matrix = skew(pod(affinity={"nodeAffinity": required}))
    (row,) = [each for each in matrix.rows if each.name == "scheduler off"]
    assert (matrix.nodes, row.cells["scheduled"].fine, row.dangerous) == (("node-0", "node-1"), True, False)


SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "reference" / "skew.schema.json").read_text())


@pytest.fixture(scope="module")
def every() -> Matrix:
    return skew(pod(GT), every=True)


def test_the_report_has_the_published_form(every: Matrix) -> None:
    found = report(every)
    jsonschema_rs.validator_for(SCHEMA).validate(found)
    allowed = SCHEMA["$defs"]["row"]["properties"]
    assert (found.keys() <= SCHEMA["properties"].keys(), found["rows"][0].keys() <= allowed.keys()) == (
        True,
        True,
    )


# ── in which order components are brought up to date (core.md 8.1, D-45) ──


def test_only_with_the_api_server_last_nobody_waits_and_nobody_is_driven_out(every: Matrix) -> None:
    """All 24 orders, judged by what every mix on the way does to a pod that needs Gt on a NoExecute node."""
    mixes = {tuple(row.components.values()): row for row in every.rows if "older" not in str(row.components)}
    assert set(mixes) == set(product(("on", "off"), repeat=4))
    harmless, only_waits, drives_out = set(), set(), set()
    for order in permutations(COMPONENTS):
        steps = [
            mixes[tuple("on" if name in order[:done] else "off" for name in COMPONENTS)]
            for done in range(1, 5)
        ]
        open_steps = [row.cells for row in steps if row.components["apiserver"] == "on"]
        if any(cells["admitted"].fine is False for cells in open_steps):
            drives_out.add(order)
        elif any(not cells["scheduled"].fine for cells in open_steps):
            only_waits.add(order)
        else:
            harmless.add(order)
    last = {order for order in permutations(COMPONENTS) if order[-1] == "apiserver"}
    assert harmless == last, "D-45: the recommended order has the API server last"
    # the documents' own order, API server and then scheduler, does no harm once kubelets and controllers know [D-04]
    assert ("kubelet", "controllers", "apiserver", "scheduler") in only_waits
    assert {order for order in drives_out if order[0] == "apiserver"} == {
        ("apiserver", *rest) for rest in permutations(COMPONENTS[1:]) if rest[-1] != "scheduler"
    }
