"""`weir explain` beside a real scheduler for pods that want devices: taints, selectors, alternatives, constraints.

Random devices on nodes, on chosen nodes and on all of them, with attributes, capacity and taints; claims that ask for
some or all of them, with tolerations, alternatives and attributes that have to agree. The answer and its fix are held
against what the real scheduler does, as in test_explain.py.
`WEIR_EXPLAIN_DEVICE_CASES` says how many cases (300 are a few minutes), `WEIR_EXPLAIN_SEED` which.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter

import pytest

from tests.kubernetes.programs import scheduler
from tests.kubernetes.real_server import real_server
from tests.kubernetes.test_explain import (
    DEVICE_CLAIMS,
    DEVICE_CLASSES,
    DEVICE_DRIVER,
    NODES,
    SEED,
    SLICES,
    SPACES,
    Arena,
    play_all,
)
from weir.client.http import connect

CASES = int(os.environ.get("WEIR_EXPLAIN_DEVICE_CASES", "60"))
MODELS, TAINTS = ("a100", "h100"), ("sick", "hot")
DRIVERS = (DEVICE_DRIVER, "nic.example.com")
CLASS_SELECTORS = {
    "gpu": f"device.driver == '{DRIVERS[0]}'",
    "nic": f"device.driver == '{DRIVERS[1]}'",
    "any": "",
}


def device(rng, index):
    """Return a random device; one in three is tainted."""
    made = {
        "name": f"d-{index}",
        "attributes": {"model": {"string": rng.choice(MODELS)}, "numa": {"int": rng.randrange(2)}},
        "capacity": {"memory": {"value": rng.choice(["40Gi", "80Gi"])}},
    }
    if rng.random() < 0.35:
        effects = rng.sample(["NoSchedule", "NoExecute", "None"], rng.randrange(1, 3))
        made["taints"] = [
            {"key": rng.choice(TAINTS), "value": rng.choice(["", "5"]), "effect": effect}
            for effect in effects
        ]
    return made


def wants(rng, driver):
    """Return what one request asks of devices."""
    asked = {
        "deviceClassName": rng.choice(
            ["gpu", "nic", "any", "any", "nothing"] if rng.random() < 0.2 else ["gpu", "nic"]
        )
    }
    if rng.random() < 0.2:
        asked["allocationMode"] = "All"
    else:
        asked["count"] = rng.choice([1, 1, 2, 3])
    selectors = (
        f"device.attributes['{driver}'].model == '{rng.choice(MODELS)}'",
        f"device.attributes['{driver}'].numa < {rng.randrange(1, 3)}",
        f"device.capacity['{driver}'].memory.compareTo(quantity('60Gi')) > 0",
    )
    if rng.random() < 0.4:
        guard = f"device.driver == '{driver}' && "
        asked["selectors"] = [{"cel": {"expression": guard + rng.choice(selectors)}}]
    if rng.random() < 0.4:
        toleration = {"key": rng.choice(TAINTS), "operator": "Exists"}
        if rng.random() < 0.4:
            toleration |= {"operator": "Equal", "value": "5"}
        if rng.random() < 0.4:
            toleration["effect"] = rng.choice(["NoSchedule", "NoExecute"])
        asked["tolerations"] = [toleration]
    return asked


def claim(rng, name):
    requests = []
    for index in range(rng.choice([1, 1, 2])):
        driver = rng.choice(DRIVERS)
        if rng.random() < 0.25:
            alternatives = [{"name": f"s{number}", **wants(rng, driver)} for number in range(2)]
            requests.append({"name": f"r{index}", "firstAvailable": alternatives})
        else:
            requests.append({"name": f"r{index}", "exactly": wants(rng, driver)})
    devices = {"requests": requests}
    if rng.random() < 0.25:
        devices["constraints"] = [
            {"matchAttribute": f"{rng.choice(DRIVERS)}/{rng.choice(['model', 'numa'])}"}
        ]
    return {"metadata": {"name": name, "namespace": "x"}, "spec": {"devices": devices}}


class DeviceArena(Arena):
    """Nodes with room enough for every pod, and devices that decide."""

    def asked(self, rng, number, names):
        claims = [
            {"name": f"c{index}", "resourceClaimName": rng.choice(["one", "two"])}
            for index in range(rng.choice([1, 1, 2]))
        ]
        if len(claims) == 2:
            claims[0]["resourceClaimName"], claims[1]["resourceClaimName"] = "one", "two"
        spec = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": claims}
        metadata = {"name": f"new-{number}", "namespace": "x"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    async def build(self, rng, number):
        names = [f"c{number}-n{index}" for index in range(rng.randrange(1, 4))]
        for index, name in enumerate(names):
            amounts = {"cpu": "8", "memory": "16Gi", "pods": "20"}
            labels = {"kubernetes.io/hostname": name, "zone": "ab"[index % 2]}
            status = {"capacity": amounts, "allocatable": amounts}
            await self.make(NODES, {"metadata": {"name": name, "labels": labels}, "status": status})
            for driver in DRIVERS:
                if rng.random() < 0.8:
                    await self._slice(rng, f"{name}-{driver.partition('.')[0]}", driver, {"nodeName": name})
        if rng.random() < 0.2:
            await self._slice(rng, f"c{number}-all", DRIVERS[1], {"allNodes": True})
        if rng.random() < 0.2:
            term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
            await self._slice(
                rng, f"c{number}-zone", DRIVERS[0], {"nodeSelector": {"nodeSelectorTerms": [term]}}
            )
        for name in ("one", "two"):
            await self.make(DEVICE_CLAIMS, claim(rng, name))
        return names

    async def _slice(self, rng, name, driver, where):
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [device(rng, index) for index in range(rng.randrange(1, 4))]
        spec = {"driver": driver, "pool": pool, "devices": devices, **where}
        await self.make(SLICES, {"metadata": {"name": name}, "spec": spec})


async def compare(kubeconfig, cases, seed):
    client = connect(kubeconfig)
    try:
        await client.create(SPACES, {"metadata": {"name": "x"}})
        for name, expression in CLASS_SELECTORS.items():
            selectors = [{"cel": {"expression": expression}}] if expression else []
            await client.create(
                DEVICE_CLASSES, {"metadata": {"name": name}, "spec": {"selectors": selectors}}
            )
        return await play_all(DeviceArena(client), cases, f"devices/{seed}")
    finally:
        await client.close()


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    with real_server(tmp_path_factory.mktemp("explain-devices")) as made:
        yield made


def test_explain_says_of_devices_what_a_real_scheduler_does_and_its_fixes_bind(kubeconfig, tmp_path):
    with scheduler(tmp_path, kubeconfig):
        played = asyncio.run(compare(kubeconfig, CASES, SEED))
    kinds = Counter(one.kind for one in played.values())
    assert {number: one.false_fit for number, one in played.items() if one.false_fit is not None} == {}
    assert {number: one.other for number, one in played.items() if one.other is not None} == {}
    assert min(kinds["fits"], kinds["words"]) > CASES // 8, kinds
    fixes = [one for one in played.values() if one.fixed]
    unbound = [one.unbound for one in fixes if one.unbound is not None]
    assert len(unbound) <= len(fixes) // 20, unbound
