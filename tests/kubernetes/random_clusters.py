"""Random small clusters that use much of what a pod, a node and a scheduler's profile can say."""

from __future__ import annotations

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NAMESPACES = {"x": {"team": "x"}, "y": {"tier": "2"}, "z": {}}
PRIORITIES = {"low": 10, "mid": 100, "high": 1000}
OVERHEAD = {"metadata": {"name": "heavy"}, "handler": "h",
            "overhead": {"podFixed": {"cpu": "150m", "memory": "100Mi"}}}  # fmt: skip
DIGEST = "img-5@sha256:" + "a" * 64
IMAGES = [
    "img-0:v1",
    "img-1:v1",
    "img-1",
    "img-2:v1",
    "reg.example/a/img-3",
    "reg.example:5000/img-4",
    DIGEST,
]
PRESENT = ["img-0:v1", "img-1:v1", "img-1:latest", "img-2:v1", "reg.example/a/img-3:latest",
           "reg.example:5000/img-4:latest", DIGEST]  # fmt: skip
MIB = 1024 * 1024


def weighted(**weights):
    names = {"gpu": "example.com/gpu", "storage": "ephemeral-storage"}
    return [{"name": names.get(name, name), "weight": weight} for name, weight in weights.items()]


def arguments(plugin, **args):
    return {"name": plugin, "args": args}


def strategy(kind, resources, **more):
    return arguments("NodeResourcesFit", scoringStrategy={"type": kind, "resources": resources, **more})


SHAPE = [{"utilization": at, "score": score} for at, score in ((0, 2), (35, 10), (70, 3), (100, 0))]
ADDED = {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "gen", "operator": "Lt", "values": ["4"]}]}]},
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 40, "preference": {"matchExpressions": [{"key": "gen", "operator": "In", "values": ["1"]}]}}],
}  # fmt: skip
#: What schedulers are told, by name; each cluster's pods are given to some of them.
PROFILES = [
    {"schedulerName": "plain"},
    {"schedulerName": "most", "pluginConfig": [
        strategy("MostAllocated", weighted(cpu=3, memory=1, gpu=5, storage=2)),
        arguments("NodeResourcesBalancedAllocation", resources=weighted(cpu=1, memory=1, gpu=1))]},
    {"schedulerName": "ratio", "pluginConfig": [
        strategy("RequestedToCapacityRatio", weighted(cpu=2, memory=3, gpu=5),
                 requestedToCapacityRatio={"shape": SHAPE})]},
    {"schedulerName": "ignoring", "pluginConfig": [
        arguments("NodeResourcesFit", ignoredResources=["example.com/gpu"], ignoredResourceGroups=["other.example"]),
        arguments("InterPodAffinity", hardPodAffinityWeight=50, ignorePreferredTermsOfExistingPods=True)]},
    {"schedulerName": "added", "pluginConfig": [
        arguments("NodeAffinity", addedAffinity=ADDED), arguments("InterPodAffinity", hardPodAffinityWeight=0)]},
    {"schedulerName": "listed", "pluginConfig": [
        arguments("PodTopologySpread", defaultingType="List", defaultConstraints=[
            {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"},
            {"maxSkew": 2, "topologyKey": "gen", "whenUnsatisfiable": "ScheduleAnyway"}])]},
    {"schedulerName": "rearranged", "plugins": {
        "score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}, {"name": "PodTopologySpread"}],
                  "enabled": [{"name": "TaintToleration"}, {"name": "ImageLocality", "weight": 7}]},
        "filter": {"disabled": [{"name": "NodeUnschedulable"}],
                   "enabled": [{"name": "InterPodAffinity"}, {"name": "NodeResourcesFit"}]},
        "multiPoint": {"disabled": [{"name": "NodePorts"}]}}},
    {"schedulerName": "few", "plugins": {"multiPoint": {"disabled": [{"name": "*"}], "enabled": [
        {"name": name} for name in ("PrioritySort", "DefaultBinder", "NodeResourcesFit", "TaintToleration",
                                    "DefaultPreemption")]}}},
]  # fmt: skip


def requests(rng, often):
    found = {}
    for resource, share, amounts in (
        ("cpu", 0.8, ["50m", "100m", "250m", "500m", "0"]), ("memory", 0.7, ["64Mi", "128Mi", "500M", "1Gi", "0"]),
        ("ephemeral-storage", 0.15, ["1Gi", "3Gi"]), ("example.com/gpu", 0.2, ["1", "2", "3"]),
        ("other.example/fpga", 0.1, ["1"]),
    ):  # fmt: skip
        if rng.random() < share * often:
            found[resource] = rng.choice(amounts)
    if found.keys() & {"cpu", "memory"} and rng.random() < 0.1 * often:
        found["hugepages-2Mi"] = rng.choice(["2Mi", "4Mi", "8Mi"])
    return found


