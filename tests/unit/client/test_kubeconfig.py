"""A kubeconfig is read as kubectl reads it, and what is wrong with one is said in a line."""

from __future__ import annotations

import asyncio
import base64
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from weir.client import kubeconfig
from weir.client.kubeconfig import Access, Identity, KubeconfigError, in_cluster, load
from weir.clock import VirtualClock

Document = dict[str, Any]


def config(user: Document | None = None, cluster: Document | None = None, **more: Any) -> Document:
    return {
        "kind": "Config",
        "apiVersion": "v1",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        **more,
    }


def write(path: Path, document: Document) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


async def identity(path: Path, **options: Any) -> Identity:
    return await load(path, **options).identity()


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# ------------------------------------------------------------------------------------------------ finding


def test_the_files_of_the_environment_are_merged_and_the_first_wins(tmp_path: Path) -> None:
    first = write(tmp_path / "1", {"current-context": "here", "contexts": config()["contexts"]})
    second = write(tmp_path / "2", config({"token": "x"}, {"server": "https://second"}))
    third = write(tmp_path / "3", config({"token": "y"}, {"server": "https://third"}))
    missing = tmp_path / "missing"
    access = load(environment={"KUBECONFIG": f"{missing}:{first}:{second}:{third}"})
    assert (access.server, access.context) == ("https://second", "here")


def test_without_a_setting_the_one_at_home_is_read(tmp_path: Path) -> None:
    write(tmp_path / ".kube" / "config", config())
    assert load(environment={"HOME": str(tmp_path)}).server == "https://127.0.0.1:6443"


def test_another_context_can_be_named(tmp_path: Path) -> None:
    document = config()
    document["contexts"].append(
        {"name": "there", "context": {"cluster": "c", "user": "u", "namespace": "prod"}}
    )
    path = write(tmp_path / "k", document)
    assert (load(path).namespace, load(path, context="there").namespace) == ("default", "prod")


def test_in_a_pod_the_service_account_is_used(tmp_path: Path) -> None:
    for name, text in (("ca.crt", "PEM"), ("namespace", "team\n"), ("token", "t")):
        (tmp_path / name).write_text(text)
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443", "HOME": "/nowhere"}
    access = load(environment=environment, service_account=tmp_path)
    assert (access.server, access.namespace, access.authority) == ("https://[fd00::1]:443", "team", b"PEM")


@pytest.mark.parametrize(
    "change, words",
    [
        ({"current-context": ""}, "has no current-context"),
        ({"current-context": "x"}, "names context 'x', but there are: here"),
        ({"clusters": []}, "context here names cluster 'c', but there are: none"),
        ({"users": []}, "context here names user 'u', but there are: none"),
        ({"clusters": [{"cluster": {}}]}, "an entry of clusters has no name"),
        ({"clusters": [{"name": "c", "cluster": {"server": "host"}}]}, "has no usable server: 'host'"),
        (
            {"clusters": [{"name": "c", "cluster": {"server": "unix://a.sock"}}]},
            "no usable server: 'unix://a.sock'",
        ),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, change: Document, words: str) -> None:
    path = write(tmp_path / "k", {**config(), **change})
    with pytest.raises(KubeconfigError) as caught:
        load(path)
    assert words in str(caught.value) and str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("text, words", [("a: [", "is not YAML at line"), ("- a", "is not a kubeconfig")])
def test_a_file_that_is_something_else_is_said_to_be(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "k").write_text(text)
    with pytest.raises(KubeconfigError, match=words):
        load(tmp_path / "k")


def test_no_kubeconfig_at_all_is_said_with_where_it_was_looked_for() -> None:
    with pytest.raises(KubeconfigError, match=r"no kubeconfig: /nowhere/\.kube/config is not there"):
        load(environment={"HOME": "/nowhere"})
    with pytest.raises(KubeconfigError, match="no such file"):
        load("/nowhere/config")
    with pytest.raises(KubeconfigError, match="KUBERNETES_SERVICE_HOST is not set"):
        in_cluster(environment={})


# -------------------------------------------------------------------------------------------- credentials


async def test_a_token_becomes_a_header(tmp_path: Path) -> None:
    path = write(tmp_path / "k", config({"token": "secret"}))
    assert (await identity(path)).headers == {"authorization": "Bearer secret"}


async def test_a_name_and_password_become_a_header(tmp_path: Path) -> None:
    path = write(tmp_path / "k", config({"username": "jane", "password": "pw"}))
    assert (await identity(path)).headers == {"authorization": f"Basic {encoded('jane:pw')}"}


async def test_certificate_data_wins_over_the_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("KEY")
    user = {
        "client-certificate-data": encoded("CERT"),
        "client-certificate": "nowhere",
        "client-key": "key.pem",
    }
    path = write(tmp_path / "k", config(user, {"certificate-authority-data": encoded("CA")}))
    assert (await identity(path)).certificate == (b"CERT", b"KEY") and load(path).authority == b"CA"


@pytest.mark.parametrize(
    "user, words",
    [
        ({"client-certificate-data": "%%%", "client-key-data": "x"}, "client-certificate-data is not base64"),
        ({"client-certificate-data": encoded("C")}, "client-key is missing"),
        ({"client-key": "nowhere.pem"}, "cannot read .*nowhere.pem: No such file"),
        ({"auth-provider": {"name": "gcp"}}, "auth-provider was removed"),
        ({"exec": {"apiVersion": "v9", "command": "x"}}, "exec plugin apiVersion 'v9' is not one of"),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}, "exec plugin without command"),
    ],
)
def test_unusable_credentials_are_named(tmp_path: Path, user: Document, words: str) -> None:
    with pytest.raises(KubeconfigError, match=words):
        load(write(tmp_path / "k", config(user)))


