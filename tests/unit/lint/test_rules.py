"""Each rule finds what it is for, at its place, and leaves its neighbours alone."""

import pytest

from weir.gates import (
    ALL_FEATURES,
    KUBERNETES_DEFAULTS,
    SEMVER_COMPARISON,
    TOLERATION_CEL,
    TOLERATION_COMPARISON,
)
from weir.lint.check import UnknownRule, choose, lint
from weir.lint.rule import Severity
from weir.lint.rules import RULES
from weir.objects.manifest import read_manifest

NODES = """\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1, labels: {kernel: 5.15.0-78-generic}}, spec: {taints: [
    {key: sla, value: "950", effect: NoExecute}, {key: kernel, value: 5.15.0-78-generic, effect: NoSchedule}]}}
- {apiVersion: v1, kind: Node, metadata: {name: n2, labels: {runtime: containerd-2.1.4}}, spec: {taints: [
    {key: sla, value: "800", effect: NoExecute}, {key: tier, value: high, effect: NoSchedule},
    {key: runtime, value: containerd-2.1.4, effect: NoSchedule}]}}
"""


def pod(*tolerations, kind="Pod", extra=""):
    entries = "".join(f"\n  - {entry}" for entry in tolerations)
    spec = f"spec:\n  containers: [{{name: c, image: i}}]\n  tolerations:{entries or ' []'}{extra}\n"
    if kind == "Pod":
        return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\n{spec}"
    indented = "".join(f"    {line}\n" for line in spec.splitlines())
    return (
        f"apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: w}}\nspec:\n  selector: {{matchLabels: {{a: b}}}}\n"
        f"  template:\n    metadata: {{labels: {{a: b}}}}\n{indented}"
    )


def node(*taints):
    return f"apiVersion: v1\nkind: Node\nmetadata: {{name: n}}\nspec: {{taints: [{', '.join(taints)}]}}"


def codes(text, nodes="", gates=ALL_FEATURES):
    found = lint(read_manifest(text, "f.yaml"), gates, known=read_manifest(nodes, "nodes.yaml"))
    return [finding.rule.code for finding in found if finding.severity.fails]


FINDS = [
    ("W001", pod('{key: sla, operator: Gt, value: "0950"}'), ""),
    ("W002", pod("{key: sla, key: gpu, operator: Exists}"), ""),
    ("W003", pod('{key: tier, operator: Gt, value: "5"}'), NODES),
    ("W004", pod('{key: runtime, operator: SemverGt, value: "2.0.0"}'), NODES),
    ("W005", pod('{key: sla, operator: Gt, value: "950", effect: NoExecute}'), NODES),
    ("W006", pod("{key: slq, operator: Exists}"), NODES),
    ("W006", pod("{key: sla, operator: Exists, effect: NoSchedule}"), NODES),
    ("W007", pod("{key: sla, operator: Exists}", '{key: sla, operator: Gt, value: "5"}'), ""),
    ("W007", pod('{key: sla, operator: Gt, value: "900"}', '{key: sla, operator: Gt, value: "5"}'), ""),
    ("W008", pod('{key: kernel, operator: SemverGt, value: "5.15.0"}'), NODES),
    ("W009", pod('{key: sla, operator: Lt, value: "5", effect: NoExecute, tolerationSeconds: 30}'), ""),
    ("W010", pod("{}"), ""),
    ("W011", pod("{operator: Exists}"), ""),
    ("W012", pod('{key: sla, operator: Equal, value: "0950"}'), NODES),
    ("W012", pod('{key: sla, operator: Gt, value: "9223372036854775808"}'), ""),
    ("W013", node("{key: a, value: '0950', effect: NoSchedule}"), ""),
    ("W016", pod(*[f"{{key: k{number}, operator: Exists}}" for number in range(501)]), ""),
    ("W020", pod('{expression: "lists.range(400).all(x, lists.range(400).all(y, x >= 0))"}'), ""),
    ("W021", pod('{expression: "1 < 2"}'), ""),
    ("W021", pod("{expression: \"taint.effect == 'Never'\"}"), ""),
    ("W022", pod("{expression: \"semver(taint.value).isGreaterThan(semver('5.15.0'))\"}"), NODES),
    ("W023", pod("{expression: \"taint.key == 'sla'\"}"), NODES),
    ("W013", node("{key: a, value: V1.2.3, effect: NoSchedule}"), ""),
    ("W021", pod('{operator: CEL, value: "1 < 2"}'), ""),
    ("W022", pod("{operator: CEL, value: \"semver(taint.value).isGreaterThan(semver('5.15.0'))\"}"), NODES),
    ("W041", pod("{key: lowered.weir.dev/x-1, operator: Exists}"), ""),
    ("W041", pod(extra="\n  schedulingGates: [{name: lowered.weir.dev/pending}]"), ""),
    ("W041", pod(kind="Deployment", extra="\n  nodeSelector: {lowered.weir.dev/a-1: 'true'}"), ""),
]  # fmt: skip


