"""An admission configuration is read as Kubernetes writes it; what is wrong is said in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from weir.apiserver.admission.chain import Chain, PluginError, Settings
from weir.apiserver.admission.configuration import read_event_limits
from weir.apiserver.admission.event_rate_limit import CACHE_SIZE, Limit

LIMITS = {
    "kind": "Configuration",
    "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1",
    "limits": [
        {"type": "Server", "qps": 5, "burst": 9},
        {"type": "User", "qps": 1, "burst": 2, "cacheSize": 7},
    ],
}
READ = (Limit("Server", 5, 9, CACHE_SIZE), Limit("User", 1, 2, 7))


def written(folder: Path, *plugins: object, **rest: object) -> Path:
    path = folder / "admission.yaml"
    whole = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": list(plugins),
        **rest,
    }
    path.write_text(yaml.safe_dump(whole))
    return path


def test_beside_it_or_in_a_file_of_its_own(tmp_path):
    assert read_event_limits(written(tmp_path, {"name": "EventRateLimit", "configuration": LIMITS})) == READ
    (tmp_path / "events.yaml").write_text(yaml.safe_dump(LIMITS))
    assert read_event_limits(written(tmp_path, {"name": "EventRateLimit", "path": "events.yaml"})) == READ
    assert read_event_limits(written(tmp_path)) == ()


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ([], "limits: Invalid value: null: must not be empty"),
        (
            [{"type": "Weather", "qps": 1, "burst": 1}],
            'type: Unsupported value: "Weather": supported values: "Server"',
        ),
        ([{"type": "User", "qps": 0, "burst": 1}], "limits[0].qps: Invalid value: 0: must be positive"),
        ([{"type": "User", "qps": 1}], "limits[0].burst: Invalid value: 0: must be positive"),
        (
            [{"type": "User", "qps": 1, "burst": 1, "cacheSize": -1}],
            "cacheSize: Invalid value: -1: must not be negative",
        ),
        ([{"type": "User", "qps": "x", "burst": 1}], "limits[0].qps: expected an integer"),
        ([{"type": "User", "qps": 1, "burst": 1, "each": 1}], 'limits[0]: unknown field "each"'),
        (["User"], "limits[0]: expected a mapping"),
    ],
)
def test_limits_that_make_no_sense(tmp_path, limits, expected):
    path = written(tmp_path, {"name": "EventRateLimit", "configuration": {**LIMITS, "limits": limits}})
    with pytest.raises(PluginError) as found:
        read_event_limits(path)
    assert expected in str(found.value) and "\n" not in str(found.value) and str(path) in str(found.value)


@pytest.mark.parametrize(
    "text",
    ["", "[", "- a", "kind: Pod", "{apiVersion: apiserver.config.k8s.io/v1, kind: AdmissionConfiguration}"],
)
def test_files_that_are_something_else(tmp_path, text):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(PluginError) as found:
        read_event_limits(path)
    assert "\n" not in str(found.value)


def test_a_plugin_that_takes_none_and_a_file_that_is_not_there(tmp_path):
    with pytest.raises(PluginError, match='of EventRateLimit only, not of "PodSecurity"'):
        read_event_limits(written(tmp_path, {"name": "PodSecurity", "path": "x"}))
    with pytest.raises(PluginError, match="No such file or directory"):
        read_event_limits(written(tmp_path, {"name": "EventRateLimit", "path": "gone.yaml"}))


def test_the_plugin_does_not_run_without_limits():
    with pytest.raises(PluginError, match="EventRateLimit has no limits"):
        Settings(enable=["EventRateLimit"]).enabled()
    settings = Settings(enable=["EventRateLimit"], event_limits=READ)
    assert "EventRateLimit" in settings.enabled()
    assert any(plugin.name == "EventRateLimit" for plugin in Chain.build(None, settings).plugins)  # type: ignore[arg-type]
    assert "EventRateLimit" not in Settings(event_limits=READ).enabled()
