"""Webhooks that hang, drip, answer without end or with a compressed bomb, called by whole requests over real sockets.

Their own requests fail or go on by their failurePolicy within timeoutSeconds; other requests do not wait.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

import pytest

from tests.unit.apiserver.compat.customresources.test_webhook_conversion import V1, V2, two_versions, widget
from tests.unit.apiserver.compat.customresources.world import server
from weir.apiserver.auth import pki
from weir.apiserver.compat.customresources import webhook_conversion

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
BOMB = gzip.compress(bytes(50_000_000), 1)
GZIP = HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB)
#: What is sent at once, and then again and again; how long between.
ANSWERS = {
    "never answers": (b"", b"", 0.0),
    "drips its head": (HEAD + b"X-A: ", b"x", 0.1),
    "drips its body": (HEAD + b"Content-Length: 100000\r\n\r\n", b" ", 0.1),
    "answers without end": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 65_536 + b"\r\n", 0.0),
    "answers with a bomb": (GZIP + BOMB, b"", 0.0),
}  # fmt: skip


@pytest.fixture(scope="module")
def credentials(tmp_path_factory):
    return pki.ensure(tmp_path_factory.mktemp("hook"), ["hook.ns.svc"], now=datetime.now(UTC))


@asynccontextmanager
async def hostile_hook(credentials, how: str) -> AsyncIterator[dict[str, str]]:
    """Give the clientConfig of a webhook that answers so."""
    start, again, pause = ANSWERS[how]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(start)
            while again and not writer.is_closing():
                writer.write(again)
                await writer.drain()
                await asyncio.sleep(pause)
            await reader.read()  # until the caller gives up
            while await reader.read(65_536):
                pass
        writer.transport.abort()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=pki.serving_context(credentials))
    port = listening.sockets[0].getsockname()[1]
    yield {
        "url": f"https://127.0.0.1:{port}/",
        "caBundle": base64.b64encode(credentials.ca_pem).decode(),
    }
    listening.close()


def registered(kind: str, policy: str, config: dict[str, str], *, seconds: int = 1) -> dict[str, object]:
    """Return a configuration whose webhook is called for config maps with the label of its policy."""
    hook = {
        "name": f"{policy.lower()}.example.com",
        "clientConfig": config,
        "rules": [
            {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
        ],
        "objectSelector": {"matchLabels": {"policy": f"{kind}-{policy}"}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": policy,
        "timeoutSeconds": seconds,
    }
    return {"metadata": {"name": policy.lower()}, "webhooks": [hook]}


def config_map(name: str, policy: str) -> dict[str, object]:
    return {"metadata": {"name": name, "labels": {"policy": policy}}}


async def test_other_requests_do_not_wait_for_a_webhook(tmp_path, credentials):
    """Nor do reads of a custom resource's stored version for the webhook that converts to another one."""
    async with server(tmp_path) as world, hostile_hook(credentials, "never answers") as config:
        path = f"{REGISTRATION}/validatingwebhookconfigurations"
        code, answer = await world.ask("POST", path, registered("validating", "Fail", config, seconds=30))
        assert code == 201, answer
        found = two_versions()
        found["spec"]["conversion"]["webhook"]["clientConfig"] = config
        await world.define(found)
        assert (await world.ask("POST", V1, widget("v1", "a", address="h")))[0] == 201
        waiting = [
            asyncio.create_task(world.ask("POST", CONFIG_MAPS, config_map("held", "validating-Fail"))),
            asyncio.create_task(world.ask("GET", f"{V2}/a")),
        ]
        await asyncio.sleep(0)  # they are under way
        assert (await world.ask("POST", CONFIG_MAPS, config_map("other", "none")))[0] == 201
        assert (await world.ask("GET", f"{V1}/a"))[0] == 200
        assert not any(each.done() for each in waiting)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.parametrize("how", ANSWERS)
async def test_requests_fail_or_go_on_by_the_failure_policy(tmp_path, credentials, how):
    async with server(tmp_path) as world, hostile_hook(credentials, how) as config:
        cases = [(kind, policy) for kind in ("mutating", "validating") for policy in ("Fail", "Ignore")]
        for kind, policy in cases:
            path = f"{REGISTRATION}/{kind}webhookconfigurations"
            code, answer = await world.ask("POST", path, registered(kind, policy, config))
            assert code == 201, answer
        calls = [
            asyncio.create_task(
                world.ask("POST", CONFIG_MAPS, config_map(f"{kind}-{policy.lower()}", f"{kind}-{policy}"))
            )
            for kind, policy in cases
        ]
        answers = await asyncio.wait_for(asyncio.gather(*calls), 30)
        assert [code for code, _ in answers] == [500, 201, 500, 201], answers
        assert all("failed calling webhook" in answer["message"] for _, answer in answers[::2])
        _, stored = await world.ask("GET", CONFIG_MAPS)
        names = {each["metadata"]["name"] for each in stored["items"]}
        assert {"mutating-fail", "validating-fail"} & names == set()
        assert {"mutating-ignore", "validating-ignore"} <= names


@pytest.mark.parametrize("how", ANSWERS)
async def test_a_conversion_fails_in_its_time_and_other_versions_are_read(
    tmp_path, credentials, monkeypatch, how
):
    monkeypatch.setattr(webhook_conversion, "SECONDS", 1.0)
    async with server(tmp_path) as world, hostile_hook(credentials, how) as config:
        found = two_versions()
        found["spec"]["conversion"]["webhook"]["clientConfig"] = config
        await world.define(found)
        assert (await world.ask("POST", V1, widget("v1", "a", address="h")))[0] == 201
        call = asyncio.create_task(world.ask("GET", f"{V2}/a"))
        code, answer = await asyncio.wait_for(call, 30)
        assert code == 500 and "conversion webhook" in answer["message"], answer
        assert (await world.ask("GET", f"{V1}/a"))[1]["spec"] == {"address": "h"}