async def test_a_token_file_is_read_again_after_a_minute_or_when_refused(tmp_path: Path) -> None:
    clock = VirtualClock()
    (tmp_path / "token").write_text("one\n")
    access = load(write(tmp_path / "k", config({"tokenFile": "token"})), clock=clock)
    seen = [(await access.identity()).headers["authorization"]]
    (tmp_path / "token").write_text("two")
    seen.append((await access.identity()).headers["authorization"])
    await clock.advance(61)
    seen.append((await access.identity()).headers["authorization"])
    (tmp_path / "token").write_text("three")
    seen.append((await access.identity(renew=True)).headers["authorization"])
    assert seen == ["Bearer one", "Bearer one", "Bearer two", "Bearer three"]


def test_what_the_cluster_says_about_the_connection_is_kept(tmp_path: Path) -> None:
    cluster = {
        "insecure-skip-tls-verify": True,
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
    }
    access = load(write(tmp_path / "k", config({}, cluster)))
    assert (access.insecure_skip_tls_verify, access.tls_server_name, access.proxy_url) == (
        True,
        "kubernetes",
        "http://proxy:3128",
    )


def test_impersonation_becomes_headers(tmp_path: Path) -> None:
    user = {
        "as": "jane",
        "as-groups": ["dev", "ops"],
        "as-uid": "7",
        "as-user-extra": {"example.com/x": ["extra"]},
    }
    assert load(write(tmp_path / "k", config(user))).impersonation == (
        ("impersonate-user", "jane"),
        ("impersonate-uid", "7"),
        ("impersonate-group", "dev"),
        ("impersonate-group", "ops"),
        ("impersonate-extra-example.com%2Fx", "extra"),
    )


# -------------------------------------------------------------------------------------------- exec plugins


def plugin(directory: Path, script: str, **more: Any) -> Path:
    program = directory / "plugin.sh"
    program.write_text("#!/bin/sh\n" + script)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    settings = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin.sh", **more}
    return write(directory / "k", config({"exec": settings}))


CREDENTIAL = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{%s}}'


async def test_an_exec_plugin_is_run_once_until_its_credential_has_run_out(tmp_path: Path) -> None:
    clock = VirtualClock()
    status = '"token":"t\'$n\'","expirationTimestamp":"2026-01-01T00:10:00Z"'
    script = (
        f"n=$(cat count 2>/dev/null || echo 0); n=$((n+1)); echo $n > count; echo '{CREDENTIAL % status}'"
    )
    path = plugin(tmp_path, f"cd {tmp_path}; {script}")
    access = load(path, clock=clock)
    seen = [(await access.identity()).headers["authorization"] for _ in range(2)]
    seen.append((await access.identity(renew=True)).headers["authorization"])
    await clock.advance(601)
    seen.append((await access.identity()).headers["authorization"])
    assert seen == ["Bearer t1", "Bearer t1", "Bearer t2", "Bearer t3"]


async def test_an_exec_plugin_gets_its_arguments_environment_and_cluster(tmp_path: Path) -> None:
    script = """test "$1" = get && test "$COLOUR" = blue || exit 3
case "$KUBERNETES_EXEC_INFO" in *127.0.0.1:6443*) ;; *) exit 4;; esac
echo '{"apiVersion":"client.authentication.k8s.io/v1","status":{"clientCertificateData":"C","clientKeyData":"K"}}'
"""
    path = plugin(
        tmp_path, script, args=["get"], env=[{"name": "COLOUR", "value": "blue"}], provideClusterInfo=True
    )
    assert (await identity(path)).certificate == (b"C", b"K")


@pytest.mark.parametrize(
    "script, words",
    [
        ("echo please log in >&2; exit 1", "failed with exit code 1: please log in"),
        ("echo nonsense", "did not print an ExecCredential"),
        (f"echo '{CREDENTIAL % ''}'", "printed neither a token nor a certificate"),
        (
            'echo \'{"apiVersion":"client.authentication.k8s.io/v1beta1","status":{}}\'',
            "but printed client.authentication.k8s.io/v1beta1",
        ),
    ],
)
async def test_what_an_exec_plugin_did_wrong_is_said(tmp_path: Path, script: str, words: str) -> None:
    with pytest.raises(KubeconfigError, match=words):
        await identity(plugin(tmp_path, script))


@pytest.mark.parametrize(
    "script, words",
    [
        ("exec sleep 1000", "did not end within 3 seconds"),
        ("exec >&- 2>&-; exec sleep 1000", "did not end within 3 seconds"),
        ("exec cat /dev/zero", "printed more than 1048576 bytes"),
        ("exec cat /dev/zero >&2", "printed more than 1048576 bytes"),
    ],
)
async def test_an_exec_plugin_has_bounded_time_and_output(tmp_path, monkeypatch, script, words):
    monkeypatch.setattr(kubeconfig, "EXEC_SECONDS", 3 if "end" in words else 60)
    path = plugin(tmp_path, f"echo $$ > {tmp_path}/pid; {script}")
    with pytest.raises(KubeconfigError, match=words):
        await identity(path)
    pid = int((tmp_path / "pid").read_text())
    async with asyncio.timeout(60):  # it is killed
        while Path(f"/proc/{pid}").exists():
            await asyncio.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()


async def test_an_exec_plugin_that_is_not_installed_comes_with_its_hint(tmp_path: Path) -> None:
    settings = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "no-such-plugin",
        "installHint": "apt install it",
    }
    with pytest.raises(KubeconfigError, match="no-such-plugin: No such file or directory; apt install it"):
        await identity(write(tmp_path / "k", config({"exec": settings})))


async def test_access_by_token_needs_no_file() -> None:
    assert (await Access.with_token("http://x", "t").identity()).headers == {"authorization": "Bearer t"}
