"""A fix as a diff of the user's own file: applied to the file's text, it gives exactly the proposed object."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir.explain.diff import MASK, own_diff
from weir.explain.edits import ClearNodeName, DropPreferences, Edit, Ungate
from weir.explain.edits.labels import ChangeRequirement, ChangeSelector, DropAffinity
from weir.explain.edits.names import ChangeName, DropGiven, UseClaim
from weir.explain.edits.neighbours import PreferSpread, PreferTerm, RaiseSkew
from weir.explain.edits.ports import ChangeHostPort
from weir.explain.edits.room import LowerRequest
from weir.explain.edits.taints import AddToleration, ChangeThreshold
from weir.explain.fix import apply
from weir.explain.subject import subjects
from weir.objects.core import NodeSelectorRequirement, Toleration
from weir.objects.manifest import Document, read_manifest
from weir.objects.text_edits import changed_text
from weir.scheduler.reasons import Unmet
from weir.selectors.node import Match

POD = """\
# shown to auditors: keep the comments
apiVersion: v1
kind: Pod
metadata:
  name: web   # the name
spec:
  nodeName: n1
  schedulingGates:
  - name: example.com/wait
  priorityClassName: hihg   # a typo
  priority: 7
  nodeSelector:
    # where the disks are
    disk: "ssd"
    zone: a
  tolerations:
  - key: sla      # promised
    operator: Gt
    value: '950'
    effect: NoSchedule
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions:
          - key: cpu   # model
            operator: In
            values: [x, y]
          - key: zone
            operator: In
            values:
            - a
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 1
        preference: {matchExpressions: [{key: age, operator: Gt, values: ["x"]}]}
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: zone
        labelSelector: {matchLabels: {app: web}}
  topologySpreadConstraints:
  - maxSkew: 1   # even
    topologyKey: zone
    whenUnsatisfiable: DoNotSchedule
    minDomains: 2
    labelSelector: {matchLabels: {app: web}}
  containers:
  - name: a
    image: x
    ports:
    - {containerPort: 80, hostPort: 80}
    - hostPort: 81   # metrics
      containerPort: 81
    resources:
      requests:
        cpu: "8"     # much
        example.com/gpu: 2
      limits: {example.com/gpu: 2}
  volumes:
  - name: data
    persistentVolumeClaim:
      claimName: dta   # a typo

# the end
"""
SLA = Toleration(key="sla", operator="Gt", value="950", effect="NoSchedule")


def unmet(index: int) -> Unmet:
    return Unmet(
        "matchExpressions", index, NodeSelectorRequirement(key="k", operator="In"), Match.OTHER_VALUE, None
    )


EDITS: list[Edit] = [
    ClearNodeName("n1"),
    Ungate(("example.com/wait",)),
    ChangeSelector("disk", "ssd", "hdd"),
    ChangeSelector("zone", "a", None),
    ChangeSelector("disk", "ssd", None),
    ChangeRequirement(0, unmet(0), ("z",)),
    ChangeRequirement(0, unmet(1), ("b", "on")),
    ChangeRequirement(0, unmet(0), None),
    ChangeRequirement(0, unmet(1), None),
    DropAffinity(),
    DropPreferences((0,), ()),
    UseClaim("dta", "data"),
    ChangeName("priorityClassName", "hihg", "high", 1.0),
    ChangeName("priorityClassName", "hihg", "", 1.0),
    DropGiven("priority"),
    RaiseSkew(0, "zone", 1, 3),
    PreferSpread(0, "zone"),
    PreferTerm("podAntiAffinity", 0, "zone"),
    ChangeHostPort("TCP", 80, 8080, False),
    ChangeHostPort("TCP", 81, 0, False),
    LowerRequest("cpu", 8000, 4000, (("containers", 0, "a", 4000),)),
    LowerRequest("example.com/gpu", 2, 0, (("containers", 0, "a", 0),)),
    LowerRequest("memory", 2, 1, (), pod_level=1 << 20),
    AddToleration(Toleration(key="gpu", operator="Equal", value="y", effect="NoSchedule")),
    ChangeThreshold(SLA, "899"),
]
BARE = "kind: Pod\nmetadata: {name: web}\nspec:  # nothing yet\n  containers: [{name: c, image: i}]"


def patched(text: str, diff: list[str]) -> str:
    """Return *text* with a unified diff applied, as strictly as patch(1) without fuzz."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    result, at, old, new = list[str](), 0, list[str](), list[str]()

    def flush() -> None:
        nonlocal at
        assert lines[at : at + len(old)] == old
        result.extend(new)
        at += len(old)
        old.clear()
        new.clear()

    for number, line in enumerate(diff[2:], 2):
        ends = "" if diff[number + 1 : number + 2] == ["\\ No newline at end of file"] else "\n"
        if hunk := re.match(r"@@ -(\d+)(,0)?", line):
            flush()
            begin = int(hunk[1]) - (0 if hunk[2] else 1)
            result.extend(lines[at:begin])
            at = begin
        elif line[0] != "\\":
            old.extend([line[1:] + ends] if line[0] in " -" else [])
            new.extend([line[1:] + ends] if line[0] in " +" else [])
    flush()
    return "".join([*result, *lines[at:]])


