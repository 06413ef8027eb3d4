"""Taint keys that extended pods could concern, kept in the webhook configurations.

Spec: stock.md 9. While no operator answers, a webhook that fails closed refuses the writes that it is shown. The
operator keeps a match condition in it that names the keys in use, so that every other taint passes. A key is added
before the first pod with it is released; keys that nothing uses any more are taken out by the leader. Webhooks that
were only installed have no such condition and are shown every key.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

from weir.client.api import STRATEGIC_MERGE_PATCH, Client
from weir.client.cache import Cache
from weir.lowering import webhooks
from weir.lowering.taint_keys import NONE, Keys, keys_of, union
from weir.operator.credentials import CONFIGURATIONS
from weir.operator.rules import Rules
from weir.operator.views import LoweredPod

Document = dict[str, Any]
#: Beyond, all keys are in use: the condition is evaluated for each write of a node.
MOST_KEYS: Final = 100
_NAMES: Final = {
    "MutatingWebhookConfiguration": webhooks.MUTATING_CONFIGURATION,
    "ValidatingWebhookConfiguration": webhooks.VALIDATING_CONFIGURATION,
}


class KeysInUse:
    """The keys of a replica's copy of the cluster, and what the configurations say."""

    def __init__(self, client: Client, pods: Cache[LoweredPod], rules: Rules) -> None:
        self._client, self._rules = client, rules
        self._used: Counter[Keys] = Counter()  #: by what pods of one workload have in common
        self._shown: Keys = NONE  #: what the configurations are known to name
        self._lock = asyncio.Lock()
        pods.listen(self._pod_changed)

    def in_use(self) -> Keys:
        """Return the keys that extended pods and DaemonSets of this cluster may tolerate."""
        found: Keys = NONE
        daemonsets = (keys_of(tolerations) for _, tolerations in self._rules.daemonsets())
        for keys in (*self._used, *daemonsets):
            found = union(found, keys)
        return None if found is not None and len(found) > MOST_KEYS else found

    async def cover(self, pod: LoweredPod, *, sure: bool) -> None:
        """Return when the configurations name the keys of *pod*. Raises ApiError, Unreachable.

        Who leads is *sure* of what they say; others look.
        """
        if not sure or not _covers(self._shown, _keys(pod)):
            await self.publish(only_more=True)

    async def publish(self, *, only_more: bool = False) -> bool:
        """Write the keys into the configurations, with *only_more* beside those that stand there.

        Return whether both are there. Raises ApiError, Unreachable.
        """
        async with self._lock:
            wanted, installed = self.in_use(), True
            shown: Keys = None
            for kind, name in _NAMES.items():
                found = await self._client.find(CONFIGURATIONS[kind], name)
                hooks = (found or {}).get("webhooks") or []
                keys = wanted
                for hook in hooks if only_more else ():
                    keys = union(keys, webhooks.keys_shown(hook))
                behind = [
                    {"name": hook["name"], "matchConditions": [condition]}
                    for hook in hooks
                    if (condition := webhooks.key_condition(hook["name"], keys)) is not None
                    and condition not in (hook.get("matchConditions") or ())
                ]
                if behind:
                    await self._client.patch(
                        CONFIGURATIONS[kind], name, {"webhooks": behind}, patch_type=STRATEGIC_MERGE_PATCH
                    )
                if found is None:
                    installed = False
                else:
                    shown = keys if shown is None else (shown if keys is None else shown & keys)
            self._shown = shown
            return installed

    def _pod_changed(self, old: LoweredPod | None, new: LoweredPod | None) -> None:
        before, after = _keys(old), _keys(new)
        if before == after:
            return
        self._used[after] += 1
        self._used[before] -= 1
        for keys in (before, NONE):
            if self._used[keys] <= 0:
                del self._used[keys]


def _keys(pod: LoweredPod | None) -> Keys:
    if pod is None or pod.ended or pod.tolerations is None:
        return NONE
    return pod.tolerations.keys


def _covers(shown: Keys, keys: Keys) -> bool:
    return shown is None or (keys is not None and keys <= shown)
