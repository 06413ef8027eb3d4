"""The plan document is written and read back as it was; what is no plan is named by its place in one line."""

from __future__ import annotations

from typing import Any

import pytest

from weir.plan.document import (
    OLD_SCHEMA,
    SCHEMA,
    BudgetState,
    Condition,
    Eviction,
    Goals,
    Made,
    Move,
    Plan,
    PlanError,
    Search,
    Wave,
    WorkloadState,
    read,
    totals,
    write,
)


def plan() -> Plan:
    first = Wave(
        number=1,
        nodes=("a", "b"),
        changes=("taint a b sla=650:NoExecute", "apply"),
        undo=("delete devicetaintrule/r", "untaint a b sla:NoExecute"),
        manifests=({"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule"},),
        ends_after_seconds=5.0,
        evictions=(
            Eviction(pod="default/p", uid="u", node="a", workload="default/Pod/p", after_seconds=0.5),
        ),
        moves=(Move(workload="default/Pod/p", source="a", to="c", pods=1),),
        wait_for=Condition(
            workloads=(WorkloadState(workload="default/Pod/p", running=1, lowest=0, nodes={"c": 1}),),
            budgets=(BudgetState(budget="default/p", healthy=1, allowed=0),),
        ),
        room={"cpu": 1.5},
    )
    second = Wave(
        number=2,
        nodes=("c",),
        changes=("cordon c",),
        starts_after_seconds=5.0,
        ends_after_seconds=6.0,
    )
    return Plan(
        schema=SCHEMA,
        made=Made(at="2026-01-01T12:00:00Z", command="weir plan", nodes=3, pods=1, seed=7),
        goals=Goals(max_unavailable="1", spare_seconds=60.0),
        waves=(first, second),
        totals=totals((first, second)),
        not_known=("the future",),
        searched=Search(forecasts=3, bound="fewest"),
    )


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return a plan's document with another value at a place; `...` takes it away."""
    document: Any = write(plan())
    at = document
    *names, last = [int(each) if each.isdigit() else each for each in path.split(".")]
    for name in names:
        at = at[name]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return document


def test_a_plan_is_read_as_it_was_written():
    assert read(write(plan())) == plan()


def test_the_numbers_are_of_all_waves():
    found = plan().totals
    assert (found.waves, found.nodes, found.moved_pods, found.seconds) == (2, 3, 1, 6.0)


@pytest.mark.parametrize(
    "path, value, said",
    [
        ("schema", "weir.what-if/v2", "no plan: its schema is 'weir.what-if/v2', not 'weir.plan/v1'"),
        ("schema", OLD_SCHEMA, "a plan of an earlier weir (weir.what-if-plan/v1): make it again"),
        ("made.at", ..., "made: object missing required field `at`"),
        ("waves", "none", "waves: expected `array`, got `str`"),
        ("waves", [], "waves: none, so there is nothing"),
        ("waves.1.number", 3, "waves[1].number: 3, though it is wave 2"),
        ("waves.1.startsAfterSeconds", 4.0, "waves[1]: begins before the wave in front of it ends"),
        ("waves.1.changes", [], "waves[1].changes: none"),
        ("waves.0.manifests", ..., "waves[0].changes: has no manifests to apply"),
        ("waves.0.undoManifests", [{}], "waves[0].undo: has no line `apply`"),
        ("waves.0.evictions.0.pod", "p", "waves[0].evictions[0].pod: 'p': write NAMESPACE/NAME"),
        ("waves.0.evictions.0.afterSeconds", "soon", "waves[0].evictions[0].afterSeconds: expected `float`"),
        ("waves.0.frobnicate", 1, "waves[0]: object contains unknown field `frobnicate`"),
    ],
)
def test_what_is_no_plan_is_named_by_its_place(path, value, said):
    with pytest.raises(PlanError) as raised:
        read(changed(path, value))
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize("document", [None, [], "x", {}])
def test_what_has_no_schema_is_no_plan(document):
    with pytest.raises(PlanError, match="no plan: its schema is None"):
        read(document)
