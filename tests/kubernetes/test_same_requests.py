"""A real API server and weir's give the same whole answers to requests of every kind and verb."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.etcd_server import free_port, running_etcd
from tests.e2e.server import running_server
from tests.kubernetes import requests
from tests.kubernetes.autoscaler_requests import AUTOSCALERS
from tests.kubernetes.caches import both_answers
from tests.kubernetes.flowcontrol_requests import FLOW_CONTROL
from tests.kubernetes.map_order import settled
from tests.kubernetes.more_requests import MORE, MORE_DIFFERENT
from tests.kubernetes.networking_requests import NETWORKING, NETWORKING_DIFFERENT
from tests.kubernetes.programs import running
from tests.kubernetes.requests import Asked
from tests.kubernetes.rights_requests import RIGHTS, RIGHTS_DIFFERENT, SETUP
from tests.kubernetes.test_same_answers import running_keys

#: roles first: a real server notices them a moment later
CASES = [*SETUP, *requests.CASES, *MORE, *AUTOSCALERS, *NETWORKING, *FLOW_CONTROL, *RIGHTS]
DIFFERENT = {**requests.DIFFERENT, **MORE_DIFFERENT, **NETWORKING_DIFFERENT, **RIGHTS_DIFFERENT}
TOKEN = "admintoken"
GATES = "AllAlpha=false,TaintTolerationComparisonOperators=true"
PATIENCE_SECONDS = 90
UNVERIFIED = ssl._create_unverified_context()
#: one kept connection to each server
CONNECTIONS: dict[str, http.client.HTTPSConnection] = {}
#: what changes from run to run, wherever it stands
VOLATILE = frozenset(
    (
        *(
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "deletionTimestamp",
            "time",
            "timeAdded",
            "selfLink",
        ),
        *("lastTransitionTime", "continue", "clusterIP", "clusterIPs", "token", "expirationTimestamp"),
    )
)
MASKS = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r'(?<=patch: Invalid value: )"\{.*\}"(?=: )'), "OBJECT"),  # in the order of the stored text
    (re.compile(r'^Invalid value: "\{.*\}"(?=: )'), "Invalid value: OBJECT"),
    (re.compile(r'"pkg/[\w/]+/scheme.go:\d+"'), "SCHEME"),  # where the server was built
    (re.compile(r"current: \d+"), "current: N"),
    (re.compile(r"not decodable revision=\d+"), "not decodable revision=N"),
    (re.compile(r"record \(\d+\)"), "record (N)"),
    (re.compile(r"resourceVersion(\W+)\d+"), r"resourceVersion\1N"),
    (re.compile(r"g{50,}\w{5}"), "g…"),
    (re.compile(r"(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "XXXXX"),
    (re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
)
AGE = re.compile(r"(\d+[smhdy])+|<invalid>")


def call(server: str, asked: Asked) -> tuple[int, Any, list[str]]:
    """Return the code, the body and the warnings of an answer."""
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "User-Agent": "same/1",
        "Accept": asked.accept,
        **asked.headers,
    }
    data = None
    if asked.body is not None:
        data = (
            asked.body.encode()
            if isinstance(asked.body, str)
            else json.dumps(asked.body, separators=(",", ":")).encode()
        )
        headers["Content-Type"] = asked.content
    for attempt in (1, 2):  # a kept connection may have been closed meanwhile
        connection = CONNECTIONS.get(server)
        if connection is None:
            address = urllib.parse.urlsplit(server).netloc
            connection = CONNECTIONS[server] = http.client.HTTPSConnection(
                address, context=UNVERIFIED, timeout=40
            )
        try:
            connection.request(asked.method, asked.path, data, headers)
            answer = connection.getresponse()
            return answer.status, read(answer.read()), answer.headers.get_all("Warning") or []
        except (OSError, http.client.HTTPException):
            connection.close()
            del CONNECTIONS[server]
            if attempt == 2:
                raise
    raise AssertionError("unreachable")


def ask(server: str, asked: Asked) -> Any:
    """Return an answer as it is compared."""
    return masked(list(call(server, asked)))


def read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        lines = body.decode(errors="replace").splitlines()
        try:
            return [json.loads(line) for line in lines]
        except ValueError:
            return lines


def masked(value: Any, name: str = "") -> Any:
    """Return an answer without what changes from run to run.

    >>> masked({"metadata": {"uid": "x", "name": "a"}, "cells": ["a", "5s"]})
    {'metadata': {'uid': '*', 'name': 'a'}, 'cells': ['a', 'AGE']}
    """
    if isinstance(value, dict):
        value = settled(value)
        return {
            text(key): "*" if key in VOLATILE and isinstance(inner, str | list) else masked(inner, key)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        if name == "managedFields":  # sorted by seconds, which differ between the two
            value = sorted(
                value,
                key=lambda entry: [
                    str(entry.get(part)) for part in ("manager", "operation", "subresource", "apiVersion")
                ],
            )
        if name == "columnDefinitions":  # described in each server's own words (decision 42)
            value = [{**column, "description": "*"} for column in value]
        if name in ("resourceRules", "nonResourceRules"):  # told in the order of a map
            value = sorted(value, key=str)
        if name == "cells":
            return [
                "AGE" if isinstance(cell, str) and AGE.fullmatch(cell) else masked(cell) for cell in value
            ]
        return [masked(inner) for inner in value]
    return text(value) if isinstance(value, str) else value


def text(value: str) -> str:
    for pattern, instead in MASKS:
        value = pattern.sub(instead, value)
    return value


def ready(server: str) -> bool:
    try:
        return call(server, Asked("ready", "GET", "/readyz"))[0] == 200
    except OSError:
        return False


@contextmanager
def both_servers(folder: Path, *more: str) -> Iterator[tuple[str, str]]:
    """Give the addresses of a real server (with *more* options) and of weir's, ready, with one token for everything."""
    (folder / "tokens.csv").write_text(f'{TOKEN},admin,1,"system:masters"\n')
    keys, port = running_keys(folder), free_port()
    with (
        running_etcd() as etcd,
        running(
            folder, "kube-apiserver", f"--etcd-servers=http://{etcd.endpoint}", f"--secure-port={port}",
            "--bind-address=127.0.0.1", f"--cert-dir={folder / 'certs'}", f"--feature-gates={GATES}",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={keys}",
            f"--service-account-signing-key-file={keys}", f"--token-auth-file={folder / 'tokens.csv'}",
            "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount", *more,
        ),
        running_server(
            folder, "--store", "memory", "--token-auth-file", str(folder / "tokens.csv"),
            "--feature-gates", GATES, "--disable-admission-plugins", "ServiceAccount",
        ) as weir,
    ):  # fmt: skip
        real = f"https://127.0.0.1:{port}"
        own = yaml.safe_load(weir.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (ready(real) and ready(own)):
            assert time.monotonic() < deadline, (folder / "kube-apiserver.log").read_text()[-2000:]
            time.sleep(0.2)
        yield real, own


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, tuple[Any, Any]]:
    """What both servers say to every case, in order."""
    with both_servers(tmp_path_factory.mktemp("requests")) as servers:
        return {
            case.name: both_answers(servers, case, ask)
            if case.fresh
            else tuple(ask(server, case) for server in servers)
            for case in CASES
        }


@pytest.mark.parametrize("name", [case.name for case in CASES if case.name not in DIFFERENT])
def test_both_servers_answer_the_same(answers, name):
    real, weir = answers[name]
    assert weir == real


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_listed_difference_is_one(answers, name):
    real, weir = answers[name]
    assert weir != real
