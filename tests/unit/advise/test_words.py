"""What people read about a workload."""

from __future__ import annotations

from tests.unit.advise.clusters import APART, ask, entry, node, workload
from weir.advise.taints import UntoleratedTaint
from weir.advise.words import change_line, heading, room, threshold_lines, untolerated_line
from weir.advise.workload import Advice, advise
from weir.objects.core import Taint

RATED = [
    node("n1", "a", sla="951"),
    node("n2", "b", sla="951"),
    node("n3", "b", sla="940"),
    node("n4", "c", sla="700"),
]


def lines(advice: Advice) -> list[str]:
    return [line for each in advice.thresholds for line in threshold_lines(each, advice.keep)]


def test_one_value_from_nowhere():
    found = advise(ask(workload(entry("sla", "Gt", "950"), replicas=3, **APART), *RATED))
    assert heading(found) == "Deployment shop/web: one value away from nowhere, all its 2 nodes have sla=951"
    assert room(found) == "2 of 4 nodes take it, 3 wanted, in 2 zones: a and b"
    assert lines(found) == [
        "sla > 950: the tightest for 3 nodes is > 939 (3 nodes)",
        "  looser than > 699 wins nothing more (4 nodes)",
        "  tighter than > 699 loses zone c",
        "  tighter than > 950 loses zones a and b, the last",
    ]
    (change,) = found.changes
    assert change_line(change, found.nodes) == (
        "tolerate sla > 939 instead of > 950 (checked: 3 nodes then take it, 1 more)"
    )


def test_the_other_headings():
    def of(*entries, replicas=1):
        return heading(advise(ask(workload(*entries, replicas=replicas, **APART), *RATED))).removeprefix(
            "Deployment shop/web: "
        )

    assert of() == "fits on none of 4 nodes"
    assert of(entry("sla", "Gt", "many")).startswith("refused by the API server: ")
    assert of(entry("sla", "Lt", "701")) == "one value away from nowhere, its only node has sla=700"
    assert of(entry("sla", "Lt", "950"), replicas=3) == "2 nodes of the 3 wanted"
    assert of(entry("sla", "Exists")) == "4 nodes of 4"


def test_a_threshold_about_nothing_and_an_entry_that_goes():
    found = advise(ask(workload(entry("gpu", "Lt", "5", effect="NoExecute"), entry("sla", "Exists")), *RATED))
    assert lines(found) == ["gpu < 5: no node has a value that it could be about"]
    assert [change_line(each, found.nodes) for each in found.changes] == [
        "remove the toleration gpu < 5 (NoExecute): no node has a taint that needs it"
    ]


def test_a_taint_that_nobody_tolerates():
    untolerated = UntoleratedTaint(Taint("old", "yes", "NoSchedule"), ("n1", "n2"))
    assert untolerated_line(untolerated) == "old=yes:NoSchedule: 2 nodes (n1 and n2)"
