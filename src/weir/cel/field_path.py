"""Paths of values from variables and fields, under which declared sizes are looked up.

Spec: cel.md 11.3. A path is the name of a variable and the steps from there: names, `@items`, `@keys`, `@values` and
`@indices`. Upstream grows a path as a Go slice and does not copy it first. A slice's room doubles when
it is full; of two paths grown from one that had room left, the later overwrites the last step of the earlier. Paths of
three steps have room for one more: in `self.list.all(x, x.items.all(y, y != x.name))` the size of `x.items` is, when it
is asked for, that of `x.name`, and which rules are too expensive depends on it.
"""

from __future__ import annotations

from typing import Final


class FieldPath:
    """Some steps; the room behind them is shared with the paths that were grown from this one."""

    __slots__ = ("_length", "_room")

    def __init__(self, *steps: str) -> None:
        self._room = list(steps)
        self._length = len(steps)

    def grown(self, step: str) -> FieldPath:
        """Return this path and one step more, written into the room behind this one if there is any.

        >>> attributes = FieldPath("device").grown("attributes").grown("@values")
        >>> model, memory = attributes.grown("model"), attributes.grown("memory")
        >>> model.steps
        ('device', 'attributes', '@values', 'memory')
        """
        longer = FieldPath()
        longer._length = self._length + 1
        if self._length < len(self._room):
            longer._room = self._room
        else:
            longer._room = [*self._room, *[""] * max(self._length, 1)]
        longer._room[self._length] = step
        return longer

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps as they are now."""
        return tuple(self._room[: self._length])


#: The path of what comes from no variable.
NOWHERE: Final = FieldPath()
