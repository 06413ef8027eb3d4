"""What keeps a pod off a node, what counts against a node, what wakes a pod; and taints that come and go for ever."""

import random

import pytest

from tests.unit.scheduler.hints import hints_of
from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, Taint, Toleration, read
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.framework import Code
from weir.scheduler.judged_taints import JudgedTaints
from weir.scheduler.node_table import NodeTable
from weir.scheduler.plugins import taint_toleration
from weir.scheduler.plugins.taint_toleration import TaintToleration
from weir.scheduler.pod_class import PodClasses
from weir.scheduler.queueing_hints import node_events
from weir.taints import expression
from weir.taints import judge as judges
from weir.taints.expression import Expressions
from weir.taints.judge import TaintJudge
from weir.taints.operators import Outcome

pytestmark = pytest.mark.proves(
    "5471-4", "5471-12", "5471-69", "5471-70", "5471-81", "5721-61", "5500-46", "5500-63"
)

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


def test_a_taint_value_that_is_rewritten_5_000_times_costs_the_same_at_the_end():
    """Counted in comparisons and in lists, not in seconds."""
    engine, judge = Engine(ALL_FEATURES), None
    pods = [pod(limit) for limit in (100, 5_000, 10**9)]
    for number in range(50):
        engine.table.put_node(node(f"n{number}", load(number)))
    made = []
    for change in range(5_000):
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


@pytest.mark.parametrize("seed", range(3))
def test_forgetting_changes_no_answer(seed, monkeypatch):
    monkeypatch.setattr("weir.scheduler.node_table.LEAST_INTERNED", 4)
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
    assert flags == [[n > 7] for n in range(100)] and len(judge._answers) <= 8


# ── one class of pods and some nodes ──


def tolerating(*tolerations):
    return read(
        Pod, {"metadata": {"name": "p", "namespace": "x"}, "spec": {"tolerations": list(tolerations)}}
    )


def bound(pod, *nodes, **options):
    """Return the plugin for the class of *pod*, over *nodes*, and its table."""
    table = NodeTable()
    for each in nodes:
        table.put_node(each)
    plugin = TaintToleration(table, JudgedTaints(ALL_FEATURES), **options)
    extensions = plugin.for_class(PodClasses().of(pod))
    assert extensions.filter is extensions.score
    return extensions.filter, table


A = ("a", "1", "NoSchedule")
B = ("b", "2", "NoExecute")
SOFT = ("c", "3", "PreferNoSchedule")
EXISTS_A = {"key": "a", "operator": "Exists"}


def test_the_first_taint_that_is_not_tolerated_keeps_a_pod_off_and_is_named():
    nodes = [
        node("n0"),
        node("n1", SOFT),
        node("n2", A, B),
        node("n3", B, A),
        node("n4", A),
        node("n5", SOFT, B),
    ]
    plugin, _ = bound(tolerating(EXISTS_A), *nodes)
    codes = plugin.codes(slice(0, 6)).tolist()
    said = [plugin.status(code).reasons[0] if code else "" for code in codes]
    named = "node(s) had untolerated taint {b: 2}"
    assert said == ["", "", named, named, "", named]
    status = plugin.status(codes[2])
    assert (status.code, status.plugin) == (Code.UNRESOLVABLE, "TaintToleration")
    first, _ = bound(tolerating(), *nodes)
    assert [first.status(code).reasons[0][-6:] for code in first.codes([2, 3])] == ["{a: 1}", "{b: 2}"]


def test_upstreams_words_leave_key_and_value_out():
    plugin, _ = bound(tolerating(), node("n0", A), upstream_reason=True)
    (code,) = plugin.codes([0])
    assert plugin.status(code).reasons == ("node(s) had untolerated taint(s)",)


