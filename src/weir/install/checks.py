"""Check results of an installation: one line per check, with a remedy where it failed."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from weir import errors
from weir.client.api import Client
from weir.objects.kind import Document, Kind
from weir.objects.kinds import by_kind

_MOST_NAMES: Final = 3
SELF_REVIEWS: Final = by_kind("authorization.k8s.io/v1", "SelfSubjectAccessReview")


class Verdict(enum.Enum):
    """What a check comes to."""

    FINE = "fine"
    NOTE = "note"  # worth knowing, nothing to do
    TO_DO = "todo"
    UNKNOWN = "unknown"  # it could not be asked


@dataclass(frozen=True, slots=True)
class Check:
    """One question, what was found, and what to do where something is."""

    name: str
    verdict: Verdict
    says: str
    do: str = ""


Questions = Iterable[tuple[str, Callable[[], Awaitable[Check]]]]


async def ask_all(questions: Questions) -> list[Check]:
    """Return the answers in their order; a question that the API server does not answer is not known."""
    return [await _asked(name, ask) for name, ask in questions]


async def _asked(name: str, ask: Callable[[], Awaitable[Check]]) -> Check:
    try:
        return await ask()
    except errors.Forbidden as error:
        return Check(name, Verdict.UNKNOWN, f"you may not look: {one_line(error)}")
    except errors.ApiError as error:
        return Check(name, Verdict.UNKNOWN, f"the API server did not say: {one_line(error)}")


async def may(
    client: Client,
    kind: Kind,
    verb: str,
    group: str,
    resource: str,
    namespace: str,
    name: str = "",
    user: str = "",
) -> bool:
    """Return whether the caller, or *user*, may do this, by the API server's own judgement."""
    status = await review(client, kind, verb, group, resource, namespace, name, user)
    return bool(status.get("allowed"))


async def review(
    client: Client,
    kind: Kind,
    verb: str,
    group: str,
    resource: str,
    namespace: str,
    name: str = "",
    user: str = "",
) -> Document:
    """Return what the API server says of the rights of the caller, or of *user*: the status of its review."""
    plain, _, subresource = resource.partition("/")
    attributes = {
        "verb": verb,
        "group": group,
        "resource": plain,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
    }
    spec: Document = {"resourceAttributes": {key: value for key, value in attributes.items() if value}}
    if user:
        spec |= {"user": user, "groups": _groups(user)}
    asked = {"apiVersion": "authorization.k8s.io/v1", "kind": kind.kind, "metadata": {}, "spec": spec}
    answer = await client.create(kind, asked)
    return answer.get("status") or {}


def _groups(user: str) -> list[str]:
    namespace = user.split(":")[2]
    return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]


def listed(names: list[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return f"{shown} and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else shown


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())


SCHEMA: Final = "weir.check/v1"


def report(cluster: str, installed: bool, checks: Iterable[Check]) -> Document:
    """Return the checks for programs (docs/reference/check.schema.json)."""
    return {
        "schema": SCHEMA,
        "cluster": cluster,
        "installed": installed,
        "checks": [
            {"name": each.name, "verdict": each.verdict.value, "says": each.says, "do": each.do or None}
            for each in checks
        ],
    }
