"""The same things done to workloads end the same with weir's controllers and with Kubernetes' own.

Both act on a weir API server with weir's scheduler and simulated nodes; only the controller manager differs. What is
there at the end is compared: counts, conditions, revisions, owners. Names that are made of hashes are left out.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack

import pytest

from tests.e2e.server import running_server
from tests.kubernetes.playground import Playground, pod, template
from tests.kubernetes.programs import controller_manager
from tests.kubernetes.test_living import weir

PATIENCE = 120.0


def conditions(document):
    found = (document["status"].get("conditions") or ()) if document else ()
    return {c["type"]: (c["status"], c.get("reason")) for c in found}


def workload(kind, name, replicas=None, image="app:v1", **spec):
    inner = template(name)
    inner["spec"]["containers"][0]["image"] = image
    more = {} if replicas is None else {"replicas": replicas}
    return {
        "kind": kind, "apiVersion": "apps/v1", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": inner, **more, **spec},
    }  # fmt: skip


def job(name, code=0, **spec):
    inner = template(name, restartPolicy="Never")
    inner["metadata"]["annotations"] = {"weir.dev/exit-code": str(code), "weir.dev/run-seconds": "1"}
    return {
        "kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": name}, "spec": {"template": inner, **spec}
    }  # fmt: skip


def running(cluster, app):
    return [
        p
        for p in cluster.pods(f"app={app}", "default")
        if p["status"].get("phase") == "Running" and not p["metadata"].get("deletionTimestamp")
    ]


def images(pods):
    return sorted(p["spec"]["containers"][0]["image"] for p in pods)


def set_image(cluster, kind, name, image):
    containers = [{"name": "c", "image": image, "resources": {"requests": {"cpu": "100m"}}}]
    cluster.patch(kind, name, {"spec": {"template": {"spec": {"containers": containers}}}}, "default")


def rolls(cluster, kind, name, image, number):
    set_image(cluster, kind, name, image)
    cluster.wait(
        f"{kind} {name} runs {image}", lambda: images(running(cluster, name)) == [image] * number, PATIENCE
    )


# ── the stories; each returns what is there at the end ───────────────────────────────────────────


def deployment_rolls_and_goes_back(cluster):
    cluster.create(workload("Deployment", "web", 3))
    cluster.wait("three pods", lambda: len(running(cluster, "web")) == 3, PATIENCE)
    rolls(cluster, "Deployment", "web", "app:v2", 3)
    rolls(cluster, "Deployment", "web", "app:v1", 3)

    def settled():
        found = cluster.get("Deployment", "web")
        done = found["status"].get("observedGeneration") == found["metadata"]["generation"]
        alone = found["status"].get("replicas") == found["status"].get("availableReplicas") == 3
        return done and alone and not found["status"].get("terminatingReplicas") and found

    found = cluster.wait("the rollout is over", settled, PATIENCE)
    kept = ("deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history")
    history = {
        r["spec"]["template"]["spec"]["containers"][0]["image"]: (
            r["spec"]["replicas"],
            [r["metadata"]["annotations"].get(name) for name in kept],
        )
        for r in cluster.list("ReplicaSet", "app=web")
    }
    counts = {k: v for k, v in found["status"].items() if k.endswith("eplicas")}
    return history, counts, conditions(found), found["metadata"]["annotations"][kept[0]]


def revisions(cluster, name):
    found = cluster.list("ControllerRevision", f"app={name}")
    return sorted(
        (
            r["revision"],
            r["data"]["spec"]["template"]["spec"]["containers"][0]["image"],
            r["data"]["spec"]["template"]["$patch"],
        )
        for r in found
    )


def daemonset_keeps_its_history(cluster):
    cluster.create(workload("DaemonSet", "agent"))
    cluster.wait("a pod on each node", lambda: len(running(cluster, "agent")) == 2, PATIENCE)
    rolls(cluster, "DaemonSet", "agent", "app:v2", 2)
    before = revisions(cluster, "agent")
    rolls(cluster, "DaemonSet", "agent", "app:v1", 2)
    cluster.wait("the revision is the newest", lambda: revisions(cluster, "agent")[-1][0] == 3, PATIENCE)
    labels = {key for p in running(cluster, "agent") for key in p["metadata"]["labels"]}
    return before, revisions(cluster, "agent"), labels


def statefulset_keeps_its_history(cluster):
    cluster.create(workload("StatefulSet", "db", 2, serviceName="db"))
    cluster.wait("two pods", lambda: len(running(cluster, "db")) == 2, PATIENCE)
    rolls(cluster, "StatefulSet", "db", "app:v2", 2)

    def settled():
        status = cluster.get("StatefulSet", "db")["status"]
        return status.get("currentRevision") == status.get("updateRevision") and status

    status = cluster.wait("the update is over", settled, PATIENCE)
    counts = {k: v for k, v in status.items() if k.endswith("eplicas") or k == "collisionCount"}
    labels = {key for p in running(cluster, "db") for key in p["metadata"]["labels"]}
    prefixes = {p["metadata"]["generateName"] for p in running(cluster, "db")}
    return revisions(cluster, "db"), counts, labels, prefixes, cluster.told("StatefulSet", "db")


def ended(cluster, name):
    def finished():
        found = cluster.get("Job", name)
        return {"Complete", "Failed"} & conditions(found).keys() and found

    found = cluster.wait(f"Job {name} ends", finished, PATIENCE)
    cluster.wait(
        "no pod holds a finalizer",
        lambda: not any(p["metadata"].get("finalizers") for p in cluster.pods(f"app={name}", "default")),
        PATIENCE,
    )
    hidden = ("startTime", "completionTime", "conditions")
    told = {key: value for key, value in found["status"].items() if key not in hidden}
    return told, conditions(found), len(cluster.pods(f"app={name}", "default"))


def jobs_end(cluster):
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    cluster.create(job("indexed", completions=3, parallelism=2, completionMode="Indexed"))
    cluster.create(job("policy", 42, podFailurePolicy={"rules": [rule]}))
    cluster.create(job("limited", 1, backoffLimit=0, parallelism=1))
    per_index = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 0}
    cluster.create(job("by-index", 1, **per_index))
    success = {"rules": [{"succeededIndexes": "0"}]}
    cluster.create(
        job("enough", completions=2, parallelism=1, completionMode="Indexed", successPolicy=success)
    )
    names = ("indexed", "policy", "limited", "by-index", "enough")
    return {name: ended(cluster, name) for name in names}


def evicted_jobs_go_on_or_fail(cluster):
    """A taint evicts the pods of two Jobs: one ignores disruptions and waits for the end of its pod, one does not."""
    ignore = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    made = {
        "goes-on": job("goes-on", backoffLimit=0, podFailurePolicy=ignore, podReplacementPolicy="Failed"),
        "is-lost": job("is-lost", backoffLimit=0),
    }
    endings = {}
    for name, document in made.items():
        document["spec"]["template"]["metadata"]["annotations"]["weir.dev/run-seconds"] = "12"
        cluster.create(document)
        first = cluster.wait("its pod runs", lambda name=name: running(cluster, name), PATIENCE)[0]
        node = first["spec"]["nodeName"]
        taint = {"key": "example.com/flaky", "effect": "NoExecute"}
        cluster.patch("Node", node, {"spec": {"taints": [taint]}})
        endings[name] = ended(cluster, name)
        cluster.patch("Node", node, {"spec": {"taints": None}})
    return endings


def pods_are_adopted_and_released(cluster):
    stray = pod("stray")
    stray["metadata"]["labels"] = {"app": "own"}
    cluster.create(stray)
    cluster.create(workload("ReplicaSet", "own", 2))

    def owners():
        pods = cluster.pods("app=own", "default")
        return [o["name"] for p in pods for o in p["metadata"].get("ownerReferences") or ()]

    cluster.wait("two pods are owned", lambda: owners() == ["own", "own"], PATIENCE)
    adopted = cluster.get("Pod", "stray")["metadata"]["ownerReferences"][0]
    cluster.patch("Pod", "stray", {"metadata": {"labels": {"app": "free"}}}, "default")
    cluster.wait("another pod takes its place", lambda: owners() == ["own", "own"], PATIENCE)
    free = cluster.wait(
        "it is let go",
        lambda: not (p := cluster.get("Pod", "stray"))["metadata"].get("ownerReferences") and p,
        PATIENCE,
    )
    return (
        {key: adopted[key] for key in ("kind", "controller", "blockOwnerDeletion")},
        free["metadata"].get("ownerReferences"),
        len(cluster.pods("app=own", "default")),
    )


def services_have_endpoints(cluster):
    spec = {"selector": {"app": "back"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}
    cluster.create({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "back"}, "spec": spec})
    cluster.create(workload("Deployment", "back", 2))
    cluster.wait("two pods", lambda: len(running(cluster, "back")) == 2, PATIENCE)

    def both():
        written = cluster.get("Endpoints", "back")
        addresses = [a for s in (written or {}).get("subsets") or () for a in s.get("addresses") or ()]
        slices = cluster.list("EndpointSlice", "kubernetes.io/service-name=back")
        listed = [e for s in slices for e in s.get("endpoints") or () if e["conditions"]["ready"]]
        return len(addresses) == len(listed) == 2 and (written, addresses, slices, listed)

    written, addresses, slices, listed = cluster.wait("both are listed", both, PATIENCE)
    return (
        sorted(written["metadata"]["labels"].items()),
        written["subsets"][0]["ports"],
        {tuple(sorted(a)) for a in addresses},
        sorted(slices[0]["metadata"]["labels"].items()),
        slices[0]["addressType"],
        slices[0]["ports"],
        {tuple(sorted(e)) for e in listed},
        [tuple(sorted(e["conditions"].items())) for e in listed],
        [o["kind"] for o in slices[0]["metadata"]["ownerReferences"]],
    )


def claim(name, **spec):
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    document = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": name}}
    return {**document, "spec": {"storageClassName": "by-hand", **asked, **spec}}


def volume(name, path="/data", **spec):
    has = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": path}}
    document = {"kind": "PersistentVolume", "apiVersion": "v1", "metadata": {"name": name}}
    return {**document, "spec": {"storageClassName": "by-hand", **has, **spec}}


def claims_and_volumes_say_how_they_fare(cluster):
    waits = {"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "waits"}}
    waits |= {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    many = ["ReadWriteOnce", "ReadOnlyMany"]
    other = {"name": "nobody", "namespace": "default"}
    for each in (
        waits,
        volume("small", capacity={"storage": "1Mi"}, storageClassName="s"),
        volume("taken", claimRef=other, storageClassName="t"),
        volume("many", accessModes=many, storageClassName="m"),
        volume("big", capacity={"storage": "9Gi"}, storageClassName="m"),
        *(
            volume(f"pv-{name}", f"/{name}", storageClassName=name, persistentVolumeReclaimPolicy="Delete")
            for name in ("srv", "tmp")
        ),
        claim("mode", storageClassName="m"),
        claim("named", storageClassName="s", volumeName="small"),
        claim("others", storageClassName="t", volumeName="taken"),
        claim("classless", storageClassName=""),
        claim("no-class", storageClassName="missing"),
        claim("consumer", storageClassName="waits"),
        claim("srv", storageClassName="srv"),
        claim("tmp", storageClassName="tmp"),
        pod(
            "private",
            volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim("x")["spec"]}}}],
        ),
    ):
        cluster.create(each)
    names = ("mode", "named", "others", "classless", "no-class", "consumer")
    cluster.wait(
        "three are bound",
        lambda: all(
            conditions(cluster.get("PersistentVolumeClaim", name)).get("Unused")
            for name in ("mode", "srv", "tmp")
        ),
        PATIENCE,
    )
    cluster.wait("each says why it waits", lambda: len(told_of(cluster, names)) >= 5, PATIENCE)
    for name in ("srv", "tmp"):
        cluster._resource("PersistentVolumeClaim").delete(name=name, namespace="default")
    cluster.wait(
        "the volume nobody can remove says so",
        lambda: cluster.get("PersistentVolume", "pv-srv", None)["status"].get("phase") == "Failed",
        PATIENCE,
    )
    own = cluster.wait(
        "the pod's own claim", lambda: cluster.get("PersistentVolumeClaim", "private-v"), PATIENCE
    )
    bound = cluster.get("PersistentVolumeClaim", "mode")
    return (
        told_of(cluster, names),
        {name: cluster.get("PersistentVolumeClaim", name)["status"]["phase"] for name in names},
        (bound["spec"]["volumeName"], conditions(bound)),
        cluster.get("PersistentVolume", "pv-srv", None)["status"]["message"],
        [(o["kind"], o["name"], o["controller"]) for o in own["metadata"]["ownerReferences"]],
    )


def told_of(cluster, names):
    return cluster.told("PersistentVolumeClaim", *names)


def budgets_tell_what_they_cannot_count(cluster):
    bare = pod("alone")
    for each in (
        bare,
        workload("ReplicaSet", "some", 2),
        workload("DaemonSet", "every"),
        *(
            {"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": {"name": name},
             "spec": {"selector": {"matchLabels": {"app": app}}, **spec}}
            for name, app, spec in (
                ("share", "alone", {"minAvailable": "50%"}),
                ("some", "some", {"maxUnavailable": "50%"}),
                ("every", "every", {"maxUnavailable": 1}),
                ("nobody", "nobody", {"minAvailable": 1}),
            )
        ),
    ):  # fmt: skip
        cluster.create(each)
    names = ("share", "some", "every", "nobody")

    def settled():
        found = {name: cluster.get("PodDisruptionBudget", name)["status"] for name in names}
        told = {(name, reason) for name, reason, _ in cluster.told("PodDisruptionBudget", *names)}
        odd = {("share", "UnmanagedPods"), ("every", "CalculateExpectedPodCountFailed"), ("nobody", "NoPods")}
        return found["some"].get("currentHealthy") == 2 and odd <= told and found

    found = cluster.wait("the budgets are counted", settled, PATIENCE)
    counts = ("expectedPods", "desiredHealthy", "disruptionsAllowed")
    return (
        {name: tuple(status.get(count, 0) for count in counts) for name, status in found.items()},
        {
            name: [(c["status"], c["reason"], c["message"]) for c in status.get("conditions") or ()]
            for name, status in found.items()
        },
        {
            each
            for each in cluster.told("PodDisruptionBudget", "share", "every")
            if each[1] != "NoPods"  # told or not: the budget may come before or after its pods
        },
    )


def a_job_made_by_hand_from_a_cronjob(cluster):
    inner = job("x")["spec"]
    cluster.create(
        {"kind": "CronJob", "apiVersion": "batch/v1", "metadata": {"name": "rare"},
         "spec": {"schedule": "0 0 29 2 *", "jobTemplate": {"spec": inner}}}
    )  # fmt: skip
    uid = cluster.get("CronJob", "rare")["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "rare", "uid": uid, "controller": True}
    made = job("by-hand")
    made["metadata"]["ownerReferences"] = [owner]
    cluster.create(made)
    cluster.wait("it is noticed", lambda: cluster.told("CronJob", "rare"), PATIENCE)
    ended(cluster, "by-hand")
    status = cluster.wait(
        "its success is noted",
        lambda: (s := cluster.get("CronJob", "rare")["status"]).get("lastSuccessfulTime") and s,
        PATIENCE,
    )
    return sorted(status), cluster.told("CronJob", "rare")


def endpoints_that_somebody_wrote(cluster):
    port = {"name": "http", "port": 80, "protocol": "TCP"}
    name = {"metadata": {"name": "far", "labels": {"x": "y"}, "annotations": {"a": "b"}}}
    cluster.create({"kind": "Service", "apiVersion": "v1", **name, "spec": {"ports": [port]}})
    subset = {"addresses": [{"ip": "192.0.2.1"}], "notReadyAddresses": [{"ip": "192.0.2.2"}], "ports": [port]}
    cluster.create({"kind": "Endpoints", "apiVersion": "v1", **name, "subsets": [subset]})
    (found,) = cluster.wait(
        "a slice repeats them",
        lambda: cluster.list("EndpointSlice", "kubernetes.io/service-name=far"),
        PATIENCE,
    )
    metadata = found["metadata"]
    return (
        sorted(metadata["labels"].items()),
        metadata.get("annotations"),
        [(o["kind"], o["name"]) for o in metadata["ownerReferences"]],
        found["addressType"],
        found["ports"],
        sorted(str(sorted(e.items(), key=str)) for e in found["endpoints"]),
    )


def owners_and_what_they_own(cluster):
    def owned(name, owner):
        kind, metadata = owner["kind"], owner["metadata"]
        reference = {"apiVersion": "v1", "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}
        references = [{**reference, "blockOwnerDeletion": True}]
        cluster.create(
            {
                "kind": "ConfigMap",
                "apiVersion": "v1",
                "metadata": {"name": name, "ownerReferences": references},
            }
        )

    for name in ("front", "leaves"):
        cluster.create(pod(name, terminationGracePeriodSeconds=1))
        owned(f"of-{name}", cluster.wait("the pod", lambda name=name: cluster.get("Pod", name), PATIENCE))
    far = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "far"}}
    cluster.create(far, "kube-public")
    owned("of-far", cluster.get("ConfigMap", "far", "kube-public"))
    for name, policy in (("front", "Foreground"), ("leaves", "Orphan")):
        cluster._resource("Pod").delete(name=name, namespace="default", body={"propagationPolicy": policy})
    cluster.wait(
        "both pods go", lambda: not any(map(cluster.get, ("Pod", "Pod"), ("front", "leaves"))), PATIENCE
    )
    cluster.wait("so does what has no owner here", lambda: not cluster.get("ConfigMap", "of-far"), PATIENCE)
    cluster.wait("it is told of", lambda: cluster.told("ConfigMap", "of-far"), PATIENCE)
    uid = cluster.get("ConfigMap", "far", "kube-public")["metadata"]["uid"]
    return (
        cluster.get("ConfigMap", "of-front"),
        cluster.get("ConfigMap", "of-leaves")["metadata"].get("ownerReferences"),
        {
            (name, reason, text.replace(uid, "UID"))
            for name, reason, text in cluster.told("ConfigMap", "of-far")
        },
    )


def autoscaler(name, metric, target="auto"):
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    return {
        "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2", "metadata": {"name": name},
        "spec": {"scaleTargetRef": reference, "maxReplicas": 6, "metrics": [metric]},
    }  # fmt: skip


def autoscalers_follow_the_load(cluster):
    amount = {"type": "AverageValue", "averageValue": "200Mi"}
    memory = {"type": "Resource", "resource": {"name": "memory", "target": amount}}
    queue = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "1"}}
    for name in ("auto", "custom"):
        document = workload("Deployment", name, 2)
        document["metadata"]["annotations"] = {"weir.dev/memory-load": "800Mi"}
        cluster.create(document)
    cluster.create(autoscaler("auto", memory))
    cluster.create(autoscaler("custom", {"type": "Pods", "pods": queue}, "custom"))
    cluster.create(autoscaler("lost", memory, "missing"))
    cluster.wait("four pods", lambda: len(running(cluster, "auto")) == 4, PATIENCE)

    def measured():
        status = cluster.get("HorizontalPodAutoscaler", "auto")["status"]
        found = [
            each["resource"]["current"] for each in status.get("currentMetrics") or () if "resource" in each
        ]
        return status.get("currentReplicas") == 4 and found == [{"averageValue": "200Mi"}] and status

    status = cluster.wait("the autoscaler has measured them", measured, PATIENCE)
    names = ("auto", "custom", "lost")
    told = cluster.told("HorizontalPodAutoscaler", *names)
    return (
        {name: conditions(cluster.get("HorizontalPodAutoscaler", name)) for name in names},
        [status[name] for name in ("desiredReplicas", "currentMetrics", "observedGeneration")],
        {each for each in told if each[0] != "auto" or each[1] == "SuccessfulRescale"},
    )


def metrics_that_nobody_serves(cluster):
    """Custom and external metrics without an API behind them: what autoscalers say, and that nothing is scaled."""
    selector = {
        "matchLabels": {"z": "1", "a": "2"},
        "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}],
    }
    per_pod, whole = {"type": "AverageValue", "averageValue": "1"}, {"type": "Value", "value": "10"}
    described = {"apiVersion": "v1", "kind": "Service", "name": "front"}
    sources = {
        "pods": {"type": "Pods", "pods": {"metric": {"name": "queue"}, "target": per_pod}},
        "pods-selected": {
            "type": "Pods",
            "pods": {"metric": {"name": "queue", "selector": selector}, "target": per_pod},
        },
        "object": {
            "type": "Object",
            "object": {"metric": {"name": "hits"}, "describedObject": described, "target": whole},
        },
        "object-per-pod": {
            "type": "Object",
            "object": {"metric": {"name": "hits"}, "describedObject": described, "target": per_pod},
        },
        "external": {"type": "External", "external": {"metric": {"name": "depth"}, "target": whole}},
        "external-selected": {
            "type": "External",
            "external": {"metric": {"name": "depth", "selector": selector}, "target": per_pod},
        },
    }  # fmt: skip
    for name, metric in sources.items():
        cluster.create(workload("Deployment", name, 1))
        cluster.create(autoscaler(name, metric, name))

    def said(name):
        found = cluster.get("HorizontalPodAutoscaler", name)["status"].get("conditions") or ()
        return {c["type"]: (c["status"], c["reason"], c["message"]) for c in found}

    for name in sources:
        cluster.wait("it says why not", lambda name=name: "ScalingActive" in said(name), PATIENCE)
        cluster.wait(
            "twice", lambda name=name: len(cluster.told("HorizontalPodAutoscaler", name)) == 2, PATIENCE
        )
    return (
        {name: said(name) for name in sources},
        {name: cluster.get("Deployment", name)["spec"]["replicas"] for name in sources},
        cluster.told("HorizontalPodAutoscaler", *sources),
    )


STORIES = [
    deployment_rolls_and_goes_back,
    daemonset_keeps_its_history,
    statefulset_keeps_its_history,
    jobs_end,
    evicted_jobs_go_on_or_fail,
    pods_are_adopted_and_released,
    services_have_endpoints,
    claims_and_volumes_say_how_they_fare,
    budgets_tell_what_they_cannot_count,
    a_job_made_by_hand_from_a_cronjob,
    endpoints_that_somebody_wrote,
    owners_and_what_they_own,
    autoscalers_follow_the_load,
    metrics_that_nobody_serves,
]


def live(folder, own):
    """Return how every story ends, with weir's controllers or Kubernetes' own."""
    with ExitStack() as stack:
        server = stack.enter_context(running_server(folder, "--simulate-metrics"))
        common = ("--kubeconfig", str(server.kubeconfig))
        stack.enter_context(weir(folder, "scheduler", *common, "--no-leader-elect"))
        stack.enter_context(weir(folder, "kubelet", *common))
        if own:
            stack.enter_context(weir(folder, "controller-manager", *common, "--no-leader-elect"))
        else:
            stack.enter_context(controller_manager(folder, server.kubeconfig))
        command = [sys.executable, "-m", "weir.cli.main", "node", "add", "--count", "2", "--name", "n"]
        subprocess.run([*command, *common], check=True)
        cluster = Playground(server.kubeconfig)
        cluster.wait("the default service account", lambda: cluster.get("ServiceAccount", "default"))
        return {story.__name__: story(cluster) for story in STORIES}


@pytest.fixture(scope="module")
def endings(tmp_path_factory):
    return live(tmp_path_factory.mktemp("ours"), True), live(tmp_path_factory.mktemp("theirs"), False)


@pytest.mark.parametrize("story", [story.__name__ for story in STORIES])
def test_a_story_ends_as_it_does_with_kubernetes_own_controllers(endings, story):
    ours, theirs = endings
    assert ours[story] == theirs[story]