@pytest.mark.parametrize(
    "toleration, told",
    [
        ({"key": "a", "operator": "Gt", "value": "5"}, False),
        ({"key": "a", "operator": "Gt", "value": "05"}, True),
        ({"expression": "taint.value == 1"}, True),
        ({"key": "a", "operator": "Equal", "value": "x"}, False),
    ],
)
def test_a_value_that_could_not_be_compared_is_told_of(toleration, told):
    plugin, _ = bound(tolerating(toleration), node("n0", A))
    (code,) = plugin.codes([0])
    (words,) = plugin.status(code).reasons
    assert words.startswith("node(s) had untolerated taint {a: 1}") and words.endswith(")") is told


def test_a_list_that_appears_later_is_judged_when_it_is_asked_about():
    plugin, table = bound(tolerating(EXISTS_A), node("n0", A))
    assert plugin.codes([0]).tolist() == [0] and plugin.score([0]).tolist() == [0]
    table.put_node(node("n1", B, SOFT))
    assert plugin.codes([0, 1]).tolist()[0] == 0 and plugin.codes([1]).tolist() != [0]
    assert plugin.score([0, 1]).tolist() == [0, 1]


def test_the_score_counts_what_is_disliked_and_not_tolerated():
    more = ("d", "4", "PreferNoSchedule")
    nodes = [node("n0"), node("n1", SOFT, more), node("n2", more, A), node("n3", SOFT)]
    for tolerations, counts, disliked in [
        ((), [0, 2, 1, 1], ["c", "d"]),
        (({"key": "c", "operator": "Exists"},), [0, 1, 1, 0], ["d"]),
        (({"key": "c", "operator": "Exists", "effect": "PreferNoSchedule"},), [0, 1, 1, 0], ["d"]),
        (({"key": "c", "operator": "Exists", "effect": "NoSchedule"},), [0, 2, 1, 1], ["c", "d"]),
        (({"operator": "Exists"},), [0, 0, 0, 0], []),
    ]:
        plugin, _ = bound(tolerating(*tolerations), *nodes)
        assert plugin.score(slice(0, 4)).tolist() == counts
        assert [taint.key for taint in plugin.disliked(1)] == disliked


def test_an_expression_is_asked_about_each_taint_in_filter_and_score():
    nodes = [
        node("n0", A, ("a", "2", "NoSchedule")),
        node("n1", A, ("a", "9", "NoSchedule")),
        node("n2", SOFT, ("c", "9", "PreferNoSchedule")),
    ]
    expression = {"expression": "taint.key in ['a', 'c'] && int(taint.value) < 4"}
    plugin, _ = bound(tolerating(expression), *nodes)
    assert [bool(code) for code in plugin.codes(slice(0, 3)).tolist()] == [False, True, False]
    assert plugin.score(slice(0, 3)).tolist() == [0, 0, 1]


def test_every_taint_that_keeps_a_pod_off_is_a_reason_with_what_was_tried():
    tolerations = (
        {"key": "a", "operator": "Lt", "value": "1"},
        {"expression": "taint.key == 'a' && taint.value == 'x'"},
    )
    plugin, _ = bound(tolerating(*tolerations), node("n0", A, SOFT, B))
    reasons = plugin.reasons(0, 1)
    assert [reason.taint.key for reason in reasons] == ["a", "b"]
    outcomes = [[attempt.outcome.name for attempt in reason.attempts] for reason in reasons]
    assert outcomes == [["NOT_LESS", "EXPRESSION_FALSE"], ["OTHER_KEY", "EXPRESSION_FALSE"]]
    assert reasons[0].attempts[1].deciding == "taint.value == 'x'"
    assert plugin.reasons(0, 1) == reasons
    tolerant, _ = bound(tolerating(EXISTS_A), node("n0", A, B))
    assert [reason.taint.key for reason in tolerant.reasons(0, 1)] == ["b"]


