"""How the smallest change is searched for: how many answers are combined, tried and offered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from weir.explain.edits import DropPreferences, Edit
from weir.explain.fix import Case, _alternatives, find_fix
from weir.explain.subject import Subject
from weir.explain.verdict import Group, NodeVerdict
from weir.gates import ALL_FEATURES
from weir.world import World


@dataclass(frozen=True)
class Named(Edit):
    """An edit that has a name and a cost, and makes or changes another object if its name says so."""

    name: str
    price: float = 1.0

    @property
    def cost(self) -> float:
        return self.price

    @property
    def manifest(self) -> dict[str, Any]:
        return {"kind": "Made"} if self.name == "makes" else {}

    def patch(self, world: World) -> dict[str, Any]:
        return {"kind": "Changed"} if self.name == "changes" else {}


def named(names: str) -> tuple[Edit, ...]:
    return tuple(Named(name) for name in names.split())


def group(node: str = "n1", *others: str) -> Group:
    return Group(NodeVerdict(node, ("reason",)), (node, *others))  # type: ignore[arg-type]


class Scripted(Case):
    """A case of which it is known what each group is answered with, and what is enough."""

    def __init__(self, plans: dict[str, list[str]], *enough: str, **more: Any) -> None:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}
        groups = more.pop("groups", [group(node) for node in plans])
        undecided = more.pop("undecided", None)
        super().__init__(Subject.of(pod), None, World.of(()), ALL_FEATURES, groups, (), None, undecided)  # type: ignore[arg-type]
        self._known = plans
        self._enough = [set(named(each)) for each in enough]

    def plan(self, group: Group) -> list[tuple[float, tuple[Edit, ...]]]:
        return [(float(cost), named(names)) for cost, names in enumerate(self._known[group.verdict.node])]

    def after(self, edits: tuple[Edit, ...]) -> tuple[str, ...]:
        return ("n1",) if any(each <= set(edits) for each in self._enough) else ()


def offered(plans: list[str], *enough: str, chosen: str = "x") -> list[str]:
    case = Scripted({"n1": plans}, *enough)
    return [
        " ".join(str(edit.name) for edit in edits)
        for edits in _alternatives(case, named(chosen), case.groups[0])
    ]  # type: ignore[attr-defined]


# ── other ways ──


def test_three_other_ways_are_offered():
    assert offered(["x", "a", "b", "c", "d"], "x", "a", "b", "c", "d") == ["a", "b", "c"]


def test_the_twelve_cheapest_are_asked():
    none = [f"no{number}" for number in range(11)]
    assert offered([*none, "a"], "a") == ["a"]
    assert offered([*none, "no", "a"], "a") == []


def test_a_way_with_the_chosen_one_in_it_is_no_other_way():
    assert offered(["a x", "x b"], "x", "a", "b") == []


def test_a_way_is_offered_once_and_without_what_it_does_not_need():
    assert offered(["a b", "a c", "c d"], "a", "c d") == ["a", "c d"]


# ── which is chosen ──


def found(case: Scripted) -> str | None:
    fix = find_fix(case)
    return None if fix is None else " ".join(str(edit.name) for edit in fix.edits)  # type: ignore[attr-defined]


def test_as_many_candidates_are_tried_as_there_are_at_most():
    none = [f"no{number}" for number in range(119)]
    assert found(Scripted({"n1": [*none, "a"]}, "a")) == "a"
    assert found(Scripted({"n1": [*none, "no", "a"]}, "a")) is None


def test_the_cheapest_comes_first_then_the_one_for_most_nodes_then_the_first_by_name():
    plans = {"n1": ["no", "a"], "n2": ["b"]}
    assert found(Scripted(plans, "a", "b")) == "b"
    two = {"n1": ["a"], "n2": ["b"]}
    assert found(Scripted(two, "a", "b", groups=[group("n1"), group("n2", "n3")])) == "b"
    assert found(Scripted(two, "a", "b", groups=[group("n2"), group("n1")])) == "a"


def test_nodes_that_take_the_pod_need_no_change():
    fits = Group(NodeVerdict("n1", ()), ("n1",))
    assert found(Scripted({"n1": ["a"]}, "a", groups=[fits])) is None
    assert found(Scripted({"n1": ["a"]}, "a", groups=[fits], undecided=object())) == "a"


def test_a_change_of_the_pod_alone_changes_nothing_else():
    fix = find_fix(Scripted({"n1": ["a"]}, "a"))
    assert fix is not None and (fix.others, fix.nodes, fix.patch) == ((), ("n1",), {})


def test_what_is_made_and_what_else_is_changed_go_with_the_fix():
    fix = find_fix(Scripted({"n1": ["a makes changes"]}, "a makes changes"))
    assert fix is not None and fix.others == (({"kind": "Made"}, None), ({"kind": "Changed"}, {}))


# ── what is combined ──


class Choosing(Case):
    """A case of which it is known how each reason can be answered."""

    def __init__(self, *choices: list[float]) -> None:
        super().__init__(None, None, None, None, (), (), None)  # type: ignore[arg-type]
        self._choices = choices

    def choices(self, verdict: NodeVerdict) -> list[list[tuple[Edit, ...]]]:
        return [
            [(Named(f"{place}.{n}", cost),) for n, cost in enumerate(each)]
            for place, each in enumerate(self._choices)
        ]


def costs(*choices: list[float]) -> list[float]:
    return [cost for cost, _ in Choosing(*choices).plan(group())]


def test_the_forty_cheapest_answers_of_a_group_are_kept():
    assert costs([float(100 - n) for n in range(60)]) == [float(41 + n) for n in range(40)]


def test_of_very_many_combinations_the_first_two_thousand_are_made():
    first = [100.0] * 19 + [50.0, 0.0]
    second = [1.0] * 99 + [0.5]
    _, cheapest = Choosing(first, second).plan(group())[0]
    assert cheapest == (Named("0.19", 50.0), Named("1.99", 0.5))  # the 2000th; the next one is not made


def test_a_reason_without_an_answer_leaves_no_way():
    assert costs([1.0], []) == []
    assert costs() == [0.0]


def test_a_group_is_answered_once():
    case, one = Choosing([1.0]), group()
    assert case.plan(one) is case.plan(one)


# ── what is asked again ──


class Taking(Case):
    """A case of which it is known which nodes take the pod after any change."""

    def __init__(self, *nodes: str, undecided: bool) -> None:
        super().__init__(None, None, None, None, (), (), None, object() if undecided else None)  # type: ignore[arg-type]
        self.nodes, self.asked = nodes, 0

    def _taking(self, edits: Any) -> Any:
        self.asked += 1
        return iter(self.nodes)


DROP = DropPreferences((0,), ())


@pytest.mark.parametrize(
    "nodes, undecided, edits, after",
    [
        ("a", True, named("x"), "a"),
        ("ab", True, named("x"), ""),
        ("ab", True, (*named("x"), DROP), "ab"),
        ("ab", False, named("x"), "ab"),
        ("", True, named("x"), ""),
    ],
)
def test_a_preference_that_cannot_be_read_leaves_room_for_one_node_only(nodes, undecided, edits, after):
    case = Taking(*nodes, undecided=undecided)
    assert case.after(edits) == case.after(edits) == tuple(after)
    assert (case.helps(edits), case.asked) == (bool(after), 1)


# ── the smallest part ──


class Enough(Case):
    """A case that certain sets of edits help, and no others."""

    def __init__(self, *enough: set[int]) -> None:
        self._enough = enough

    def helps(self, edits: Any) -> bool:
        return set(edits) in self._enough


@pytest.mark.parametrize("count, part", [(10, (0, 2, 4, 6)), (11, tuple(range(11)))])
def test_every_part_of_up_to_ten_edits_is_tried(count, part):
    assert Enough(set(range(count)), {0, 2, 4, 6}).smallest(tuple(range(count))) == part  # type: ignore[arg-type]


def test_parts_of_two_are_tried_before_any_is_left_out():
    assert Enough({0, 1}, {1, 2, 3, 4, 5}).smallest(tuple(range(6))) == (0, 1)  # type: ignore[arg-type]


def test_nothing_at_all_may_be_enough():
    assert Enough(set()).smallest((0, 1)) == ()  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [3, 4])
def test_parts_between_are_tried_up_to_those_that_lack_two(size):
    part = tuple(range(size))
    assert Enough(set(part)).smallest(tuple(range(6))) == part  # type: ignore[arg-type]
