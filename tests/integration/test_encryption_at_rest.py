"""Secrets through the API of a server that encrypts: rewriting without a change rotates the key, Events end in time."""

from __future__ import annotations

import base64
import json

import pytest
import yaml

from weir.apiserver.build import build
from weir.apiserver.compat.encryption.configuration import AtRest
from weir.apiserver.options import Options, open_store
from weir.apiserver.transport.http import Request
from weir.clock import RealClock

WORD = base64.b64encode(b"correct horse").decode()
PATH = "/api/v1/namespaces/default/secrets"


def configuration(*names):
    keys = [{"name": name, "secret": base64.b64encode(name.encode().ljust(16)).decode()} for name in names]
    rules = [{"resources": ["secrets"], "providers": [{"aescbc": {"keys": keys}}, {"identity": {}}]}]
    return yaml.safe_dump(
        {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": rules}
    )


class World:
    def __init__(self, folder):
        self.config = folder / "encryption.yaml"
        self.options = Options(
            folder, insecure=True, secure_port=0, encryption_config=self.config, event_ttl_seconds=60.0
        )

    async def start(self, *names):
        self.config.write_text(configuration(*names))
        self.at_rest = AtRest(self.config)
        clock = RealClock()
        self.running = await build(self.options, await open_store(self.options, clock, self.at_rest), clock)

    async def ask(self, method, path, document=None):
        headers = {
            b"authorization": f"Bearer {self.running.admin_token}".encode(),
            b"content-type": b"application/json",
        }
        body = b"" if document is None else json.dumps(document).encode()
        answer = await self.running.server.handle(Request(method, path, "", headers, body))
        return answer.code, json.loads(answer.body)

    def raw(self):
        files = sorted(self.options.data_dir.glob("store.db*"))
        return b"".join(path.read_bytes() for path in files)


@pytest.fixture
async def world(tmp_path):
    made = World(tmp_path)
    await made.start("one")
    yield made
    await made.running.stop()


SECRET = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}, "data": {"word": WORD}}


async def test_a_secret_is_encrypted_and_replacing_it_unchanged_rotates_its_key(world):
    code, made = await world.ask("POST", PATH, SECRET)
    assert code == 201 and WORD.encode() not in world.raw()
    code, same = await world.ask("PUT", f"{PATH}/s", made)
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]  # nothing to do
    world.config.write_text(configuration("two", "one"))
    assert world.at_rest.reload()
    code, again = await world.ask("PUT", f"{PATH}/s", made)
    assert code == 200 and again["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    assert again["data"] == made["data"]
    code, same = await world.ask("PUT", f"{PATH}/s", again)
    assert same["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]
    await world.running.store.compact(world.running.store.revision)
    await world.running.stop()
    await world.start("two")  # the old key is gone, and nothing needs it
    assert (await world.ask("GET", f"{PATH}/s"))[1]["data"] == {"word": WORD}


async def test_an_object_larger_than_a_real_store_takes_is_refused_in_its_words(world):
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "big"}}
    pod["spec"] = {"containers": [{"name": "c", "image": "i", "args": ["a" * 1_600_000]}]}
    await world.ask("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    code, status = await world.ask("POST", "/api/v1/namespaces/default/pods", pod)
    assert (code, status["message"], "reason" in status) == (500, "etcdserver: request is too large", False)
    pod["spec"]["containers"][0]["args"] = ["a" * 1_500_000]
    assert (await world.ask("POST", "/api/v1/namespaces/default/pods", pod))[0] == 201


async def test_events_are_forgotten_after_their_time(world):
    event = {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"namespace": "default"},
    }
    assert (await world.ask("POST", "/api/v1/namespaces/default/events", event))[0] == 201
    store, now = world.running.store, RealClock().time()
    await store.upkeep(now + 50)
    assert (await world.ask("GET", "/api/v1/namespaces/default/events/e"))[0] == 200
    await store.upkeep(now + 70)
    assert (await world.ask("GET", "/api/v1/namespaces/default/events/e"))[0] == 404
