"""Did it happen as foreseen? A forecast kept as a plan, held against the cluster after the change was made.

A plan is the report with the uids of the pods it speaks of. It is looked at again with what the cluster holds then:
the pods that were to leave are gone, each workload has as many pods that run as foreseen, and on the nodes foreseen.
Names of new pods are made up by the server, so they are not compared.
Not here: the forecast (weir.whatif.forecast).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from weir.objects.times import format_time
from weir.whatif.snapshot import owner_of
from weir.world import flatten

SCHEMA: Final = "weir.what-if-plan/v1"
Document = dict[str, Any]


class PlanError(ValueError):
    """A file that is no plan, with what is wrong about it."""


@dataclass(frozen=True)
class Check:
    """One thing that was foreseen, and what was found."""

    about: str
    foreseen: str
    found: str

    @property
    def held(self) -> bool:
        return self.foreseen == self.found


def plan(report: Document, uids: Mapping[str, str], at: datetime) -> Document:
    """Return the plan of a *report* made *at* this time; *uids* are those of the pods it speaks of."""
    return {
        "schema": SCHEMA,
        "at": format_time(at),
        "report": report,
        "uids": {one["pod"]: uids[one["pod"]] for one in report["leaving"] if one["pod"] in uids},
    }


def check(document: Any) -> Document:
    """Return *document* when it is a plan; raises PlanError."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        found = document.get("schema") if isinstance(document, dict) else None
        raise PlanError(
            f"no plan: its schema is {found!r}, not {SCHEMA!r} (weir what-if … -o plan writes one)"
        )
    for name in ("workloads", "leaving"):
        if not isinstance((document.get("report") or {}).get(name), list):
            raise PlanError(f"no plan: report.{name} is missing")
    return document


def verify(found_plan: Document, documents: Iterable[Document]) -> list[Check]:
    """Return every foreseen thing beside what the cluster of *documents* shows."""
    report = found_plan["report"]
    there: dict[str, Document] = {}
    above: dict[str, str] = {}
    for document in flatten(documents):
        if document.get("kind") == "Pod":
            metadata = document["metadata"]
            there[f"{metadata.get('namespace', 'default')}/{metadata['name']}"] = document
        elif document.get("kind") == "ReplicaSet" and (owner := owner_of(document)) is not None:
            above[document["metadata"].get("uid", "")] = f"{owner['kind']}/{owner['name']}"
    checks = []
    for one in report["leaving"]:
        pod = there.get(one["pod"])
        uid = found_plan.get("uids", {}).get(one["pod"])
        same = pod is not None and (uid is None or pod["metadata"].get("uid") == uid)
        gone = not same or bool(pod and pod["metadata"].get("deletionTimestamp"))
        checks.append(Check(f"pod {one['pod']}", "gone", "gone" if gone else "still there"))
    running: dict[str, Counter[str]] = {}
    for key, pod in there.items():
        owner = owner_of(pod)
        name = key.partition("/")[2]
        title = (
            above.get(owner.get("uid", ""), f"{owner['kind']}/{owner['name']}") if owner else f"Pod/{name}"
        )
        if (pod.get("status") or {}).get("phase") == "Running" and not pod["metadata"].get(
            "deletionTimestamp"
        ):
            workload = f"{key.partition('/')[0]}/{title}"
            running.setdefault(workload, Counter())[(pod.get("spec") or {}).get("nodeName", "")] += 1
    for each in report["workloads"]:
        name = each["workload"]
        nodes = running.get(name, Counter())
        if each["circles"]:
            continue  # where it is when somebody looks is chance
        checks.append(Check(name, f"{each['after']} run", f"{nodes.total()} run"))
        foreseen = Counter({move["to"]: move["pods"] for move in each["moves"]})
        missing = foreseen - nodes
        if foreseen:
            told = _places(foreseen)
            checks.append(Check(name, f"on {told}", f"on {told}" if not missing else f"on {_places(nodes)}"))
    return checks


def _places(nodes: Counter[str]) -> str:
    return (
        ", ".join(f"{node}×{count}" if count > 1 else node for node, count in sorted(nodes.items())) or "none"
    )
