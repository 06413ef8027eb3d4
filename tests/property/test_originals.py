"""Lowered and raised again, an object is what its author wrote; and however it was edited, raising says no more."""

from __future__ import annotations

import copy
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from weir.explain.pod import explain
from weir.explain.subject import Subject
from weir.gates import ALL_FEATURES
from weir.inputs.cluster import ClusterObjects
from weir.lowering import webhooks
from weir.lowering.admission import Cluster, answer
from weir.lowering.originals import raised, with_expressions
from weir.lowering.tolerations import is_extended, read_entry
from weir.lowering.triples import Triple
from weir.taints.toleration import find_tolerating
from weir.whatif.changes import Nodes, Taint, TaintEdit
from weir.whatif.report import report
from weir.whatif.run import WhatIfOptions

KEYS = ("sla", "kernel")
VALUES = ("", "49", "50", "900", "950", "0950", "high", "1.2.3", "v1.3.0")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
TRIPLES = st.lists(
    st.builds(Triple, st.sampled_from(KEYS), st.sampled_from(VALUES), st.sampled_from(EFFECTS)),
    max_size=6,
    unique=True,
)


@st.composite
def entries(draw):
    operator = draw(st.sampled_from(("Gt", "Lt", "SemverGt", "SemverEq", "CEL", "Equal", "Exists")))
    effect = draw(st.sampled_from(("", *EFFECTS)))
    if operator == "CEL":
        expression = draw(st.sampled_from(("taint.key == 'sla'", "taint.value in ['50', '950']")))
        return {"operator": "CEL", "value": expression}
    entry = {"key": draw(st.sampled_from(KEYS)), "operator": operator}
    values = {"Gt": ("49", "900"), "Lt": ("49", "900"), "Equal": VALUES[1:]}.get(operator, ("1.2.3", "1.0.0"))
    if operator != "Exists":
        entry["value"] = draw(st.sampled_from(values))
    if effect:
        entry["effect"] = effect
    if effect == "NoExecute" and draw(st.booleans()):
        entry["tolerationSeconds"] = draw(st.integers(1, 3))
    return entry


requirements = st.one_of(
    st.builds(
        lambda operator, version: {"key": "v", "operator": operator, "values": [version]},
        st.sampled_from(("SemverGt", "SemverLt", "SemverEq")),
        st.sampled_from(("1.2.3", "2.0.0-rc.1")),
    ),
    st.just({"key": "zone", "operator": "In", "values": ["a"]}),
)
terms = st.builds(lambda found: {"matchExpressions": found}, st.lists(requirements, min_size=1, max_size=3))
affinities = st.builds(
    lambda required, preferred: {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": required},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": one} for one in preferred
            ],
        }
    },
    st.lists(terms, min_size=1, max_size=2),
    st.lists(terms, max_size=2),
)
templates = st.builds(
    lambda tolerations, affinity, selector: {
        "metadata": {"labels": {"app": "web"}, "annotations": {"team": "shop"}},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "tolerations": tolerations,
            "affinity": affinity,
            "nodeSelector": selector,
        },
    },
    st.lists(entries(), max_size=5),
    affinities,
    st.sampled_from(({"zone": "a"}, {"zone": "a", "disk": "ssd"})),
)


