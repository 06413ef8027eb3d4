"""Everything that `weir install` prints is taken by an API server, as it is and again, and asks for nothing more."""

from __future__ import annotations

import pytest
import yaml

from tests.stock.virtual import StockCluster
from weir.gates import KUBERNETES_DEFAULTS
from weir.install.manifests import (
    CLIENT_AUTHORITIES,
    Installation,
    InstallError,
    documents,
    foundation,
    written,
)
from weir.install.removal import removal_order
from weir.install.rights import CERTIFICATES, RIGHTS
from weir.lowering.names import NAMESPACE, OPERATOR, SENTINEL
from weir.output import to_yaml
from weir.simulation.cluster import Cluster

IN_CLUSTER = Installation(image="registry.example/weir:1")
OUTSIDE = Installation("elsewhere", url="https://192.0.2.7:9443")


@pytest.mark.parametrize("installation", [IN_CLUSTER, OUTSIDE], ids=["image", "url"])
def test_an_api_server_takes_them_and_applying_again_changes_nothing(installation):
    with Cluster(nodes=0, gates=KUBERNETES_DEFAULTS) as cluster:
        first = cluster.apply(*documents(installation))
        cluster.patch("Secret", CERTIFICATES, {"data": {"ca.crt": "AAAA"}}, installation.namespace)
        second = cluster.apply(*documents(installation))
        moved = {
            one["kind"]
            for one, two in zip(first, second, strict=True)
            if one["kind"] != "Secret"
            and {**one, "metadata": 0, "status": 0} != {**two, "metadata": 0, "status": 0}
        }
        assert moved == set()
        secret = cluster.get("Secret", CERTIFICATES, installation.namespace)
        assert secret is not None and secret["data"] == {"ca.crt": "AAAA"}
        sentinel = cluster.get("Pod", SENTINEL, installation.namespace)
        assert sentinel is not None and "nodeName" not in sentinel["spec"]


def test_a_sentinel_that_the_operator_made_again_is_the_one_of_the_installation():
    with StockCluster() as cluster:
        cluster.delete("Pod", SENTINEL, NAMESPACE)
        cluster._do(cluster.operators[0].sentinel.ensure())
        made = cluster.get("Pod", SENTINEL, NAMESPACE)
        cluster.apply(*foundation(Installation(url="https://192.0.2.7:9443")))
        applied = cluster.get("Pod", SENTINEL, NAMESPACE)
        assert made is not None and applied is not None and made["spec"] == applied["spec"]


def test_a_sentinel_is_made_in_a_namespace_without_the_account_too():
    with StockCluster() as cluster:
        cluster.delete("ServiceAccount", OPERATOR, NAMESPACE)
        cluster.delete("Pod", SENTINEL, NAMESPACE)
        cluster._do(cluster.operators[0].sentinel.ensure())
        made = cluster.get("Pod", SENTINEL, NAMESPACE)
        assert made is not None and made["spec"]["serviceAccountName"] == "default"


@pytest.mark.parametrize("installation", [IN_CLUSTER, OUTSIDE], ids=["image", "url"])
def test_no_object_has_a_field_that_its_kind_does_not_have(installation):
    from weir import validate as strictly

    assert [strictly(document) for document in documents(installation)] == [[]] * len(documents(installation))


def test_what_is_printed_reads_back_and_names_a_reason_for_every_right():
    text = "---\n".join(written(each, to_yaml) + "\n" for each in documents(IN_CLUSTER))
    assert list(yaml.safe_load_all(text)) == documents(IN_CLUSTER)
    assert [right.why for right in RIGHTS if f"# {right.why}\n" not in text] == []


def test_no_key_and_no_bundle_is_printed():
    text = to_yaml(documents(IN_CLUSTER))
    assert "caBundle" not in text and "PRIVATE" not in text
    assert not any("data" in each for each in documents(IN_CLUSTER))


def test_rights_are_the_least():
    wide = [right for right in RIGHTS if "*" in (*right.verbs, *right.resources, right.group)]
    assert wide == []
    secrets = [right for right in RIGHTS if "secrets" in right.resources]
    assert [(each.names, each.own) for each in secrets] == [((CERTIFICATES,), True)]
    assert not any(
        {"create", "delete", "deletecollection", "update"} & set(right.verbs)
        for right in RIGHTS
        if not right.own and right.resources != ("events",)
    )
    assert not any("delete" in verb for right in RIGHTS for verb in right.verbs)


def test_who_runs_it_and_what_it_may_are_the_same_account():
    found = {(each["kind"], each["metadata"]["name"]): each for each in documents(IN_CLUSTER)}
    account = found["Deployment", OPERATOR]["spec"]["template"]["spec"]["serviceAccountName"]
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        assert found[kind, OPERATOR]["subjects"] == [
            {"kind": "ServiceAccount", "name": account, "namespace": "weir-system"}
        ]
    own = f'request.userInfo.username != "system:serviceaccount:weir-system:{account}"'
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        (hooks,) = (each["webhooks"] for key, each in found.items() if key[0] == kind)
        assert all(own in [one["expression"] for one in hook["matchConditions"]] for hook in hooks)


