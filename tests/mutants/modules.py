"""The modules whose every line a test must hold: the mission's core, from the rule to the explanation."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).parents[2] / "src"

MODULES: Final = (
    "weir.values.integer",
    "weir.values.semver",
    "weir.taints.operators",
    "weir.taints.expression",
    "weir.taints.toleration",
    "weir.taints.judge",
    "weir.taints.eviction",
    "weir.taints.notation",
    "weir.selectors.node",
    "weir.cel.program",
    "weir.cel.program",
    "weir.cel.cache",
    "weir.cel.cost_model",
    "weir.cel.costs",
    "weir.cel.costs",
    "weir.cel.estimate",
    "weir.cel.estimate",
    "weir.cel.decide",
    "weir.controllers.devices.eviction_queue",
    "weir.devices.device_matcher",
    "weir.devices.expression",
    "weir.devices.selector",
    "weir.devices.tracker",
    "weir.devices.eviction",
    "weir.validate.core.tolerations",
    "weir.validate.core.node",
    "weir.validate.resource.device_taint_rule",
    "weir.validate.resource.device_taint_rule",
    "weir.validate.core.affinity",
    "weir.validate.ratchet",
    "weir.scheduler.plugins.taint_toleration",
    "weir.scheduler.plugins.node_affinity",
    "weir.scheduler.plugins.node_unschedulable",
    "weir.scheduler.plugins.dynamic_resources",
    "weir.scheduler.plugins.dynamic_resources_hints",
    "weir.scheduler.plugins.claim_reservation",
    "weir.controllers.nodes.taint_eviction",
    "weir.controllers.devices.eviction_queue",
    "weir.controllers.devices.taint_eviction",
    "weir.controllers.devices.taint_eviction_claims",
    "weir.controllers.devices.taint_eviction_status",
    "weir.controllers.devices.taint_eviction",
    "weir.controllers.devices.taint_expiry",
    "weir.controllers.workloads.daemon_nodes",
    "weir.explain.verdict",
    "weir.explain.reasons",
    "weir.explain.ranges",
    "weir.explain.edits.taints",
    "weir.explain.fix",
    "weir.whatif.run",
    "weir.whatif.horizon",
    "weir.whatif.changes.apply",
    "weir.whatif.changes.change",
    "weir.whatif.changes.drain",
    "weir.whatif.changes.gates",
    "weir.whatif.changes.nodes",
    "weir.whatif.changes.workloads",
    "weir.whatif.snapshot",
    "weir.whatif.completion",
    "weir.whatif.missing_owners",
    "weir.whatif.pod_references",
    "weir.whatif.inferred_owners",
    "weir.whatif.eviction_loops",
    "weir.whatif.forecast",
    "weir.whatif.history",
    "weir.whatif.change_scope",
    "weir.whatif.pod_records",
    "weir.whatif.unaffected_pods",
    "weir.plan.verify",
    "weir.whatif.story",
    "weir.whatif.room",
    "weir.whatif.device_causes",
    "weir.lowering.tolerations",
    "weir.lowering.affinity",
    "weir.lowering.sentinel",
    "weir.lowering.triples",
)


def source_of(module: str) -> Path:
    """Return the file of a module.

    >>> source_of("weir.taints.judge").name
    'judge.py'
    """
    return (SOURCE / module.replace(".", "/")).with_suffix(".py")