def container(rng, name, often):
    asked = requests(rng, often)
    limits = {r: n for r, n in asked.items() if "/" in r or r.startswith("hugepages")}
    if rng.random() < 0.1:
        limits["memory"] = "2Gi"
    made = {"name": name, "image": rng.choice(IMAGES), "resources": {"requests": asked, "limits": limits}}
    if rng.random() < 0.15:
        made["ports"] = [{"containerPort": 80 + i, "hostPort": rng.choice([80, 81, 82]),
                          "protocol": rng.choice(["TCP", "UDP", "SCTP"]),
                          "hostIP": rng.choice(["", "0.0.0.0", "10.0.0.1", "10.0.0.2"])}
                         for i in range(rng.randrange(1, 3))]  # fmt: skip
    return made


def selector(rng):
    return rng.choice([
        {"matchLabels": {"app": rng.choice(["web", "db"])}},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]},
        {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "kind", "operator": "NotIn", "values": ["1"]}]},
        {"matchExpressions": [{"key": "kind", "operator": "DoesNotExist"}]},
        {},
    ])  # fmt: skip


def pod_term(rng):
    made = {"topologyKey": rng.choice([ZONE, HOST, "gen"]), "labelSelector": selector(rng)}
    made |= rng.choice(
        [
            {},
            {},
            {},
            {"namespaceSelector": {}},
            {"namespaceSelector": {"matchLabels": {"team": "x"}}},
            {"namespaces": ["x", "y"]},
            {"namespaces": ["z"], "namespaceSelector": {"matchLabels": {"team": "x"}}},
        ]
    )
    made |= rng.choice([{}, {}, {"matchLabelKeys": ["ver"]}, {"mismatchLabelKeys": ["ver"]}])
    return made  # fmt: skip


def node_term(rng, names):
    expressions = [
        {"key": "gen", "operator": rng.choice(["Gt", "Lt"]), "values": [str(rng.randrange(5))]},
        {"key": ZONE, "operator": "In", "values": rng.sample(["a", "b", "c"], 2)},
        {"key": ZONE, "operator": "NotIn", "values": ["a"]},
        {"key": "gen", "operator": rng.choice(["Exists", "DoesNotExist"])},
    ]
    field = {"key": "metadata.name", "operator": rng.choice(["In", "In", "NotIn"]),
             "values": [rng.choice([*names, "nowhere"])]}  # fmt: skip
    return rng.choice([
        {"matchExpressions": rng.sample(expressions, rng.choice([1, 1, 2]))},
        {"matchExpressions": [rng.choice(expressions)]},
        {"matchFields": [field]},
        {"matchFields": [field], "matchExpressions": [rng.choice(expressions)]},
    ])  # fmt: skip


REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def affinity(rng, names, often):
    made = {}
    if rng.random() < 0.25 * often:
        terms = [node_term(rng, names) for _ in range(rng.choice([1, 1, 2]))]
        made["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms}}
    if rng.random() < 0.3 * often:
        made.setdefault("nodeAffinity", {})[PREFERRED] = [
            {"weight": rng.randrange(1, 101), "preference": node_term(rng, names)}
            for _ in range(rng.randrange(1, 3))
        ]
    for which in ("podAffinity", "podAntiAffinity"):
        if rng.random() < 0.2 * often:
            made.setdefault(which, {})[REQUIRED] = [pod_term(rng) for _ in range(rng.choice([1, 1, 2]))]
        if rng.random() < 0.25 * often:
            made.setdefault(which, {})[PREFERRED] = [
                {"weight": rng.randrange(1, 101), "podAffinityTerm": pod_term(rng)}
                for _ in range(rng.choice([1, 1, 2]))
            ]
    return made


def spread(rng):
    made = {}
    for _ in range(rng.randrange(1, 4)):
        key, action = rng.choice([ZONE, HOST, "gen"]), rng.choice(["DoNotSchedule", "ScheduleAnyway"])
        each = {"maxSkew": rng.randrange(1, 4), "topologyKey": key, "whenUnsatisfiable": action,
                "labelSelector": selector(rng)}  # fmt: skip
        for policy in ("nodeTaintsPolicy", "nodeAffinityPolicy"):
            if rng.random() < 0.4:
                each[policy] = rng.choice(["Honor", "Ignore"])
        if rng.random() < 0.3:
            each["matchLabelKeys"] = rng.choice([["ver"], ["absent"]])
        if action == "DoNotSchedule" and rng.random() < 0.3:
            each["minDomains"] = rng.randrange(1, 5)
        made[key, action] = each
    return list(made.values())


TOLERATIONS = [
    {"key": "gpu", "operator": "Exists"}, {"key": "flaky", "operator": "Equal"},
    {"key": "gpu", "operator": "Equal", "value": "a100", "effect": "NoExecute", "tolerationSeconds": 5},
    {"operator": "Exists", "effect": "PreferNoSchedule"}, {"key": "flaky", "effect": "PreferNoSchedule"},
    {"operator": "Exists", "effect": "NoSchedule"}, {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
]  # fmt: skip


def toleration(rng):
    compared = {"key": "sla", "operator": rng.choice(["Gt", "Lt"]), "value": str(rng.randrange(1000)),
                "effect": "NoSchedule"}  # fmt: skip
    return rng.choice([compared, *TOLERATIONS])


def pod(rng, name, names, often=1.0):
    """Return a pod; *often* says how often it asks for anything."""
    spec = {"containers": [container(rng, f"c{i}", often) for i in range(rng.choice([1, 1, 2]))],
            "tolerations": [toleration(rng) for _ in range(rng.randrange(4))],
            "affinity": affinity(rng, names, often)}  # fmt: skip
    if rng.random() < 0.2:
        spec["initContainers"] = [
            {**container(rng, f"i{i}", often), **({"restartPolicy": "Always"} if rng.random() < 0.5 else {})}
            for i in range(rng.randrange(1, 4))
        ]
    if rng.random() < 0.12:  # one request for all; what the containers ask for is too much to be told apart
        spec["resources"] = {
            "requests": rng.choice([{"cpu": "900m"}, {"memory": "2Gi"}, {"cpu": "1", "memory": "1Gi"}])
        }
        for each in (*spec["containers"], *spec.get("initContainers", ())):
            each["resources"] = {"requests": rng.choice([{}, {"cpu": "50m"}, {"memory": "64Mi"}])}
    if rng.random() < 0.35 * often:
        spec["topologySpreadConstraints"] = spread(rng)
    if rng.random() < 0.1:
        spec["nodeSelector"] = {"gen": str(rng.randrange(5))}
    if rng.random() < 0.1:
        spec["runtimeClassName"] = "heavy"
    if rng.random() < 0.1:
        spec["volumes"] = [{"name": "v", "image": {"reference": "img-2:v1"}}]
    labels = {key: rng.choice(values) for key, values, share in (
        ("app", ["web", "db", "cache"], 0.9), ("ver", ["1", "2"], 0.6), ("kind", ["1", "2"], 0.4),
    ) if rng.random() < share}  # fmt: skip
    return {
        "metadata": {"name": name, "namespace": rng.choice(["x", "x", "y", "z"]), "labels": labels},
        "spec": spec,
    }


def greedy(rng, name, names):
    """Return an important pod that hardly fits anywhere."""
    made = pod(rng, name, names)
    if rng.random() < 0.7:
        made["spec"] = {"containers": made["spec"]["containers"][:1], "tolerations": [{"operator": "Exists"}]}
    made["spec"].pop("resources", None)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": rng.choice(["700m", "900m", "1500m"])}}
    made["spec"]["priorityClassName"] = rng.choice(["mid", "high"])
    return made


def node(rng, name, busy):
    labels = {HOST: name}
    for key, values, share in ((ZONE, "abc", 0.9), ("gen", "01234", 0.6)):
        if rng.random() < share:
            labels[key] = rng.choice(values)
    taints = {}
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        key, value = rng.choice([("sla", str(rng.randrange(1000))), ("gpu", "a100"), ("flaky", "")])
        effect = rng.choice(["NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule"])
        taints[key, effect] = {"key": key, "value": value, "effect": effect}
    amounts = {"cpu": "1" if busy else rng.choice(["1", "2", "3500m"]), "memory": rng.choice(["2Gi", "4Gi", "3G"]),
               "pods": "110" if busy else rng.choice(["3", "110", "110"]),
               "ephemeral-storage": rng.choice(["2Gi", "10Gi"])}  # fmt: skip
    for resource, values, share in (
        ("example.com/gpu", ["2", "4", "7"], 0.5), ("other.example/fpga", ["1"], 0.2), ("hugepages-2Mi", ["6Mi"], 0.3),
    ):  # fmt: skip
        if rng.random() < share:
            amounts[resource] = rng.choice(values)
    images = [
        {"names": [image], "sizeBytes": rng.randrange(20, 900) * MIB}
        for image in PRESENT
        if rng.random() < 0.35
    ]
    spec = {"taints": list(taints.values()), **({"unschedulable": True} if rng.random() < 0.1 else {})}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec,
            "status": {"capacity": amounts, "allocatable": amounts, "images": images}}  # fmt: skip


def resident(rng, name, names, busy):
    """Return a pod that has its node."""
    made = pod(rng, name, names, 0.6)
    if busy and rng.random() < 0.7:
        made["spec"].pop("resources", None)
        made["spec"]["containers"][0]["resources"] = {
            "requests": {"cpu": rng.choice(["200m", "300m", "450m"])}
        }
    made["spec"] |= {"nodeName": rng.choice(names), "schedulerName": "nobody"}
    if rng.random() < 0.5:
        made["spec"]["priorityClassName"] = rng.choice(list(PRIORITIES))
    return made


def running(rng, made):
    """Return the status of a pod that runs; some are being resized in place."""
    status = {"phase": "Running", "startTime": f"2026-11-15T0{rng.randrange(10)}:00:00Z"}
    if rng.random() < 0.25:
        given = {"image": "i", "imageID": "", "ready": True, "restartCount": 0}
        status["containerStatuses"] = [
            {"name": each["name"], **given, "allocatedResources": {"cpu": rng.choice(["10m", "700m"])},
             "resources": {"requests": {"cpu": rng.choice(["20m", "600m"]), "memory": "256Mi"}}}
            for each in made["spec"]["containers"]
        ]  # fmt: skip
    if rng.random() < 0.2:
        reason = rng.choice(["Infeasible", "Deferred"])
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    return status
