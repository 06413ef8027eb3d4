"""Checks the user's permissions for a change before it is tried.

Each write of weir.ui.writes needs a verb on a resource, checked by SelfSubjectAccessReview. A cluster-wide denial is
not final, because a role may name single nodes or one namespace: then each target is checked, and the first denial
decides. What remains unknown counts as allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from weir.errors import WeirError
from weir.install.checks import SELF_REVIEWS, review
from weir.ui.source import ClusterView, Source
from weir.ui.timeline import BadQuestion, Question, chosen_nodes
from weir.ui.writes import AGENT, drained

if TYPE_CHECKING:
    from weir.client.api import Client

Place = tuple[str, str]  #: namespace, name; "" for any
_DRA: Final = "resource.k8s.io"
_RULES: Final = "devicetaintrules"
_EVERYWHERE: Final[Place] = ("", "")
_MOST_PLACES: Final = 10


@dataclass(frozen=True)
class RequiredPermission:
    """One verb on one resource, in the places where a change uses it."""

    verb: str
    group: str
    resource: str
    places: tuple[Place, ...]

    def say(self, place: Place) -> str:
        """Return the need in words.

        >>> RequiredPermission("create", "", "pods/eviction", ()).say(("shop", ""))
        'create pods/eviction in shop'
        """
        namespace, name = place
        what = f"{self.verb} {self.resource}" + (f"/{name}" if name else "")
        return f"{what} in {namespace}" if namespace else what


#: Which version of the rules is served is found out by listing them.
_SERVED: Final = RequiredPermission("list", _DRA, _RULES, (_EVERYWHERE,))


def needs(seen: ClusterView, question: Question) -> list[RequiredPermission]:
    """Return what making a change takes."""
    if question.kind == "apply":
        names = tuple(("", rule["metadata"]["name"]) for rule in question.documents)
        absent = tuple(place for place in names if place[1] not in _rules(seen))
        # Applying is a patch; of a rule that is not there yet it is a create as well.
        return [
            _SERVED,
            RequiredPermission("patch", _DRA, _RULES, names),
            RequiredPermission("create", _DRA, _RULES, absent),
        ]
    if question.kind == "gates":
        return []
    nodes = [node.name for node in chosen_nodes(seen, question.nodes)]
    places = tuple(("", name) for name in nodes)
    if question.kind == "delete-node":
        return [RequiredPermission("delete", "", "nodes", places)]
    found = [RequiredPermission("patch", "", "nodes", places)]
    if question.kind in ("taint", "untaint"):
        found.insert(0, RequiredPermission("get", "", "nodes", places))
    if question.kind == "drain":
        try:
            pods = drained(seen, set(nodes), question.force)
        except BadQuestion:  # rejected before anything is written, for every user
            pods = []
        namespaces = tuple((namespace, "") for namespace in sorted({namespace for namespace, _ in pods}))
        found.append(RequiredPermission("create", "", "pods/eviction", namespaces))
    return found


def needs_to_untaint(rule: str) -> list[RequiredPermission]:
    """Return what deleting a DeviceTaintRule takes."""
    return [_SERVED, RequiredPermission("delete", _DRA, _RULES, (("", rule),))]


def _rules(seen: ClusterView) -> set[str]:
    return {each["metadata"]["name"] for each in seen.documents if each.get("kind") == "DeviceTaintRule"}


def denied(source: Source, wanted: Sequence[RequiredPermission]) -> list[str]:
    """Return those needs, in words, that the API server says the user's rights do not meet."""

    async def act(client: Client) -> list[str]:
        found = [await _denied(client, need) for need in wanted]
        return [words for words in found if words]

    return source.where.live.run(AGENT, act)


async def _denied(client: Client, need: RequiredPermission) -> str:
    if not need.places or await _may(client, need, _EVERYWHERE):
        return ""
    for place in need.places[:_MOST_PLACES]:
        if not await _may(client, need, place):
            return need.say(place)
    return ""


async def _may(client: Client, need: RequiredPermission, place: Place) -> bool:
    namespace, name = place
    try:
        said = await review(client, SELF_REVIEWS, need.verb, need.group, need.resource, namespace, name)
    except (WeirError, ConnectionError, TimeoutError):
        return True
    return bool(said.get("allowed")) or bool(said.get("evaluationError"))
