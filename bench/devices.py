"""Device taints at size: 1,000 nodes with 8 devices, 100 rules; from nothing, and one rule at a time.

Times are those of the processor. Every rule change is measured whole: the rule is taken in and every device it selects
has its new taints. The baseline of a change is the rebuild it replaces.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from bench import Figure
from weir.devices.tracker import Tracker
from weir.gates import ALL_FEATURES
from weir.objects.core import read
from weir.objects.resource import DeviceTaintRule, ResourceSlice

NODES, DEVICES, RULES = 1_000, 8, 100
TIMES = 5
DRIVER = "gpu.example.com"


def slices(nodes: int = NODES) -> list[ResourceSlice]:
    """Return one slice a node; one device in fifty is tainted by its driver."""
    return [
        read(
            ResourceSlice,
            {
                "metadata": {"name": f"slice-{node:04}"},
                "spec": {
                    "driver": DRIVER,
                    "nodeName": f"node-{node}",
                    "pool": {"name": f"node-{node}", "generation": 1, "resourceSliceCount": 1},
                    "devices": [
                        {
                            "name": f"gpu-{index}",
                            "attributes": {
                                "index": {"int": index},
                                "uuid": {"string": f"gpu-{node}-{index}"},
                                "model": {"string": "h100" if node % 4 else "a100"},
                                "driverVersion": {"version": f"1.{node % 7}.0"},
                            },
                            "capacity": {"memory": {"value": "80Gi"}},
                            "taints": [{"key": "health", "value": "bad", "effect": "NoSchedule"}]
                            if (node * DEVICES + index) % 50 == 0
                            else [],
                        }
                        for index in range(DEVICES)
                    ],
                },
            },
        )
        for node in range(nodes)
    ]


def rule(
    number: int, selector: dict[str, Any], effect: str = "NoSchedule", value: str = ""
) -> DeviceTaintRule:
    taint = {"key": f"rule-{number}", "value": value, "effect": effect, "timeAdded": "2026-01-01T00:00:00Z"}
    return read(
        DeviceTaintRule,
        {
            "metadata": {"name": f"rule-{number:03}", "uid": str(number)},
            "spec": {"deviceSelector": selector, "taint": taint},
        },
    )


def cel(expression: str) -> dict[str, Any]:
    return {"selectors": [{"cel": {"expression": expression}}]}


def rules() -> list[DeviceTaintRule]:
    """Return a mixture: most by pool or device, some by driver, some by attributes."""
    made = []
    for number in range(RULES):
        if number % 20 == 0:
            selector: dict[str, Any] = {"driver": DRIVER}
        elif number % 20 == 1:
            selector = {
                "driver": DRIVER,
                **cel(f"device.attributes['{DRIVER}'].driverVersion.isLessThan(semver('1.{number % 7}.0'))"),
            }
        elif number % 4 == 2:
            selector = {"driver": DRIVER, "pool": f"node-{number}", "device": "gpu-0"}
        else:
            selector = {"pool": f"node-{number}"}
        made.append(rule(number, selector))
    return made


def build(found: list[ResourceSlice], made: list[DeviceTaintRule]) -> tuple[Tracker, float]:
    """Return a tracker built from nothing, rules first as a watch may deliver them, and the seconds it took."""
    started = time.process_time()
    tracker = Tracker(ALL_FEATURES)
    for one in made:
        tracker.put_rule(one)
    for entry in found:
        tracker.put_slice(entry)
    return tracker, time.process_time() - started


def milliseconds(tracker: Tracker, *changes: DeviceTaintRule) -> tuple[float, int]:
    """Return the median time of a change and how many slices the last one touched."""
    times, touched = [], 0
    for change in changes:
        started = time.process_time()
        update = tracker.put_rule(change)
        times.append((time.process_time() - started) * 1000)
        touched = len(update.slices)
    return statistics.median(times), touched


def run() -> list[Figure]:
    found, made = slices(), rules()
    rebuild = min(build(found, made)[1] for _ in range(3))
    tracker, _ = build(found, made)
    base = rebuild * 1000
    figures = [Figure("rebuild: 8,000 devices, 100 rules", rebuild, "s", None, None, "under 1 s")]
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("one device", {"driver": DRIVER, "pool": "node-7", "device": "gpu-3"}),
        ("the devices of one pool", {"pool": "node-8"}),
        ("one name in every pool", {"device": "gpu-5"}),
        ("every device of a driver", {"driver": DRIVER}),
        ("a quarter, by attribute alone (all asked)", cel(f"device.attributes['{DRIVER}'].model == 'a100'")),
        (
            "three in seven, by version",
            cel(f"device.attributes['{DRIVER}'].driverVersion.isLessThan(semver('1.3.0'))"),
        ),
        ("one, by uuid", cel(f"device.attributes['{DRIVER}'].uuid == 'gpu-77-7'")),
        (
            "one pool, by what uuids begin with",
            cel(f"device.attributes['{DRIVER}'].uuid.startsWith('gpu-77-')"),
        ),
    ]
    for number, (name, selector) in enumerate(kinds, RULES):
        new = rule(number, selector)
        samples = []
        for _ in range(TIMES):  # as a new rule each time
            tracker.remove_rule(new.name)
            samples.append(milliseconds(tracker, new))
        added, slices_touched = statistics.median(taken for taken, _ in samples), samples[-1][1]
        figures.append(
            Figure(
                f"new rule: {name} ({slices_touched} slices)", added, "ms", base, base / added, "under 20 ms"
            )
        )
        edits = [rule(number, selector, "NoExecute", str(value)) for value in range(5)]
        edited, _ = milliseconds(tracker, *edits)
        figures.append(Figure("  its taint edited", edited, "ms", base, base / edited, "under 20 ms"))
        started = time.process_time()
        tracker.remove_rule(f"rule-{number:03}")
        removed = (time.process_time() - started) * 1000
        figures.append(Figure("  removed", removed, "ms", base, base / removed, "under 20 ms"))
    return figures
