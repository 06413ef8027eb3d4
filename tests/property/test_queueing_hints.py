"""A change that lets a rejected pod in wakes it: no plugin that rejected it may sleep through what helps."""

import random

import msgspec
import pytest

from tests.property.test_scheduler import NAMESPACES, random_node, random_pod
from tests.unit.scheduler.hints import hints_of
from weir.gates import ALL_FEATURES
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.queueing_hints import node_events, pod_events

pytestmark = pytest.mark.proves("5500-52")

ROUNDS = 30


class Cluster:
    """Nodes and pods that change at random, and the events each change makes."""

    def __init__(self, rng):
        self.rng = rng
        self.engine = Engine(ALL_FEATURES, namespaces=NAMESPACES)
        self.nodes, self.pods, self.number = {}, {}, 0
        for _ in range(rng.randrange(1, 4)):
            self.add_node()
        for _ in range(rng.randrange(6)):
            self.add_pod()

    def put(self, node):
        old, self.nodes[node.name] = self.nodes.get(node.name), node
        self.engine.table.put_node(node)
        return list(node_events(old, node))

    def add_node(self):
        self.number += 1
        return self.put(random_node(self.rng, f"n{self.number}"))

    def change_node(self):
        return self.put(random_node(self.rng, self.rng.choice(list(self.nodes))))

    def unlabel_node(self):
        node = self.nodes[self.rng.choice(list(self.nodes))]
        key = self.rng.choice([*node.labels, "gen"])
        labels = {name: value for name, value in node.labels.items() if name != key}
        metadata = msgspec.structs.replace(node.metadata, labels=labels)
        return self.put(msgspec.structs.replace(node, metadata=metadata))

    def remove_node(self):
        name = self.rng.choice(list(self.nodes))
        gone = [self.pods.pop(key) for key, pod in [*self.pods.items()] if pod.spec.node_name == name]
        for pod in gone:
            self.engine.forget(pod.key)
        self.engine.table.remove_node(name)
        events = [event for pod in gone for event in pod_events(pod, None)]
        return [*events, *node_events(self.nodes.pop(name), None)]

    def _place(self, pod, old):
        self.pods[pod.key] = pod
        plain = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
        self.engine.table.add_pod(pod.key, self.engine.classes.of(plain), pod.spec.node_name)
        return list(pod_events(old, pod))

    def add_pod(self):
        self.number += 1
        pod = random_pod(self.rng, f"p{self.number}", True)
        where = self.rng.choice(list(self.nodes))
        return self._place(
            msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=where)), None
        )

    def relabel_pod(self):
        old = self.pods[self.rng.choice(list(self.pods))]
        labels = self.rng.choice([{}, {"app": "web"}, {"app": "db"}])
        return self._place(
            msgspec.structs.replace(old, metadata=msgspec.structs.replace(old.metadata, labels=labels)), old
        )

    def remove_pod(self):
        pod = self.pods.pop(self.rng.choice(list(self.pods)))
        self.engine.forget(pod.key)
        return list(pod_events(pod, None))

    def happen(self):
        """Let something happen and return its events."""
        possible = [self.add_node, self.add_pod]
        possible += [self.change_node, self.unlabel_node] if self.nodes else []
        possible += [self.remove_node] if len(self.nodes) > 1 else []
        possible += [self.remove_pod, self.remove_pod, self.relabel_pod] if self.pods else []
        return self.rng.choice(possible)()


@pytest.mark.parametrize("seed", [*range(40), 66, 104, 305])
def test_what_lets_a_pod_in_wakes_it(seed):
    rng = random.Random(seed)
    cluster = Cluster(rng)
    hints = hints_of(cluster.engine)
    slept = []
    for _ in range(ROUNDS):
        pod = random_pod(rng, "waits", True)
        before = cluster.engine.place(pod)
        events = cluster.happen()
        if isinstance(before, Placement) or not isinstance(cluster.engine.place(pod), Placement):
            continue
        if not any(hints.helps(plugin, pod, event) for plugin in before.plugins for event in events):
            slept.append((sorted(before.plugins), [event.label for event in events], before.message))
    assert slept == []
