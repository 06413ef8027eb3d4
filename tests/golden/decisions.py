"""Where weir's answer differs from the recorded one on purpose.

One table, numbered; a difference that is not covered here is a failure. `paths` are removed from both
sides before comparing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.golden.recording import Exchange
from weir.objects import kinds


@dataclass(frozen=True)
class Decision:
    """One deliberate difference and the exchanges it covers."""

    number: str
    why: str
    covers: Callable[[Exchange], bool]
    paths: tuple[str, ...] = ()
    subset: bool = False  #: only what weir lists has to be in the recording
    #: takes what weir has on top out of its answer, if it is there as decided
    leave_out: Callable[[dict[str, Any]], None] | None = None
    #: says what is wrong with weir's answer where the recorded one does not count
    instead: Callable[[Exchange, dict[str, Any]], list[str]] | None = None


def _kind(exchange: Exchange) -> Any:
    return exchange.body.get("kind") if isinstance(exchange.body, dict) else None


def _unserved_group(exchange: Exchange) -> bool:
    parts = exchange.path.strip("/").split("/")
    return (
        parts[0] == "apis"
        and len(parts) > 1
        and exchange.response["code"] == 200
        and parts[1] not in kinds.groups()
    )


def _own_page(exchange: Exchange) -> bool:
    verbose = exchange.path in ("/healthz", "/livez", "/readyz") and "verbose" in exchange.query
    return verbose or exchange.path in ("/", "/openapi/v3")


def _tolerations(exchange: Exchange) -> list[dict[str, Any]]:
    """The tolerations of the first request of a claim that is created."""
    sent = exchange.request.get("body")
    if (
        exchange.request["method"] != "POST"
        or not isinstance(sent, dict)
        or sent.get("kind") != "ResourceClaim"
    ):
        return []
    requests = ((sent.get("spec") or {}).get("devices") or {}).get("requests") or [{}]
    return (requests[0].get("exactly") or {}).get("tolerations") or []


def _comparing(exchange: Exchange) -> bool:
    return any(entry.get("operator") in ("Lt", "Gt") for entry in _tolerations(exchange))


def _accepted(exchange: Exchange, answer: dict[str, Any]) -> list[str]:
    return [] if answer["code"] in (201, 409) else [f"code: valid by decision, got {answer['code']}"]


def _bounded(exchange: Exchange) -> bool:
    entries = _tolerations(exchange)
    return len(entries) > 16 or any(
        not entry.get("key") and entry.get("operator") != "Exists" and not entry.get("expression")
        for entry in entries
    )


def _refused(exchange: Exchange, answer: dict[str, Any]) -> list[str]:
    path = "spec.devices.requests[0].exactly.tolerations"
    cause = {
        "reason": "FieldValueTooMany",
        "message": f"Too many: {len(_tolerations(exchange))}: must have at most 16 items",
        "field": path,
    }
    if len(_tolerations(exchange)) <= 16:
        cause = {
            "reason": "FieldValueInvalid",
            "message": 'Invalid value: "Equal": operator must be Exists when `key` is empty, which means '
            '"match all values and all keys"',
            "field": f"{path}[0].operator",
        }
    found = (answer["code"], ((answer["body"] or {}).get("details") or {}).get("causes"))
    return [] if found == (422, [cause]) else [f"body: by decision 422 with {cause}, got {found}"]


def _without_dialect(answer: dict[str, Any]) -> None:
    """Take v1alpha4 out of every list of versions where it stands before v1alpha3."""

    def named(version: Any) -> Any:
        return version.get("version") if isinstance(version, dict) else None

    def clean(value: Any) -> None:
        if isinstance(value, dict):
            versions = value.get("versions")
            if isinstance(versions, list) and [named(v) for v in versions[-3:]] == [
                "v1beta1",
                "v1alpha4",
                "v1alpha3",
            ]:
                del versions[-2]
            for inner in value.values():
                clean(inner)
        elif isinstance(value, list):
            for inner in value:
                clean(inner)

    clean(answer.get("body"))


LISTS = ("APIResourceList", "APIGroupList", "APIGroupDiscoveryList")
BUILD = ("gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "platform", "compiler")

DECISIONS: tuple[Decision, ...] = (
    Decision(
        "D-15",
        "device tolerations compare numbers, as those of pods do",
        _comparing,
        instead=_accepted,
    ),
    Decision(
        "D-08",
        "the documented limits of device tolerations are enforced: at most 16, an empty key needs Exists",
        _bounded,
        instead=_refused,
    ),
    Decision(
        "D-17",
        "resource.k8s.io/v1alpha4, the relaxed dialect of the stories, is listed between v1beta1 and v1alpha3",
        lambda exchange: _kind(exchange) in (*LISTS, "APIGroup"),
        leave_out=_without_dialect,
    ),
    Decision(
        "G-01",
        "the build weir reports is its own: version, commit, build date and platform are not upstream's",
        lambda exchange: exchange.path == "/version",
        tuple(f"response.body.{name}" for name in BUILD),
    ),
    Decision(
        "G-06",
        "groups without a kind weir acts on are not served",
        _unserved_group,
        ("response.body", "response.code", "response.headers"),
    ),
    Decision(
        "G-02",
        "weir serves only the kinds it acts on: what it lists is listed the same way, and less is listed",
        lambda exchange: _kind(exchange) in LISTS,
        subset=True,
    ),
    Decision(
        "G-03",
        "the address of the server is where it listens",
        lambda exchange: _kind(exchange) == "APIVersions",
        ("response.body.serverAddressByClientCIDRs[*].serverAddress",),
    ),
    Decision(
        "G-04",
        "bookmarks follow the clock, so consecutive ones count as one",
        lambda exchange: exchange.info.verb == "watch" and "allowWatchBookmarks" in exchange.query,
    ),
    Decision(
        "G-05",
        "weir has its own paths, health checks and OpenAPI hashes",
        _own_page,
        ("response.body",),
    ),
)

#: G-07, applied to every table (tests/golden/compare.py): ages depend on when the replay runs, so a cell that is an age
#: only has to be an age.
#: G-08 and G-09 are about kubectl (tests/golden/kubectl_compare.py), G-10 about template hashes (tests/golden/live.py).
