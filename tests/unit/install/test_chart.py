"""The chart is the manifests: rendered with the same choices, object by object the same."""

from __future__ import annotations

import re

import pytest
import yaml

from weir.cli.render import to_yaml
from weir.install.chart import files
from weir.install.manifests import Installation, documents

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


@pytest.mark.parametrize("namespace, replicas", [("weir-system", 2), ("shop", 5)])
def test_the_chart_renders_to_what_install_prints(namespace, replicas):
    wanted = documents(Installation(namespace, image="registry.example/weir:1", replicas=replicas))
    chart = dict(files("1.2.3", to_yaml))
    found = rendered(chart, namespace, image="registry.example/weir:1", replicas=replicas)
    assert sorted(found, key=key) == sorted((each for each in wanted if each["kind"] != "Namespace"), key=key)


def test_the_values_are_all_used_and_have_defaults():
    chart = dict(files("1.2.3", to_yaml))
    text = "".join(content for name, content in chart.items() if name.startswith("templates/"))
    used = {name for name in _PLACE.findall(text) if name.startswith(".Values.")}
    assert used == {f".Values.{name}" for name in yaml.safe_load(chart["values.yaml"])}
    assert yaml.safe_load(chart["Chart.yaml"])["version"] == "1.2.3"
