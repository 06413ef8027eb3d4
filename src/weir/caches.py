"""Memory-bounded caches for results that depend on client input.

`functools.lru_cache` bounds the number of entries, not the size of keys. `bounded` keeps no answer for arguments that
are too long; a hit costs little more than one of lru_cache. Every cache made here is in `REGISTRY`; `every` adds the
other memoizing functions, so that a test can check all bounds. tests/test_caches.py finds dicts that only grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, wraps
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

Answer = TypeVar("Answer")
LONGEST_KEY = 512
_TEXT = (str, bytes)


class Bounded(NamedTuple):
    """One cache: its name, how many answers it keeps at most (None: no bound), and how many it holds now."""

    name: str
    most: int | None
    size: Callable[[], int]
    clear: Callable[[], None]


REGISTRY: list[Bounded] = []


class _NotKept(Exception):
    """Carries the answer for arguments that are too long to be kept."""


def _text_length(arguments: tuple[Any, ...]) -> int:
    """Return how much text is in *arguments*, and in tuples within them."""
    length, pending = 0, list(arguments)
    while pending:
        argument = pending.pop()
        if isinstance(argument, _TEXT):
            length += len(argument)
        elif isinstance(argument, tuple):
            pending += argument
    return length


def bounded(
    most: int, longest: int = LONGEST_KEY
) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Return a decorator that keeps the last *most* answers for arguments with at most *longest* characters of text.

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
            if _text_length(arguments) > longest:
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
