"""The chart is the manifests: rendered with the same choices, object by object the same."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest
import yaml

from tests.conftest import NOT_OURS
from weir.cli.main import run
from weir.install.chart import files
from weir.install.manifests import Installation, documents
from weir.output import to_yaml

_PLACE = re.compile(r"\{\{\s*(?:required\s+\"[^\"]*\"\s+)?(\.[\w.]+)\s*\}\}")


def rendered(chart: dict[str, str], namespace: str, **values: object) -> list[dict[str, object]]:
    """Return the objects of a chart, its expressions filled in as Helm fills in fields and `required`."""
    known = {".Release.Namespace": namespace, **{f".Values.{key}": value for key, value in values.items()}}
    found = []
    for name, text in chart.items():
        if name.startswith("templates/") and name.endswith(".yaml"):
            filled = _PLACE.sub(lambda match: str(known[match.group(1)]), text)
            assert "{{" not in filled, name
            found += list(yaml.safe_load_all(filled))
    return found


def key(document: dict[str, object]) -> tuple[str, str]:
    return str(document["kind"]), str(document["metadata"]["name"])  # type: ignore[index]


CALLERS = {"client_ca": "PEM\n", "client_names": ("a", "b"), "api_servers": ("192.0.2.0/24", "2001:db8::/64")}


@pytest.mark.parametrize(
    "namespace, replicas, decided",
    [("weir-system", 2, {}), ("shop", 5, {}), ("shop", 2, {"grace_seconds": 10}), ("shop", 2, CALLERS)],
)
def test_the_chart_renders_to_what_install_prints(namespace, replicas, decided):
    image = "registry.example/weir:1"
    wanted = documents(Installation(namespace, image, replicas=replicas, **decided))
    chart = dict(files("1.2.3", to_yaml, Installation(**decided)))
    found = rendered(chart, namespace, image="registry.example/weir:1", replicas=replicas)
    assert sorted(found, key=key) == sorted((each for each in wanted if each["kind"] != "Namespace"), key=key)


def test_the_values_are_all_used_and_have_defaults():
    chart = dict(files("1.2.3", to_yaml))
    text = "".join(content for name, content in chart.items() if name.startswith("templates/"))
    used = {name for name in _PLACE.findall(text) if name.startswith(".Values.")}
    assert used == {f".Values.{name}" for name in yaml.safe_load(chart["values.yaml"])}
    assert yaml.safe_load(chart["Chart.yaml"])["version"] == "1.2.3"


# ── by Helm itself ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def helm(tmp_path):
    """Return what runs helm on the chart as `weir install -o helm` writes it."""
    program = os.environ.get("HELM") or shutil.which("helm")
    if program is None:
        pytest.skip(f"helm is {NOT_OURS}: install it, or name it with HELM=/path/to/helm")
    chart = tmp_path / "chart"
    assert run(["install", "-o", "helm", "--output-dir", str(chart)]) == 0

    def asked(*words: str) -> subprocess.CompletedProcess[str]:
        home = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        return subprocess.run(
            [program, *words, str(chart)], capture_output=True, text=True, timeout=120, env=home, check=False
        )

    return asked


def test_helm_renders_what_install_prints(helm):
    answer = helm(
        "template",
        "-n",
        "shop",
        "--set",
        "image=registry.example/weir:1,replicas=3",
        "--kube-version=1.30",
        "weir",
    )
    assert answer.returncode == 0, answer.stderr
    found = [each for each in yaml.safe_load_all(answer.stdout) if each]
    wanted = documents(Installation("shop", image="registry.example/weir:1", replicas=3))
    assert sorted(found, key=key) == sorted((each for each in wanted if each["kind"] != "Namespace"), key=key)


def test_helm_finds_nothing_wrong_with_the_chart(helm):
    answer = helm("lint", "--strict", "--set", "image=registry.example/weir:1")
    assert answer.returncode == 0 and "0 chart(s) failed" in answer.stdout, answer.stdout + answer.stderr


def test_helm_asks_for_the_image(helm):
    answer = helm("template", "--kube-version=1.30", "weir")
    assert answer.returncode != 0 and "image is required: --set image=REGISTRY/weir:TAG" in answer.stderr
