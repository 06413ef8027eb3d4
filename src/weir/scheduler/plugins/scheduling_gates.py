"""SchedulingGates: holds a pod back in PreEnqueue while it has scheduling gates.

Spec: core.md 3.8 "Queue". It filters no node; the queue calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weir.scheduler.framework import Extensions, Plugin
from weir.scheduler.pod_class import PodClass
from weir.scheduler.queueing_hints import OWN_GATES, QueueingHint, always

NAME: Final = "SchedulingGates"


class SchedulingGates(Plugin):
    name = NAME

    def for_class(self, pod: PodClass) -> Extensions:
        return Extensions()

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {OWN_GATES: always}
