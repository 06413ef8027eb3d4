"""What the operator keeps of a pod."""

from __future__ import annotations

import msgspec

from weir.lowering import webhooks
from weir.lowering.admission import Cluster, answer
from weir.lowering.triples import Triple
from weir.operator.views import pod_decoder, version_of

GT = {"key": "sla", "operator": "Gt", "value": "900"}


def lowered(name):
    pod = {
        "metadata": {"name": name, "namespace": "d", "resourceVersion": "12"},
        "spec": {"tolerations": [GT]},
    }
    known = Cluster(known=[Triple("sla", "950", "NoExecute")])
    return msgspec.json.encode(answer(webhooks.POD_PATH, {"object": pod}, known).document)


def test_of_a_plain_pod_only_its_name_is_kept():
    raw = b'{"metadata":{"name":"p","namespace":"d","resourceVersion":"7"},"spec":{"nodeName":"n","tolerations":[{}]}}'
    pod = pod_decoder()(raw)
    assert (pod.metadata.name, pod.version, pod.lowered, pod.node) == ("p", 7, False, "")


def test_pods_with_the_same_tolerations_share_them():
    decode = pod_decoder()
    one, other = decode(lowered("a")), decode(lowered("b"))
    assert one.lowered and one.gated and one.node == ""
    assert one.tolerations is other.tolerations
    assert [entry.get("value") for entry in one.tolerations.entries] == [None, "950"]


def test_a_daemonsets_pod_says_which_node_it_is_for():
    workload = {"metadata": {"name": "s"}, "spec": {"template": {"spec": {"tolerations": [GT]}}}}
    request = {"object": workload, "kind": {"kind": "DaemonSet"}}
    template = answer(webhooks.DAEMONSET_PATH, request, Cluster()).document["spec"]["template"]
    field = {"key": "metadata.name", "operator": "In", "values": ["n7"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    spec = {
        **template["spec"],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
    }
    pod = pod_decoder()(
        msgspec.json.encode({"metadata": {**template["metadata"], "name": "p"}, "spec": spec})
    )
    assert pod.label and (pod.target, pod.node) == ("n7", "")


def test_the_sentinels_address_is_read_and_no_other():
    raw = b'{"metadata":{"name":"s","namespace":"w"},"status":{"podIP":"10.0.0.1"}}'
    assert pod_decoder(("w", "s"))(raw).address == "10.0.0.1"
    assert pod_decoder()(raw).address == ""


def test_versions_are_numbers():
    assert (version_of("12"), version_of(""), version_of("x")) == (12, 0, 0)
