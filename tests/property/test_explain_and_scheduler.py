"""Explain and the scheduler judge alike: the same nodes fit, and each refusal is given in the same words."""

from __future__ import annotations

from hypothesis import given
from tests.property.test_explain import gates, pods, slow, worlds

from weir.explain.pod import explain
from weir.explain.subject import Subject
from weir.gates import Gates
from weir.objects.core import Pod
from weir.scheduler.cycle import Engine
from weir.world import World


def refusals(pod: Pod, world: World, gates: Gates) -> dict[str, tuple[str, ...]]:
    """What the scheduler's own filters say, by node."""
    engine = Engine(gates)
    for node in world.nodes.values():
        engine.table.put_node(node)
    for other in world.pods.values():
        if other.spec.node_name in world.nodes:
            engine.assume(other.key, other, other.spec.node_name)
    return {name: status.reasons for name, status in engine.statuses(pod).items()}


@given(pods(), worlds(), gates)
@slow
def test_the_same_nodes_refuse_in_the_same_words(document, world, gates):
    subject = Subject.of(document)
    pod = subject.pod()
    if (
        pod.spec.node_name
        or pod.spec.volumes
        or any(n.status.allocatable is None for n in world.nodes.values())
    ):
        return  # the kubelet's question, another plugin's, and what only explain forgives
    answer = explain(subject, world, gates)
    deciding = {v.node: tuple(reason.message() for reason in v.deciding) for v in answer.nodes if v.reasons}
    assert deciding == refusals(pod, world, gates)
