"""Claims about weir.apiserver.auth.kubeconfig: embedded, private, and nobody else's entries are touched."""

import base64
import stat

import pytest
import yaml

from weir.apiserver.auth.kubeconfig import Access, KubeconfigError, document, merge, write

HERE = document(Access("https://127.0.0.1:6443", b"CA", b"CERT", b"KEY"))


def test_certificates_are_embedded():
    user = HERE["users"][0]["user"]
    assert base64.b64decode(user["client-key-data"]) == b"KEY"


def test_the_file_is_private(tmp_path):
    write(tmp_path / "config", HERE)
    assert stat.S_IMODE((tmp_path / "config").stat().st_mode) == 0o600


def test_an_existing_file_becomes_private_too(tmp_path):
    (tmp_path / "config").write_text("kind: Config\n")
    (tmp_path / "config").chmod(0o644)
    write(tmp_path / "config", HERE)
    assert stat.S_IMODE((tmp_path / "config").stat().st_mode) == 0o600


def test_other_clusters_stay_and_the_same_name_is_replaced():
    other = document(Access("https://other", token="t"), "other", "them")
    stale = document(Access("https://old", token="t"))
    merged = merge(merge(other, stale), HERE)
    assert {c["name"]: c["cluster"]["server"] for c in merged["clusters"]} == {
        "other": "https://other",
        "weir": "https://127.0.0.1:6443",
    }


def test_the_current_context_can_be_left_alone(tmp_path):
    path = tmp_path / "config"
    write(path, document(Access("https://other"), "other", "them"))
    write(path, HERE, take_current=False)
    assert yaml.safe_load(path.read_text())["current-context"] == "other"


def test_a_file_that_is_no_kubeconfig_is_not_overwritten(tmp_path):
    path = tmp_path / "config"
    path.write_text("just: [broken")
    with pytest.raises(KubeconfigError, match="not overwritten"):
        write(path, HERE)
    assert path.read_text() == "just: [broken"