def test_only_taints_that_a_node_carries_are_compared_and_counted():
    engine = Engine(ALL_FEATURES)
    engine.table.put_node(node("other", ("other", "", "NoSchedule")))
    engine.table.put_node(node("n0", load("high")))
    engine.place(pod(1))
    judge = engine.judged_taints.judge
    assert dict(judge.numeric) == {("Lt", "match"): 0, ("Lt", "no_match"): 0, ("Lt", "parse_error"): 1}
    engine.table.put_node(node("n0", load(950)))
    judge.unreadable.clear()
    engine.place(pod(2))
    assert judge.numeric["Lt", "parse_error"] == 1 and judge.numeric["Lt", "no_match"] == 1
    assert not judge.unreadable
    engine.table.put_node(node("n0"))
    engine.place(pod(3))
    engine.table.remove_node("n0")
    engine.place(pod(4))
    assert judge.numeric["Lt", "parse_error"] == 1 and judge.numeric["Lt", "no_match"] == 1


def test_ten_nodes_with_one_taint_are_one_comparison():
    engine = Engine(ALL_FEATURES)
    engine.table.put_node(node("n0", load(7)))
    for number in range(10):
        engine.table.put_node(node(f"n{number}", load(500)))
    engine.place(pod(900))
    assert engine.judged_taints.judge.numeric["Lt", "match"] == 1


@pytest.mark.parametrize("seed", range(20))
def test_a_taint_that_comes_back_is_judged_as_a_new_one(seed):
    """Nodes whose taints come and go, held against the rule itself."""
    rng, engine = random.Random(seed), Engine(ALL_FEATURES)
    engine.table.put_node(node("other", ("other", "", "NoSchedule")))
    carried = {}
    for _ in range(200):
        name = f"n{rng.randrange(4)}"
        match rng.randrange(5):
            case 0:
                engine.table.remove_node(name)
                carried.pop(name, None)
            case 1:
                engine.table.put_node(node(name))
                carried[name] = []
            case _:
                values = rng.sample(["1", "5", "9", "high", "20"], rng.randrange(1, 3))
                engine.table.put_node(node(name, *map(load, values)))
                carried[name] = values
        limit = rng.choice([0, 3, 6, 12, 30])
        allowed = {n for n, values in carried.items() if all(v != "high" and int(v) < limit for v in values)}
        answer = engine.place(pod(limit))
        assert (answer.node in allowed) if isinstance(answer, Placement) else not allowed


def test_reasons_about_many_taints_are_found_again_when_too_many_were_kept(monkeypatch):
    monkeypatch.setattr(taint_toleration, "_MOST_JUDGED", 2)
    nodes = [node(f"n{number}", ("a", number, "NoSchedule")) for number in range(4)]
    plugin, _ = bound(tolerating(), *nodes)
    for _ in range(2):
        for number in range(4):
            (reason,) = plugin.reasons(number, 1)
            assert reason.taint.value == str(number) and len(plugin._judged) <= 2
    plugin, _ = bound(tolerating(), *nodes)
    first = [plugin.reasons(number, 1)[0] for number in (0, 1)]
    assert [plugin.reasons(number, 1)[0] for number in (0, 1)] == first
    assert plugin.reasons(0, 1)[0] is first[0], "two have room"


def test_each_list_is_taken_in_once_and_what_the_table_forgot_is_forgotten(monkeypatch):
    monkeypatch.setattr("weir.scheduler.node_table.LEAST_INTERNED", 4)
    table, judged = NodeTable(), JudgedTaints(ALL_FEATURES)
    for value in range(3):
        table.put_node(node("n", load(value)))
        judged.read(table)
    assert judged.hard.owners == [1, 2, 3] and len(judged.judge.taints) == 3
    for value in range(3, 6):
        table.put_node(node("n", load(value)))
    judged.read(table)
    assert table.taint_generation == 1 and len(judged.judge.taints) < 6
    judge, known = judged.judge, list(judged.judge.taints)
    judge.tolerated([Toleration("load", "Lt", "9")])
    before = judge.comparisons
    judged.read(table)
    judge.tolerated([Toleration("load", "Lt", "9")])
    assert (judge.taints, judge.comparisons) == (known, before), "nothing is judged again"


