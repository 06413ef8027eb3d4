"""Typed access to configuration fields; a wrong value raises one error naming its path and what is expected."""

from __future__ import annotations

import re
from typing import Any, Final

#: Go's way of writing durations: numbers with their units, one after the other.
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:h|ms|m|s))+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class ConfigError(ValueError):
    """A configuration that cannot be used: the place, and what to write."""


class Fields:
    """Reads values of one *file*, each with the place it stands at."""

    def __init__(self, file: str) -> None:
        self._file = file

    def wrong(self, at: str, what: str) -> ConfigError:
        return ConfigError(f"{self._file}: {at}: {what}")

    def mapping(self, value: Any, at: str, *known: str) -> dict[str, Any]:
        """Return a mapping that has no other than the *known* fields."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.wrong(at, "a mapping is expected")
        for name in value:
            if name not in known:
                raise self.wrong(
                    f"{at}.{name}" if at else f"{name}", f"unknown; known are {', '.join(known)}"
                )
        return value

    def list(self, value: Any, at: str) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.wrong(at, "a list is expected")
        return value

    def text(self, value: Any, at: str) -> str:
        if not isinstance(value, str) or not value:
            raise self.wrong(at, f"{value!r} is not a name")
        return value

    def one_of(self, value: Any, at: str, *choices: str) -> str:
        if value not in choices:
            raise self.wrong(at, f"{value!r}: write {' or '.join(choices)}")
        return str(value)

    def flag(self, value: Any, at: str, default: bool) -> bool:
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(at, f"{value!r}: write true or false")
        return value

    def number(self, value: Any, at: str, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(at, f"{value!r} is not a whole number from {low} to {high}")
        return value

    def duration(self, value: Any, at: str, default: float) -> float:
        """Return how many seconds *value* stands for.

        >>> Fields("f").duration("1m30s", "leaseDuration", 15.0)
        90.0
        """
        if value is None:
            return default
        text = str(value)
        if not _DURATION.fullmatch(text):
            raise self.wrong(at, f"{value!r} is not a duration; write 15s")
        return sum(float(amount) * _SECONDS[unit] for amount, unit in _PART.findall(text))
