"""Faults of simulated devices over time.

A fault begins (by a class file's schedule or a command), may end, and meanwhile taints the device, removes it, or
breaks its whole pool. A tainted value may count in steps, like an error budget. Later faults replace earlier ones
with the same key and effect; a repair ends all faults begun before it. The state is computed from the time, so it
survives a restart of the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from weir.objects.times import format_micro_time
from weir.taints.notation import DEVICE_EFFECTS, TaintNotationError, parse_taint, taint_document

Document = dict[str, Any]
ANNOTATION: Final = "faults.weir.dev/"  #: what was done to a device, by its name
#: The device name that stands for the whole pool.
POOL: Final = "pool"
DUPLICATES, WRONG_COUNT = "duplicate-devices", "wrong-count"
BREAKS: Final = (DUPLICATES, WRONG_COUNT)
_KINDS: Final = ("taint", "unplugged", "broken", "repaired")
_TIMES: Final = ("since", "afterSeconds", "forSeconds", "step", "everySeconds")
_TAINT: Final = ("description", "data", "evictionsPerSecond")
_FIELDS: Final = frozenset({"device", *_KINDS, *_TIMES, *_TAINT})


class FaultError(ValueError):
    """A fault that cannot be read, with what is wrong."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a device (or, named POOL, of its whole pool)."""

    device: str
    begin: datetime
    end: datetime | None = None
    taint: Mapping[str, Any] | None = None
    step: int = 0  #: added to a numeric value …
    every: timedelta = timedelta()  #: … this often, down to 0
    unplugged: bool = False
    broken: str = ""  #: one of BREAKS
    repaired: str | None = None  #: takes back what began before: a taint key, or "" for everything


@dataclass(frozen=True)
class Condition:
    """What holds for a pool at one moment."""

    taints: Mapping[str, tuple[Document, ...]] = field(default_factory=dict)  #: by device
    unplugged: frozenset[str] = frozenset()
    broken: str = ""
    changes_at: datetime | None = None  #: when something else will hold; None: never by itself


def read_fault(document: object, start: datetime) -> Fault:
    """Return the fault a document describes; its times count from *start* unless it says since when.

    >>> fault = read_fault({"device": "gpu-0", "taint": "hot:NoSchedule", "afterSeconds": 60}, datetime.now(UTC))
    >>> fault.taint
    {'key': 'hot', 'effect': 'NoSchedule'}
    """
    if not isinstance(document, dict):
        raise FaultError(f"{document!r} is no fault: write device and taint, unplugged, broken or repaired")
    unknown = set(document) - _FIELDS
    if unknown:
        raise FaultError(f"unknown field {min(map(str, unknown))!r}: there are {', '.join(sorted(_FIELDS))}")
    device = document.get("device")
    if not isinstance(device, str) or not device:
        raise FaultError("device: the name of a device is needed, such as gpu-0")
    begin = _moment(document["since"]) if "since" in document else start
    begin += timedelta(seconds=_seconds(document, "afterSeconds"))
    lasts = _seconds(document, "forSeconds")
    found = Fault(device, begin, begin + timedelta(seconds=lasts) if "forSeconds" in document else None)
    given = [name for name in _KINDS if name in document]
    if len(given) != 1:
        raise FaultError(f"{device}: exactly one of {', '.join(_KINDS)} is needed")
    (kind,) = given
    value = document[kind]
    if kind == "taint":
        return replace(found, taint=_taint(document), **_steps(document))
    if kind == "unplugged":
        if value is not True:
            raise FaultError(f"{device}: unplugged: only true means something")
        return replace(found, unplugged=True)
    if kind == "broken":
        if value not in BREAKS or device != POOL:
            raise FaultError(f"broken: {value!r}: a pool is broken by {' or '.join(BREAKS)} (device: {POOL})")
        return replace(found, broken=value)
    if not isinstance(value, str):
        raise FaultError(f'{device}: repaired: a taint key, or "" for everything')
    return replace(found, repaired=value)


def _taint(document: Document) -> Document:
    text = document["taint"]
    try:
        taint: Document
        if isinstance(text, dict):
            taint = dict(text)
        else:
            taint = dict(taint_document(parse_taint(str(text), DEVICE_EFFECTS)))
    except TaintNotationError as error:
        raise FaultError(str(error)) from None
    if not taint.get("key") or not taint.get("effect"):
        raise FaultError(f"{text!r} is no taint: it needs a key and an effect")
    for name in _TAINT:
        if name in document:
            taint[name] = document[name]
    return taint


def _steps(document: Document) -> dict[str, Any]:
    if "step" not in document and "everySeconds" not in document:
        return {}
    step, every = document.get("step", -1), _seconds(document, "everySeconds")
    if isinstance(step, bool) or not isinstance(step, int) or not step:
        raise FaultError(f"step: {step!r} is no whole number other than 0")
    if every <= 0:
        raise FaultError("everySeconds: a value that counts needs a time between its steps")
    value = str(_taint(document).get("value", ""))
    if not value.isdecimal() or not value.isascii():
        raise FaultError(f"taint: the value {value!r} is no number that could count by steps")
    return {"step": step, "every": timedelta(seconds=every)}


