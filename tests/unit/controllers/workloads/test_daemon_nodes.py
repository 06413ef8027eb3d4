"""Which node a daemon pod is on or meant for, and whether a node should run one."""

from __future__ import annotations

import pytest

from weir.controllers.runtime.views import Node, Pod
from weir.controllers.workloads.daemon_nodes import (
    ShouldRun,
    daemon_tolerations,
    node_of,
    should_run,
    spec_for,
    template_pod,
)
from weir.gates import ALL_FEATURES
from weir.objects.core import Toleration, read


def meant_for(*fields, bound="", key="required"):
    terms = {"nodeSelectorTerms": [{"matchFields": list(fields)}]} if fields else None
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = {"nodeAffinity": {name: terms}} if terms else {}
    return read(Pod, {"metadata": {"name": "p"}, "spec": {"nodeName": bound, "affinity": affinity}})


def field(operator="In", values=("n1",), key="metadata.name"):
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("pod", "node"),
    [
        (meant_for(field()), "n1"),
        (meant_for(field(), bound="n2"), "n2"),
        (meant_for(), ""),
        (meant_for(field("NotIn")), ""),
        (meant_for(field(key="metadata.namespace")), ""),
        (meant_for(field(values=())), ""),
        (meant_for(field("NotIn", ("n3",)), field()), "n1"),
    ],
)
def test_an_unbound_daemon_pod_belongs_to_the_node_its_affinity_names(pod, node):
    assert node_of(pod) == node


def test_a_pod_made_for_a_node_is_found_again_as_that_nodes():
    made = spec_for({"spec": {"affinity": {"podAffinity": {}}}}, "n7", [])
    assert (node_of(read(Pod, {"spec": made})), made["affinity"]["podAffinity"]) == ("n7", {})


def test_the_templates_own_required_node_affinity_is_replaced_the_preferred_one_kept():
    own = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]},
           "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}  # fmt: skip
    made = spec_for({"spec": {"affinity": {"nodeAffinity": own}}}, "n", [])["affinity"]["nodeAffinity"]
    assert made == {
        **own,
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [field(values=("n",))]}]
        },
    }


def node(*taints, **labels):
    entries = [{"key": "k", "value": "", "effect": effect} for effect in taints]
    return read(Node, {"metadata": {"name": "n", "labels": labels}, "spec": {"taints": entries}})


def template(**spec):
    found = template_pod({"spec": {"template": {"spec": {"containers": [], **spec}}}})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("pod", "there", "answer"),
    [
        (template(), node(), ShouldRun(True, True)),
        (template(nodeName="n"), node(), ShouldRun(True, True)),
        (template(nodeName="other"), node(), ShouldRun(False, False)),
        (template(nodeSelector={"a": "b"}), node(), ShouldRun(False, False)),
        (template(nodeSelector={"a": "b"}), node(a="b"), ShouldRun(True, True)),
        (template(), node("NoSchedule"), ShouldRun(False, True)),
        (template(), node("NoExecute"), ShouldRun(False, False)),
        (template(), node("PreferNoSchedule"), ShouldRun(True, True)),
        (
            template(tolerations=[{"key": "k", "operator": "Exists"}]),
            node("NoExecute"),
            ShouldRun(True, True),
        ),
    ],
)
def test_a_node_runs_daemon_pods_it_selects_and_whose_taints_they_tolerate(pod, there, answer):
    assert should_run(pod, there, ALL_FEATURES) == answer


def test_a_template_that_cannot_be_read_describes_no_pod():
    assert template_pod({"spec": {"template": {"spec": {"tolerations": "all"}}}}) is None


def test_daemons_tolerate_what_a_node_puts_on_itself_the_network_only_on_the_hosts_own():
    keys = [entry.key for entry in daemon_tolerations([], host_network=False)]
    with_network = [entry.key for entry in daemon_tolerations([], host_network=True)]
    assert (len(keys), with_network) == (6, [*keys, "node.kubernetes.io/network-unavailable"])


def test_a_toleration_of_the_template_keeps_its_place_and_loses_its_seconds():
    mine = [
        Toleration("a", "Exists", "", "NoExecute", 5),
        Toleration("node.kubernetes.io/unreachable", "Exists", "", "NoExecute", 30),
    ]
    found = daemon_tolerations(mine, host_network=False)
    assert (len(found), found[0].toleration_seconds, found[1].toleration_seconds) == (7, 5, None)
