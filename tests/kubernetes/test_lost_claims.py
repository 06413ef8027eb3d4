"""A pod whose generated claim is deleted or taken away fares the same with either ResourceClaim controller.

A real kube-controller-manager on weir's API server, weir's controller on a real one; no scheduler and no kubelet, so
that only the claim controller acts. The controller is started anew between making the claims and losing them: a
kube-controller-manager takes claims that it has made itself for existing ones for another hour, and leaves their pods
without; weir makes them anew at once. Claims that go with the end of their pods are test_device_eviction's.
"""

from __future__ import annotations

from itertools import count

import pytest

from tests.e2e.server import running_server
from tests.kubernetes.programs import controller_manager
from tests.kubernetes.real_server import real_server
from tests.kubernetes.test_device_eviction import REQUEST, Stage
from tests.kubernetes.test_living import weir

PODS = {
    # name: (the pod's names for its claims, whether it has a node)
    "pending": (("g",), False),
    "placed": (("g",), True),
    "double": (("a", "b"), False),
    "running": (("g",), True),
    "allocated": (("g",), False),
    "disowned": (("g",), False),
    "half": (("a", "b"), False),
    "orphan": (("g",), False),
}


class Losses(Stage):
    """Pods with generated claims that get lost."""

    _marks = count()

    def named(self, pod):
        """Return the claims the pod's status names, by the pod's names for them."""
        entries = self.read("Pod", pod)["status"].get("resourceClaimStatuses") or ()
        return {entry["name"]: entry["resourceClaimName"] for entry in entries}

    def make(self, pod, entries=("g",), on_node=False, template="tpl"):
        uses = [{"name": each, "resourceClaimTemplateName": template} for each in entries]
        spec = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": uses}
        self.add("Pod", pod, {**spec, **({"nodeName": "n"} if on_node else {})})
        return self.wait(f"{pod} has its claims", lambda: self.named(pod))

    def lose(self, claim):
        self.of("ResourceClaim").delete(name=claim, namespace="default")

    def disown(self, claim):
        self.change("ResourceClaim", claim, {"metadata": {"ownerReferences": None}})

    def claims(self, pod):
        return sum(name.startswith(f"{pod}-") for name in self.names("ResourceClaim"))

    def renewed(self, pod, entry, lost):
        """Wait until the pod is told another claim; return whether the two exist and are named alike."""

        def other():
            found = self.named(pod).get(entry)
            return found if found != lost else None

        new = self.wait(f"{pod} gets another claim", other)
        names = self.names("ResourceClaim")
        return new in names, lost in names, new[:-5] == lost[:-5]

    def settle(self):
        """Wait until the controller has done things that were begun later: what has not happened now does not."""
        for _ in range(3):
            self.make(f"mark-{next(self._marks)}")


def begin(stage):
    """Make every pod and its claims."""
    for template in ("tpl", "passing"):
        stage.add("ResourceClaimTemplate", template, {"spec": REQUEST})
    for pod, (entries, on_node) in PODS.items():
        stage.make(pod, entries, on_node, "passing" if pod == "orphan" else "tpl")
    for pod, device in (("running", "gpu-0"), ("allocated", "gpu-1")):
        stage.allocate(stage.named(pod)["g"], device)
    own = stage.named("running")["g"]
    stage.wait("its reservation", lambda: stage.reserved(own))


def play(stage):
    """Lose claims; return everything that can be compared."""
    seen = {}
    stage.settle()  # the new controller is at work
    for pod in ("pending", "placed", "allocated"):
        own = stage.named(pod)["g"]
        stage.lose(own)
        seen[pod] = stage.renewed(pod, "g", own), stage.claims(pod)

    both = stage.named("double")
    stage.lose(both["b"])
    seen["double"] = stage.renewed("double", "b", both["b"]), stage.named("double")["a"] == both["a"]

    own = stage.named("running")["g"]
    stage.lose(own)
    stage.settle()
    seen["running"] = stage.claims("running"), stage.claim(own), stage.named("running")["g"] == own

    own = stage.named("disowned")["g"]
    stage.disown(own)
    stage.settle()
    seen["disowned"] = stage.claims("disowned"), stage.named("disowned")["g"] == own

    both = stage.named("half")
    stage.disown(both["a"])
    stage.lose(both["b"])
    seen["half"] = stage.renewed("half", "b", both["b"]), stage.named("half")["a"] == both["a"]
    stage.settle()
    seen["half, later"] = stage.claims("half")

    own = stage.named("orphan")["g"]
    stage.of("ResourceClaimTemplate").delete(name="passing", namespace="default")
    stage.settle()
    stage.lose(own)
    told = super(Stage, stage).told
    seen["no template"] = stage.wait("the missing template is told", lambda: told("Pod", "orphan"))
    stage.add("ResourceClaimTemplate", "passing", {"spec": REQUEST})
    seen["template again"] = stage.renewed("orphan", "g", own)
    return seen


def real_story(folder):
    """weir's API server and the real controller."""
    folder.mkdir()
    controllers = "--controllers=resourceclaim-controller,serviceaccount-controller"
    with running_server(folder) as server:
        with controller_manager(folder, server.kubeconfig, controllers):
            stage = Losses(server.kubeconfig)
            stage.wait("the default service account", lambda: stage.get("ServiceAccount", "default"))
            begin(stage)
        with controller_manager(folder, server.kubeconfig, controllers):
            return play(stage)


def weirs_story(folder):
    """A real API server and weir's controller."""
    folder.mkdir()
    with real_server(folder) as kubeconfig:
        command = ("controller-manager", "--kubeconfig", str(kubeconfig), "--controllers=resourceclaim")
        stage = Losses(kubeconfig)
        with weir(folder, *command, "--no-leader-elect", "--feature-gates=AllAlpha=false"):
            begin(stage)
        with weir(folder, *command, "--no-leader-elect", "--feature-gates=AllAlpha=false"):
            return play(stage)


PARTS = (
    "pending", "placed", "allocated", "double", "running", "disowned", "half", "half, later", "no template",
    "template again",
)  # fmt: skip


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lost-claims")
    return real_story(folder / "real-controller"), weirs_story(folder / "weirs-controller")


@pytest.mark.parametrize("part", PARTS)
def test_both_controllers_do_the_same_about_lost_claims(stories, part):
    theirs, ours = stories
    assert ours[part] == theirs[part]


def test_every_part_of_the_story_is_compared(stories):
    assert set(stories[0]) == set(stories[1]) == set(PARTS)