@pytest.mark.parametrize("code, text, nodes", FINDS, ids=[f"{c}-{i}" for i, (c, _, _) in enumerate(FINDS)])
def test_a_rule_finds_what_it_is_for(code, text, nodes):
    assert code in codes(text, nodes)


CLEAN = [
    pod('{key: sla, operator: Equal, value: "800", effect: NoExecute}', '{key: sla, operator: Gt, value: "900"}'),
    pod('{key: sla, operator: Gt, value: "900", effect: NoExecute}'),
    pod('{key: sla, operator: Gt, value: "949"}', '{key: tier, operator: Equal, value: high}'),
    pod("{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}"),
    pod('{key: kernel, operator: SemverGt, value: "5.14.99"}'),
    pod("{expression: \"taint.key == 'tier' && taint.effect == 'NoSchedule'\"}"),
    # the first entry's seconds decide, so the second is not useless
    pod(
        '{key: sla, operator: Gt, value: "900", effect: NoExecute}',
        "{key: sla, operator: Exists, effect: NoExecute, tolerationSeconds: 60}",
    ),
]  # fmt: skip


@pytest.mark.parametrize("text", CLEAN, ids=range(len(CLEAN)))
def test_good_manifests_are_left_alone(text):
    assert codes(text, NODES) == []


def test_a_daemonset_that_tolerates_everything_is_only_noted():
    assert codes(pod("{operator: Exists}", kind="DaemonSet")) == []


@pytest.mark.proves("5721-48", "5500-121")
@pytest.mark.parametrize(
    "entry, gate",
    [
        ('{key: sla, operator: Gt, value: "5"}', TOLERATION_COMPARISON),
        ('{key: driver, operator: SemverGt, value: "1.2.3"}', SEMVER_COMPARISON),
        ("{expression: \"taint.key == 'sla'\"}", TOLERATION_CEL),
    ],
)
def test_with_the_gate_off_the_workload_that_would_loop_is_named(entry, gate):
    deployment = pod(entry, kind="Deployment")
    findings = lint(read_manifest(deployment), ALL_FEATURES.replace({gate: False}))
    (message,) = [found.message for found in findings if found.rule.code == "W014"]
    assert "Deployment w would loop" in message


def test_with_the_gate_on_the_same_workload_is_a_note():
    deployment = pod('{key: sla, operator: Gt, value: "5"}', kind="Deployment")
    findings = [f for f in lint(read_manifest(deployment), ALL_FEATURES) if f.rule.code == "W014"]
    assert [found.severity for found in findings] == [Severity.NOTE]


def test_a_finding_stands_at_its_value():
    (finding,) = [
        found
        for found in lint(
            read_manifest(pod('{key: sla, operator: Gt, value: "0950"}'), "pod.yaml"), ALL_FEATURES
        )
        if found.rule.code == "W001"
    ]
    assert (finding.file, finding.line, finding.source[finding.column - 1 :][: finding.width]) == (
        "pod.yaml",
        7,
        '"0950"',
    )


