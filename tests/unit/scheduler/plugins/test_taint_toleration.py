"""Taints that come and go for ever: what is known of them stays as small as what nodes carry."""

import random

import pytest

from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, Taint, Toleration, read
from weir.scheduler.cycle import Engine, Placement
from weir.taints import judge as judges
from weir.taints.judge import TaintJudge

ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}


def node(name, *taints):
    listed = [{"key": key, "value": str(value), "effect": effect} for key, value, effect in taints]
    return read(
        Node, {"metadata": {"name": name}, "spec": {"taints": listed}, "status": {"allocatable": ROOM}}
    )


def pod(limit):
    tolerations = [{"key": "load", "operator": "Lt", "value": str(limit), "effect": "NoSchedule"}]
    return read(Pod, {"metadata": {"name": "p", "namespace": "x"}, "spec": {"tolerations": tolerations}})


def load(value):
    return ("load", value, "NoSchedule")


def test_a_taint_value_that_is_rewritten_20_000_times_costs_the_same_at_the_end():
    """Counted in comparisons and in lists, not in seconds."""
    engine, judge = Engine(ALL_FEATURES), None
    pods = [pod(limit) for limit in (100, 20_000, 10**9)]
    for number in range(50):
        engine.table.put_node(node(f"n{number}", load(number)))
    made = []
    for change in range(20_000):
        engine.table.put_node(node(f"n{change % 50}", load(1000 + change)))
        if change % 20 == 0:
            engine.place(pods[change // 20 % 3])
            judge = engine.judged_taints.judge
            made.append(judge.comparisons)
            assert len(engine.table.taint_lists) <= 2 * 256
            assert len(judge.taints) <= 2 * 256
    tenth = len(made) // 10
    first, last = made[tenth] - made[0], made[-1] - made[-1 - tenth]
    assert last <= 1.1 * first


@pytest.mark.parametrize("seed", range(8))
def test_forgetting_changes_no_answer(seed, monkeypatch):
    monkeypatch.setattr("weir.scheduler.node_table._LEAST_INTERNED", 4)
    monkeypatch.setattr(judges, "MOST_TOLERATIONS", 2)
    rng = random.Random(seed)
    engine, nodes = Engine(ALL_FEATURES), {}
    pods = [pod(limit) for limit in (5, 20, 60)]
    for _ in range(300):
        name = f"n{rng.randrange(5)}"
        if rng.random() < 0.1 and name in nodes:
            engine.table.remove_node(name)
            del nodes[name]
        else:
            taints = [load(rng.randrange(80))] if rng.random() < 0.8 else []
            taints += [("soft", rng.randrange(40), "PreferNoSchedule")] if rng.random() < 0.5 else []
            nodes[name] = node(name, *taints)
            engine.table.put_node(nodes[name])
        if not nodes:
            continue
        asked = rng.choice(pods)
        fresh = Engine(ALL_FEATURES)
        for each in engine.table.ordered.tolist():
            fresh.table.put_node(engine.table.nodes[each])
        assert engine.statuses(asked) == fresh.statuses(asked)
        found, expected = engine.place(asked), fresh.place(asked)
        assert type(found) is type(expected)
        if isinstance(found, Placement):
            assert engine.scores(asked) == fresh.scores(asked)


def test_what_was_counted_is_not_forgotten():
    judge = TaintJudge(ALL_FEATURES)
    judge.number(Taint("load", "7", "NoSchedule"))
    judge.tolerated([Toleration("load", "Lt", "9")])
    judge.forget()
    assert judge.number(Taint("load", "8", "NoSchedule")) == 0
    assert judge.tolerated([Toleration("load", "Lt", "9")]).tolist() == [True]
    assert judge.numeric["Lt", "match"] == 2


def test_answers_about_tolerations_once_seen_do_not_add_up(monkeypatch):
    monkeypatch.setattr(judges, "MOST_TOLERATIONS", 8)
    judge = TaintJudge(ALL_FEATURES)
    judge.number(Taint("load", "7", "NoSchedule"))
    flags = [judge.tolerated([Toleration("load", "Lt", str(n))]).tolist() for n in range(100)]
    assert flags == [[n > 7] for n in range(100)] and len(judge._known) <= 8