def proposals(text: str, edits: list[Edit]) -> list[tuple[Document, dict[str, Any]]]:
    """Return every pod or workload of *text* with what it is after the edits."""
    items = [item for document in read_manifest(text, "pod.yaml") for item in document.items()]
    return [(item, apply(one, tuple(edits)).document) for item in items for one in subjects(item.value)]


def shown(item: Document, after: dict[str, Any]) -> list[str]:
    change = changed_text(item, after)
    assert change is not None, f"no edit of the text makes it {after}:\n{item.text}"
    return list(own_diff(change, item.file))


def values(text: str) -> list[Any]:
    return [item.value for document in read_manifest(text) for item in document.items()]


def check(text: str, edits: list[Edit]) -> list[str]:
    """Hold the diff of the one proposal, applied to the text, against the proposal; return the diff."""
    ((item, after),) = proposals(text, edits)
    diff = shown(item, after)
    expected = [after if value == item.value else value for value in values(text)]
    found = values(patched(text.replace("\r", ""), diff) if diff else text)
    assert json.dumps(found, sort_keys=True) == json.dumps(expected, sort_keys=True)
    return diff


def test_every_kind_of_edit_to_a_pod_has_an_example():
    def kinds(kind: type[Edit]) -> set[type[Edit]]:
        own = {kind} if "on_pod" in vars(kind) else set()
        return own.union(*map(kinds, kind.__subclasses__()))

    assert {type(edit) for edit in EDITS} == kinds(Edit) - {Edit}


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.say()[:40])
def test_the_diff_applied_gives_the_proposal(edit):
    assert check(POD, [edit])


