"""Answers about a redacted, anonymous snapshot are those about the cluster itself, up to names."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from tests.property.forecast_clusters import NOW, cluster
from weir.explain.pod import explain
from weir.explain.subject import Subject
from weir.gates import ALL_FEATURES
from weir.objects.anonymity import anonymous
from weir.objects.redaction import Redaction
from weir.taints.notation import parse_taint
from weir.whatif.changes import Cordon, Drain, Nodes, Taint, TaintEdit
from weir.whatif.forecast import Forecast
from weir.whatif.run import WhatIfOptions, what_if
from weir.world import World

Document = dict[str, Any]
REDACTION = Redaction(b"key")
CHANGES = (
    lambda nodes: Taint(nodes, (TaintEdit(parse_taint("sla=500:NoExecute")),)),
    lambda nodes: Drain(nodes),
    lambda nodes: Cordon(nodes),
)


def sent(documents: list[Document]) -> tuple[list[Document], dict[str, str]]:
    """Return what somebody else gets to see of *documents*."""
    return anonymous(map(REDACTION.apply, documents))


def outcome(found: Forecast, table: dict[str, str]) -> Any:
    """Return what a forecast says, its names looked up in *table*."""

    def renamed(text: str) -> str:
        return "/".join(table.get(part, part) for part in text.split("/"))

    def message(text: str) -> str:
        return re.sub(r"[\w.-]+[\w]", lambda word: table.get(word[0], word[0]), text)

    return (
        [
            (
                renamed(one.pod),
                table.get(one.node, one.node),
                one.after,
                table.get(one.ends_on, one.ends_on),
                one.lost,
                message(one.why_nowhere) if not one.goes_to else "",
            )
            for one in found.leaving
            if one.pod.rpartition("/")[2] in table or not table
        ],
        [
            (renamed(each.name), each.before, each.after, each.pods, each.waiting, each.lost, each.first)
            for each in found.workloads
        ],
        [(renamed(each.workload), [table.get(node, node) for node in each.nodes]) for each in found.circles],
        (found.staying, len(found.locked_out), len(found.helped), found.anyway, found.settled, found.room),
    )


@settings(max_examples=tries(12, 50))
@given(st.integers(0, 10_000), st.sampled_from(CHANGES), st.integers(0, 2))
def test_what_if_says_the_same_of_an_anonymous_snapshot(seed: int, change: Any, which: int) -> None:
    documents, _ = cluster(seed)
    node = [each["metadata"]["name"] for each in documents if each["kind"] == "Node"][which]
    others, table = sent(documents)
    asked = WhatIfOptions(ALL_FEATURES, NOW, 600.0)
    found = what_if(documents, [change(Nodes((node,)))], asked)
    again = what_if(others, [change(Nodes((table[node],)))], asked)
    assert sum(one.wanted for one in found.leaving) == sum(one.wanted for one in again.leaving)
    known = {new: new for new in table.values()}
    assert outcome(again, known) == outcome(found, table)


@settings(max_examples=tries(12, 50))
@given(st.integers(0, 10_000))
def test_explain_says_the_same_of_an_anonymous_snapshot(seed: int) -> None:
    documents, _ = cluster(seed)
    others, table = sent(documents)
    world, renamed = World.of(documents), World.of(others)
    for plain, other in zip(documents, others, strict=True):
        if plain["kind"] in ("Pod", "Deployment", "StatefulSet", "DaemonSet"):
            here, there = (
                explain(Subject.of(each), held, ALL_FEATURES)
                for each, held in ((plain, world), (other, renamed))
            )
            assert [(table[each.node], each.fits, len(each.reasons)) for each in here.nodes] == [
                (each.node, each.fits, len(each.reasons)) for each in there.nodes
            ]
            assert here.counts == there.counts
            assert (here.fix is None) == (there.fix is None)


@given(st.integers(0, 10_000))
def test_no_name_of_the_cluster_stays(seed: int) -> None:
    documents, _ = cluster(seed)
    others, table = sent(documents)
    words = set(re.findall(r"[\w.-]+", json.dumps(others)))
    kept = {"c", "i", "x", "y"}  # single letters stand in other words, too
    classes = ("PriorityClass", "DeviceClass")  # their names stay
    names = {each["metadata"]["name"] for each in documents if each["kind"] not in classes}
    assert not (names | {f"{name}-uid" for name in names}) - kept & words
    assert list(table) and all(
        new in words or new in ("default",) for old, new in table.items() if old in names
    )


def test_two_redactions_of_one_key_are_equal_and_of_another_are_not() -> None:
    template = {"containers": [{"name": "c", "args": ["--password=hunter2"]}]}
    one, two = (Redaction(key).apply({"spec": template}) for key in (b"a", b"b"))
    assert one != two
    assert one == Redaction(b"a").apply({"spec": template})
    assert "hunter2" not in json.dumps(one)
