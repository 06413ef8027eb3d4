"""What a simulated driver publishes: names, numbers, generations, times."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.devices.published import current
from weir.gates import ALL_FEATURES
from weir.objects.core import read
from weir.objects.manifest import read_values
from weir.objects.resource import ResourceSlice
from weir.simulation.drivers.device_models import DEVICES, Devices, read_all
from weir.simulation.drivers.faults import Condition
from weir.simulation.drivers.publisher import Plan, PoolLocation, device_class, dropped, plan
from weir.simulation.kubelet.node_classes import CLASSES, ClassError, NodeClass, node_document
from weir.validate import validate

pytestmark = pytest.mark.proves("5055-43", "5055-86")

NODE = PoolLocation.on_node("n1", "u1")
HOT = {"key": "gpu.example.com/overheated", "effect": "NoSchedule"}
WORSE = {"key": "budget", "value": "8", "effect": "NoExecute"}


class Server:
    """Stores slices as the API does: names, versions, times of taints."""

    def __init__(self) -> None:
        self.slices: dict[str, dict[str, Any]] = {}
        self.clock = 0

    def do(self, wanted: Plan) -> Plan:
        for document in (*wanted.create, *wanted.update):
            self.clock += 1
            stored = copy.deepcopy(document)
            metadata = stored["metadata"]
            if "name" not in metadata:
                metadata.update(name=f"{metadata['generateName']}{self.clock:05}", uid=str(self.clock))
            metadata["resourceVersion"] = str(self.clock)
            for taint in [
                *(t for d in stored["spec"].get("devices", ()) for t in d.get("taints", ())),
                *(entry["taint"] for entry in stored["spec"].get("taints", ())),
            ]:
                taint.setdefault("timeAdded", f"2026-01-01T00:00:{self.clock:02}Z")
            self.slices[metadata["name"]] = stored
        for document in wanted.delete:
            del self.slices[document["metadata"]["name"]]
        return wanted

    def publish(self, devices: Devices, now: Condition | None = None) -> Plan:
        return self.do(plan(devices, NODE, list(self.slices.values()), now or Condition()))

    def pool(self) -> Any:
        generations: dict[int, dict[str, ResourceSlice]] = {}
        for name, stored in self.slices.items():
            found = read(ResourceSlice, stored)
            generations.setdefault(found.spec.pool.generation, {})[name] = found
        return current(("gpu.example.com", "n1"), generations)


def tainted(**devices: Any) -> Condition:
    return Condition({name.replace("_", "-"): (taint,) for name, taint in devices.items()})


def test_a_node_publishes_eight_gpus_as_the_example_driver_does():
    (slice_,) = plan(Devices(), NODE, []).create
    device = slice_["spec"]["devices"][7]
    assert slice_["metadata"]["generateName"] == "00000-gpu.example.com-n1-"
    assert slice_["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1", "controller": True}
    ]
    assert slice_["spec"]["pool"] == {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    assert (slice_["spec"]["nodeName"], device["name"]) == ("n1", "gpu-7")
    assert device["attributes"]["index"] == {"int": 7}
    assert device["attributes"]["model"] == {"string": "LATEST-GPU-MODEL"}
    assert device["attributes"]["driverVersion"] == {"version": "1.0.0"}
    assert device["capacity"] == {"memory": {"value": "80Gi"}, "compute": {"value": "100"}}


def test_a_uuid_is_the_same_after_every_restart_and_different_everywhere():
    uuids = [d["attributes"]["uuid"]["string"] for n in ("n1", "n2", "n1") for d in Devices().devices(n)]
    assert uuids[:8] == uuids[16:] and len(set(uuids)) == 16 and uuids[0].startswith("gpu-")


def test_publishing_what_is_published_writes_nothing():
    server = Server()
    server.publish(Devices(), tainted(gpu_0=HOT))
    assert not server.publish(Devices(), tainted(gpu_0=HOT))


@pytest.mark.parametrize("form", ["inline", "separate"])
def test_a_taint_rewrites_one_slice_and_keeps_the_generation(form: str):
    server = Server()
    devices = Devices(count=100, taint_form=form)
    server.publish(devices)
    done = server.publish(devices, tainted(gpu_70=HOT))
    assert (len(done.create), len(done.update), len(done.delete)) == (0, 1, 0)
    assert server.pool().generation == 1 and server.pool().complete


@pytest.mark.parametrize("form", ["inline", "separate"])
def test_a_taint_that_stays_keeps_its_time_when_another_comes(form: str):
    server = Server()
    devices = Devices(count=2, taint_form=form)
    server.publish(devices, tainted(gpu_0=HOT))
    first = str(server.slices)
    done = server.publish(devices, tainted(gpu_0=HOT, gpu_1=WORSE))
    (written,) = done.update
    found = [t for d in written["spec"].get("devices", ()) for t in d.get("taints", ())] or [
        e["taint"] for e in written["spec"]["taints"]
    ]
    assert [t.get("timeAdded") in first if "timeAdded" in t else None for t in found] == [True, None]


def test_a_device_that_goes_and_comes_back_raises_the_generation_of_every_slice():
    server = Server()
    devices = Devices(count=100)
    server.publish(devices)
    gone = Condition(unplugged=frozenset({"gpu-99"}))
    for number, condition in enumerate((gone, Condition()), 2):
        server.publish(devices, condition)
        assert {s["spec"]["pool"]["generation"] for s in server.slices.values()} == {number}
        assert server.pool().complete


def test_a_deleted_slice_comes_back_under_the_same_generation():
    server = Server()
    devices = Devices(count=100)
    server.publish(devices)
    del server.slices[sorted(server.slices)[1]]
    done = server.publish(devices)
    assert (len(done.create), len(done.update), server.pool().generation, server.pool().complete) == (
        1,
        0,
        1,
        True,
    )


def test_the_taint_slice_is_there_before_the_first_taint():
    server = Server()
    server.publish(Devices(count=1, taint_form="separate"))
    assert [set(s["spec"]) - {"driver", "pool", "nodeName"} for s in server.slices.values()] == [
        {"devices"},
        set(),
    ]


def test_a_driver_without_devices_says_that_it_is_alive():
    server = Server()
    server.publish(Devices(count=0))
    assert server.pool().complete and not next(iter(server.slices.values()))["spec"].get("devices")


def test_changing_the_form_keeps_the_time_of_a_taint():
    server = Server()
    server.publish(Devices(count=1), tainted(gpu_0=HOT))
    (time,) = (t["timeAdded"] for s in server.slices.values() for t in s["spec"]["devices"][0]["taints"])
    server.publish(Devices(count=1, taint_form="separate"), tainted(gpu_0=HOT))
    assert [e["taint"]["timeAdded"] for s in server.slices.values() for e in s["spec"].get("taints", ())] == [
        time
    ]


@pytest.mark.parametrize(
    ("broken", "problem"), [("duplicate-devices", "duplicate device gpu-0"), ("wrong-count", "incomplete")]
)
def test_a_broken_pool_cannot_be_used_and_a_repaired_one_can(broken: str, problem: str):
    server = Server()
    server.publish(Devices(count=2))
    server.publish(Devices(count=2), Condition(broken=broken))
    pool = server.pool()
    said = "; ".join(pool.problems) or ("" if pool.complete else "incomplete")
    server.publish(Devices(count=2))
    assert (said, server.pool().usable) == (problem, True)


def test_partitions_share_what_the_whole_device_has():
    documents = plan(Devices(count=2, partitions=4), NODE, []).create
    counters, devices = documents[0]["spec"]["sharedCounters"], documents[1]["spec"]["devices"]
    assert [c["name"] for c in counters] == ["gpu-0-counters", "gpu-1-counters"]
    assert [d["name"] for d in devices[:5]] == [*(f"gpu-0-partition-{i}" for i in range(4)), "gpu-0-full"]
    assert devices[0]["consumesCounters"][0]["counters"]["memory"] == {"value": "20Gi"}


def test_a_fabric_is_one_pool_for_all_nodes():
    (network,) = read_all({"profile": "net"})
    (slice_,) = plan(network, PoolLocation.shared(network.pool), []).create
    assert (slice_["spec"]["driver"], slice_["spec"]["pool"]["name"], slice_["spec"]["allNodes"]) == (
        "net.example.com",
        "fabric",
        True,
    )


def test_a_fabric_may_be_for_some_nodes_only():
    (network,) = read_all({"profile": "net", "nodeLabels": {"rack": "a"}})
    (slice_,) = plan(network, PoolLocation.shared(network.pool, network.node_labels), []).create
    (term,) = slice_["spec"]["nodeSelector"]["nodeSelectorTerms"]
    assert term == {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"count": 200},
        {"partitions": 3},
        {"shared": True},
        {"profile": "net"},
        {"count": 0},
        {"taints": "separate", "count": 64},
        {"attributes": {"model": "A100", "numa": 1, "nvlink": True, "cuda": {"version": "12.4.0"}}},
        {"extendedResourceName": "example.com/gpu"},
    ],
)
def test_the_api_takes_what_is_published(document: dict[str, Any]):
    (devices,) = read_all(document)
    for written in (*plan(devices, NODE, [], tainted(pool=HOT)).create, device_class(devices)):
        assert validate({**written, "metadata": {"name": "x"}}, gates=ALL_FEATURES) == []


@pytest.mark.parametrize("document", [{}, {"profile": "net", "count": 3}, {"shared": True, "name": "x"}])
def test_what_a_node_remembers_is_what_its_class_says(document: dict[str, Any]):
    found = read_all(document)
    assert read_all([each.document() for each in found]) == found


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        (7, "x: devices: 7 is no description of devices"),
        ({"count": -1}, "count: -1 is not between 0 and 1024"),
        ({"count": "x"}, "count"),
        ({"nodeLabels": {"rack": "a"}}, "only a pool with a name of its own"),
        ({"profile": "net", "nodeLabels": {"/": "a"}}, "spec.nodeSelector"),
        ({"partitions": 99}, "partitions: 99"),
        ({"partitions": 2, "shared": True}, "exclude each other"),
        ({"profile": "tpu"}, "profile 'tpu': there are gpu, net"),
        ({"taints": "outside"}, "taints: 'outside'"),
        ({"capacity": {"memory": "much"}}, "capacity memory: quantities must match"),
        ({"attributes": {"a": 1.5}}, "attribute a: 1.5"),
        ({"attributes": {"a-b": 1}}, "a valid C identifier"),
        ({"driver": "Not A Driver"}, "spec.driver: Invalid value"),
        ({"surprise": 1}, "surprise"),
        ({"schedule": [{"device": "gpu-9", "taint": "a:None"}]}, "schedule: there is no device gpu-9"),
        ({"schedule": [{"device": "gpu-0", "taint": "/:NoSchedule"}]}, "prefix part must be non-empty"),
        ([{}, {}], "the same driver and pool"),
    ],
)
def test_a_class_that_cannot_be_published_is_one_clear_line(devices: object, said: str):
    with pytest.raises(ClassError) as error:
        NodeClass.read({"devices": devices}, "x")
    assert said in str(error.value) and "\n" not in str(error.value)


def test_the_class_file_that_the_docs_show_can_be_used():
    page = Path(__file__).parents[4] / "docs" / "howto" / "simulate-devices.md"
    (text,) = re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    (document,) = read_values(text, "lab.yaml")
    assert [(each.driver, each.count) for each in NodeClass.read(document, "lab").devices] == [
        ("gpu.example.com", 4),
        ("net.example.com", 2),
    ]


def test_the_class_gpu_has_eight_and_can_be_given_fewer():
    document = node_document("n", CLASSES["gpu"].with_devices(3), (), {}, "2026-01-01T00:00:00Z")
    assert '"count":3' in document["metadata"]["annotations"][DEVICES]


def test_what_a_server_dropped_is_named():
    (sent,) = plan(Devices(count=1), NODE, [], tainted(gpu_0=HOT)).create
    kept = copy.deepcopy(sent)
    del kept["spec"]["devices"][0]["taints"]
    assert (dropped(sent, sent), dropped(sent, kept)) == ((), ("DRADeviceTaints",))


CONDITIONS = st.builds(
    lambda taints, unplugged, broken: Condition(taints, frozenset(unplugged), broken),
    st.dictionaries(
        st.sampled_from(["gpu-0", "gpu-1", "gpu-65", "pool"]),
        st.lists(st.sampled_from([HOT, WORSE]), unique_by=str, max_size=2).map(tuple),
        max_size=3,
    ),
    st.sets(st.sampled_from(["gpu-0", "gpu-65", "pool"]), max_size=2),
    st.sampled_from(["", "", "wrong-count", "duplicate-devices"]),
)
OFFERS = st.builds(
    lambda count, form: Devices(count=count, taint_form=form),
    st.sampled_from([0, 1, 2, 66]),
    st.sampled_from(["inline", "separate"]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(OFFERS, CONDITIONS), min_size=1, max_size=4))
def test_whatever_happened_before_the_pool_shows_what_is(history):
    """One generation, complete unless it is meant to be broken, and nothing left to write."""
    server = Server()
    generations = []
    for devices, condition in history:
        server.publish(devices, condition)
        generations.append(server.pool().generation)
        assert not server.publish(devices, condition)
    devices, condition = history[-1]
    pool = server.pool()
    shown = [d.name for found in pool.slices for d in found.spec.devices or ()]
    wanted = [d["name"] for d in devices.devices("n1") if not {d["name"], "pool"} & condition.unplugged]
    if condition.broken == "duplicate-devices":
        wanted += wanted[:1]
    assert shown == wanted
    assert pool.complete == (condition.broken != "wrong-count")
    assert generations == sorted(generations) and len(pool.slices) == len(server.slices)
