"""Memory-bounded caches for results that depend on client input.

`functools.lru_cache` bounds the number of entries, not the size of keys. `bounded` keeps no answer for arguments that
are too large; a hit costs little more than one of lru_cache. `BoundedDict` is for keys whose sizes differ widely: it is
bounded in bytes. Every cache made by `bounded` is in `REGISTRY`; `every` adds the other memoizing functions, so that a
test can check all bounds. tests/test_caches.py finds dicts that only grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, wraps
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

Answer = TypeVar("Answer")
LONGEST_KEY = 512
#: Memory of a BoundedDict, and of one key of it (`size_of`).
MOST_BYTES = 16 << 20
LARGEST_KEY = 8_192
#: Memory of a text or tuple within a tuple, beside its characters or items.
_ITEM_BYTES = 48


class Bounded(NamedTuple):
    """One cache: its name, how many answers it keeps at most (None: no bound), and how many it holds now."""

    name: str
    most: int | None
    size: Callable[[], int]
    clear: Callable[[], None]


REGISTRY: list[Bounded] = []


class _NotKept(Exception):
    """Carries the answer for arguments that are too long to be kept."""


def size_of(*arguments: Any) -> int:
    """Return the memory of the text in *arguments*, about; in tuples the items count as well.

    >>> size_of("abc", 1), size_of("a\N{ROCKET}"), size_of(("abc", "d"))
    (3, 8, 100)
    """
    size, pending = 0, list(arguments)
    while pending:
        argument = pending.pop()
        if isinstance(argument, str):
            size += len(argument) if argument.isascii() else 4 * len(argument)
        elif isinstance(argument, bytes):
            size += len(argument)
        elif isinstance(argument, tuple):
            size += _ITEM_BYTES * len(argument)
            pending += argument
    return size


class BoundedDict(dict[tuple[Any, ...], Answer]):
    """Answers by key, at most *most* of 16 MiB together; a full one is emptied.

    >>> verdicts: BoundedDict[bool] = BoundedDict(2)
    >>> for number in range(3):
    ...     verdicts.keep((number,), True)
    >>> verdicts.keep(("long" * 9_999,), True)
    >>> verdicts
    {(2,): True}
    """

    __slots__ = ("_bytes", "_most")

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most, self._bytes = most, 0

    def keep(self, key: tuple[Any, ...], answer: Answer, *held: Any) -> None:
        """Remember *answer*, of which the texts *held* take memory; not for a key larger than `LARGEST_KEY`."""
        size = size_of(key)
        if size > LARGEST_KEY:
            return
        size += size_of(held)
        if len(self) >= self._most or self._bytes + size > MOST_BYTES:
            self.clear()
        if size <= MOST_BYTES:
            self._bytes += size
            self[key] = answer

    def clear(self) -> None:
        self._bytes = 0
        super().clear()


def bounded(
    most: int, longest: int = LONGEST_KEY
) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Return a decorator that keeps the last *most* answers for arguments of at most *longest* bytes (`size_of`).

    >>> @bounded(most=2, longest=3)
    ... def upper(text: str) -> str:
    ...     return text.upper()
    >>> upper("abc"), upper("abcd"), REGISTRY.pop().size()
    ('ABC', 'ABCD', 1)
    """

    def decorate(function: Callable[..., Answer]) -> Callable[..., Answer]:
        @lru_cache(most)
        def remembered(*arguments: Any, **named: Any) -> Answer:
            result = function(*arguments, **named)
            if size_of(*arguments) > longest:
                raise _NotKept(result)  # lru_cache keeps nothing for a call that raises
            return result

        @wraps(function)
        def answer(*arguments: Any, **named: Any) -> Answer:
            try:
                return remembered(*arguments, **named)
            except _NotKept as result:
                return result.args[0]  # type: ignore[no-any-return]

        name = f"{function.__module__}.{function.__qualname__}"
        REGISTRY.append(Bounded(name, most, lambda: remembered.cache_info().currsize, remembered.cache_clear))
        return answer

    return decorate


def every(modules: Iterable[ModuleType]) -> Iterator[Bounded]:
    """Yield every function of *modules* that remembers its answers, and what is in the registry."""
    yield from REGISTRY
    for module in modules:
        for owner in (module, *(each for each in vars(module).values() if isinstance(each, type))):
            for found in list(vars(owner).values()):
                if hasattr(found, "cache_parameters") and found.__module__ == module.__name__:
                    yield Bounded(
                        f"{found.__module__}.{found.__qualname__}",
                        found.cache_parameters()["maxsize"],
                        lambda found=found: found.cache_info().currsize,  # type: ignore[misc]
                        found.cache_clear,
                    )
