"""Stories with several acts end alike whether the real kube-scheduler or weir's plays: states, words and events."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import pytest

from tests.kubernetes.programs import running
from tests.kubernetes.real_server import real_server
from weir.client.api import STRATEGIC_MERGE_PATCH
from weir.client.http import connect
from weir.errors import NotFound
from weir.objects.kinds import by_kind

PODS, NODES = by_kind("v1", "Pod"), by_kind("v1", "Node")
SPACES = by_kind("v1", "Namespace")
EVENTS = by_kind("events.k8s.io/v1", "Event")
BUDGETS = by_kind("policy/v1", "PodDisruptionBudget")
PRIORITIES = by_kind("scheduling.k8s.io/v1", "PriorityClass")
#: How long nothing may change until all is taken to be over. A difference that goes away with more patience was a
#: watch that had not caught up.
QUIET_SECONDS = (0.3, 1.5, 4.0)
PATIENCE_SECONDS = 20.0

#: Profiles by the name of what they change; each has a scheduler of the one kind and one of the other.
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
clientConnection: {{kubeconfig: {kubeconfig}, contentType: application/json, qps: 1000, burst: 1000}}
profiles:
- schedulerName: {who}-plain
- schedulerName: {who}-no-preemption
  plugins:
    postFilter: {{disabled: [{{name: DefaultPreemption}}]}}
- schedulerName: {who}-untainted
  plugins:
    filter: {{disabled: [{{name: TaintToleration}}]}}
- schedulerName: {who}-added
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms:
          - matchExpressions: [{{key: tier, operator: In, values: [gold]}}]
"""


