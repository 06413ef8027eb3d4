"""The scenarios of stock.md 10: what happens to a running pod when the taints of its node change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]
Taint = tuple[str, str, str]


def entry(
    operator: str, value: str = "", *, seconds: int | None = None, effect: str = "NoExecute"
) -> Document:
    found: Document = {"key": "sla", "operator": operator, "effect": effect}
    if value:
        found["value"] = value
    if seconds is not None:
        found["tolerationSeconds"] = seconds
    return found


def sla(value: str, effect: str = "NoExecute") -> Taint:
    return ("sla", value, effect)


@dataclass(frozen=True)
class Scenario:
    """A pod with these tolerations on a node with the first taints; then each step, after a pause in seconds."""

    name: str
    tolerations: tuple[Document, ...]
    first: tuple[Taint, ...]
    steps: tuple[tuple[float, tuple[Taint, ...]], ...]
    #: Seconds after the first step at which the pod is evicted; None: it stays.
    evicted: float | None = None


GT = entry("Gt", "900")
GT3 = entry("Gt", "900", seconds=3)
LT = entry("Lt", "100")
EXISTS = entry("Exists")
A950, A960 = (sla("950"),), (sla("960"),)
LARGEST, TOO_LARGE = str(2**63 - 1), str(2**63)

SCENARIOS = (
    Scenario("another matching value", (GT,), A950, ((0, A960),)),
    Scenario("a lower value", (GT,), A950, ((0, (sla("800"),)),), 0),
    Scenario("a word", (GT,), A950, ((0, (sla("high"),)),), 0),
    Scenario("a leading zero", (GT,), A950, ((0, (sla("0960"),)),), 0),
    Scenario("one more taint", (GT,), A950, ((0, (*A950, ("other", "1", "NoExecute"))),), 0),
    Scenario("from one range to the other", (GT, LT), A950, ((0, (sla("50"),)),)),
    Scenario("between two ranges", (GT, LT), A950, ((0, (sla("500"),)),), 0),
    Scenario("a matching value for three seconds", (GT3,), (), ((0, A950),), 3),
    Scenario("a second matching value restarts nothing", (GT3,), (), ((0, A950), (1.5, A960)), 3),
    Scenario("no match while the time runs", (GT3,), (), ((0, A950), (1.5, (sla("800"),))), 1.5),
    Scenario("removal cancels", (GT3,), (), ((0, A950), (1.5, ()))),
    Scenario("the first entry counts, with seconds", (GT3, EXISTS), (), ((0, A950),), 3),
    Scenario("the first entry counts, without", (EXISTS, GT3), (), ((0, A950),)),
    Scenario("NoSchedule leaves running pods alone", (GT,), (), ((0, (sla("100", "NoSchedule"),)),)),
    Scenario("the largest number", (GT,), A950, ((0, (sla(LARGEST),)),)),
    Scenario("no number any more", (GT,), A950, ((0, (sla(TOO_LARGE),)),), 0),
    Scenario("back and forth", (GT,), A950, ((0, A960), (0.5, A950), (0.5, A960))),
)
