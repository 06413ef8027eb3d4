"""Installation of the operator in ordered steps, each awaited before the next.

Spec: stock.md 9 and 11. First what the operator needs, then the operator; once it has made its credentials, the hooks
that lower; and only when it answers, having taken in every pod there is, the barrier before nodes. Each step is
reported when it is done. Every step is idempotent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from weir import errors
from weir.client.api import Client
from weir.clock import Clock
from weir.install import manifests
from weir.install.health import Health
from weir.install.manifests import Installation, InstallError
from weir.install.rights import CERTIFICATES
from weir.lowering.names import OPERATOR
from weir.lowering.webhooks import origin, path_secret
from weir.objects.kinds import by_kind
from weir.operator import path_secrets
from weir.operator.credentials import CONFIGURATIONS
from weir.operator.path_secrets import PathSecrets

MANAGER: Final = "weir-install"
PATIENCE_SECONDS: Final = 180.0
_LOOK_SECONDS: Final = 0.5
_SECRETS: Final = by_kind("v1", "Secret")
_DEPLOYMENTS: Final = by_kind("apps/v1", "Deployment")

Document = dict[str, Any]


async def install(
    client: Client,
    clock: Clock,
    installation: Installation,
    patience: float = PATIENCE_SECONDS,
    *,
    start: str = "",
) -> AsyncIterator[str]:
    """Yield a line for each step as it is done. Raises InstallError when one does not come about in time.

    *start* is the command that starts an operator outside of the cluster; the installation's own by default.
    """
    for document in (*manifests.foundation(installation), *manifests.workload(installation)):
        yield await _apply(client, document)
    if installation.url:
        waits = f"start it now: {start or installation.command()}"
        if not await _has_credentials(client, installation):
            yield waits
    else:
        waits = "see what it logs"
        await _until(
            clock,
            patience,
            lambda: _is_available(client, installation),
            f"deployment {installation.namespace}/{OPERATOR} does not become available",
        )
    # The operator makes its credentials when it starts: no hook refuses anything before there is one to answer.
    await _until(
        clock,
        patience,
        lambda: _has_credentials(client, installation),
        f"the operator does not answer; {waits}",
    )
    yield "the operator runs"
    lowering, barrier = manifests.lowering(installation), manifests.barrier(installation)
    yield await _apply(client, lowering)
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


async def rotate_path(client: Client, clock: Clock, namespace: str) -> str:
    """Make a new path secret; return what will come of it. Raises InstallError where no operator keeps secrets."""
    secret = await client.find(_SECRETS, CERTIFICATES, namespace)
    found = PathSecrets.read((secret or {}).get("data"))
    if secret is None or found is None:
        raise InstallError(f"secret {namespace}/{CERTIFICATES} holds no path secret: does the operator run?")
    made = path_secrets.renewed(found, clock.now(), rotate_after=timedelta(0))
    if made is found:
        return "the path secret was made a moment ago, and is not in use yet: nothing was changed"
    try:
        await client.update(_SECRETS, {**secret, "data": {**secret["data"], **made.data()}})
    except errors.Conflict:
        raise InstallError("the operator wrote the secret in the same moment: try again") from None
    settled, overlap = (
        int(each.total_seconds() // 60) for each in (path_secrets.SETTLED, path_secrets.OVERLAP)
    )
    return (
        f"a new path secret is made: the webhook configurations name it in {settled} minute, and the one before it is "
        f"accepted for {overlap} minutes more"
    )


async def _apply(client: Client, document: Document) -> str:
    """Apply one object; return what became of it, in kubectl's words."""
    kind = by_kind(document["apiVersion"], document["kind"])
    metadata = document["metadata"]
    before = await client.find(kind, metadata["name"], metadata.get("namespace", ""))
    replaced = False
    document = _with_paths_of(before, document)
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


def _with_paths_of(stored: Document | None, document: Document) -> Document:
    """Return a webhook configuration with the secret paths that the stored one has in its URLs: they are one field."""
    urls = {hook["name"]: hook["clientConfig"].get("url") for hook in (stored or {}).get("webhooks") or ()}
    if not any(urls.values()):
        return document
    hooks = []
    for hook in document["webhooks"]:
        url, config = urls.get(hook["name"]) or "", hook["clientConfig"]
        same = "url" in config and origin(url) == origin(config["url"])
        hooks.append({**hook, "clientConfig": {**config, "url": url}} if same else hook)
    return {**document, "webhooks": hooks}


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


async def _has_credentials(client: Client, installation: Installation) -> bool:
    """Return whether the operator has filled its Secret."""
    secret = await client.find(_SECRETS, CERTIFICATES, installation.namespace)
    return PathSecrets.read((secret or {}).get("data")) is not None


async def _is_trusted(client: Client, configuration: Document) -> bool:
    """Return whether the operator has written authority and path into a configuration."""
    kind = CONFIGURATIONS[configuration["kind"]]
    try:
        found = await client.get(kind, configuration["metadata"]["name"])
    except errors.NotFound:
        return False
    return all(
        hook["clientConfig"].get("caBundle") and path_secret(hook["clientConfig"], hook["name"])
        for hook in found.get("webhooks") or ()
    )
