"""Where weir's answer differs from the recorded one on purpose, and which areas need parts that do not exist yet.

One table, numbered; a difference that is not covered here is a failure. `paths` are removed from both
sides before comparing; a fixture listed under NEEDS is not replayed and not counted.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Decision:
    """One deliberate difference."""

    number: str
    why: str
    fixtures: frozenset[str]
    paths: tuple[str, ...] = ()
    subset: bool = False  #: only what weir lists has to be in the recording


def _only(*names: str) -> frozenset[str]:
    return frozenset(names)


DECISIONS: tuple[Decision, ...] = (
    Decision(
        "G-01",
        "the build weir reports is its own: version, commit, build date and platform are not upstream's",
        _only("discovery/version"),
        tuple(
            f"response.body.{name}"
            for name in ("gitVersion", "gitCommit", "buildDate", "goVersion", "platform", "compiler")
        ),
    ),
    Decision(
        "G-02",
        "weir serves only the kinds it acts on: what it lists is listed the same way, and less is listed",
        _only(
            "discovery/apis",
            "discovery/api-v1",
            "discovery/group-admissionregistration.k8s.io-v1",
            "discovery/aggregated-api",
            "discovery/aggregated-apis",
        ),
        subset=True,
    ),
    Decision(
        "G-05",
        "weir has its own paths, health checks and OpenAPI hashes",
        _only("discovery/root", "discovery/livez-verbose", "discovery/openapi-v3-index"),
        ("response.body",),
    ),
    Decision(
        "G-06",
        "groups without a kind weir acts on are not served",
        _only(
            "discovery/group-autoscaling-v2",
            "discovery/group-networking.k8s.io-v1",
            "discovery/group-apiregistration.k8s.io-v1",
            "discovery/group-apiextensions.k8s.io-v1",
        ),
        ("response.body", "response.code", "response.headers"),
    ),
    Decision(
        "G-03",
        "the address of the server is where it listens",
        _only("discovery/api"),
        ("response.body.serverAddressByClientCIDRs[*].serverAddress",),
    ),
    Decision(
        "G-04",
        "bookmarks follow the clock, so consecutive ones count as one",
        _only("watch/bookmarks"),
    ),
)

#: G-07, applied to every table (tests/golden/compare.py): ages depend on when the replay runs, so a cell that is an age
#: only has to be an age.

#: area → what has to exist before its fixtures mean anything
NEEDS_AREA: dict[str, str] = {
    "scheduling": "the scheduler and the node lifecycle controller",
    "taint_eviction": "the taint eviction controller",
    "device_taint": "the scheduler and the device taint eviction controller",
    "dra": "the resource.k8s.io kinds",
}

#: single fixtures of other areas that show what a controller or the scheduler did
NEEDS_FIXTURE: dict[str, str] = {
    "discovery/group-resource.k8s.io": "the resource.k8s.io kinds",
    "discovery/group-resource.k8s.io-v1": "the resource.k8s.io kinds",
    "discovery/group-resource.k8s.io-v1beta2": "the resource.k8s.io kinds",
    "discovery/group-resource.k8s.io-v1beta1": "the resource.k8s.io kinds",
    "discovery/group-resource.k8s.io-v1alpha3": "the resource.k8s.io kinds",
    "extra/claimtemplate-create": "the resource.k8s.io kinds",
    "extra/claimtemplate-pod-create": "the resource.k8s.io kinds",
    "extra/claimtemplate-claims": "the resource claim controller",
    "extra/prefer-lt-placement-table": "the scheduler",
    "extra/late-add-toleration": "the scheduler",
    "deletes/deployment-replicasets": "the deployment controller",
    "deletes/foreground-pods-after": "the garbage collector",
    "deletes/background-rs-after": "the garbage collector",
    "lists/table-leases": "the lease of a real API server",
}