@pytest.mark.parametrize("judging, asking", [("_judge_hard", "codes"), ("_judge_soft", "score")])
def test_while_no_list_is_new_a_class_is_judged_once(judging, asking, monkeypatch):
    plugin, table = bound(tolerating(), node("n0", A, SOFT))
    judge, made = getattr(plugin, judging), []
    monkeypatch.setattr(plugin, judging, lambda: (made.append(1), judge()))
    for _ in range(3):
        getattr(plugin, asking)([0])
    assert len(made) == 1
    table.put_node(node("n1", B))
    getattr(plugin, asking)([0])
    assert len(made) == 2


@pytest.mark.parametrize(
    "old, new, woken",
    [
        (None, [A], True),
        (None, [B], False),
        ([B], [A], True),
        ([B], [B, A], False),
        ([A], [], False),  # it was tolerated before
        ([B], [], True),
        ([A], [B], False),
    ],
)
def test_a_node_wakes_a_pod_that_now_tolerates_it_and_did_not_before(old, new, woken):
    events = node_events(None if old is None else node("n", *old), node("n", *new))
    assert any(hints_of().helps("TaintToleration", tolerating(EXISTS_A), event) for event in events) is woken


def test_an_expression_is_evaluated_and_explained_in_the_components_own_cache_alone(monkeypatch):
    own, others = Expressions(), Expressions()
    monkeypatch.setattr(expression, "shared", lambda: others)
    table = NodeTable()
    table.put_node(node("n0", A, SOFT))
    text = "taint.key == 'a' && taint.value == 'x'"
    plugin = TaintToleration(table, JudgedTaints(ALL_FEATURES, own))
    bound_plugin = plugin.for_class(PodClasses().of(tolerating({"expression": text}))).filter
    (reason,) = bound_plugin.reasons(0, 1)
    assert reason.attempts[0].deciding == "taint.value == 'x'"
    assert [taint.key for taint in bound_plugin.disliked(0)] == ["c"]
    assert own.counts[Outcome.EXPRESSION_FALSE] == 2 and len(own.programs) > 0
    assert not any(others.counts.values()) and len(others.programs) == 0


def test_an_engine_hands_its_expressions_to_the_plugins(monkeypatch):
    own, others = Expressions(), Expressions()
    monkeypatch.setattr(expression, "shared", lambda: others)
    engine = Engine(ALL_FEATURES, expressions=own)
    engine.table.put_node(node("n0", A))
    engine.start_cycle(tolerating({"expression": "taint.key == 'b'"})).reasons(engine.table.ordered[:1])
    assert any(own.counts.values()) and not any(others.counts.values())


@pytest.mark.proves("5500-48")
def test_all_plugins_evaluate_expressions_with_the_one_cache_of_the_scheduler():
    expressions, before = Expressions(), len(expression.shared().programs)
    engine = Engine(ALL_FEATURES, expressions=expressions)
    for name, unschedulable in (("tainted", False), ("cordoned", True)):
        taints = [{"key": "team", "value": name, "effect": "NoSchedule"}]
        labels = {"kubernetes.io/hostname": name}
        document = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints, "unschedulable": unschedulable},
            "status": {"allocatable": ROOM},
        }
        engine.table.put_node(read(Node, document))
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeTaintsPolicy": "Honor",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    wanted = {
        "tolerations": [{"expression": "taint.key != 'own-cache'"}],
        "topologySpreadConstraints": [spread],
    }
    placed = engine.place(
        read(Pod, {"metadata": {"name": "p", "namespace": "x", "labels": {"app": "a"}}, "spec": wanted})
    )
    assert isinstance(placed, Placement) and placed.feasible == 2
    assert (len(expressions.programs), expressions.programs.misses) == (1, 1)
    assert len(expression.shared().programs) == before
