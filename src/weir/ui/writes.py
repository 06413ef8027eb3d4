"""Makes a previewed change in the live cluster with the user's credentials, after confirmation.

Exactly what the command shown would do: taints and cordons are patched, drains use the eviction API so that budgets
count, rules are applied as by `weir device taint`. A drain continues in the background; blocked evictions are retried
until the server ends.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Final

from weir.device_rules.write import served_version, settle, write
from weir.errors import ApiError, NotFound, TooManyRequests
from weir.explain.phrases import counted, listed
from weir.objects.kinds import NODES
from weir.taints.notation import taint_document
from weir.ui.source import ClusterView, Source
from weir.ui.timeline import BadQuestion, Question, chosen_nodes

if TYPE_CHECKING:
    from weir.client.api import Client

Document = dict[str, Any]
AGENT: Final = "weir-ui"
_MIRROR: Final = "kubernetes.io/config.mirror"
_AGAIN_SECONDS: Final = 2.0
_DRAIN_SECONDS: Final = 600.0


class Drains:
    """What is being drained, and how far it is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._log: list[str] = []

    def say(self, line: str) -> None:
        with self._lock:
            self._log = [*self._log[-49:], line]

    def lines(self) -> list[str]:
        with self._lock:
            return list(self._log)


def make(source: Source, seen: ClusterView, question: Question, drains: Drains) -> list[str]:
    """Make the change; return what was done, line by line."""
    if question.kind == "gates":
        raise BadQuestion("gates are set where the components are started; nothing was written")
    nodes = [] if question.kind == "apply" else [node.name for node in chosen_nodes(seen, question.nodes)]
    if question.kind != "apply" and not nodes:
        raise BadQuestion("no such node; nothing was written")

    pods = drained(seen, set(nodes), question.force) if question.kind == "drain" else []

    async def act(client: Client) -> list[str]:
        if question.kind == "apply":
            return [await _apply(client, rule) for rule in question.documents]
        return [await _on_node(client, name, question) for name in nodes]

    done = source.where.live.run(AGENT, act)
    if question.kind == "drain":
        work = threading.Thread(target=_evict, args=(source, pods, drains), name="weir-ui-drain", daemon=True)
        work.start()
        done.append(f"evicting {counted(len(pods), 'pod')}")
    return done


def remove_rule(source: Source, name: str) -> str:
    """Delete a DeviceTaintRule."""

    async def act(client: Client) -> str:
        kind = await served_version(client)
        await client.delete(kind, name)
        return f'devicetaintrule.resource.k8s.io "{name}" deleted'

    return source.where.live.run(AGENT, act)


async def _apply(client: Client, rule: Document) -> str:
    kind = await served_version(client)
    settled, ignored = await settle(client, kind, rule)
    await write(client, kind, settled)
    left_out = f" (this cluster does not know {', '.join(ignored)}: left out)" if ignored else ""
    return f"devicetaintrule.resource.k8s.io/{rule['metadata']['name']} applied{left_out}"


async def _on_node(client: Client, name: str, question: Question) -> str:
    match question.kind:
        case "delete-node":
            await client.delete(NODES, name)
            return f'node "{name}" deleted'
        case "cordon" | "uncordon" | "drain":
            on = question.kind != "uncordon"
            await client.patch(NODES, name, {"spec": {"unschedulable": on or None}}, field_manager=AGENT)
            return f"node/{name} {'cordoned' if on else 'uncordoned'}"
    found = await client.get(NODES, name)
    taints = list((found.get("spec") or {}).get("taints") or ())
    taint = question.taint
    same = [
        each for each in taints if each.get("key") == taint.key and taint.effect in ("", each.get("effect"))
    ]
    kept = [each for each in taints if each not in same]
    if question.kind == "taint":
        kept.append(taint_document(taint))
    patch = {
        "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
        "spec": {"taints": kept or None},
    }
    await client.patch(NODES, name, patch, field_manager=AGENT)
    return f"node/{name} {'tainted' if question.kind == 'taint' else 'untainted'}"


# ── draining ─────────────────────────────────────────────────────────────────────────────────────


def drained(seen: ClusterView, nodes: set[str], force: bool) -> list[tuple[str, str]]:
    """Return the pods that `kubectl drain --ignore-daemonsets` evicts: not those of DaemonSets, nor mirrors of files.

    A pod without a controller is only evicted with *force*.
    """
    found, alone = [], []
    for pod in seen.world.pods.values():
        if pod.spec.node_name not in nodes or pod.terminated:
            continue
        owner = next((each for each in pod.metadata.owner_references or () if each.controller), None)
        if (owner is not None and owner.kind == "DaemonSet") or _MIRROR in (pod.metadata.annotations or {}):
            continue
        if owner is None and not force:
            alone.append(pod.key)
        found.append((pod.metadata.namespace or "default", pod.metadata.name))
    if alone:
        raise BadQuestion(
            f"cannot drain without force: no controller makes {listed(alone, 3)} again; nothing was written"
        )
    return found


def _evict(source: Source, pods: list[tuple[str, str]], drains: Drains) -> None:
    async def act(client: Client) -> None:
        waiting, until = list(pods), asyncio.get_running_loop().time() + _DRAIN_SECONDS
        while waiting and asyncio.get_running_loop().time() < until:
            blocked = []
            for namespace, name in waiting:
                try:
                    await client.evict(name, namespace)
                    drains.say(f"pod/{name} evicted")
                except NotFound:
                    continue
                except TooManyRequests as error:
                    drains.say(f"pod/{name}: {' '.join(str(error).split())}")
                    blocked.append((namespace, name))
            waiting = blocked
            if waiting:
                await asyncio.sleep(_AGAIN_SECONDS)
        drains.say(
            f"still kept by disruption budgets: {counted(len(waiting), 'pod')}" if waiting else "drained"
        )

    try:
        source.where.live.run(AGENT, act)
    except (ApiError, ConnectionError) as error:
        drains.say(f"stopped: {' '.join(str(error).split())}")
