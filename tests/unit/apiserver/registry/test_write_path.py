"""Every write takes the same stages in the same order, whatever its verb, patch type or size."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.golden.cluster import GATES_ON, Cluster
from weir.apiserver import documents
from weir.apiserver.off_loop import LARGE_BYTES
from weir.apiserver.patches import apply as server_side
from weir.store import Conflict, Result

MAPS = "/api/v1/namespaces/golden/configmaps"
PODS = "/api/v1/namespaces/golden/pods"
STAGES = ["default", "own", "mutate", "validate", "admit", "commit"]


def pod(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", **metadata}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


class Traced:
    """A cluster whose stages are noted as they run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = Cluster(GATES_ON)
        self.stages: list[str] = []
        self._patch = monkeypatch

    async def start(self) -> None:
        await self.cluster.start()
        verbs = self.cluster.server.verbs
        self.note(documents, "default", "default")
        self.note(documents, "validate", "validate")
        self.note(server_side, "update_managed_fields", "own")
        chain = verbs.admission
        stages = self.stages

        class Admission:
            def mutate(self, attributes: Any) -> Any:
                stages.append("mutate")
                return chain.mutate(attributes)

            def validate(self, attributes: Any) -> Any:
                stages.append("admit")
                return chain.validate(attributes)

        verbs.admission = Admission()
        commit = verbs.store.commit

        async def committed(writes: Any) -> Any:
            stages.append("commit")
            return await commit(writes)

        self._patch.setattr(verbs.store, "commit", committed)

    def note(self, module: Any, name: str, stage: str) -> None:
        function, stages = getattr(module, name), self.stages

        def noted(*arguments: Any, **named: Any) -> Any:
            stages.append(stage)
            return function(*arguments, **named)

        self._patch.setattr(module, name, noted)

    async def call(
        self, method: str, path: str, body: Any, media: str = "application/json", query: str = ""
    ) -> dict[str, Any]:
        self.stages.clear()
        text = json.dumps(body).encode()
        found: dict[str, Any] = await self.cluster.call(method, path, query, {"Content-Type": media}, text)
        return found


@pytest.fixture
async def traced(monkeypatch: pytest.MonkeyPatch) -> Traced:
    found = Traced(monkeypatch)
    await found.start()
    return found


@pytest.mark.parametrize("size", [1, LARGE_BYTES], ids=["small", "large"])
async def test_create_update_and_patches_take_the_same_stages(traced, size):
    text = "x" * size
    map_ = {"metadata": {"name": "m"}, "data": {"a": text}}
    assert (await traced.call("POST", MAPS, map_))["code"] == 201
    assert traced.stages == STAGES
    assert (await traced.call("PUT", f"{MAPS}/m", {**map_, "data": {"b": text}}))["code"] == 200
    assert traced.stages == STAGES
    for media in ("merge-patch+json", "strategic-merge-patch+json"):
        patch = {"data": {media[:5]: text}}
        assert (await traced.call("PATCH", f"{MAPS}/m", patch, f"application/{media}"))["code"] == 200
        assert traced.stages == STAGES
    patch = [{"op": "add", "path": "/data/j", "value": text}]
    assert (await traced.call("PATCH", f"{MAPS}/m", patch, "application/json-patch+json"))["code"] == 200
    assert traced.stages == STAGES


async def test_an_apply_settles_its_owners_itself_and_takes_the_other_stages(traced):
    map_ = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "b"}}
    for data, code in (({"a": "b"}, 201), ({"a": "c"}, 200)):
        body, media = {**map_, "data": data}, "application/apply-patch+yaml"
        answer = await traced.call("PATCH", f"{MAPS}/m", body, media, "fieldManager=me")
        assert answer["code"] == code, answer["body"]
        assert traced.stages == [stage for stage in STAGES if stage != "own"]


async def test_a_write_of_the_status_takes_the_same_stages(traced):
    assert (await traced.call("POST", PODS, pod()))["code"] == 201
    patch = {"status": {"phase": "Running"}}
    media = "application/strategic-merge-patch+json"
    assert (await traced.call("PATCH", f"{PODS}/a/status", patch, media))["code"] == 200
    assert traced.stages == STAGES


async def test_a_binding_is_admitted_and_committed(traced):
    await traced.call("POST", PODS, pod())
    body = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}
    assert (await traced.call("POST", f"{PODS}/a/binding", body))["code"] == 201
    assert traced.stages == ["mutate", "admit", "commit"]
    stored = (await traced.call("GET", f"{PODS}/a", None))["body"]
    assert stored["spec"]["nodeName"] == "n"
    assert [one["type"] for one in stored["status"]["conditions"]] == ["PodScheduled"]


async def test_a_dry_run_takes_every_stage_but_the_last(traced):
    assert (await traced.call("POST", PODS, pod(), query="dryRun=All"))["code"] == 201
    assert traced.stages == STAGES[:-1]


async def test_an_update_that_changes_nothing_commits_nothing(traced):
    await traced.call("POST", PODS, pod())
    same = (await traced.call("GET", f"{PODS}/a", None))["body"]
    answer = await traced.call("PUT", f"{PODS}/a", same)
    assert (answer["code"], answer["body"]["metadata"]["resourceVersion"]) == (
        200,
        same["metadata"]["resourceVersion"],
    )
    assert traced.stages == STAGES[:-1]


@pytest.mark.parametrize(("version", "code", "rounds"), [("", 200, 2), ("named", 409, 1)])
async def test_a_lost_race_starts_the_stages_anew_unless_the_version_was_named(traced, version, code, rounds):
    map_ = {"metadata": {"name": "m"}, "data": {"a": "b"}}
    created = (await traced.call("POST", MAPS, map_))["body"]
    store = traced.cluster.server.verbs.store
    commit, lost = store.commit, []

    async def raced(writes: Any) -> Any:
        if lost:
            return await commit(writes)
        lost.append(writes[0].key)
        traced.stages.append("commit")
        return [Result(None, Conflict(writes[0].key, 1, 2), store.get(writes[0].key))]

    store.commit = raced
    metadata = {
        "name": "m",
        **({"resourceVersion": created["metadata"]["resourceVersion"]} if version else {}),
    }
    answer = await traced.call("PUT", f"{MAPS}/m", {"metadata": metadata, "data": {"a": "c"}})
    assert answer["code"] == code
    assert traced.stages == STAGES * rounds
