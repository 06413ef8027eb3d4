"""Structured logging of weir's components: one line per event, a fixed message and key=value pairs.

Formats by `--logging-format`: `plain` (`2026-06-01T10:00:00.123Z info weir.apiserver Serving
address=127.0.0.1:6443`), `text` (klog's) and `json`, with the field names of Kubernetes' components. A value with a
space, quote, `=` or control character is printed as a JSON string, so that lines cannot be forged. Levels are klog's:
errors and warnings always, `Log.v(n, …)` from `-v n` on (docs/reference/logs.md). Only components and edges log; pure
code does not. Of one warning or error at most five lines in ten seconds are written, and the next line says how many
were dropped.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from weir.values.printable import printable

_PLAIN = re.compile(r"[^\s\"'=\\\x00-\x1f\x7f]+\Z")
_FIELDS = "weir_fields"
REPEATS = 5
REPEATS_SECONDS = 10.0
MOST_SENTENCES: Final = 1024
MOST_VERBOSE: Final = 10
#: Parts of paths whose bodies are never logged, at whatever level.
CONFIDENTIAL: Final = ("/secrets", "/token", "tokenreviews")

# Library users who configure no logging get none.
logging.getLogger("weir").addHandler(logging.NullHandler())


class ObjectRef(NamedTuple):
    """An object of the API in a log line: `namespace/name`, in JSON both apart (klog's KObj)."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def data(self) -> dict[str, str]:
        return {"name": self.name, **({"namespace": self.namespace} if self.namespace else {})}


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


def _sentence(record: logging.LogRecord) -> str:
    return printable(" ".join(record.getMessage().split()))


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    found: Mapping[str, Any] = getattr(record, _FIELDS, {})
    return found


def _caller(record: logging.LogRecord) -> str:
    """Return where a line comes from, as zap shortens it: the last folder, the file and the line."""
    return f"{'/'.join(Path(record.pathname).parts[-2:])}:{record.lineno}"


class Formatter(logging.Formatter):
    """Prints a record as one plain line; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC)
        parts = [
            f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03d}Z",
            record.levelname.lower() if record.levelno > logging.INFO else "info",
            record.name,
            _sentence(record),
            *(pair(key, value) for key, value in _fields(record).items()),
        ]
        return " ".join(part for part in parts if part) + self.traceback(record)

    def traceback(self, record: logging.LogRecord) -> str:
        return "\n" + printable(self.formatException(record.exc_info), keep="\n") if record.exc_info else ""


class KlogFormatter(Formatter):
    """Prints a record as klog does: `I0601 10:00:00.123456   12345 run.py:65] "Serving" address="127.0.0.1:6443"`."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created)  # klog prints the machine's own time
        severity = "E" if record.levelno >= logging.ERROR else "W" if record.levelno > logging.INFO else "I"
        head = (
            f"{severity}{when:%m%d %H:%M:%S.%f} {record.process or 0:7d} {record.filename}:{record.lineno}]"
        )
        parts = [head, json.dumps(_sentence(record), ensure_ascii=False)]
        for key, value in _fields(record).items():
            shown = json.dumps(value if _is_bare(value) else str(value))
            parts.append(f"{key}={'<nil>' if value is None else shown}")
        return " ".join(parts) + self.traceback(record)


class JsonFormatter(Formatter):
    """Prints a record as one JSON object with the names Kubernetes' components use: ts, caller, logger, msg, v, err."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {"ts": round(record.created * 1000, 3), "caller": _caller(record)}
        line |= {"logger": record.name, "msg": _sentence(record)}
        if record.levelno <= logging.INFO:
            line["v"] = logging.INFO - record.levelno
        for key, value in _fields(record).items():
            line[key] = (
                value.data() if isinstance(value, ObjectRef) else value if _is_bare(value) else str(value)
            )
        if record.exc_info:
            line.setdefault("err", str(record.exc_info[1]))
            line["stacktrace"] = self.formatException(record.exc_info)
        return json.dumps(line)


def _is_bare(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float)


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
                setattr(record, _FIELDS, {**_fields(record), "leftOut": left_out})
        if len(self._seen) >= MOST_SENTENCES:
            self._seen.clear()
        self._seen[sentence] = since, count + 1
        return count < REPEATS


class Log:
    """A logger whose calls take key=value pairs: `log.v(2, "Bound", pod=…)`, `log.error("failed", err=error)`."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def shows(self, verbosity: int) -> bool:
        """Return whether `v(verbosity, …)` would print: check before computing values only for a log."""
        return self._logger.isEnabledFor(logging.INFO - verbosity)

    def v(self, verbosity: int, sentence: str, **fields: object) -> None:
        """Say something from `-v verbosity` on."""
        if self._logger.isEnabledFor(logging.INFO - verbosity):
            self._logger.log(logging.INFO - verbosity, sentence, extra={_FIELDS: fields}, stacklevel=2)

    def info(self, sentence: str, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.INFO):
            self._logger.info(sentence, extra={_FIELDS: fields}, stacklevel=2)

    def warning(self, sentence: str, **fields: object) -> None:
        self._logger.warning(sentence, extra={_FIELDS: fields}, stacklevel=2)

    def error(self, sentence: str, **fields: object) -> None:
        self._logger.error(sentence, extra={_FIELDS: fields}, stacklevel=2)

    def exception(self, sentence: str, **fields: object) -> None:
        """Report a bug, with its traceback; call it where the exception is being handled."""
        self._logger.exception(sentence, extra={_FIELDS: fields}, stacklevel=2)


_FORMATTERS: Final = {"plain": Formatter, "text": KlogFormatter, "json": JsonFormatter}


def configure(verbosity: int | None = 0, stream: TextIO | None = None, form: str = "plain") -> None:
    """Send weir's logs to *stream* (standard error) up to *verbosity*; called by commands, never on import.

    Without a verbosity only warnings and errors are logged.
    """
    if verbosity is not None and not 0 <= verbosity <= MOST_VERBOSE:
        raise ValueError(f"verbosity {verbosity} is not between 0 and {MOST_VERBOSE}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_FORMATTERS[form]())
    handler.addFilter(Repeats())
    logger = logging.getLogger("weir")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.WARNING if verbosity is None else logging.INFO - verbosity)
    logger.propagate = False
