"""Initial objects of a simulated cluster: nodes, and a StorageClass."""

from __future__ import annotations

import asyncio
import itertools
from datetime import datetime
from typing import Final

from weir.client.api import Client
from weir.controllers.storage.volume_provisioner import NAME as PROVISIONER
from weir.objects.kinds import NODES, STORAGE_CLASSES
from weir.objects.times import format_time
from weir.simulation.kubelet.node_classes import NodeClass, node_document

AT_ONCE: Final = 50


async def ensure_nodes(client: Client, count: int, node_class: NodeClass, now: datetime) -> tuple[int, int]:
    """Add simulated nodes until the cluster has *count*; return how many were there and how many were added."""
    there = {each["metadata"]["name"] for each in (await client.list(NODES)).documents()}
    free = (name for name in map("node-{}".format, itertools.count()) if name not in there)
    names = list(itertools.islice(free, max(count - len(there), 0)))
    printed = format_time(now)
    for start in range(0, len(names), AT_ONCE):  # together, so that they share the disk's flushes
        await asyncio.gather(
            *(
                client.create(NODES, node_document(name, node_class, (), {}, printed))
                for name in names[start : start + AT_ONCE]
            )
        )
    return len(there), len(names)


async def ensure_storage_class(client: Client) -> None:
    """Create a StorageClass with the simulated provisioner if the cluster has none."""
    if (await client.list(STORAGE_CLASSES, limit=1)).items:
        return
    document = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    await client.create(STORAGE_CLASSES, document)
