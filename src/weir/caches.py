"""Memory-bounded caches for results that depend on client input.

`functools.lru_cache` bounds the number of entries, not the size of keys. `bounded` bypasses the cache for arguments
that are too long. Every cache made here is in `REGISTRY`; `every` adds the other memoizing functions, so that a test
can check all bounds. tests/test_caches.py finds dicts that only grow.
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


def bounded(
    most: int, longest: int = LONGEST_KEY
) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Return a decorator that keeps the last *most* answers for arguments whose texts are at most *longest* long.

    >>> @bounded(most=2, longest=3)
    ... def upper(text: str) -> str:
    ...     return text.upper()
    >>> upper("abc"), upper("abcd"), REGISTRY.pop().size()
    ('ABC', 'ABCD', 1)
    """

    def decorate(function: Callable[..., Answer]) -> Callable[..., Answer]:
        remembered = lru_cache(most)(function)

        @wraps(function)
        def answer(*arguments: Any, **named: Any) -> Answer:
            for argument in arguments:
                if isinstance(argument, _TEXT) and len(argument) > longest:
                    return function(*arguments, **named)
            return remembered(*arguments, **named) if named else remembered(*arguments)

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
