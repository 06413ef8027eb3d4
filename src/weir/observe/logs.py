"""How weir's edges speak: one line per event, a fixed sentence and key=value pairs.

`2026-06-01T10:00:00.123Z info weir.apiserver Serving address=127.0.0.1:6443`. A value that holds a space, a quote,
`=` or a control character is printed as a JSON string, so that a line stays a line and cannot be forged.
Only edges and run.py speak; `info` is for what an operator would do something about, `debug` for decisions.
A trouble that concerns every request (a full disk) is not logged a hundred times a second: of one warning or error five
lines in ten seconds are enough, and the next line says how many were left out.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from weir.values.printable import printable

_PLAIN = re.compile(r"[^\s\"'=\\\x00-\x1f\x7f]+\Z")
_FIELDS = "weir_fields"
REPEATS = 5
REPEATS_SECONDS = 10.0


def pair(key: str, value: object) -> str:
    r"""Return one key=value pair.

    >>> pair("pod", "ns/web"), pair("error", "no\nsuch thing"), pair("seconds", 1.5), pair("node", None)
    ('pod=ns/web', 'error="no\\nsuch thing"', 'seconds=1.5', 'node=-')
    """
    if value is None:
        return f"{key}=-"
    if isinstance(value, bool):
        return f"{key}={str(value).lower()}"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f"{key}={text}" if text.isprintable() and _PLAIN.match(text) else f"{key}={json.dumps(text)}"


class Formatter(logging.Formatter):
    """Prints a record as one line; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC)
        fields: Mapping[str, Any] = getattr(record, _FIELDS, {})
        parts = [
            f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03d}Z",
            record.levelname.lower(),
            record.name,
            printable(" ".join(record.getMessage().split())),
            *(pair(key, value) for key, value in fields.items()),
        ]
        line = " ".join(part for part in parts if part)
        if record.exc_info:
            line += "\n" + printable(self.formatException(record.exc_info), keep="\n")
        return line


class Repeats(logging.Filter):
    """Lets few of the warnings and errors through that say the same about different things."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}  # when the first came, how many since

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING or record.exc_info:
            return True
        sentence = (record.name, str(record.msg))
        since, count = self._seen.get(sentence, (record.created, 0))
        if record.created - since >= REPEATS_SECONDS:
            left_out = count - REPEATS
            since, count = record.created, 0
            if left_out > 0:
                fields: Mapping[str, Any] = getattr(record, _FIELDS, {})
                setattr(record, _FIELDS, {**fields, "leftOut": left_out})
        self._seen[sentence] = since, count + 1
        return count < REPEATS


class Log:
    """A logger whose calls take key=value pairs: `log.info("Serving", address="127.0.0.1:6443")`."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, sentence: str, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.DEBUG):
            self._logger.debug(sentence, extra={_FIELDS: fields})

    def info(self, sentence: str, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.INFO):
            self._logger.info(sentence, extra={_FIELDS: fields})

    def warning(self, sentence: str, **fields: object) -> None:
        self._logger.warning(sentence, extra={_FIELDS: fields})

    def error(self, sentence: str, **fields: object) -> None:
        self._logger.error(sentence, extra={_FIELDS: fields})

    def exception(self, sentence: str, **fields: object) -> None:
        """Report a bug, with its traceback; call it where the exception is being handled."""
        self._logger.exception(sentence, extra={_FIELDS: fields})


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Send weir's logs to *stream* (standard error) from *level* on; called by commands, never on import."""
    chosen = logging.getLevelNamesMapping().get(level.upper())
    if chosen is None:
        raise ValueError(f"log level {level!r} is none of debug, info, warning, error")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Formatter())
    handler.addFilter(Repeats())
    logger = logging.getLogger("weir")
    logger.handlers[:] = [handler]
    logger.setLevel(chosen)
    logger.propagate = False
