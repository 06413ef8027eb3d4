"""Field paths: steps from a variable, in room that is shared as that of Go's slices is."""

from __future__ import annotations

from weir.cel.field_path import NOWHERE, FieldPath


def path(*steps: str) -> FieldPath:
    """Return a path that was grown step by step, as a walk does."""
    grown = FieldPath(steps[0])
    for step in steps[1:]:
        grown = grown.grown(step)
    return grown


def test_a_path_is_the_steps_that_it_was_grown_by() -> None:
    assert NOWHERE.steps == ()
    assert NOWHERE.grown("@items").steps == ("@items",)
    assert path("a", "b", "c", "d", "e", "f").steps == ("a", "b", "c", "d", "e", "f")


def test_growing_leaves_what_was_grown_as_it_was() -> None:
    short = path("self", "list", "@items")
    short.grown("name")
    assert short.steps == ("self", "list", "@items")


def siblings_apart(length: int) -> bool:
    """Whether two paths grown from one of that many steps keep their own last steps."""
    start = path(*map(str, range(length))) if length else NOWHERE
    one, other = start.grown("one"), start.grown("other")
    assert other.steps == (*start.steps, "other")
    assert one.steps in ((*start.steps, "one"), other.steps)
    return one.steps != other.steps


def test_room_doubles_when_it_is_full_and_the_last_to_grow_overwrites() -> None:
    apart = [length for length in range(20) if siblings_apart(length)]
    assert apart == [0, 1, 2, 4, 8, 16]


def test_what_was_grown_beyond_its_room_is_no_longer_changed() -> None:
    short = path("self", "list", "@items")
    items = short.grown("items")
    item = items.grown("@items")
    short.grown("name")
    assert items.steps == ("self", "list", "@items", "name")
    assert item.steps == ("self", "list", "@items", "items", "@items")
