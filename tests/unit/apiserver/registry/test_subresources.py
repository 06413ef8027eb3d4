"""An eviction notes why its pod goes and starts its end: revisions of their own, in one commit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.golden.cluster import GATES_ON, Cluster
from weir.store import Conflict, Result, Write

PODS = "/api/v1/namespaces/golden/pods"
JSON = {"Content-Type": "application/json"}


class Evicted:
    """A cluster with one pod, the commits and events of its eviction."""

    def __init__(self) -> None:
        self.cluster = Cluster(GATES_ON)
        self.commits: list[int] = []
        self.events: list[Any] = []

    async def start(self, node: str = "n1", **metadata: Any) -> None:
        await self.cluster.start()
        spec = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {})}
        await self.call("POST", PODS, {"metadata": {"name": "a", **metadata}, "spec": spec})
        store = self.store = self.cluster.server.verbs.store
        self.commit = store.commit
        store.watch("/registry/pods/", store.revision, self.events.extend)
        store.commit = self.counted

    async def counted(self, writes: Any) -> Any:
        self.commits.append(len(writes))
        return await self.commit(writes)

    async def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        found: dict[str, Any] = await self.cluster.call(method, path, "", JSON, data)
        return found

    async def evict(self, **options: Any) -> dict[str, Any]:
        return await self.call(
            "POST", f"{PODS}/a/eviction", {"metadata": {"name": "a"}, "deleteOptions": options}
        )

    @property
    def seen(self) -> list[tuple[str, bool, bool]]:
        """Each change: its type, whether the pod had the condition, whether it was being deleted."""
        shown = []
        for event in self.events:
            pod = json.loads(event.value)
            assert pod["metadata"]["resourceVersion"] == str(event.revision)
            noted = [
                c["reason"] for c in pod["status"].get("conditions", ()) if c["type"] == "DisruptionTarget"
            ]
            assert noted in ([], ["EvictionByEvictionAPI"])
            shown.append((event.type, bool(noted), "deletionTimestamp" in pod["metadata"]))
        return shown


NOTED, MARKED, REMOVED = ("MODIFIED", True, False), ("MODIFIED", True, True), ("DELETED", True, True)


@pytest.mark.parametrize(
    ("node", "finalizers", "options", "seen"),
    [
        ("n1", [], {}, [NOTED, MARKED]),
        ("", [], {}, [NOTED, MARKED, REMOVED]),
        ("n1", [], {"gracePeriodSeconds": 0}, [NOTED, MARKED, REMOVED]),
        ("n1", ["a.example/b"], {"gracePeriodSeconds": 0}, [NOTED, MARKED]),
        ("n1", [], {"dryRun": ["All"]}, []),
    ],
    ids=["running", "not running", "at once", "held", "dry run"],
)
async def test_condition_and_end_are_revisions_of_one_commit(node, finalizers, options, seen):
    pod = Evicted()
    await pod.start(node, finalizers=finalizers)
    answer = await pod.evict(**options)
    assert (answer["code"], answer["body"]["status"]) == (201, "Success")
    assert pod.seen == seen
    assert pod.commits == ([len(seen)] if seen else [])
    assert [event.revision for event in pod.events] == list(
        range(pod.store.revision - len(seen) + 1, pod.store.revision + 1)
    )


async def test_a_pod_that_is_already_going_gets_the_condition_once():
    pod = Evicted()
    await pod.start()
    await pod.call("DELETE", f"{PODS}/a")
    pod.events.clear()
    assert (await pod.evict())["code"] == (await pod.evict())["code"] == 201
    assert pod.seen == [MARKED]


@pytest.mark.parametrize("lost", [0, 1], ids=["before it was noted", "after it was noted"])
async def test_an_eviction_that_another_write_disturbs_is_tried_again(lost):
    """The second case is that of a store whose commits others can come between (etcd)."""
    pod = Evicted()
    await pod.start()
    commit, tries = pod.commit, []

    async def raced(writes: Any) -> Any:
        tries.append(len(writes))
        if len(tries) > 1:
            return await commit(writes)
        results = await commit(writes[:lost])
        now = pod.store.get(writes[0].key)
        await commit([Write(now.key, now.value.replace(b'"image":"i"', b'"image":"j"'))])
        return [*results, *[Result(None, Conflict(now.key, 1, 2), now)] * (2 - lost)]

    pod.store.commit = raced
    assert (await pod.evict())["code"] == 201
    stored = (await pod.call("GET", f"{PODS}/a"))["body"]
    assert stored["spec"]["containers"][0]["image"] == "j" and "deletionTimestamp" in stored["metadata"]
    assert [c["type"] for c in stored["status"]["conditions"]].count("DisruptionTarget") == 1
    assert tries == [2, 1 if lost else 2]


@pytest.mark.parametrize("preconditions", [{"uid": "x"}, {"resourceVersion": "1"}])
async def test_another_pod_than_was_meant_stays_as_it_is(preconditions):
    pod = Evicted()
    await pod.start()
    assert (await pod.evict(preconditions=preconditions))["code"] == 409
    assert (pod.commits, pod.events) == ([], [])


async def test_admission_is_asked_about_the_eviction_and_not_about_a_deletion():
    pod = Evicted()
    await pod.start()
    verbs, asked = pod.cluster.server.verbs, []
    chain = verbs.admission

    class Asked:
        def mutate(self, attributes: Any) -> Any:
            asked.append((attributes.operation, attributes.subresource))
            return chain.mutate(attributes)

        def validate(self, attributes: Any) -> Any:
            asked.append((attributes.operation, attributes.subresource))
            return chain.validate(attributes)

    verbs.admission = Asked()
    await pod.evict()
    assert asked == [("CREATE", "eviction")] * 2