class Stage:
    """One scheduler's turn at a story: what is made here is taken away again."""

    def __init__(self, client, who, space, quiet):
        self.client, self.who, self.space, self.quiet, self._made = client, who, space, quiet, []

    async def make(self, kind, document):
        metadata = document["metadata"]
        if kind.namespaced:
            metadata.setdefault("namespace", self.space)
        made = await self.client.create(kind, document)
        self._made.append((kind, metadata["name"], metadata.get("namespace", "")))
        return made

    async def node(self, name, cpu="1", pods="20", taints=(), labels=None, **more):
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": pods, **more}
        labels = {"kubernetes.io/hostname": name, **(labels or {})}
        return await self.make(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)},
                                       "status": {"capacity": amounts, "allocatable": amounts}})  # fmt: skip

    async def pod(self, name, cpu="100m", profile="plain", labels=None, finalizers=(), wait=True, **spec):
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        await self.make(PODS, {"metadata": {"name": name, "labels": labels or {}, "finalizers": list(finalizers)},
                               "spec": {"schedulerName": f"{self.who}-{profile}", "terminationGracePeriodSeconds": 60,
                                        "containers": [container], **spec}})  # fmt: skip
        if wait:
            await self.until(name, lambda pod: pod["node"] or pod["conditions"])

    async def until(self, name, check):
        """Wait until what is seen of a pod passes *check*."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not check((await self.picture())["pods"].get(name)):
                await asyncio.sleep(0.03)

    async def next_second(self):
        """Wait until a time that is written down now differs from one written before."""
        began = int(time.time())
        while int(time.time()) == began:
            await asyncio.sleep(0.05)

    async def hears(self, name, words):
        """Wait until the pod is told *words*."""
        await self.until(name, lambda pod: any(words in c.get("message", "") for c in pod["conditions"]))

    async def bound(self, name):
        await self.until(name, lambda pod: pod["node"])

    async def change(self, kind, name, patch, **more):
        await self.client.patch(kind, name, patch, self.space if kind.namespaced else "", **more)

    async def remove(self, kind, name, **more):
        await self.client.delete(kind, name, self.space if kind.namespaced else "", **more)

    async def rest(self):
        """Return what is seen once nothing has changed for a moment."""
        seen, since = await self.picture(), 0.0
        async with asyncio.timeout(PATIENCE_SECONDS + self.quiet):
            while since < self.quiet:
                await asyncio.sleep(0.05)
                now = await self.picture()
                since, seen = (since + 0.05 if now == seen else 0.0), now
        return seen

    async def picture(self):
        """Return all that a user can see of the pods, without what differs from run to run."""
        found = (await self.client.list(PODS, self.space)).documents()
        told = (await self.client.list(EVENTS, self.space)).documents()
        names = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in found}

        def plain(text):
            for uid, name in names.items():
                text = text.replace(uid, f"<uid of {name}>")
            return text.replace(f"{self.who}-", "").replace(self.space, "<space>")

        pods = {}
        for pod in found:
            spec, status = pod["spec"], pod.get("status") or {}
            conditions = [
                {key: plain(str(value)) for key, value in condition.items() if not key.endswith("Time")}
                for condition in status.get("conditions") or ()
            ]
            pods[pod["metadata"]["name"]] = {
                "node": spec.get("nodeName", ""),
                "promised": status.get("nominatedNodeName", ""),
                "leaving": bool(pod["metadata"].get("deletionTimestamp")),
                "conditions": conditions,
                "generation": pod["metadata"].get("generation"),
            }
        events = {
            (event["regarding"]["name"], event["type"], event["reason"], event["action"], plain(event["note"]),
             plain(event["reportingController"]), "related" in event)
            for event in told
        }  # fmt: skip
        return {"pods": pods, "events": sorted(events)}

    async def clear(self):
        for kind, name, namespace in reversed(self._made):
            with suppress(NotFound):
                if kind is PODS:
                    await self.client.patch(PODS, name, {"metadata": {"finalizers": None}}, namespace)
                await self.client.delete(kind, name, namespace, grace_period_seconds=0)


STORIES = {}


def story(play):
    STORIES[play.__name__] = play
    return play


TAINT = {"key": "x", "effect": "NoSchedule"}


@story
async def a_promise_is_kept_while_the_victim_leaves(on):
    await on.node("n1")
    await on.pod("small", "700m")
    await on.pod("big", "700m", priorityClassName="high")
    await on.hears("big", "found a potential placement")
    await on.rest()
    await on.node("n2", cpu="800m", taints=[TAINT])
    await on.hears("big", "not eligible due to a terminating pod")
    yield await on.rest()
    await on.node("n3", cpu="750m")
    await on.bound("big")
    yield await on.rest()


@story
async def a_pod_tries_again_while_the_victim_leaves(on):
    await on.node("n1", pods="3")
    await on.pod("small", "700m")
    await on.pod("big", "700m", priorityClassName="high")
    await on.hears("big", "found a potential placement")
    await on.pod("next", "700m", priorityClassName="high")  # counts the promise
    await on.pod("third", "2", priorityClassName="high")
    await on.node("n2", cpu="900m", taints=[TAINT])
    await on.hears("next", "untolerated taint")
    await on.rest()
    await on.change(NODES, "n2", {"spec": {"taints": None, "unschedulable": True}})
    await on.hears("next", "were unschedulable")
    await on.pod("bigger", "700m", priorityClassName="higher")
    await on.hears("bigger", "preempting 1 victims")
    yield await on.rest()


@story
async def nobody_is_nominated_when_all_nodes_are_gone(on):
    await on.node("n1")
    await on.pod("small", "700m")
    await on.pod("big", "700m", priorityClassName="high")
    await on.hears("big", "found a potential placement")
    await on.remove(NODES, "n1")
    await asyncio.sleep(on.quiet)
    await on.remove(PODS, "small", grace_period_seconds=0)
    await on.hears("big", "no nodes available")
    yield await on.rest()


@story
async def budgets_and_priorities_choose_the_victims(on):
    nobody = {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
    for name, selector in (("kept", {"matchLabels": {"app": "kept"}}), ("nobody", nobody)):
        await on.make(BUDGETS, {"metadata": {"name": name}, "spec": {"selector": selector}})
    for name in ("n1", "n2", "n3"):
        await on.node(name, cpu="2")
    for number, (node, cpu, priority, app) in enumerate(
        [("n1", "1", "low", "kept"), ("n1", "900m", "low", "kept"), ("n2", "1", "high", ""), ("n2", "900m", "low", ""),
         ("n3", "1500m", "high", ""), ("n3", "400m", "high", "")]):  # fmt: skip
        labels = {"app": app} if app else {}
        await on.pod(f"p{number}", cpu, nodeName=node, priorityClassName=priority, labels=labels, wait=False)
    await on.pod("meek", "800m", priorityClassName="meek")
    await on.pod("big", "800m", priorityClassName="higher")
    await on.hears("big", "found a potential placement")
    yield await on.rest()


@story
async def a_deleted_pod_is_not_scheduled(on):
    await on.node("n1", taints=[TAINT])
    await on.pod("waits", finalizers=["example.com/wait"])
    await on.pod(
        "gated", wait=False, finalizers=["example.com/wait"], schedulingGates=[{"name": "example.com/g"}]
    )
    yield await on.rest()
    await on.remove(PODS, "waits")
    await on.remove(PODS, "gated")
    await on.change(PODS, "gated", {"spec": {"schedulingGates": []}})
    await on.change(NODES, "n1", {"spec": {"taints": None}})
    await asyncio.sleep(on.quiet)
    yield await on.rest()


@story
async def new_words_are_told_but_are_no_transition(on):
    await on.node("n1", taints=[TAINT])
    await on.pod("p", "700m")
    first = (await on.client.get(PODS, "p", on.space))["status"]["conditions"][0]
    await on.next_second()  # times are told in seconds
    await on.node("n2", cpu="500m")
    await on.hears("p", "Insufficient cpu")
    await on.rest()
    await on.change(NODES, "n1", {"spec": {"taints": None, "unschedulable": True}})
    await on.hears("p", "were unschedulable")
    seen = await on.rest()
    second = (await on.client.get(PODS, "p", on.space))["status"]["conditions"][0]
    yield seen, first["lastTransitionTime"] == second["lastTransitionTime"]


@story
async def profiles_differ_in_what_they_look_at(on):
    await on.node("n1", taints=[TAINT])
    await on.node("n2", labels={"tier": "gold"}, cpu="200m")
    await on.pod("busy", "200m", nodeName="n2", wait=False)
    await on.pod("blind", profile="untainted")
    await on.pod("gold", profile="added")
    await on.pod("mild", profile="no-preemption", priorityClassName="high")
    await on.pod("gold-important", profile="added", priorityClassName="high")
    await on.hears("gold-important", "found a potential placement")
    yield await on.rest()


@story
async def a_pod_that_gives_back_room_lets_another_in(on):
    await on.node("n1")
    await on.pod("shrinks", "700m")
    await on.pod("waits", "700m")
    less = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}
    await on.change(PODS, "shrinks", {"spec": less}, subresource="resize", patch_type=STRATEGIC_MERGE_PATCH)
    given = {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0}
    status = {"containerStatuses": [{**given, "allocatedResources": {"cpu": "700m"}}]}
    await on.change(PODS, "shrinks", {"status": status}, subresource="status")
    yield await on.rest()
    status = {"containerStatuses": [{**given, "allocatedResources": {"cpu": "100m"}}]}
    await on.change(PODS, "shrinks", {"status": status}, subresource="status")
    await on.bound("waits")
    yield await on.rest()


@story
async def a_preference_cannot_be_read(on):
    await on.node("n1", labels={"gen": "1"})
    await on.node("n2", labels={"gen": "2"})
    term = {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["x"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    await on.pod("prefers", affinity={"nodeAffinity": preferred})
    await on.pod("prefers-one", nodeSelector={"gen": "1"}, affinity={"nodeAffinity": preferred})
    await on.pod("requires", affinity={"nodeAffinity": required})
    yield await on.rest()


@story
async def a_binding_is_refused(on):
    like = by_kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
    policies, bindings = (
        dataclasses.replace(like, kind=kind, plural=plural)
        for kind, plural in (("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
                             ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"))
    )  # fmt: skip
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    await on.make(policies, {"metadata": {"name": "no-binding"}, "spec": {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.metadata.name != 'refused'", "message": "not this one"}]}})  # fmt: skip
    await on.make(bindings, {"metadata": {"name": "no-binding"}, "spec": {
        "policyName": "no-binding", "validationActions": ["Deny"]}})  # fmt: skip
    await asyncio.sleep(5 * on.quiet)  # the server takes policies in by and by
    await on.node("n1")
    await on.pod("refused")
    await on.hears("refused", "not this one")
    yield await on.rest()


# ── both play ──


@contextmanager
def both_schedulers(folder, kubeconfig):
    """Give a real and a weir scheduler for every profile of CONFIG."""
    paths = {}
    for who in ("real", "weir"):
        paths[who] = folder / f"{who}.yaml"
        paths[who].write_text(CONFIG.format(who=who, kubeconfig=kubeconfig))
    gates = "--feature-gates=AllAlpha=false,TaintTolerationComparisonOperators=true"
    log_path = folder / "weir-scheduler.log"
    with (
        running(folder, "kube-scheduler", f"--config={paths['real']}", "--secure-port=0", gates, "-v=2"),
        log_path.open("w") as log,
    ):
        ours = subprocess.Popen(
            [sys.executable, "-m", "weir.cli.main", "scheduler", "--kubeconfig", str(kubeconfig), gates,
             "--config", str(paths["weir"]), "--reason-style", "upstream"],
            stderr=log,
        )  # fmt: skip
        try:
            yield
            assert ours.poll() is None, log_path.read_text()[-2000:]
        finally:
            ours.terminate()
            ours.wait(10)


async def acts_of(play, stage):
    """Return what is seen at the end of each act of a story."""
    await stage.client.create(SPACES, {"metadata": {"name": stage.space}})
    acts = []
    try:
        async for act in play(stage):
            acts.append(act)
    except TimeoutError:
        acts += ["what was waited for did not happen", await stage.picture()]
    finally:
        await stage.clear()
        await asyncio.sleep(stage.quiet / 3)
    return acts


async def play_all(kubeconfig):
    client, answers = connect(kubeconfig), {}
    try:
        for name, value in (("low", 10), ("high", 1000), ("higher", 2000)):
            await client.create(PRIORITIES, {"metadata": {"name": name}, "value": value})
        await client.create(
            PRIORITIES, {"metadata": {"name": "meek"}, "value": 1000, "preemptionPolicy": "Never"}
        )
        for (number, (name, play)), quiet in itertools.product(enumerate(STORIES.items()), QUIET_SECONDS):
            seen = answers.setdefault(name, {})
            if not seen or seen["real"] != seen["weir"]:
                for who in ("real", "weir"):
                    stage = Stage(client, who, f"{who}-{number}-{quiet * 10:.0f}", quiet)
                    seen[who] = await acts_of(play, stage)
        return answers
    finally:
        await client.close()


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stories")
    with real_server(folder) as kubeconfig, both_schedulers(folder, kubeconfig):
        return asyncio.run(play_all(kubeconfig))


@pytest.mark.parametrize("name", STORIES)
def test_the_story_ends_alike_with_both_schedulers(answers, name):
    assert answers[name]["weir"] == answers[name]["real"]
