"""The same evictions from the same script: a real kube-controller-manager on weir's API server, weir's on a real one.

Devices, claims and pods are put there by hand, so that only the ResourceClaim and the device taint eviction controller
act. What they did is compared whole: which pods left, what was told, what each rule's status said, what became of the
claims. Up to ten pods per taint the rates of D-10 do not show.
"""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from tests.e2e.server import running_server
from tests.kubernetes.playground import Playground
from tests.kubernetes.programs import controller_manager
from tests.kubernetes.real_server import real_server
from tests.kubernetes.test_living import weir

pytestmark = pytest.mark.proves("5055-80")

VERSION, DRIVER = "resource.k8s.io/v1", "gpu.example.com"
FINALIZER = "resource.kubernetes.io/delete-protection"
MERGE = "application/merge-patch+json"
REQUEST = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": DRIVER}}]}}
FOR_EVER = {"key": "bad", "operator": "Exists", "effect": "NoExecute"}


class Stage(Playground):
    """A cluster whose devices are allocated by the test."""

    def of(self, kind):
        version = "v1" if kind in ("Pod", "Event", "ServiceAccount") else VERSION
        return self._dynamic.resources.get(api_version=version, kind=kind)

    def add(self, kind, name, spec, **metadata):
        version = "v1" if kind == "Pod" else VERSION
        document = {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": name, **metadata},
            "spec": spec,
        }
        resource = self.of(kind)
        where = {"namespace": "default"} if resource.namespaced else {}
        return resource.create(document, **where).to_dict()

    def read(self, kind, name):
        resource = self.of(kind)
        return resource.get(name=name, **({"namespace": "default"} if resource.namespaced else {})).to_dict()

    def change(self, kind, name, body, status=False):
        resource = self.of(kind)
        where = {"namespace": "default"} if resource.namespaced else {}
        target = resource.status if status else resource
        return target.patch(name=name, body=body, content_type=MERGE, **where)

    def names(self, kind):
        return sorted(
            item["metadata"]["name"] for item in self.of(kind).get(namespace="default").to_dict()["items"]
        )

    # ── devices, claims, pods ────────────────────────────────────────────────────────────────────

    def publish(self, **taints):
        """Publish six devices; *taints* by device, `_` for `-`."""
        devices = [{"name": f"gpu-{n}"} for n in range(7)]
        for device in devices:
            if found := taints.get(device["name"].replace("-", "_")):
                device["taints"] = found
        pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": "n", "pool": pool, "devices": devices}
        if "devices" in self.names("ResourceSlice"):
            self.change("ResourceSlice", "devices", {"spec": {"devices": devices}})
        else:
            self.add("ResourceSlice", "devices", spec)

    def allocate(self, claim, device, *tolerations):
        """Do what a scheduler does before it reserves."""
        self.change("ResourceClaim", claim, {"metadata": {"finalizers": [FINALIZER]}})
        result = {"request": "r", "driver": DRIVER, "pool": "n", "device": device}
        if tolerations:
            result["tolerations"] = list(tolerations)
        self.change(
            "ResourceClaim",
            claim,
            {"status": {"allocation": {"devices": {"results": [result]}}}},
            status=True,
        )

    def pod(self, name, entry, node="n"):
        """Add a pod that is on a node already: the claim controller has to reserve for it."""
        container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "g"}]}}
        spec = {"containers": [container], "resourceClaims": [{"name": "g", **entry}]}
        if node:
            spec["nodeName"] = node
        return self.add("Pod", name, spec)

    def user(self, name, device, *tolerations, claim=None):
        """Add a pod with a claim that holds a device, and wait until it is reserved."""
        claim = claim or f"c-{name}"
        if claim not in self.names("ResourceClaim"):
            self.add("ResourceClaim", claim, REQUEST)
            self.allocate(claim, device, *tolerations)
        self.pod(name, {"resourceClaimName": claim})
        self.wait(f"{name} has its reservation", lambda: name in self.reserved(claim))

    def reserved(self, claim):
        status = self.read("ResourceClaim", claim).get("status") or {}
        return [consumer["name"] for consumer in status.get("reservedFor") or ()]

    def rule(self, name, effect, selector, key="bad"):
        self.add(
            "DeviceTaintRule", name, {"deviceSelector": selector, "taint": {"key": key, "effect": effect}}
        )

    # ── what came of it ──────────────────────────────────────────────────────────────────────────

    def condition(self, rule):
        found = (self.read("DeviceTaintRule", rule).get("status") or {}).get("conditions") or ()
        return {
            c["type"]: (c["status"], c["reason"], c["message"], c["observedGeneration"]) for c in found
        }.get("EvictionInProgress")

    def until(self, rule, reason, generation=1):
        """Wait until the rule says *reason*, and return all it says."""

        def says():
            found = self.condition(rule)
            return found if found and found[1] == reason and found[3] == generation else None

        return self.wait(f"{rule} says {reason}", says)

    def leaving(self):
        return sorted(
            p["metadata"]["name"] for p in self.pods("", "default") if p["metadata"].get("deletionTimestamp")
        )

    def told(self):
        return sorted(
            (
                event["involvedObject"]["name"],
                event["message"],
                event["type"],
                event["count"],
                event["source"].get("component"),
                event.get("reportingComponent"),
                tuple(sorted(event["involvedObject"])),
            )
            for event in self.events("DeviceTaintManagerEviction")
        )

    def disrupted(self, name):
        conditions = self.read("Pod", name)["status"].get("conditions") or ()
        return [
            {key: value for key, value in c.items() if key not in ("lastTransitionTime", "lastProbeTime")}
            for c in conditions
            if c["type"] == "DisruptionTarget"
        ]

    def end(self, name):
        """Let the node say that the pod is gone."""
        self.of("Pod").delete(name=name, namespace="default", body={"gracePeriodSeconds": 0})

    def claim(self, name):
        found = self.read("ResourceClaim", name)
        return sorted(found.get("status") or {}), found["metadata"].get("finalizers")


