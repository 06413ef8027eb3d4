"""The API as a client sees it, in process: one claim per rule of apiserver.md."""

from __future__ import annotations

import gc
import json
import tracemalloc

import pytest

from tests.golden.cluster import GATES_ON, Cluster

PODS = "/api/v1/namespaces/golden/pods"
JSON = {"Content-Type": "application/json"}
MERGE = {"Content-Type": "application/merge-patch+json"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


def pod(name: str, **metadata):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "c", "image": "registry.example/app:1"}]},
    }


@pytest.fixture
async def cluster():
    found = Cluster(GATES_ON)
    await found.start()
    return found


async def call(cluster, method, path, body=None, headers=None, query=""):
    sent = b"" if body is None else json.dumps(body).encode()
    return await cluster.call(method, path, query, {**JSON, **(headers or {})}, sent)


async def create(cluster, document, path=PODS):
    found = await call(cluster, "POST", path, document)
    assert found["code"] == 201, found["body"]
    return found["body"]


async def bind(cluster, name, node="n1"):
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    assert (await call(cluster, "POST", f"{PODS}/{name}/binding", body))["code"] == 201


async def test_a_created_object_has_what_only_the_server_sets(cluster):
    metadata = (await create(cluster, pod("a")))["metadata"]
    assert {"uid", "creationTimestamp", "resourceVersion"} <= metadata.keys() and metadata["generation"] == 1


async def test_a_request_may_bring_its_audit_id(cluster):
    brought = await call(cluster, "GET", PODS, headers={"Audit-ID": "my own"})
    assert brought["headers"]["Audit-Id"] == "my own"
    first, second = [(await call(cluster, "GET", PODS))["headers"]["Audit-Id"] for _ in range(2)]
    assert len(first) == len(second) == 36 and first != second


async def test_unknown_fields_of_annotations_survive_and_unknown_api_fields_warn(cluster):
    document = pod("a")
    document["spec"]["bogus"] = 1
    found = await call(cluster, "POST", PODS, document)
    assert found["headers"]["Warning"] == '299 - "unknown field \\"spec.bogus\\""'


async def test_a_name_can_be_taken_only_once(cluster):
    await create(cluster, pod("a"))
    found = await call(cluster, "POST", PODS, pod("a"))
    assert (found["code"], found["body"]["message"]) == (409, 'pods "a" already exists')


async def test_generate_name_appends_five_letters(cluster):
    document = pod("")
    document["metadata"] = {"generateName": "web-"}
    name = (await create(cluster, document))["metadata"]["name"]
    assert name.startswith("web-") and len(name) == 9


