"""Installation of the operator in ordered steps, each awaited before the next.

Spec: stock.md 9 and 11. First what the operator needs, then the operator; once it has made its credentials, the hooks
that lower; and only when it answers, having taken in every pod there is, the barrier before nodes. Hooks that were not
there are open (`failurePolicy: Ignore`) until the API server is seen to reach the operator: an installation that does
not come about refuses nobody's writes. Each step is reported when it is done. Every step is idempotent, and what was
created can be taken back (`undo`).
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
from weir.objects.kinds import DEPLOYMENTS, PODS, SECRETS, by_kind
from weir.operator import path_secrets
from weir.operator.credentials import CONFIGURATIONS
from weir.operator.path_secrets import PathSecrets

MANAGER: Final = "weir-install"
PATIENCE_SECONDS: Final = 60.0
#: A pod that cannot start for so long is not waited for any longer.
STUCK_SECONDS: Final = 15.0
_CANNOT_START: Final = frozenset(
    {
        "CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "ErrImagePull",
        "ImagePullBackOff", "InvalidImageName", "RunContainerError",
    }
)  # fmt: skip
_LOOK_SECONDS: Final = 0.5

Document = dict[str, Any]


async def install(
    client: Client,
    clock: Clock,
    installation: Installation,
    patience: float = PATIENCE_SECONDS,
    *,
    start: str = "",
    created: list[Document] | None = None,
) -> AsyncIterator[str]:
    """Yield a line for each step as it is done. Raises InstallError when one does not come about in time.

    *start* is the command that starts an operator outside of the cluster; the installation's own by default. What was
    not there before is added to *created*.
    """
    created = [] if created is None else created
    for document in (*manifests.foundation(installation), *manifests.workload(installation)):
        yield await _apply(client, document, created)
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
            lambda: _stuck(client, installation),
        )
    # The operator makes its credentials when it starts: no hook is there before there is one to answer.
    away = f"the operator does not answer; {waits}"
    await _until(clock, patience, lambda: _has_credentials(client, installation), away)
    yield "the operator runs"
    lowering, barrier = manifests.lowering(installation), manifests.barrier(installation)
    yield await _apply(client, await _open(client, lowering), created)
    await _until(clock, patience, lambda: _is_trusted(client, lowering), away)
    health = Health(client, clock, installation.namespace)
    unreached = f"the API server does not reach the operator; {waits}"
    await _until(clock, patience, health.answers, unreached)
    yield "the API server reaches the operator, which knows every pod there is"
    yield await _apply(client, lowering, created)
    yield await _apply(client, await _open(client, barrier), created)
    await _until(clock, patience, lambda: _is_trusted(client, barrier), away)
    yield await _apply(client, barrier, created)
    await _until(clock, patience, health.answers, unreached)
    yield "the barrier before nodes is in force"


async def undo(client: Client, created: list[Document]) -> AsyncIterator[str]:
    """Delete what an installation created, last first; yield a line for each."""
    for document in reversed(created):
        yield await delete(client, document)


async def delete(client: Client, document: Document) -> str:
    """Delete one object; return what became of it."""
    kind, metadata = by_kind(document["apiVersion"], document["kind"]), document["metadata"]
    name = f"{document['kind'].lower()}/{metadata['name']}"
    try:
        await client.delete(
            kind, metadata["name"], metadata.get("namespace", ""), propagation_policy="Background", read=False
        )
    except errors.NotFound:
        return f"{name} was gone"
    return f"{name} deleted"


async def _open(client: Client, configuration: Document) -> Document:
    """Return a webhook configuration whose hooks fail open, but for those that fail closed in the cluster already."""
    stored = await client.find(CONFIGURATIONS[configuration["kind"]], configuration["metadata"]["name"])
    policies = {hook["name"]: hook.get("failurePolicy") for hook in (stored or {}).get("webhooks") or ()}
    hooks = [
        {**hook, "failurePolicy": hook["failurePolicy"] if policies.get(hook["name"]) == "Fail" else "Ignore"}
        for hook in configuration["webhooks"]
    ]
    return {**configuration, "webhooks": hooks}


async def rotate_path(client: Client, clock: Clock, namespace: str) -> str:
    """Make a new path secret; return what will come of it. Raises InstallError where no operator keeps secrets."""
    secret = await client.find(SECRETS, CERTIFICATES, namespace)
    found = PathSecrets.read((secret or {}).get("data"))
    if secret is None or found is None:
        raise InstallError(f"secret {namespace}/{CERTIFICATES} holds no path secret: does the operator run?")
    made = path_secrets.renewed(found, clock.now(), rotate_after=timedelta(0))
    if made is found:
        return "the path secret was made a moment ago, and is not in use yet: nothing was changed"
    try:
        await client.update(SECRETS, {**secret, "data": {**secret["data"], **made.data()}})
    except errors.Conflict:
        raise InstallError("the operator wrote the secret in the same moment: try again") from None
    settled, overlap = (
        int(each.total_seconds() // 60) for each in (path_secrets.SETTLED, path_secrets.OVERLAP)
    )
    return (
        f"a new path secret is made: the webhook configurations name it in {settled} minute, and the one before it is "
        f"accepted for {overlap} minutes more"
    )


async def _apply(client: Client, document: Document, created: list[Document]) -> str:
    """Apply one object; return what became of it, in kubectl's words."""
    kind = by_kind(document["apiVersion"], document["kind"])
    metadata = document["metadata"]
    before = await client.find(kind, metadata["name"], metadata.get("namespace", ""))
    if before is None:
        created.append(document)  # even where the answer is lost: a write may have been made
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


async def _until(
    clock: Clock,
    patience: float,
    holds: Callable[[], Awaitable[bool]],
    otherwise: str,
    stuck: Callable[[], Awaitable[str]] | None = None,
) -> None:
    """Return when *holds* does; raise after *patience* seconds, or when it is *stuck*, saying what did not happen."""
    began = clock.monotonic()
    while not await holds():
        waited = clock.monotonic() - began
        reason = await stuck() if stuck is not None and waited >= min(STUCK_SECONDS, patience) else ""
        if reason:
            raise InstallError(f"{otherwise}: {reason}")
        if waited >= patience:
            raise InstallError(f"after {patience:.0f} s {otherwise} (weir check says more)")
        await clock.sleep(_LOOK_SECONDS)


async def _stuck(client: Client, installation: Installation) -> str:
    """Return why a pod of the Deployment cannot start, or ""."""
    pods = await client.list(PODS, installation.namespace)
    for pod in pods.documents():
        owners: Document = (pod["metadata"].get("ownerReferences") or ({},))[0]
        if not str(owners.get("name") or "").startswith(f"{OPERATOR}-"):
            continue
        name, status = pod["metadata"]["name"], pod.get("status") or {}
        for condition in status.get("conditions") or ():
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                return f"pod {name} is not scheduled: {condition.get('message') or condition.get('reason')}"
        for container in status.get("containerStatuses") or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in _CANNOT_START:
                text = waiting.get("message") or f"image {container.get('image')}"
                return f"pod {name} cannot start: {waiting['reason']}: {text}"
    return ""


async def _is_available(client: Client, installation: Installation) -> bool:
    found = await client.find(DEPLOYMENTS, OPERATOR, installation.namespace) or {}
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
    secret = await client.find(SECRETS, CERTIFICATES, installation.namespace)
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
