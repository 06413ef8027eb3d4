"""podFailurePolicy and successPolicy of a Job, and ranges of indexes like `1-3,5`.

podFailurePolicy: the first rule that matches a failed pod decides, by exit codes (never 0) or conditions; without a
match the failure counts. successPolicy: the first rule whose indexes, or number of indexes, have succeeded completes
the Job.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from weir.controllers.runtime.views import ContainerStatus, Pod


def parse_indexes(text: str | None, completions: int) -> frozenset[int]:
    """Return the indexes below *completions* that *text* names; what cannot be read is left out.

    >>> sorted(parse_indexes("1-3,5,x,9", 6))
    [1, 2, 3, 5]
    """
    indexes: set[int] = set()
    for part in (text or "").split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            continue
        indexes.update(range(int(first), min(int(last if dash else first), completions - 1) + 1))
    return frozenset(indexes)


def print_indexes(indexes: Iterable[int]) -> str:
    """Return numbers as Jobs write them: runs of three or more with a dash.

    >>> print_indexes([8, 1, 2, 3, 5, 7])
    '1-3,5,7,8'
    """
    runs: list[list[int]] = []
    for index in sorted(set(indexes)):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    parts = [f"{r[0]}-{r[-1]}" if len(r) > 2 else ",".join(map(str, r)) for r in runs]
    return ",".join(parts)


Document = Mapping[str, Any]


@dataclass(frozen=True)
class Handling:
    """How a failed pod is taken."""

    action: str = ""  #: Ignore, Count, FailIndex or FailJob; nothing when no rule matched
    message: str = ""  #: why the Job fails (FailJob)

    @property
    def counts(self) -> bool:
        """Whether the failure counts towards the limits."""
        return self.action != "Ignore"


def handle(policy: Document | None, pod: Pod) -> Handling:
    """Return what *policy* says of a failed pod.

    >>> from weir.objects.core import read
    >>> ended = {"name": "c", "state": {"terminated": {"exitCode": 42}}}
    >>> failed = read(Pod, {"status": {"phase": "Failed", "containerStatuses": [ended]}})
    >>> handle({"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}]}, failed).counts
    False
    """
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        action = rule["action"]
        if rule.get("onExitCodes"):
            container = _container(pod, rule["onExitCodes"])
            if container is not None and container.terminated is not None:
                code = container.terminated.get("exitCode")
                cause = f"Container {container.name} for pod {name} failed with exit code {code}"
                return Handling(action, f"{cause} matching {action} rule at index {number}")
        elif rule.get("onPodConditions"):
            matched = _condition(pod, rule["onPodConditions"])
            if matched:
                cause = f"Pod {name} has condition {matched}"
                return Handling(action, f"{cause} matching {action} rule at index {number}")
    return Handling()


def _container(pod: Pod, requirement: Document) -> ContainerStatus | None:
    both: Iterable[ContainerStatus] = (
        *(pod.status.container_statuses or ()),
        *(pod.status.init_container_statuses or ()),
    )
    for status in both:
        ended = status.terminated
        if ended is None or requirement.get("containerName") not in (None, status.name):
            continue
        code = ended.get("exitCode", 0)
        listed = code in (requirement.get("values") or ())
        if code and listed == (requirement.get("operator") == "In"):
            return status
    return None


def _condition(pod: Pod, patterns: Iterable[Document]) -> str:
    for condition in pod.status.conditions or ():
        for pattern in patterns:
            if (condition.type, condition.status) == (pattern["type"], pattern.get("status", "True")):
                return condition.type
    return ""


def met(policy: Document | None, completions: int, succeeded: Collection[int]) -> str:
    """Return how a successPolicy is satisfied; nothing when it is not.

    >>> met({"rules": [{"succeededIndexes": "0-2", "succeededCount": 2}]}, 5, {0, 2})
    'Matched rules at index 0'
    """
    if not succeeded:
        return ""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is not None:
            required = parse_indexes(rule["succeededIndexes"], completions)
            have = len(required & set(succeeded))
            done = bool(required) and (have == len(required) or (count is not None and have >= count))
        else:
            done = count is not None and len(succeeded) >= count
        if done:
            return f"Matched rules at index {number}"
    return ""