def _seconds(document: Document, name: str) -> float:
    value = document.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e9:
        raise FaultError(f"{name}: {value!r} is no number of seconds from 0 on")
    return float(value)


def _moment(text: object) -> datetime:
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise FaultError(f"since: {text!r} is no time like 2026-01-01T12:00:00Z")
    return found.astimezone(UTC)


def condition(faults: Iterable[Fault], now: datetime) -> Condition:
    """Return what *faults* amount to at *now*, and when they will amount to something else."""
    ordered = sorted(faults, key=lambda fault: fault.begin)  # stable: of those at one time the last one wins
    begun = [fault for fault in ordered if fault.begin <= now]
    changes = [fault.begin for fault in ordered if fault.begin > now]
    holding: dict[tuple[str, ...], Fault] = {}
    for fault in begun:
        if fault.repaired is not None:
            holding = {key: held for key, held in holding.items() if not _repairs(fault, held)}
        else:
            holding.pop(_key(fault), None)
            holding[_key(fault)] = fault
    taints: dict[str, list[Document]] = {}
    unplugged: set[str] = set()
    broken = ""
    for fault in holding.values():
        if fault.end is not None:
            if fault.end <= now:
                continue
            changes.append(fault.end)
        if fault.taint is not None:
            taint, next_step = _counted(fault, now)
            taints.setdefault(fault.device, []).append(taint)
            changes += [next_step] if next_step is not None else []
        elif fault.unplugged:
            unplugged.add(fault.device)
        else:
            broken = fault.broken
    return Condition(
        {device: tuple(found) for device, found in taints.items()},
        frozenset(unplugged),
        broken,
        min(changes, default=None),
    )


def _key(fault: Fault) -> tuple[str, ...]:
    """Return what a later fault must share to replace this one."""
    if fault.taint is not None:
        return "taint", fault.device, fault.taint["key"], fault.taint["effect"]
    return ("unplugged", fault.device) if fault.unplugged else ("broken",)


def _repairs(repair: Fault, held: Fault) -> bool:
    if repair.device not in (held.device, POOL):
        return False
    return not repair.repaired or (held.taint is not None and held.taint["key"] == repair.repaired)


def _counted(fault: Fault, now: datetime) -> tuple[Document, datetime | None]:
    """Return the taint with its value as it is at *now*, and when the value changes next."""
    taint = dict(fault.taint or {})
    if not fault.step:
        return taint, None
    done = (now - fault.begin) // fault.every
    value = max(0, int(taint["value"]) + fault.step * done)
    taint["value"] = str(value)
    if value == 0 and fault.step < 0:
        return taint, None
    return taint, fault.begin + fault.every * (done + 1)


def with_fault(
    annotations: Mapping[str, str], device: str, entry: Document, now: datetime
) -> dict[str, str | None]:
    """Return the change of a node's annotations by which *entry* begins for *device* at *now*.

    A repair of the whole pool makes an end of all that was done to its devices.

    >>> at = datetime(2026, 1, 1, tzinfo=UTC)
    >>> with_fault({}, "gpu-0", {"taint": "hot:NoSchedule"}, at)
    {'faults.weir.dev/gpu-0': '[{"taint":"hot:NoSchedule","since":"2026-01-01T00:00:00.000000Z"}]'}
    """
    begun = {**entry, "since": format_micro_time(now)}
    new = read_fault({**begun, "device": device}, now)
    name = f"{ANNOTATION}{device}"
    if new.repaired == "":
        others = [known for known in annotations if known.startswith(ANNOTATION)] if device == POOL else []
        return {**dict.fromkeys(others), name: _written([begun])}
    kept = []
    for old in _entries(annotations.get(name, "[]")):
        fault = read_fault({**old, "device": device}, now)
        replaced = fault.repaired is None and new.repaired is None and _key(fault) == _key(new)
        if not replaced and not (new.repaired is not None and _repairs(new, fault)):
            kept.append(old)
    return {name: _written([*kept, begun])}


def read_annotation(name: str, text: str, start: datetime) -> list[Fault]:
    """Return the faults that a node's annotation *name* holds; raises FaultError."""
    device = name.removeprefix(ANNOTATION)
    return [read_fault({**entry, "device": device}, start) for entry in _entries(text)]


def _entries(text: str) -> list[Document]:
    try:
        return msgspec.json.decode(text, type=list[Document])
    except msgspec.DecodeError as error:
        raise FaultError(f"not a list of faults: {error}") from None


def _written(entries: list[Document]) -> str:
    return msgspec.json.encode(entries).decode()