def test_the_service_leads_to_the_port_of_the_hooks():
    found = {each["kind"]: each for each in documents(IN_CLUSTER) if each["metadata"]["name"] == OPERATOR}
    container = found["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    (port,) = found["Service"]["spec"]["ports"]
    assert port["targetPort"] in [each["containerPort"] for each in container["ports"]]
    assert f"--secure-port={port['targetPort']}" in container["args"]
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for selector in (
        found["Service"]["spec"]["selector"],
        found["Deployment"]["spec"]["selector"]["matchLabels"],
        found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()


@pytest.mark.parametrize(
    "seconds, said", [(None, []), (0, ["--grace-seconds=0"]), (10, ["--grace-seconds=10"])]
)
def test_the_operator_is_told_of_the_grace_that_somebody_decided(seconds, said):
    from weir.cli.operator import operator

    installation = Installation(image="i", grace_seconds=seconds)
    (deployment,) = (each for each in documents(installation) if each["kind"] == "Deployment")
    words = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [word for word in words if "grace" in word] == said
    read = operator.make_context("operator", words[1:])
    assert read.params["grace_seconds"] == seconds


def test_the_network_policy_opens_two_ports_and_that_of_the_hooks_to_the_api_servers_that_are_named():
    def ingress(**more):
        found = [
            each for each in documents(Installation(image="i", **more)) if each["kind"] == "NetworkPolicy"
        ]
        (policy,) = found
        (deployment,) = (each for each in documents(IN_CLUSTER) if each["kind"] == "Deployment")
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
        return policy["spec"]["ingress"]

    assert [rule["ports"][0]["port"] for rule in ingress()] == [9443, 9090]
    assert all("from" not in rule for rule in ingress()), "nothing matches the host network of API servers"
    hooks, metrics = ingress(api_servers=("192.0.2.0/28", "2001:db8::/64"))
    assert hooks["from"] == [{"ipBlock": {"cidr": "192.0.2.0/28"}}, {"ipBlock": {"cidr": "2001:db8::/64"}}]
    assert "from" not in metrics


def test_the_operator_is_told_whose_certificates_count():
    installation = Installation(image="i", client_ca="PEM", client_names=("kube-apiserver",))
    found = {(each["kind"], each["metadata"]["name"]): each for each in documents(installation)}
    assert found["ConfigMap", CLIENT_AUTHORITIES]["data"] == {"ca.crt": "PEM"}
    pod = found["Deployment", OPERATOR]["spec"]["template"]
    words = pod["spec"]["containers"][0]["args"]
    assert "--client-ca-file=/etc/weir/client-ca/ca.crt" in words and "--client-name=kube-apiserver" in words
    assert pod["spec"]["volumes"][-1]["configMap"]["name"] == CLIENT_AUTHORITIES
    other = Installation(image="i", client_ca="OTHER")
    (changed,) = (each for each in documents(other) if each["kind"] == "Deployment")
    assert changed["spec"]["template"]["metadata"] != pod["metadata"], "another authority makes other pods"
    assert ("ConfigMap", CLIENT_AUTHORITIES) in [
        (each["kind"], each["metadata"]["name"]) for each in removal_order("weir-system")
    ]


def test_outside_nothing_runs_in_the_cluster():
    kinds = [each["kind"] for each in documents(OUTSIDE)]
    assert "Deployment" not in kinds and kinds.count("Service") == 1


@pytest.mark.parametrize(
    "wrong, says",
    [
        (Installation(), "say where the operator runs"),
        (Installation(image="i", url="https://h"), "say where the operator runs"),
        (Installation(url="http://h:1"), "only https"),
        (Installation(url="https://"), "write it like"),
        (Installation(url="https://h:port"), "write it like"),
        (Installation(url="https://u@h"), "no user"),
        (Installation(url="https://h?x=1"), "no user, no query"),
        (
            Installation(url="https://h", grace_seconds=5),
            r"weir operator --url https://h --bind-address 0\.0\.0\.0 --grace-seconds=5",
        ),
        (Installation("Weir_System", image="i"), "cannot be the name of a namespace"),
        (Installation(url="https://h/hooks"), "its path is the operator's"),
        (Installation(image="i", client_names=("a",)), "--client-name needs --client-ca-file"),
        (Installation(image="i", api_servers=("10.0.0.1/8",)), "--api-server-cidr 10.0.0.1/8: "),
        (Installation(url="https://h", client_ca="x"), "are for the operator in the cluster"),
    ],
)
def test_what_cannot_be_installed_is_said_in_one_line(wrong, says):
    with pytest.raises(InstallError, match=says) as caught:
        wrong.check()
    assert "\n" not in str(caught.value)
