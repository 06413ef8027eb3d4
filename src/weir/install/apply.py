"""How does the operator come into a cluster without a moment in which something is wrong? Step by step, each awaited.

Spec: stock.md 9 and 11. First what the operator needs, then the operator; then the hooks that lower; and only when it
answers, having taken in every pod there is, the barrier before nodes. Each step is said when it is done, and may be
done again: nothing is lost by running the installation twice.
Not here: the objects (weir.install.manifests), what is asked before and after (weir.install.readiness,
weir.install.health), taking it out (weir.install.removal).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from weir import errors
from weir.client.api import Client
from weir.clock import Clock
from weir.install import manifests
from weir.install.health import Health
from weir.install.manifests import Installation, InstallError
from weir.lowering.names import OPERATOR
from weir.objects.kinds import by_kind
from weir.operator.certificates import CONFIGURATIONS

MANAGER: Final = "weir-install"
PATIENCE_SECONDS: Final = 180.0
_LOOK_SECONDS: Final = 0.5
_DEPLOYMENTS: Final = by_kind("apps/v1", "Deployment")

Document = dict[str, Any]


async def install(
    client: Client, clock: Clock, installation: Installation, patience: float = PATIENCE_SECONDS
) -> AsyncIterator[str]:
    """Yield a line for each step as it is done. Raises InstallError when one does not come about in time."""
    for document in (*manifests.foundation(installation), *manifests.workload(installation)):
        yield await _apply(client, document)
    if not installation.url:
        await _until(
            clock,
            patience,
            lambda: _is_available(client, installation),
            f"deployment {installation.namespace}/{OPERATOR} does not become available",
        )
        yield "the operator runs"
    lowering, barrier = manifests.lowering(installation), manifests.barrier(installation)
    yield await _apply(client, lowering)
    waits = (
        f"start it now: weir operator --url {installation.url}" if installation.url else "see what it logs"
    )
    await _until(
        clock, patience, lambda: _is_trusted(client, lowering), f"the operator does not answer; {waits}"
    )
    health = Health(client, clock, installation.namespace)
    await _until(clock, patience, health.answers, f"the API server does not reach the operator; {waits}")
    yield "the API server reaches the operator, which knows every pod there is"
    yield await _apply(client, barrier)
    await _until(
        clock, patience, lambda: _is_trusted(client, barrier), f"the operator does not answer; {waits}"
    )
    yield "the barrier before nodes is in force"


async def _apply(client: Client, document: Document) -> str:
    """Apply one object; return what became of it, in kubectl's words."""
    kind = by_kind(document["apiVersion"], document["kind"])
    metadata = document["metadata"]
    before = await client.find(kind, metadata["name"], metadata.get("namespace", ""))
    replaced = False
    try:
        after = await client.apply(kind, document, field_manager=MANAGER, force=True)
    except errors.Invalid:
        if before is None or document["kind"] != "Pod":
            raise
        # A pod cannot be changed into that of another version; nothing runs in it, so another may take its place.
        with suppress(errors.NotFound):
            await client.delete(
                kind, metadata["name"], metadata["namespace"], grace_period_seconds=0, read=False
            )
        after, replaced = await client.apply(kind, document, field_manager=MANAGER, force=True), True
    if replaced:
        done = "replaced: the one of another version of weir cannot be changed into it"
    elif before is None:
        done = "created"
    elif before["metadata"].get("resourceVersion") == after["metadata"].get("resourceVersion"):
        done = "unchanged"
    else:
        done = "configured"
    name = "/".join(filter(None, (document["kind"].lower(), metadata["name"])))
    return f"{name} {done}"


async def _until(clock: Clock, patience: float, holds: Callable[[], Awaitable[bool]], otherwise: str) -> None:
    """Return when *holds* does; raise after *patience* seconds, saying what did not happen."""
    began = clock.monotonic()
    while not await holds():
        if clock.monotonic() - began >= patience:
            raise InstallError(f"after {patience:.0f} s {otherwise} (weir check says more)")
        await clock.sleep(_LOOK_SECONDS)


async def _is_available(client: Client, installation: Installation) -> bool:
    found = await client.find(_DEPLOYMENTS, OPERATOR, installation.namespace) or {}
    status = found.get("status") or {}
    current = status.get("observedGeneration", 0) >= (found.get("metadata") or {}).get("generation", 0)
    wanted = installation.replicas
    return bool(
        current
        and status.get("updatedReplicas", 0) >= wanted
        and status.get("availableReplicas", 0) >= wanted
    )


async def _is_trusted(client: Client, configuration: Document) -> bool:
    kind = CONFIGURATIONS[configuration["kind"]]
    try:
        found = await client.get(kind, configuration["metadata"]["name"])
    except errors.NotFound:
        return False
    return all(hook["clientConfig"].get("caBundle") for hook in found.get("webhooks") or ())