async def test_an_update_that_changes_nothing_keeps_the_version(cluster):
    before = await create(cluster, pod("a"))
    after = await call(cluster, "PUT", f"{PODS}/a", before)
    assert after["body"]["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_a_stale_version_conflicts(cluster):
    old = await create(cluster, pod("a"))
    await call(cluster, "PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    found = await call(cluster, "PUT", f"{PODS}/a", old)
    assert (found["code"], found["body"]["reason"]) == (409, "Conflict")


async def test_a_dry_run_answers_but_stores_nothing(cluster):
    answer = await call(cluster, "POST", PODS, pod("a"), query="dryRun=All")
    later = await call(cluster, "GET", f"{PODS}/a")
    assert (answer["code"], later["code"]) == (201, 404)


async def test_labels_do_not_count_as_a_generation_and_spec_does(cluster):
    await create(cluster, pod("a"))
    labels = await call(cluster, "PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    spec = await call(cluster, "PATCH", f"{PODS}/a", {"spec": {"activeDeadlineSeconds": 5}}, MERGE)
    assert [found["body"]["metadata"]["generation"] for found in (labels, spec)] == [1, 2]


async def test_status_is_written_only_through_its_own_path(cluster):
    await create(cluster, pod("a"))
    main = await call(cluster, "PATCH", f"{PODS}/a", {"status": {"phase": "Running"}}, MERGE)
    own = await call(cluster, "PATCH", f"{PODS}/a/status", {"status": {"phase": "Running"}}, MERGE)
    assert [found["body"]["status"]["phase"] for found in (main, own)] == ["Pending", "Running"]


async def test_a_pod_without_a_node_goes_at_once(cluster):
    await create(cluster, pod("a"))
    answer = await call(cluster, "DELETE", f"{PODS}/a")
    later = await call(cluster, "GET", f"{PODS}/a")
    assert (answer["body"]["metadata"]["deletionGracePeriodSeconds"], later["code"]) == (0, 404)


async def test_a_pod_on_a_node_gets_its_grace_period(cluster):
    await create(cluster, pod("a"))
    await bind(cluster, "a")
    await call(cluster, "DELETE", f"{PODS}/a")
    later = await call(cluster, "GET", f"{PODS}/a")
    assert later["body"]["metadata"]["deletionGracePeriodSeconds"] == 30


async def test_finalizers_hold_an_object_until_the_last_is_gone(cluster):
    await create(cluster, pod("a", finalizers=["example.com/hold"]))
    await call(cluster, "DELETE", f"{PODS}/a")
    held = await call(cluster, "GET", f"{PODS}/a")
    await call(cluster, "PATCH", f"{PODS}/a", {"metadata": {"finalizers": None}}, MERGE)
    gone = await call(cluster, "GET", f"{PODS}/a")
    assert (held["code"], gone["code"]) == (200, 404)


async def test_foreground_deletion_adds_the_collectors_finalizer(cluster):
    document = {"metadata": {"name": "c"}, "data": {}}
    await create(cluster, document, "/api/v1/namespaces/golden/configmaps")
    found = await call(
        cluster, "DELETE", "/api/v1/namespaces/golden/configmaps/c", query="propagationPolicy=Foreground"
    )
    assert found["body"]["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_a_bound_pod_cannot_be_bound_again(cluster):
    await create(cluster, pod("a"))
    await bind(cluster, "a")
    body = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n2"}}
    found = await call(cluster, "POST", f"{PODS}/a/binding", body)
    assert found["body"]["message"].endswith('pod a is already assigned to node "n1"')


async def test_a_spent_budget_refuses_an_eviction_with_429(cluster):
    await create(cluster, pod("a", labels={"app": "web"}))
    await bind(cluster, "a")
    await call(cluster, "PATCH", f"{PODS}/a/status", {"status": {"phase": "Running"}}, MERGE)
    budgets = "/apis/policy/v1/namespaces/golden/poddisruptionbudgets"
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    await create(cluster, budget, budgets)
    status = {"observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 0, "disruptionsAllowed": 0}
    await call(cluster, "PATCH", f"{budgets}/b/status", {"status": status}, MERGE)
    found = await call(cluster, "POST", f"{PODS}/a/eviction", {"metadata": {"name": "a"}})
    cause = found["body"]["details"]["causes"][0]["message"]
    assert (found["code"], cause) == (429, "The disruption budget b needs 1 healthy pods and has 0 currently")


async def test_scale_changes_the_replicas_of_its_workload(cluster):
    path = "/apis/apps/v1/namespaces/golden/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await create(cluster, {"metadata": {"name": "d"}, "spec": spec}, path)
    await call(cluster, "PATCH", f"{path}/d/scale", {"spec": {"replicas": 3}}, MERGE)
    assert (await call(cluster, "GET", f"{path}/d"))["body"]["spec"]["replicas"] == 3


async def test_a_pod_without_a_node_has_printed_nothing(cluster):
    await create(cluster, pod("a"))
    found = await call(cluster, "GET", f"{PODS}/a/log")
    assert (found["code"], found["body"]) == (200, "")


async def test_pages_show_one_state_and_the_last_has_no_token(cluster):
    for name in "abc":
        await create(cluster, pod(name))
    first = await call(cluster, "GET", PODS, query="limit=2")
    await create(cluster, pod("d"))
    token = first["body"]["metadata"]["continue"]
    second = await call(cluster, "GET", PODS, query=f"limit=2&continue={token}")
    names = [item["metadata"]["name"] for page in (first, second) for item in page["body"]["items"]]
    assert (names, second["body"]["metadata"].get("continue")) == (["a", "b", "c"], None)


async def test_selectors_choose_what_a_list_shows(cluster):
    await create(cluster, pod("a", labels={"app": "x"}))
    await create(cluster, pod("b"))
    by_label = await call(cluster, "GET", PODS, query="labelSelector=app%3Dx")
    by_field = await call(cluster, "GET", PODS, query="fieldSelector=metadata.name%3Db")
    names = [[item["metadata"]["name"] for item in found["body"]["items"]] for found in (by_label, by_field)]
    assert names == [["a"], ["b"]]


async def test_a_watch_shows_an_object_leaving_its_selector_as_deleted(cluster):
    before = await create(cluster, pod("a", labels={"app": "x"}))
    version = before["metadata"]["resourceVersion"]
    await call(cluster, "PATCH", f"{PODS}/a", {"metadata": {"labels": {"app": "y"}}}, MERGE)
    query = f"watch=true&resourceVersion={version}&labelSelector=app%3Dx&timeoutSeconds=1"
    found = await call(cluster, "GET", PODS, query=query)
    event = found["events"][0]
    assert (event["type"], event["object"]["metadata"]["labels"]) == ("DELETED", {"app": "x"})


async def test_a_watch_from_a_compacted_version_says_410_in_the_stream(cluster):
    await create(cluster, pod("a"))
    await create(cluster, pod("b"))
    await cluster.store.compact(cluster.store.revision)
    found = await call(cluster, "GET", PODS, query="watch=true&resourceVersion=1&timeoutSeconds=1")
    assert [(event["type"], event["object"]["code"]) for event in found["events"]] == [("ERROR", 410)]


async def test_initial_events_end_with_a_bookmark(cluster):
    await create(cluster, pod("a"))
    query = (
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        "&allowWatchBookmarks=true&timeoutSeconds=1"
    )
    found = await call(cluster, "GET", PODS, query=query)
    annotations = found["events"][1]["object"]["metadata"]["annotations"]
    assert annotations == {"k8s.io/initial-events-end": "true"}


async def test_the_bookmark_of_a_table_is_the_row_of_nothing(cluster):
    query = (
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        "&allowWatchBookmarks=true&timeoutSeconds=1"
    )
    empty = (await call(cluster, "GET", PODS, headers=TABLE, query=query))["events"][0]["object"]
    await create(cluster, pod("a"))
    added, bookmark = (
        each["object"] for each in (await call(cluster, "GET", PODS, headers=TABLE, query=query))["events"]
    )
    for shown in (empty, bookmark):
        (row,) = shown["rows"]
        assert row["cells"][0] == ""
        assert row["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert ["columnDefinitions" in each for each in (empty, added)] == [True, True]
    assert not bookmark["columnDefinitions"]


async def test_a_table_has_the_columns_kubectl_prints(cluster):
    await create(cluster, pod("a"))
    found = await call(cluster, "GET", PODS, headers=TABLE)
    assert found["body"]["rows"][0]["cells"][:4] == ["a", "0/1", "Pending", "0"]


async def test_events_are_one_resource_in_two_groups(cluster):
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "x", "namespace": "golden"},
        "message": "m",
    }
    await create(cluster, event, "/api/v1/namespaces/golden/events")
    found = await call(cluster, "GET", "/apis/events.k8s.io/v1/namespaces/golden/events/e")
    assert (found["body"]["regarding"]["name"], found["body"]["note"]) == ("x", "m")


async def test_a_namespace_stays_terminating_until_it_is_finalized(cluster):
    await create(cluster, {"metadata": {"name": "n"}}, "/api/v1/namespaces")
    await call(cluster, "DELETE", "/api/v1/namespaces/n")
    held = (await call(cluster, "GET", "/api/v1/namespaces/n"))["body"]
    held["spec"] = {}
    await call(cluster, "PUT", "/api/v1/namespaces/n/finalize", held)
    gone = await call(cluster, "GET", "/api/v1/namespaces/n")
    assert (held["status"]["phase"], gone["code"]) == ("Terminating", 404)


async def test_nothing_can_be_created_in_a_namespace_that_goes(cluster):
    await call(cluster, "DELETE", "/api/v1/namespaces/golden")
    found = await call(cluster, "POST", PODS, pod("a"))
    assert found["code"] == 403


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/apis/nope.example.com/v1/things", 404),
        ("GET", "/api/v1/things", 404),
        ("PATCH", PODS, 405),
        ("GET", f"{PODS}/a/nope", 404),
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("GET", "/apis/apps/v1", 200),
    ],
)
async def test_paths_answer_with_the_right_code(cluster, method, path, code):
    assert (await call(cluster, method, path, headers=MERGE if method == "PATCH" else None))["code"] == code


async def test_whoever_shows_nothing_is_turned_away(cluster):
    found = await cluster.call("GET", PODS, "", {}, b"", token=False)
    assert (found["code"], found["body"]["reason"]) == (401, "Unauthorized")


@pytest.mark.parametrize("accept, code", [(TABLE["Accept"].partition(",")[0], 406), (TABLE["Accept"], 201)])
async def test_what_is_not_stored_has_no_table(cluster, accept, code):
    review = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"}
    review["spec"] = {"nonResourceAttributes": {"path": "/", "verb": "get"}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    found = await call(cluster, "POST", path, review, {"Accept": accept})
    assert (found["code"], found["body"]["kind"]) == (code, "Status" if code == 406 else review["kind"])


@pytest.mark.parametrize(
    "query, code",
    [
        ("timeout=invalid", 400),
        ("timeout=0s", 200),
        ("timeout=3m", 200),
        ("timeout=", 200),
        ("timeout=5", 400),
    ],
)
async def test_the_timeout_of_a_request_is_a_duration(cluster, query, code):
    found = await call(cluster, "GET", PODS, query=query)
    assert found["code"] == code
    if code == 400:
        assert found["body"]["message"].startswith("invalid timeout specified in the request URL - time: ")


async def test_a_list_goes_on_with_what_is_there_where_its_past_is_gone(cluster):
    for name in "abc":
        await create(cluster, pod(name))
    token = (await call(cluster, "GET", PODS, query="limit=1"))["body"]["metadata"]["continue"]
    await create(cluster, pod("d"))
    await cluster.store.compact(cluster.store.revision)
    gone = await call(cluster, "GET", PODS, query=f"limit=1&continue={token}")
    again = gone["body"]["metadata"]["continue"]
    rest = await call(cluster, "GET", PODS, query=f"continue={again}")
    names = [item["metadata"]["name"] for item in rest["body"]["items"]]
    assert (gone["code"], rest["code"], names) == (410, 200, ["b", "c", "d"])


async def test_the_range_of_services_is_there_and_ready(cluster):
    found = await call(cluster, "GET", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes")
    (condition,) = found["body"]["status"]["conditions"]
    assert (found["body"]["spec"], condition["type"], condition["status"]) == (
        {"cidrs": ["10.0.0.0/16"]},
        "Ready",
        "True",
    )


async def test_a_dry_run_leaves_nothing_behind(cluster):
    """Whatever differs between the pods: specs, keys of annotations, tolerations."""

    async def ask(number: int) -> None:
        document = pod(f"p{number}", annotations={f"key-{(number + index) % 90}": "x" for index in range(60)})
        document["spec"]["containers"][0]["image"] = f"registry.example/{number}:1"
        document["spec"]["tolerations"] = [
            {"key": f"key-{number % 90}", "operator": "Gt", "value": str(number)}
        ]
        found = await call(cluster, "POST", PODS, document, query="dryRun=All")
        assert found["code"] == 201, found["body"]

    for number in range(100):  # fill the bounded caches of names
        await ask(number)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(100, 200):
            await ask(number)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 100 * 2_000