def written(tolerations: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return what of *tolerations* can decide something: no second one that differs only in its seconds, and no value
    that stands behind an extended entry and says the same."""
    kept: list[dict[str, object]] = []
    seen: set[str] = set()
    behind: dict[str, object] | None = None
    for entry in tolerations:
        if is_extended(entry):
            name = str({**entry, "tolerationSeconds": None})
            if name in seen:
                continue
            seen.add(name)
            behind = entry
        elif behind is not None and says_the_same(entry, behind):
            continue
        else:
            behind = None
        kept.append(entry)
    return kept


def says_the_same(entry, extended) -> bool:
    if entry["operator"] != "Equal" or not entry.get("effect"):
        return False
    taint = Triple(entry["key"], entry.get("value", ""), entry["effect"]).taint
    seconds = extended.get("tolerationSeconds") if taint.effect == "NoExecute" else None
    return entry.get("tolerationSeconds") == seconds and bool(
        find_tolerating([read_entry(extended)], taint, ALL_FEATURES)
    )


def lowered(document, path, triples=(), kind=""):
    request = {
        "object": copy.deepcopy(document),
        "kind": {"kind": kind or document["kind"]},
        "namespace": "default",
    }
    given = answer(path, request, Cluster(known=triples))
    assert given.allowed, given.message
    return given.document


@given(templates, TRIPLES)
def test_a_pod_comes_back_as_it_was_written(template, triples):
    pod = {"kind": "Pod", **template}
    found = raised(lowered(pod, webhooks.POD_PATH, triples))
    pod["spec"]["tolerations"] = written(pod["spec"]["tolerations"])
    assert found == pod


WORKLOADS = {
    "Deployment": webhooks.TEMPLATE_PATH,
    "StatefulSet": webhooks.TEMPLATE_PATH,
    "Job": webhooks.TEMPLATE_PATH,
    "CronJob": webhooks.TEMPLATE_PATH,
}


@pytest.mark.parametrize("kind", sorted(WORKLOADS))
@given(template=templates)
def test_a_workload_comes_back_as_it_was_written(kind, template):
    inner = {"spec": {"template": template}}
    workload = {
        "kind": kind,
        "metadata": {"name": "web"},
        **({"spec": {"jobTemplate": inner}} if kind == "CronJob" else inner),
    }
    found = raised(lowered(workload, WORKLOADS[kind]))
    template["spec"]["tolerations"] = deduplicated(template["spec"]["tolerations"])
    assert found == workload


@given(templates)
def test_a_daemonset_and_its_pods_come_back(template):
    spec = template["spec"]
    spec["tolerations"] = [
        entry for entry in spec["tolerations"] if is_extended(entry) or entry["operator"] == "Equal"
    ]
    daemonset = {"kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {"template": template}}
    made = lowered(daemonset, webhooks.DAEMONSET_PATH)
    pod = {"kind": "Pod", **copy.deepcopy(made["spec"]["template"])}
    plain = raised(made)["spec"]["template"]
    assert plain["spec"]["tolerations"] == deduplicated(spec["tolerations"])
    assert plain["spec"]["nodeSelector"] == spec["nodeSelector"]
    assert plain["spec"]["affinity"] == spec["affinity"]
    assert raised(pod)["spec"]["nodeSelector"] == spec["nodeSelector"]


def deduplicated(tolerations):
    seen: set[str] = set()
    return [
        entry
        for entry in tolerations
        if not (
            is_extended(entry)
            and ((name := str({**entry, "tolerationSeconds": None})) in seen or seen.add(name))
        )
    ]


@given(st.lists(terms, min_size=1, max_size=3))
def test_a_volume_comes_back_as_it_was_written(found):
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": "v", "annotations": {"team": "shop"}},
        "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": found}}},
    }
    assert raised(lowered(volume, webhooks.VOLUME_PATH)) == volume


broken = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(("", "lowered.weir.dev/x-1", "{", "[]", '{"a":1}')),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ("spec", "template", "tolerations", "metadata", "annotations", "labels", "key", "operator", "affinity",
             "nodeAffinity", "nodeSelector", "lowered.weir.dev/tolerations", "lowered.weir.dev/requirements", "items",
             "schedulingGates", "matchExpressions", "jobTemplate")
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(
    broken,
    st.sampled_from(
        ("Pod", "DaemonSet", "CronJob", "Node", "PersistentVolume", "PodList", "List", "Service", 3, None)
    ),
)
def test_whatever_shape_it_has_raising_does_not_fail(value, kind):
    document = {"kind": kind, **value} if isinstance(value, dict) else value
    before = copy.deepcopy(document)
    raised(document)
    assert document == before, "the document itself is left alone"


@given(templates, TRIPLES, st.data())
def test_after_edits_by_hand_it_still_says_for_every_taint_what_the_markers_original_says(
    template, triples, data
):
    """Entries taken away, annotations lost: nothing is tolerated that neither the original nor what is left does."""
    pod = lowered({"kind": "Pod", **template}, webhooks.POD_PATH, triples)
    entries = pod["spec"]["tolerations"]
    kept = [entry for entry in entries if data.draw(st.booleans())]
    pod["spec"]["tolerations"] = kept
    if data.draw(st.booleans()):
        pod["metadata"].pop("annotations", None)
        assert raised(pod)["spec"]["tolerations"] == kept, "nobody knows what the markers were"
        return
    mine = [read_entry(entry) for entry in [*template["spec"]["tolerations"], *kept]]
    theirs = [read_entry(entry) for entry in raised(pod)["spec"]["tolerations"]]
    for triple in triples:
        if find_tolerating(theirs, triple.taint, ALL_FEATURES):
            assert find_tolerating(mine, triple.taint, ALL_FEATURES)


# ── answers ──────────────────────────────────────────────────────────────────────────────────────

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def node(name, triples):
    taints = [
        {"key": each.key, "value": each.value, "effect": each.effect}
        for each in {(each.key, each.effect): each for each in triples}.values()
    ]
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "20"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"taints": taints},
        "status": {"allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def cluster(tolerations, taints):
    """Return three nodes, and a ReplicaSet with two pods on the first."""
    labels = {"app": "web"}
    spec = {"containers": [{"name": "c", "image": "i"}], "tolerations": tolerations}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": name,
                "labels": labels,
                "ownerReferences": [owner],
            },
            "spec": {**spec, "nodeName": "a"},
            "status": {"phase": "Running"},
        }
        for name in ("web-1", "web-2")
    ]
    template = {"metadata": {"labels": labels}, "spec": spec}
    replicas = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }
    nodes = [node(name, found) for name, found in zip("abc", taints, strict=True)]
    return [*nodes, replicas, *pods]


def answers(documents, change):
    """Return what explain says of the ReplicaSet, and what-if of the change."""
    held = ClusterObjects.of((("the cluster", each) for each in documents), keep_gate=False)
    replicas = next(each for _, each in held.documents if each["kind"] == "ReplicaSet")
    explained = explain(Subject.of(replicas), held.world(), ALL_FEATURES)
    forecast = held.loaded.what_if([change], WhatIfOptions(ALL_FEATURES, NOW, until=120.0))
    return explained.fits, explained.attempt.message, report(forecast, ALL_FEATURES, {}, [])


@settings(max_examples=10)
@example(
    [{"operator": "CEL", "value": "taint.key == 'sla'"}], ([], [], []), [Triple("sla", "50", "NoExecute")]
)
@given(st.lists(entries(), max_size=4), st.tuples(st.just([]), TRIPLES, TRIPLES), TRIPLES.filter(bool))
def test_a_lowered_cluster_gives_the_answers_of_what_was_written(tolerations, taints, new):
    documents = cluster(tolerations, taints)
    known = {each for found in (*taints, new) for each in found}
    paths = {"Pod": webhooks.POD_PATH, "ReplicaSet": webhooks.TEMPLATE_PATH}
    made = [
        lowered(each, paths[each["kind"]], sorted(known)) if each["kind"] in paths else each
        for each in documents
    ]
    edits = {(each.key, each.effect): TaintEdit(each.taint) for each in new}
    change = Taint(Nodes(("a",)), tuple(edits.values()))
    assert answers(made, change) == answers([with_expressions(each) for each in documents], change)
