"""Commands under test have a kubeconfig of their own: never that of the person who runs the tests."""

from __future__ import annotations

import pytest
import yaml


@pytest.fixture(autouse=True)
def kubeconfig(tmp_path_factory, monkeypatch):
    path = tmp_path_factory.mktemp("home") / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": "https://cluster.test:6443"}}],
    }
    path.write_text(yaml.safe_dump(document))
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path
