"""`weir node`: simulated nodes come, fail, recover and go; nodes that are not simulated are left alone."""

from __future__ import annotations

import io

import pytest

from tests.unit.cli.test_device_drain import Lent
from weir.cli.main import run
from weir.exit_codes import FINDINGS, FINE, USAGE
from weir.simulation.cluster import Cluster

REAL = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "prod-1", "labels": {"pool": "spot"}}}


@pytest.fixture
def cluster(monkeypatch):
    with Cluster() as cluster:
        cluster.add_nodes(2, name="spot", labels={"pool": "spot"})
        cluster.create(REAL)
        monkeypatch.setattr("weir.client.http.connect", lambda *_, **__: Lent(cluster))
        monkeypatch.setattr("asyncio.run", cluster._do)
        yield cluster


def names(cluster):
    return sorted(node["metadata"]["name"] for node in cluster.list("Node"))


def off(cluster):
    nodes = cluster.list("Node")
    return sorted(
        n["metadata"]["name"] for n in nodes if "weir.dev/failed" in n["metadata"].get("annotations", {})
    )


@pytest.mark.parametrize("verb, more", [("fail", []), ("recover", []), ("remove", ["--yes"])])
def test_a_node_that_is_not_simulated_is_left_alone_and_all_others_with_it(cluster, capsys, verb, more):
    assert run(["node", verb, "spot-0", "prod-1", *more]) == FINDINGS
    said = capsys.readouterr()
    assert "node prod-1 is not simulated" in said.err and "https://cluster.test:6443" in said.err
    assert (names(cluster), off(cluster), said.out) == (["prod-1", "spot-0", "spot-1"], [], "")


def test_labels_select_simulated_nodes_only(cluster):
    assert run(["node", "fail", "-l", "pool=spot"]) == FINE
    assert off(cluster) == ["spot-0", "spot-1"]
    assert run(["node", "recover", "-l", "pool=spot"]) == FINE
    assert off(cluster) == []


def test_without_a_terminal_nothing_is_removed_unless_yes_is_said(cluster, capsys):
    assert run(["node", "remove", "spot-0"]) == USAGE
    assert "add --yes" in capsys.readouterr().err and len(names(cluster)) == 3
    assert run(["node", "remove", "spot-0", "--yes"]) == FINE
    assert names(cluster) == ["prod-1", "spot-1"]


@pytest.mark.parametrize("answer, left", [("y", 1), ("n", 3)])
def test_the_question_names_nodes_and_cluster(cluster, capsys, monkeypatch, answer, left):
    monkeypatch.setattr("weir.cli._confirm.check_askable", lambda yes: None)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{answer}\n"))
    run(["node", "remove", "-l", "pool=spot"])
    asked = "remove 2 nodes (spot-0, spot-1) in context test (https://cluster.test:6443)? [y/N]"
    assert asked in capsys.readouterr().err and len(names(cluster)) == left


@pytest.mark.parametrize("words", [[], ["spot-0", "-l", "pool=spot"]])
def test_names_or_labels_one_of_them(cluster, capsys, words):
    assert run(["node", "fail", *words]) == USAGE
    assert "their names, or -l" in capsys.readouterr().err


def test_labels_that_no_simulated_node_has_are_an_error(cluster, capsys):
    assert run(["node", "fail", "-l", "pool=none"]) == FINDINGS
    assert "no simulated node has the labels pool=none" in capsys.readouterr().err


def test_many_nodes_take_the_free_names(cluster, capsys):
    assert run(["node", "add", "--count", "120", "--class", "spot"]) == FINE
    assert capsys.readouterr().out == "120 nodes added: spot-2 … spot-121\n"
    assert len(names(cluster)) == 123


def test_a_name_that_is_taken_is_an_error(cluster, capsys):
    assert run(["node", "add", "--name", "spot-0"]) == FINDINGS
    assert 'nodes "spot-0" already exists' in capsys.readouterr().err