@pytest.mark.parametrize(
    "comment, kept",
    [("# weir: ignore=W011", False), ("# weir: ignore", False), ("# weir: ignore=W001", True),
     ("# weir: ignore=tolerates-everything, W003", False), ("# ignore=W011", True)],
)  # fmt: skip
def test_a_comment_switches_a_rule_off_where_it_stands(comment, kept):
    assert ("W011" in codes(pod(f"{{operator: Exists}} {comment}"))) == kept


def test_a_comment_on_the_line_above_counts_too():
    assert codes(pod("{operator: Exists}").replace("  - {", "  # weir: ignore=W011\n  - {")) == []


def test_rules_are_chosen_by_code_or_name():
    assert [rule.code for rule in choose(["W003,shadowed"], ["w003"])] == ["W007"]


def test_an_unknown_rule_is_refused_with_the_known_ones():
    with pytest.raises(UnknownRule, match=r"unknown rule 'W999'; the rules are W000 \(unreadable\)"):
        choose(["W999"], [])


def test_codes_and_names_are_unique_and_every_rule_helps():
    assert len({rule.code for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)
    assert all(len(rule.help) > 100 and rule.summary.endswith(".") for rule in RULES)


def test_with_all_gates_off_nothing_new_is_accepted():
    assert "W001" in codes(pod('{key: sla, operator: Gt, value: "5"}'), gates=KUBERNETES_DEFAULTS)


# ── clusters that weir's operator extends ────────────────────────────────────────────────────────


def stock_findings(text):
    return [
        each
        for each in lint(read_manifest(text, "f.yaml"), ALL_FEATURES, stock=True)
        if each.rule.code > "W04"
    ]


@pytest.mark.parametrize(
    "entry, says",
    [
        ("{key: sla, operator: Exists, expression: 'true'}", "tolerates every taint with the key sla"),
        ("{operator: Exists, expression: 'true'}", "is Exists and tolerates every taint"),
        ("{expression: 'true'}", "an empty toleration"),
        ("{key: sla, value: a, expression: 'true'}", "tolerates sla whatever"),
    ],
)
def test_on_a_stock_cluster_the_field_expression_is_an_error_that_names_the_other_spelling(entry, says):
    (found,) = stock_findings(pod(entry))
    assert found.rule.code == "W040" and found.severity is Severity.ERROR and says in found.message
    assert found.fix == 'write {operator: CEL, value: "true"}'
    assert not [each for each in lint(read_manifest(pod(entry)), ALL_FEATURES) if each.rule.code == "W040"]


def test_the_stock_spelling_is_judged_as_an_expression_at_its_own_place():
    assert codes(pod("{operator: CEL, value: \"taint.key == 'sla' && taint.value == 'x'\"}")) == []
    found = lint(
        read_manifest(pod('{operator: CEL, value: "taint.nothing"}'), "f.yaml"), ALL_FEATURES, stock=True
    )
    (refused,) = [each for each in found if each.severity is Severity.ERROR]
    assert (
        refused.field == "spec.tolerations[0].value"
        and "spec.tolerations[0].value: Invalid" in refused.message
    )
    assert refused.source[refused.column - 1 :].startswith('"taint.nothing"')
    assert "W001" in codes(pod("{key: a, operator: CEL, value: 'true'}")), "a key beside an expression"
    assert "W001" in codes(pod("{operator: CEL}")), "no expression at all"


def test_a_pod_on_its_node_cannot_be_held_on_a_stock_cluster():
    gt = '{key: sla, operator: Gt, value: "5"}'
    assert [each.rule.code for each in stock_findings(pod(gt, extra="\n  nodeName: n1"))] == ["W042"]
    assert stock_findings(pod("{key: sla, operator: Exists}", extra="\n  nodeName: n1")) == []
    assert stock_findings(pod(gt)) == []


@pytest.mark.parametrize("kind", ["DaemonSet", "Deployment"])
def test_an_expression_in_a_workload_is_fine_on_a_stock_cluster(kind):
    assert stock_findings(pod("{operator: CEL, value: \"taint.key == 'a'\"}", kind=kind)) == []
