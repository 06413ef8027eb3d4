"""What the real kube-scheduler does with claims is what weir does: where pods go, which devices, what is said."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from tests.kubernetes.programs import scheduler
from tests.kubernetes.real_server import real_server
from tests.kubernetes.test_scheduling import GATES, NODES, PODS, outcome, weir_scheduler
from weir.client.http import connect
from weir.errors import NotFound
from weir.objects.core import Node, Pod, read
from weir.objects.kinds import by_kind
from weir.objects.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from weir.scheduler.claim_writes import DEALLOCATED
from weir.scheduler.claims import Claims
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.framework import PluginError
from weir.scheduler.plugins.claim_reservation import FINALIZER
from weir.scheduler.preemption import preempt
from weir.scheduler.profile_arguments import ProfileArguments

pytestmark = pytest.mark.proves("5055-60", "5055-95")

GROUP = "resource.k8s.io/v1"
CLASSES, SLICES = by_kind(GROUP, "DeviceClass"), by_kind(GROUP, "ResourceSlice")
CLAIMS, RULES = by_kind(GROUP, "ResourceClaim"), by_kind(GROUP, "DeviceTaintRule")
DRIVER = "gpu.example.com"
WHOLE = ("n1", "n2")


def device(name, *taints, **more):
    found = [dict(zip(("key", "effect"), text.split(":"), strict=True)) for text in taints]
    return {"name": name, **({"taints": found} if found else {}), **more}


def gpu(number, *taints, model="a100", numa=0, **more):
    attributes = {"model": {"string": model}, "numa": {"int": numa}}
    return device(f"gpu-{number}", *taints, attributes=attributes, **more)


def slice_of(node, *devices, pool=None, count=1, name=None, **spec):
    where = spec.pop("where", {"nodeName": node})
    content = spec or {"devices": list(devices)}
    about = {"name": pool or node, "generation": 1, "resourceSliceCount": count}
    return SLICES, {"metadata": {"name": name or f"{node}-{pool or 'gpus'}"},
                    "spec": {"driver": DRIVER, **where, "pool": about, **content}}  # fmt: skip


def ask(name="r", **more):
    return {"name": name, "exactly": {"deviceClassName": "gpu", **more}}


def claim(name, *requests, allocated=None, **more):
    document = {"metadata": {"name": name, "namespace": "default"},
                "spec": {"devices": {"requests": list(requests) or [ask()], **more}}}  # fmt: skip
    if allocated:
        pool, chosen = allocated
        results = [{"request": "r", "driver": DRIVER, "pool": pool, "device": chosen}]
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [pool]}]}
        # Without a time Kubernetes writes one with the first reservation, and then refuses its own write.
        document["status"] = {"allocation": {
            "devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]},
            "allocationTimestamp": "2026-01-01T00:00:00Z"}}  # fmt: skip
    return CLAIMS, document


def rule(name, selector, taint):
    key, effect = taint.split(":")
    return RULES, {"metadata": {"name": name},
                   "spec": {"deviceSelector": selector, "taint": {"key": key, "effect": effect}}}  # fmt: skip


def when(expression):
    return [{"cel": {"expression": f"device.attributes['{DRIVER}'].{expression}"}}]


def tolerate(*keys):
    return [{"key": key, "operator": "Exists"} for key in keys]


BOTH = [slice_of(node, gpu(0), gpu(1)) for node in WHOLE]
#: situation → what is there besides nodes n1 and n2 and the class gpu; the pod uses every claim named d…
SITUATIONS = {
    "claim missing from all nodes' devices": [claim("d")],
    "one device": [*BOTH, claim("d")],
    "class missing": [*BOTH, claim("d", ask(deviceClassName="no.such"))],
    "all tainted": [slice_of("n1", gpu(0, "a:NoSchedule")), slice_of("n2", gpu(0, "a:NoExecute")), claim("d")],
    "one side tolerated": [
        slice_of("n1", gpu(0, "a:NoSchedule")), slice_of("n2", gpu(0, "b:NoExecute")),
        claim("d", ask(tolerations=tolerate("a"))),
    ],
    "tainted by a rule": [*BOTH, rule("r", {"pool": "n1"}, "a:NoSchedule"), claim("d")],
    "without effect": [slice_of("n1", gpu(0, "a:None")), claim("d")],
    "all of them, one tainted": [
        slice_of("n1", gpu(0), gpu(1, "a:NoSchedule")), claim("d", ask(allocationMode="All")),
    ],
    "all of them": [slice_of("n1", gpu(0), gpu(1)), claim("d", ask(allocationMode="All"))],
    "pool incomplete": [slice_of("n1", gpu(0), count=2), claim("d")],
    "all of an incomplete pool": [slice_of("n1", gpu(0), count=2), claim("d", ask(allocationMode="All"))],
    "pool invalid": [
        slice_of("n1", gpu(0), count=2), slice_of("n1", gpu(0), count=2, name="n1-again"), claim("d"),
    ],
    "selector fails": [*BOTH, claim("d", ask(selectors=when("none == 1")))],
    "selector": [slice_of("n1", gpu(0, model="t4"), gpu(1)), claim("d", ask(selectors=when("model == 'a100'")))],
    "in use": [*BOTH, claim("x1", allocated=("n1", "gpu-0")), claim("x2", allocated=("n2", "gpu-0")), claim("d")],
    "too many": [*BOTH, claim("d", ask(count=3))],
    "allocated on the other node": [*BOTH, claim("d", allocated=("n2", "gpu-1"))],
    "allocated, and tainted since": [
        *BOTH, rule("r", {"pool": "n2"}, "a:NoSchedule"), claim("d", allocated=("n2", "gpu-1")),
    ],
    "allocated on a node that is gone": [*BOTH, claim("d", allocated=("n9", "gpu-1"))],
    "match": [
        slice_of("n1", gpu(0, numa=0), gpu(1, numa=1), gpu(2, numa=1)),
        claim("d", ask(count=2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]),
    ],
    "distinct": [
        slice_of("n1", gpu(0, numa=0), gpu(1, numa=0), gpu(2, numa=1)),
        claim("d", ask(count=2), constraints=[{"distinctAttribute": f"{DRIVER}/numa"}]),
    ],
    "match that cannot be": [
        slice_of("n1", gpu(0, numa=0), gpu(1, numa=1)),
        claim("d", ask("a"), ask("b"), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]),
    ],
    "first available": [
        slice_of("n1", gpu(0, model="t4")), slice_of("n2", gpu(0)),
        claim("d", {"name": "r", "firstAvailable": [
            {"name": "big", "deviceClassName": "gpu", "selectors": when("model == 'a100'")},
            {"name": "any", "deviceClassName": "gpu"}]}),
    ],
    "second best": [
        slice_of("n1", gpu(0, "a:NoSchedule")),
        claim("d", {"name": "r", "firstAvailable": [
            {"name": "big", "deviceClassName": "gpu"},
            {"name": "small", "deviceClassName": "gpu", "tolerations": tolerate("a")}]}),
    ],
    "from everywhere": [slice_of("n1", gpu(0), pool="net", where={"allNodes": True}), claim("d")],
    "two claims": [slice_of("n1", gpu(0), gpu(1)), slice_of("n2", gpu(0)), claim("d"), claim("d2")],
    "partitions": [
        slice_of("n1", count=2, name="n1-counters",
                 sharedCounters=[{"name": "c", "counters": {"memory": {"value": "80Gi"}}}]),
        slice_of("n1", *(gpu(n, consumesCounters=[{"counterSet": "c", "counters": {"memory": {"value": size}}}])
                         for n, size in enumerate(("60Gi", "40Gi", "40Gi"))), count=2),
        claim("d", ask(count=2)),
    ],
}  # fmt: skip


STEPS = {"default": "2Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"}}
VALUES = {"default": "2Gi", "validValues": ["1Gi", "2Gi", "8Gi"]}


def shared(number, policy=STEPS):
    capacity = {"memory": {"value": "10Gi", **({"requestPolicy": policy} if policy else {})}}
    return gpu(number, allowMultipleAllocations=True, capacity=capacity)


def part(size, name="r", **more):
    return ask(name, capacity={"requests": {"memory": size}}, **more)


def drawing(number, memory):
    draws = {"counterSet": "c", "counters": {"memory": {"value": memory}}}
    return gpu(number, consumesCounters=[draws])


COUNTERS = slice_of(
    "n1",
    count=2,
    name="n1-counters",
    sharedCounters=[{"name": "c", "counters": {"memory": {"value": "80"}}}],
)
ADMIN = {"adminAccess": True}
FORTY = slice_of("n1", *map(gpu, range(40)))
SITUATIONS |= {
    "a share by default": [slice_of("n1", shared(0)), claim("d")],
    "a share without a policy": [slice_of("n1", shared(0, None)), claim("d")],
    "a share rounded up": [slice_of("n1", shared(0)), claim("d", part("2500Mi"))],
    "a share over the most": [slice_of("n1", shared(0)), claim("d", part("5Gi"))],
    "a share of listed values": [slice_of("n1", shared(0, VALUES)), claim("d", part("3Gi"))],
    "three shares of one device": [
        slice_of("n1", shared(0)), claim("d", part("4Gi", "a"), part("4Gi", "b"), part("4Gi", "c")),
    ],
    "a capacity by its full name": [
        slice_of("n1", shared(0)), claim("d", ask(capacity={"requests": {f"{DRIVER}/memory": "2Gi"}})),
    ],
    "enough for one": [
        slice_of("n1", *(gpu(n, capacity={"memory": {"value": size}}) for n, size in enumerate(("4Gi", "40Gi")))),
        claim("d", part("8Gi")),
    ],
    "counters in use": [
        COUNTERS, slice_of("n1", drawing(0, "60"), drawing(1, "30"), drawing(2, "20"), count=2),
        claim("x", allocated=("n1", "gpu-0")), claim("d"),
    ],
    "counters nobody publishes": [slice_of("n1", drawing(0, "60"), gpu(1)), claim("d")],
    "looking into a device in use": [
        slice_of("n1", gpu(0)), claim("x", allocated=("n1", "gpu-0")), claim("d", ask(**ADMIN)),
    ],
    "looking into counted devices in use": [
        COUNTERS, slice_of("n1", drawing(0, "60"), count=2), claim("x", allocated=("n1", "gpu-0")),
        claim("d", ask(**ADMIN)),
    ],
    "looking into what the same pod wants": [slice_of("n1", gpu(0)), claim("d", ask("a", **ADMIN), ask("b"))],
    "looking into shares": [slice_of("n1", shared(0)), claim("d", ask("a", **ADMIN), ask("b", **ADMIN))],
    "more than fit a claim": [FORTY, claim("d", ask("a", count=20), ask("b", count=20))],
    "an alternative that fits a claim": [
        FORTY, claim("d", ask("a", count=30), {"name": "b", "firstAvailable": [
            {"name": "big", "deviceClassName": "gpu", "count": 5},
            {"name": "small", "deviceClassName": "gpu", "count": 2}]}),
    ],
    "each device with its nodes": [
        slice_of("n1", {"name": "a", "nodeName": "n9"}, {"name": "b", "nodeName": "n2"},
                 {"name": "c", "allNodes": True},
                 where={"perDeviceNodeSelection": True}),
        claim("d", ask(count=2)),
    ],
    "a constraint for one alternative": [
        slice_of("n1", gpu(0, numa=0), gpu(1, numa=1)),
        claim("d", {"name": "r", "firstAvailable": [
            {"name": "two", "deviceClassName": "gpu", "count": 2}, {"name": "one", "deviceClassName": "gpu"}]},
            constraints=[{"requests": ["r/two"], "matchAttribute": f"{DRIVER}/numa"}]),
    ],
}  # fmt: skip


def chance(number):
    """Return a random situation: up to three devices a node, rules, claims held and wanted."""
    rng = random.Random(number)
    taints = ["a:NoSchedule", "b:NoExecute", "c:None"]
    things = []
    for name in WHOLE:
        devices = [
            gpu(
                n, *rng.sample(taints, rng.choice([0, 0, 1, 2])), model=rng.choice(["a100", "t4"]), numa=n % 2
            )
            for n in range(rng.randrange(4))
        ]
        things.append(slice_of(name, *devices))
        if devices and rng.random() < 0.3:
            things.append(claim(f"x{name}", allocated=(name, rng.choice(devices)["name"])))
    if rng.random() < 0.4:
        things.append(rule("r", rng.choice([{}, {"pool": "n1"}, {"device": "gpu-0"}]), rng.choice(taints)))
    requests = []
    for index in range(rng.randrange(1, 3)):
        more = {"tolerations": tolerate(*rng.sample("ab", rng.randrange(3)))}
        if rng.random() < 0.3:
            more["selectors"] = when("model == 'a100'")
        if rng.random() < 0.2:
            more["allocationMode"] = "All"
        else:
            more["count"] = rng.randrange(1, 3)
        requests.append(ask(f"r{index}", **more))
    kind = rng.choice(["matchAttribute", "distinctAttribute", "", ""])
    constraints = {"constraints": [{kind: f"{DRIVER}/numa"}]} if kind else {}
    return [*things, claim("d", *requests, **constraints)]


SITUATIONS |= {f"chance {number}": chance(number) for number in range(40)}


def using(name, claims):
    entries = [{"name": each, "resourceClaimName": each} for each in claims]
    spec = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": entries}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def ours(nodes, stored, pending, on):
    """Return the best nodes, or all that may be said instead; and what weir would allocate on the node *on*.

    The real scheduler asks its nodes in parallel and says the error that came first: any node's may be that one.
    """
    best, words, made = ours_of(nodes, stored, pending, on)
    if words.startswith("running "):
        return best, {words, *(ours_of([each], stored, pending, on)[1] for each in nodes)}, made
    return best, {words}, made


def ours_of(nodes, stored, pending, on):
    """Return the best of *nodes*, or what weir says; and what it would allocate on the node *on*."""
    claims = Claims(GATES, lambda: datetime.now(UTC))
    engine = Engine(GATES, ProfileArguments(upstream_reasons=True), claims=claims, share_id=lambda: "share")
    for each in nodes:
        engine.table.put_node(read(Node, each))
    put = {CLASSES: (DeviceClass, claims.put_class), SLICES: (ResourceSlice, claims.put_slice),
           RULES: (DeviceTaintRule, claims.put_rule), CLAIMS: (ResourceClaim, claims.put_claim)}  # fmt: skip
    for kind, each in stored:
        view, take = put[kind]
        take(read(view, each))
    wanted = read(Pod, pending)
    try:
        answer = engine.place(wanted)
    except PluginError as error:
        return set(), str(error), {}
    if not isinstance(answer, Placement):
        freed = f" {DEALLOCATED}," if engine.post_filter(wanted) else ""
        return set(), f"{answer.message}{freed} {preempt(engine, wanted, answer, {}).message}", {}
    scores = engine.scores(wanted)
    best = {name for name, score in scores.items() if score == max(scores.values())}
    (promise,) = engine.reserve(wanted, on) if on in best else (None,)
    made = {b.claim.metadata.name: b.allocation for b in promise.bindings if b.allocation} if promise else {}
    return best, "", made


async def allocations(client, names):
    """Return the allocations of claims whose pod has its node: they are written at about the same time."""
    found = {}
    for name in names:
        for _ in range(50):
            document = await client.get(CLAIMS, name, "default")
            if allocation := document["status"].get("allocation"):
                allocation.pop("allocationTimestamp", None)
                found[name] = without_shares(allocation)
                break
            await asyncio.sleep(0.1)
    return found


def without_shares(allocation):
    """Return an allocation whose random names of shares are replaced."""
    for result in allocation["devices"].get("results") or ():
        if "shareID" in result:
            result["shareID"] = "share"
    return allocation


def agree(real, there, ours):
    """Tell whether (node, words) and allocations of the real scheduler are what weir answers."""
    (node, said), (best, words, made) = real, ours
    return said in words and (node in best, made) == (bool(node), there)


async def play(client, nodes, device_class, name, things, pause):
    """Return what both schedulers do with a pod in the situation made of *things*; all of it is removed again."""
    stored = [(CLASSES, device_class)]
    try:
        for kind, document in things:
            made = await client.create(kind, document)
            stored.append((kind, made))
            if "status" in document:
                patch = {"status": document["status"]}
                made = await client.patch(
                    kind, made["metadata"]["name"], patch, "default", subresource="status"
                )
                stored[-1] = (kind, made)
        await asyncio.sleep(pause)
        claims = [
            each for kind, each in stored if kind is CLAIMS and each["metadata"]["name"].startswith("d")
        ]
        pending = await client.create(PODS, using(name, [each["metadata"]["name"] for each in claims]))
        stored.append((PODS, pending))
        real = await outcome(client, pending)
        fresh = [each["metadata"]["name"] for each in claims if not each.get("status", {}).get("allocation")]
        there = await allocations(client, fresh) if real[0] else {}
        return real, there, ours(nodes, stored[:-1], pending, real[0])
    finally:
        for kind, each in reversed(stored[1:]):
            metadata = each["metadata"]
            namespace = metadata.get("namespace", "")
            if kind is CLAIMS:
                await remove_claim(client, metadata["name"], namespace)
            else:
                await client.delete(kind, metadata["name"], namespace, grace_period_seconds=0)


async def remove_claim(client, name, namespace):
    """Remove a claim and wait until it is gone: the real scheduler may still allocate it for the removed pod."""
    cleared = {"status": {"allocation": None, "reservedFor": None}}
    await client.delete(CLAIMS, name, namespace)
    for _ in range(300):
        with suppress(NotFound):
            await client.patch(CLAIMS, name, cleared, namespace, subresource="status")
            await client.patch(CLAIMS, name, {"metadata": {"finalizers": None}}, namespace)
        if await client.find(CLAIMS, name, namespace) is None:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"the claim {name} is not let go")


async def compare(kubeconfig):
    client = connect(kubeconfig)
    found = {}
    try:
        allowed = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        await client.patch(by_kind("v1", "Namespace"), "default", allowed)
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        status = {"capacity": amounts, "allocatable": amounts}
        nodes = [await client.create(NODES, {"metadata": {"name": n}, "status": status}) for n in WHOLE]
        spec = {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}
        device_class = await client.create(CLASSES, {"metadata": {"name": "gpu"}, "spec": spec})
        for number, (situation, things) in enumerate(SITUATIONS.items()):
            # A difference that goes away with more patience was a watch that had not caught up.
            for pause in (0.3, 2.0, 5.0):
                name = f"pod-{number}-{pause:g}"
                found[situation] = await play(client, nodes, device_class, name, things, pause)
                await asyncio.sleep(pause - 0.1)
                if agree(*found[situation]):
                    break
        return found
    finally:
        await client.close()


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("claims")
    with real_server(folder) as kubeconfig, scheduler(folder, kubeconfig):
        return asyncio.run(compare(kubeconfig))


@pytest.mark.parametrize("situation", SITUATIONS)
def test_both_schedulers_do_the_same(answers, situation):
    (node, said), there, (best, words, made) = answers[situation]
    assert said in words
    assert (node in best, made) == (bool(node), there)


def test_weir_allocates_gives_up_and_makes_claims_on_a_real_cluster(tmp_path):
    async def play(kubeconfig):
        client = connect(kubeconfig)
        try:
            amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
            status = {"capacity": amounts, "allocatable": amounts}
            await client.create(NODES, {"metadata": {"name": "n1"}, "status": status})
            offers = {"extendedResourceName": "example.com/gpu"}
            await client.create(CLASSES, {"metadata": {"name": "gpu"}, "spec": offers})
            for kind, document in (
                slice_of("n1", *map(gpu, range(3))),
                claim("d", ask(tolerations=tolerate("a"))),
            ):
                await client.create(kind, document)
            kind, gone = claim("lost", allocated=("n9", "gpu-0"))
            await client.create(kind, gone)
            await client.patch(kind, "lost", {"status": gone["status"]}, "default", subresource="status")
            wanted = {
                name: using(name, [uses])
                for name, uses in (("first", "d"), ("shares", "d"), ("second", "lost"))
            }
            asks = {"limits": {"example.com/gpu": "1"}}
            third = {"containers": [{"name": "c", "image": "i", "resources": asks}]}
            wanted["third"] = {"metadata": {"name": "third", "namespace": "default"}, "spec": third}
            for document in wanted.values():
                document["spec"]["schedulerName"] = "weir"
                await client.create(PODS, document)
            async with asyncio.timeout(60):
                while True:
                    pods = {name: await client.get(PODS, name, "default") for name in wanted}
                    if all(each["spec"].get("nodeName") for each in pods.values()):
                        break
                    await asyncio.sleep(0.1)
            claims = {each["metadata"]["name"]: each for each in (await client.list(CLAIMS)).documents()}
            return pods, claims
        finally:
            await client.close()

    with real_server(tmp_path) as kubeconfig, weir_scheduler(kubeconfig, "--scheduler-name", "weir"):
        pods, claims = asyncio.run(play(kubeconfig))
    special = pods["third"]["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
    users = {
        name: sorted(consumer["name"] for consumer in each["status"]["reservedFor"])
        for name, each in claims.items()
    }
    assert users == {"d": ["first", "shares"], "lost": ["second"], special: ["third"]}
    devices = [each["status"]["allocation"]["devices"]["results"][0]["device"] for each in claims.values()]
    assert sorted(devices) == ["gpu-0", "gpu-1", "gpu-2"]
    assert all(FINALIZER in claims[name]["metadata"]["finalizers"] for name in ("d", special))
