"""Detection of clusters that evaluate `Gt` and `Lt` themselves.

Spec: stock.md 12. Tested by a server-side dry run of a PodTemplate: the server validates its tolerations as a pod's,
and no webhook of weir's is called for it. On such clusters numeric operators are not lowered.
"""

from __future__ import annotations

from typing import Final

from weir import errors
from weir.client.api import Client
from weir.objects.kinds import by_kind
from weir.objects.templates import never_runs

POD_TEMPLATES: Final = by_kind("v1", "PodTemplate")


async def has_numeric(client: Client, namespace: str) -> bool:
    """Return whether the API server accepts numeric tolerations. Raises ApiError, Unreachable."""
    document = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"generateName": "weir-probe-", "namespace": namespace},
        "template": {
            "metadata": {"labels": {"app.kubernetes.io/part-of": "weir"}},
            "spec": {
                "containers": [never_runs()],
                "tolerations": [
                    {"key": "weir.dev/probe", "operator": "Gt", "value": "1", "effect": "NoSchedule"}
                ],
            },
        },
    }
    try:
        await client.create(POD_TEMPLATES, document, namespace, dry_run=True)
    except errors.Invalid as error:
        if "operator" in str(error):
            return False
        raise
    return True