@contextmanager
def real_controllers(folder):
    """weir's API server and the real controllers."""
    folder.mkdir()
    controllers = "device-taint-eviction-controller,resourceclaim-controller,serviceaccount-controller"
    with (
        running_server(folder) as server,
        controller_manager(folder, server.kubeconfig, f"--controllers={controllers}"),
    ):
        stage = Stage(server.kubeconfig)
        stage.wait("the default service account", lambda: stage.get("ServiceAccount", "default"))
        yield stage


@contextmanager
def weirs_controllers(folder):
    """A real API server and weir's controllers."""
    folder.mkdir()
    with (
        real_server(folder) as kubeconfig,
        weir(
            folder,
            "controller-manager",
            "--kubeconfig",
            str(kubeconfig),
            "--controllers=device-taint-eviction,resourceclaim",
            "--no-leader-elect",
            "--feature-gates=AllAlpha=false",
        ),
    ):
        yield Stage(kubeconfig)


def play(stage):
    """Live through the script; return everything that can be compared."""
    seen = {}
    stage.publish()
    stage.add("ResourceClaimTemplate", "tpl", {"metadata": {"labels": {"from": "tpl"}}, "spec": REQUEST})
    stage.user("plain", "gpu-0")
    stage.user("patient", "gpu-1", {**FOR_EVER, "tolerationSeconds": 3})
    stage.user("immune", "gpu-2", FOR_EVER)
    stage.user("shares-1", "gpu-3", claim="shared")
    stage.user("shares-2", "gpu-3", claim="shared")
    stage.user("driven", "gpu-4", FOR_EVER)
    stage.user(
        "waiting",
        "gpu-5",
        {"key": "slow", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 600},
    )
    made = stage.pod("generated", {"resourceClaimTemplateName": "tpl"})

    def named():
        return (stage.read("Pod", "generated")["status"].get("resourceClaimStatuses") or [None])[0]

    own = stage.wait("the pod learns its claim", named)["resourceClaimName"]
    metadata = stage.read("ResourceClaim", own)["metadata"]
    seen["generated claim"] = (
        own[:-5],
        metadata["generateName"],
        metadata["labels"],
        metadata["annotations"],
        [{**owner, "uid": owner["uid"] == made["metadata"]["uid"]} for owner in metadata["ownerReferences"]],
    )
    stage.allocate(own, "gpu-6")
    stage.wait("its reservation", lambda: "generated" in stage.reserved(own))

    stage.rule("watch", "None", {"driver": DRIVER})
    seen["dry run"] = stage.until("watch", "NoEffect")
    stage.rule("later", "NoSchedule", {"driver": DRIVER}, key="other")
    seen["other effect"] = stage.until("later", "OtherEffect")
    stage.rule("nobody", "NoExecute", {"driver": "other.example.com"})
    seen["nobody"] = stage.until("nobody", "NotStarted")

    stage.rule("slow", "NoExecute", {"driver": DRIVER, "pool": "n", "device": "gpu-5"}, key="slow")
    seen["slow"] = stage.until("slow", "PodsPendingEviction")
    stage.of("DeviceTaintRule").delete(name="slow")
    stage.wait("the cancellation is told", lambda: [t for t in stage.told() if t[0] == "waiting"])

    stage.change("DeviceTaintRule", "watch", {"spec": {"taint": {"effect": "NoExecute"}}})
    seen["begun"] = stage.until("watch", "PodsPendingEviction", 2)
    # `driven` and `immune` tolerate it for ever
    expected = ["generated", "patient", "plain", "shares-1", "shares-2", "waiting"]
    stage.wait("six pods leave", lambda: stage.leaving() == expected)
    seen["completed"] = stage.until("watch", "Completed", 2)

    stage.publish(gpu_4=[{"key": "hot", "effect": "NoExecute"}])
    stage.wait("the driver's taint counts", lambda: "driven" in stage.leaving())
    seen["left"] = stage.leaving()
    seen["disrupted"] = {name: stage.disrupted(name) for name in stage.leaving()}
    seen["told"] = stage.told()
    fields = stage.read("DeviceTaintRule", "watch")["metadata"]["managedFields"]
    seen["managers"] = sorted(
        (f["manager"], f["operation"], f.get("subresource"))
        for f in fields
        if f.get("subresource") == "status"
    )

    stage.end("plain")
    stage.wait("its claim is free", lambda: stage.claim("c-plain") == ([], None))
    stage.end("shares-1")
    stage.wait("one reservation is left", lambda: stage.reserved("shared") == ["shares-2"])
    seen["still shared"] = stage.claim("shared")
    stage.change("Pod", "shares-2", {"status": {"phase": "Failed"}}, status=True)
    stage.wait("none is left", lambda: stage.claim("shared") == ([], None))
    stage.change("Pod", "generated", {"status": {"phase": "Succeeded"}}, status=True)
    stage.wait("the generated claim goes with the pod's end", lambda: own not in stage.names("ResourceClaim"))
    stage.pod("lost", {"resourceClaimTemplateName": "no-such"}, node="")

    def missing():
        return {
            (e["type"], e["message"], e["source"]["component"])
            for e in stage.events("FailedResourceClaimCreation")
        }

    seen["no template"] = stage.wait("the missing template is told", missing)
    seen["stayed"] = sorted(set(stage.names("Pod")) - set(stage.leaving()))
    return seen


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    folder = tmp_path_factory.mktemp("device-eviction")
    with real_controllers(folder / "real-controllers") as stage:
        theirs = play(stage)
    with weirs_controllers(folder / "weirs-controllers") as stage:
        ours = play(stage)
    return theirs, ours


PARTS = (
    "generated claim", "dry run", "other effect", "nobody", "slow", "begun", "completed", "left", "disrupted", "told",
    "managers", "still shared", "no template", "stayed",
)  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_both_controllers_do_and_say_the_same(stories, part):
    theirs, ours = stories
    assert ours[part] == theirs[part]


def test_every_part_of_the_story_is_compared(stories):
    assert set(stories[0]) == set(stories[1]) == set(PARTS)