@pytest.mark.parametrize(
    ("edit", "removed", "added"),
    [
        (RaiseSkew(0, "zone", 1, 3), "  - maxSkew: 1   # even", "  - maxSkew: 3   # even"),
        (UseClaim("dta", "data"), "      claimName: dta   # a typo", "      claimName: data   # a typo"),
        (ChangeThreshold(SLA, "899"), "    value: '950'", "    value: '899'"),
        (ChangeSelector("disk", "ssd", "hdd"), '    disk: "ssd"', '    disk: "hdd"'),
        (ClearNodeName("n1"), "  nodeName: n1", None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Edit) else "",
)
def test_one_value_is_one_line_with_its_comment_and_quotes(edit, removed, added):
    lines = [line for line in check(POD, [edit])[2:] if line[0] in "+-"]
    assert lines == [f"-{removed}", *([f"+{added}"] if added else [])]


LAYOUTS = {
    "own": POD,
    "windows": POD.replace("\n", "\r\n"),
    "no newline at the end": POD.rstrip(),
    "between others": "kind: Secret\nstringData: {p: x}\n---\n"
    + POD
    + "---\nkind: Node\nmetadata: {name: n}\n",
    "list": "kind: List\nitems:\n- kind: Namespace\n- " + "\n  ".join(POD.splitlines()[1:]) + "\n",
    "dumped": yaml.safe_dump(yaml.safe_load(POD)),
    "wide": yaml.safe_dump(yaml.safe_load(POD), indent=4, default_flow_style=None),
    "flow": yaml.safe_dump(yaml.safe_load(POD), default_flow_style=True),
    "json": json.dumps(yaml.safe_load(POD)),
    "indented json": json.dumps(yaml.safe_load(POD), indent=2),
    "bare": BARE,
    "null": BARE + "\n  tolerations:\n",
    "empty": BARE + "\n  tolerations: []  # none\n  nodeSelector: {}\n",
}


@pytest.mark.parametrize("layout", LAYOUTS)
@given(edits=st.lists(st.sampled_from(EDITS), min_size=1, max_size=4, unique_by=type))
@settings(max_examples=25, deadline=None)
def test_several_edits_in_every_layout(layout, edits):
    check(LAYOUTS[layout], edits)


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.text("ay:#-'\" {}[],\n0", max_size=5), st.just("on")
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "y", "c d"]), inner, max_size=3),
    ),
    max_leaves=8,
)
OBJECTS = st.fixed_dictionaries({"kind": st.just("Pod"), "spec": VALUES})


@given(OBJECTS, VALUES, st.sampled_from([True, False, None]))
@settings(max_examples=tries(120, 300), deadline=None)
def test_whatever_is_shown_is_true_for_any_value(before, spec, flow):
    text = json.dumps(before) if flow else yaml.safe_dump(before, default_flow_style=flow, width=1000)
    (document,) = read_manifest(text)
    after = {**deepcopy(document.value), "spec": spec}
    change = changed_text(document, after)
    if change is not None:
        diff = [*own_diff(change, "f")]
        (found,) = read_manifest(patched(text, diff) if diff else text)
        assert json.dumps(found.value, sort_keys=True) == json.dumps(after, sort_keys=True)


def test_line_numbers_are_those_of_the_file_and_other_documents_stay_out():
    text = "kind: Secret\nstringData:\n  p: hunter2\n---\n" + POD
    diff = check(text, [ClearNodeName("n1")])
    assert "hunter2" not in "\n".join(diff)
    assert "@@ -8,7 +8,6 @@" in diff
    pod_next = "kind: Secret\nstringData:\n  p: hunter2\n---\nkind: Pod\nspec: {nodeName: n1}\n"
    assert "hunter2" not in "\n".join(check(pod_next, [ClearNodeName("n1")]))


def test_secrets_are_masked_in_the_lines_around_a_change():
    text = """\
kind: List
items:
- kind: Pod
  metadata:
    annotations:
      kubectl.kubernetes.io/last-applied-configuration: |
        {"password": "s3cret"}
  spec:
    containers:
    - env:
      - {name: A, value: s3cret}
      - name: B
        value: >-
          s3cret
          s3cret
    nodeName: n1
- kind: Secret
  data:
    p: s3cret
"""
    ((item, after),) = proposals(text, [ClearNodeName("n1")])
    diff = "\n".join(shown(item, after))
    assert "-    nodeName: n1" in diff
    assert "@@ -13,7 +13,6 @@" in diff
    assert MASK in diff
    assert "s3cret" not in diff


@pytest.mark.parametrize(
    "text",
    [
        "kind: Pod\nx: &t {nodeName: n1}\nspec: *t\n",
        "kind: Pod\nx: &t\n  nodeName: n1\nspec:\n  <<: *t\n  z: 1\n",
    ],
    ids=["alias", "merge"],
)
def test_what_an_alias_repeats_has_no_diff_of_its_text(text):
    ((item, after),) = proposals(text, [ClearNodeName("n1")])
    after = {
        **json.loads(json.dumps(item.value)),
        "spec": {k: v for k, v in after["spec"].items() if k == "z"},
    }
    assert changed_text(item, after) is None
