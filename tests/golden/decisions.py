"""Where weir's answer differs from the recorded one on purpose, and which areas need parts that do not exist yet.

One table, numbered; a difference that is not covered here is a failure. `paths` are removed from both
sides before comparing; a fixture listed under NEEDS is not replayed and not counted.
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


LISTS = ("APIResourceList", "APIGroupList", "APIGroupDiscoveryList")
BUILD = ("gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "platform", "compiler")

DECISIONS: tuple[Decision, ...] = (
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

#: area → what has to exist before its fixtures mean anything
NEEDS_AREA: dict[str, str] = {
    "device_taint": "the scheduler and the device taint eviction controller",
    "dra": "the whole of resource.k8s.io (issue of its own)",
}

#: single fixtures of other areas that show what a controller or the scheduler did
NEEDS_FIXTURE: dict[str, str] = {
    "discovery/group-resource.k8s.io": "the older versions of resource.k8s.io",
    "discovery/group-resource.k8s.io-v1beta2": "the older versions of resource.k8s.io",
    "discovery/group-resource.k8s.io-v1beta1": "the older versions of resource.k8s.io",
    "discovery/group-resource.k8s.io-v1alpha3": "the older versions of resource.k8s.io",
    "extra/claimtemplate-claims": "the resource claim controller",
    "extra/prefer-lt-placement-table": "the scheduler",
    "extra/late-add-toleration": "the scheduler",
    "deletes/deployment-replicasets": "the deployment controller",
    "deletes/foreground-pods-after": "the garbage collector",
    "deletes/background-rs-after": "the garbage collector",
    "lists/table-leases": "the lease of a real API server",
}
