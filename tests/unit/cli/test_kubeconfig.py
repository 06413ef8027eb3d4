"""Claims about `weir kubeconfig`: who it lets in, and what it says when it cannot."""

import base64
import ssl
import stat
from datetime import UTC, datetime

import pytest
import yaml
from click.testing import CliRunner

from weir.apiserver.auth import pki
from weir.apiserver.auth.authn import read_certificate
from weir.cli.kubeconfig import kubeconfig


@pytest.fixture
def data_dir(tmp_path):
    credentials = pki.ensure(tmp_path / "pki", now=datetime.now(UTC))
    pki.write_kubeconfig(
        tmp_path / "kubeconfig",
        pki.kubeconfig_document(pki.Access("https://127.0.0.1:7", credentials.ca_pem)),
    )
    return tmp_path


def call(data_dir, *arguments):
    return CliRunner().invoke(kubeconfig, ["--data-dir", str(data_dir), *arguments])


def bearer(config):
    pem = base64.b64decode(config["users"][0]["user"]["client-certificate-data"]).decode()
    user = read_certificate(ssl.PEM_cert_to_DER_cert(pem)).user
    return user.name, user.groups


@pytest.mark.parametrize(
    ("arguments", "name", "groups"),
    [
        (["--user", "jane", "--group", "dev"], "jane", ("dev", "system:authenticated")),
        (["--component", "kube-scheduler"], "system:kube-scheduler", ("system:authenticated",)),
        (["--node", "n1"], "system:node:n1", ("system:nodes", "system:authenticated")),
    ],
)
def test_the_certificate_speaks_for_whom_it_was_made(data_dir, arguments, name, groups):
    config = yaml.safe_load(call(data_dir, *arguments).output)
    assert bearer(config) == (name, groups)


def test_the_servers_address_is_the_administrators(data_dir):
    config = yaml.safe_load(call(data_dir, "--user", "jane").output)
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:7"


def test_a_file_is_private(data_dir, tmp_path):
    call(data_dir, "--user", "jane", "-o", str(tmp_path / "jane"))
    assert stat.S_IMODE((tmp_path / "jane").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "say who it is for"),
        (["--user", "a", "--node", "b"], "say who it is for"),
        (["--node", "b", "--group", "c"], "--group goes with --user"),
    ],
)
def test_what_cannot_be_meant_is_told(data_dir, arguments, text):
    answer = call(data_dir, *arguments)
    assert answer.exit_code == 2 and text in answer.output


def test_a_directory_without_an_authority_is_told(tmp_path):
    answer = call(tmp_path, "--user", "jane")
    assert answer.exit_code == 2 and "has no certificate authority" in answer.output


@pytest.mark.parametrize("arguments", [["--user", ""], ["--node", ""], ["--user", "jane", "--group", ""]])
def test_an_empty_name_is_refused_in_words(data_dir, arguments):
    done = call(data_dir, *arguments)
    assert done.exit_code == 2 and "empty" in done.output
