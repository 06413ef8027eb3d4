"""`weir install` prints manifests for kubectl, writes a chart, and says in one line what is missing."""

from __future__ import annotations

import json

import pytest
import yaml

from weir.cli.main import run


def test_it_prints_manifests_for_kubectl(capsys):
    assert run(["install", "--image", "registry.example/weir:1", "-n", "shop"]) == 0
    found = list(yaml.safe_load_all(capsys.readouterr().out))
    assert {each["metadata"].get("namespace") for each in found} == {None, "shop"}
    assert "Deployment" in [each["kind"] for each in found]


def test_json_is_one_list(capsys):
    assert run(["install", "--url", "https://192.0.2.7:9443", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kind"] == "List" and found["items"][-1]["kind"] == "ValidatingWebhookConfiguration"


def test_a_chart_is_written_into_a_folder(tmp_path, capsys):
    assert run(["install", "-o", "helm", "--output-dir", str(tmp_path / "chart")]) == 0
    assert (tmp_path / "chart" / "templates" / "webhooks.yaml").exists()
    assert "helm install weir" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, says",
    [
        ([], "--image IMAGE"),
        (["--image", "i", "--url", "https://h"], "--image IMAGE"),
        (["--url", "ftp://h"], "only https"),
        (["-o", "helm"], "--output-dir"),
        (["-o", "helm", "--output-dir", "x", "--image", "i"], "--set image"),
        (["--image", "i", "--output-dir", "x"], "standard output"),
        (["--image", "i", "-n", "A B"], "namespace"),
        (["--image", "i", "--replicas", "0"], "--replicas"),
    ],
)
def test_wrong_use_is_one_line(words, says, capsys):
    assert run(["install", *words]) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1
