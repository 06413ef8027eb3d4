"""A simulated cluster as programs outside of its process see it."""

from __future__ import annotations

import json
import stat
import threading
import urllib.error
import urllib.request

import pytest
import yaml

from weir.simulation.cluster import Cluster
from weir.simulation.cluster_lifecycle import ClusterClosed

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "from-outside"}}


@pytest.fixture(scope="module")
def cluster():
    with Cluster(nodes=1) as cluster:
        yield cluster


def ask(cluster, method, path, body=None, token=None):
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    token = config["users"][0]["user"]["token"] if token is None else token
    request = urllib.request.Request(
        config["clusters"][0]["cluster"]["server"] + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    return urllib.request.urlopen(request, timeout=60)


def test_a_program_outside_writes_what_the_cluster_has(cluster):
    with ask(cluster, "POST", "/api/v1/namespaces/default/configmaps", CONFIG_MAP) as answer:
        assert answer.status == 201
    assert cluster.get("ConfigMap", "from-outside") is not None


def test_only_the_holder_of_the_kubeconfig_comes_in(cluster):
    assert stat.S_IMODE(cluster.kubeconfig.stat().st_mode) == 0o600
    assert cluster.address.startswith("http://127.0.0.1:")
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(cluster, "GET", "/api/v1/pods", token="guessed")
    assert refused.value.code == 401


def test_components_react_to_programs_outside_and_later_things_wait_for_time(cluster):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    ask(cluster, "POST", "/api/v1/namespaces/default/pods", pod).close()
    started = cluster.wait_for(lambda: cluster.get("Pod", "web")["status"].get("phase") == "Running")
    assert started
    before = cluster.now
    ask(cluster, "GET", "/api/v1/pods").close()
    assert cluster.now == before


def test_who_watches_is_told_what_the_test_does(cluster):
    watch = ask(cluster, "GET", "/api/v1/namespaces/default/secrets?watch=true&resourceVersion=0")
    told = []
    reader = threading.Thread(target=lambda: told.append(json.loads(watch.readline())))
    reader.start()
    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "told"}})
    reader.join(60)
    watch.close()
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in told] == [("ADDED", "told")]


def test_the_address_and_the_token_outlive_an_upgrade():
    with Cluster() as cluster:
        address, kubeconfig = cluster.address, cluster.kubeconfig.read_text()
        cluster.set_gates("TaintTolerationComparisonOperators=false")
        assert (cluster.address, cluster.kubeconfig.read_text()) == (address, kubeconfig)
        with ask(cluster, "GET", "/api/v1/namespaces/default") as answer:
            assert json.loads(answer.read())["metadata"]["name"] == "default"
    with pytest.raises(ClusterClosed):
        _ = cluster.address


def test_the_end_of_a_cluster_closes_its_door_whoever_watches():
    with Cluster() as cluster:
        watch = ask(cluster, "GET", "/api/v1/namespaces/default/secrets?watch=true")
        kubeconfig = cluster.kubeconfig
        address = cluster.address
    assert watch.read() == b""
    assert not kubeconfig.exists()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=60)


def test_what_does_not_happen_in_time_is_told_with_the_last_answer(cluster):
    with pytest.raises(TimeoutError, match=r"not so within 0\.05 s; the last answer was \[\]"):
        cluster.wait_for(lambda: cluster.list("Lease", "nowhere"), within=0.05)
