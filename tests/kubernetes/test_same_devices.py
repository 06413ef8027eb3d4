"""A real API server and weir's say the same about devices: sound and spoilt objects, in every version.

Every object is sent to both servers as a dry run; stored ones are read in every version, as objects and as tables.
Errors of map entries have no order upstream, so causes are compared sorted.
"""

from __future__ import annotations

import copy
import http.client
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from tests.kubernetes.device_documents import (
    CLAIM,
    DRIVER,
    RULE,
    SOUND,
    STATUS,
    Document,
    Spoiler,
)
from tests.kubernetes.requests import APPLY, MERGE, PARTIAL, STRATEGIC, TABLE
from tests.kubernetes.test_same_requests import TOKEN, UNVERIFIED, both_servers, masked
from weir.objects.versions import from_v1

pytestmark = pytest.mark.proves("5055-50", "5055-68")

CREATES, UPDATES, STATUSES = (
    15,
    20,
    120,
)  #: spoilt forms of each object and version; of each object; of the status
OLDER = "--runtime-config=" + ",".join(
    f"resource.k8s.io/{version}=true" for version in ("v1beta2", "v1beta1", "v1alpha3")
)
PLURALS = {
    "DeviceClass": "deviceclasses",
    "ResourceSlice": "resourceslices",
    "DeviceTaintRule": "devicetaintrules",
    "ResourceClaim": "namespaces/default/resourceclaims",
    "ResourceClaimTemplate": "namespaces/default/resourceclaimtemplates",
}


class Door:
    """One server, asked over one connection."""

    def __init__(self, server: str) -> None:
        self.connection = http.client.HTTPSConnection(urlsplit(server).netloc, context=UNVERIFIED, timeout=60)

    def ask(
        self, method: str, path: str, body: Any = None, accept: str = "application/json", content: str = ""
    ) -> Any:
        headers = {"Authorization": f"Bearer {TOKEN}", "User-Agent": "same/1", "Accept": accept}
        sent = None
        if body is not None:
            sent, headers["Content-Type"] = json.dumps(body).encode(), content or "application/json"
        self.connection.request(method, path, sent, headers)
        answer = self.connection.getresponse()
        told = compared((answer.status, json.loads(answer.read()), answer.headers.get_all("Warning") or []))
        return in_layout_of_v1(told) if "/v1beta1/" in path else told


class Both:
    """Both servers, asked the same; remembers where they differ."""

    def __init__(self, real: str, weir: str) -> None:
        self._real, self._weir = Door(real), Door(weir)
        self.asked, self.accepted, self.different = 0, 0, list[str]()

    def close(self) -> None:
        for door in (self._real, self._weir):
            door.connection.close()

    def ask(self, label: str, method: str, path: str, body: Any = None, **more: Any) -> None:
        real, weir = self._real.ask(method, path, body, **more), self._weir.ask(method, path, body, **more)
        self.asked += 1
        self.accepted += real[0] < 300
        if real != weir:
            self.different.append(f"{label}\n real {real}\n weir {weir}\n sent {json.dumps(body)}")


def versions(kind: str) -> tuple[str, ...]:
    return ("v1", "v1beta2", "v1alpha3") if kind == "DeviceTaintRule" else ("v1", "v1beta2", "v1beta1")


def at(kind: str, version: str, rest: str = "") -> str:
    return f"/apis/resource.k8s.io/{version}/{PLURALS[kind]}{rest}"


def written_in(version: str, sound: Document) -> Document:
    return {
        **from_v1(version, sound["kind"], copy.deepcopy(sound)),
        "apiVersion": f"resource.k8s.io/{version}",
    }


def compared(answer: tuple[int, Any, list[str]]) -> list[Any]:
    """Return an answer without what changes from run to run, the causes of a refusal sorted."""
    code, body, warnings = masked(list(answer))
    causes = (body.get("details") or {}).get("causes")
    if not causes:
        return [code, body, warnings]
    return [code, sorted((cause["reason"], cause["field"], cause["message"]) for cause in causes), warnings]


def in_layout_of_v1(answer: list[Any]) -> list[Any]:
    """Return a refusal as weir tells it whatever version was sent (dra.md 1.12): paths and entries in v1's layout."""
    code, causes, warnings = answer
    if isinstance(causes, dict):
        return answer
    fields = "deviceClassName|selectors|allocationMode|count|tolerations"
    changed = []
    for reason, path, message in causes:
        path = re.sub(r"(spec\.devices\[\d+\])\.basic\.", r"\1.", path)
        path = re.sub(rf"(devices\.requests\[\d+\])\.({fields})\b", r"\1.exactly.\2", path)
        changed.append((reason, path, re.sub(r"^Duplicate value: \{.*", "Duplicate value: ENTRY", message)))
    return [code, sorted(changed), warnings]


@pytest.fixture(scope="module")
def servers(tmp_path_factory) -> Iterator[tuple[str, str]]:
    with both_servers(tmp_path_factory.mktemp("devices"), OLDER) as found:
        yield found


@pytest.fixture
def both(servers) -> Iterator[Both]:
    found = Both(*servers)
    yield found
    found.close()


def named(whole: Document, name: str) -> Document:
    return {**whole, "metadata": {**(whole.get("metadata") or {}), "name": name}}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1", "v1alpha3"])
def test_sound_and_spoilt_objects_are_created_or_refused_alike(both, version) -> None:
    spoiler = Spoiler(5055)
    for sound in SOUND:
        if version not in versions(sound["kind"]):
            continue
        whole = written_in(version, sound)
        for n in range(CREATES):
            sent = spoiler.spoil(whole) if n else whole
            both.ask(f"{sound['kind']} {n}", "POST", at(sound["kind"], version, "?dryRun=All"), sent)
    assert both.accepted and both.accepted < both.asked
    assert both.different == []


def test_what_one_version_wrote_reads_alike_in_every_other(both) -> None:
    for index, sound in enumerate(SOUND):
        kind = sound["kind"]
        for wrote in versions(kind):
            name = f"read-{index}-{wrote}"
            both.ask(f"create {name}", "POST", at(kind, wrote), named(written_in(wrote, sound), name))
            for read in versions(kind):
                for accept in ("application/json", TABLE, PARTIAL):
                    both.ask(f"{name} in {read}", "GET", at(kind, read, f"/{name}"), accept=accept)
    assert both.different == []


@pytest.mark.parametrize("field", ["spec.nodeName", "spec.driver", "spec.pool.name", "metadata.name"])
@pytest.mark.parametrize("value", ["", "n1", "n1/a", "gpu.example.com"])
def test_slices_are_selected_by_the_same_fields(both, field, value) -> None:
    for version in versions("ResourceSlice"):
        chosen = "?fieldSelector=" + quote(f"{field}={value}")
        both.ask(f"{field}={value}", "GET", at("ResourceSlice", version, chosen))
    both.ask("unknown", "GET", at("ResourceSlice", "v1", "?fieldSelector=metadata.namespace%3Dx"))
    assert both.different == []


def test_updates_are_taken_or_refused_alike(both) -> None:
    spoiler = Spoiler(5056)
    for index, sound in enumerate(SOUND):
        kind, name = sound["kind"], f"update-{index}"
        both.ask(f"create {name}", "POST", at(kind, "v1"), named(sound, name))
        if kind == "ResourceClaimTemplate":
            continue  # upstream prints an inner structure of the refused spec
        for n in range(UPDATES):
            sent = named(spoiler.spoil(sound), name)
            both.ask(f"{name} {n}", "PUT", at(kind, "v1", f"/{name}?dryRun=All"), sent)
    assert both.different == []


def test_statuses_are_taken_or_refused_alike(both) -> None:
    spoiler, name = Spoiler(5057), "allocated"
    claim = named(CLAIM, name)
    both.ask("create", "POST", at("ResourceClaim", "v1"), claim)
    for allocated in (False, True):
        if allocated:
            both.ask(
                "allocate", "PUT", at("ResourceClaim", "v1", f"/{name}/status"), {**claim, "status": STATUS}
            )
        for n in range(STATUSES):
            sent = spoiler.spoil({**claim, "status": STATUS}, "status")
            both.ask(f"{allocated} {n}", "PUT", at("ResourceClaim", "v1", f"/{name}/status?dryRun=All"), sent)
    for version in versions("ResourceClaim"):
        for accept in ("application/json", TABLE):
            both.ask(f"read in {version}", "GET", at("ResourceClaim", version, f"/{name}"), accept=accept)
    both.ask("deallocate", "PUT", at("ResourceClaim", "v1", f"/{name}/status"), {**claim, "status": {}})
    assert both.different == []


def test_statuses_of_rules_are_taken_or_refused_alike(both) -> None:
    spoiler, rule = Spoiler(5058), named(RULE, "told")
    condition = {**STATUS["devices"][0]["conditions"][0], "observedGeneration": 1}
    both.ask("create", "POST", at("DeviceTaintRule", "v1"), rule)
    for version in versions("DeviceTaintRule"):
        for n in range(STATUSES // 4):
            sent = spoiler.spoil({**rule, "status": {"conditions": [condition]}}, "status")
            sent["apiVersion"] = f"resource.k8s.io/{version}"
            both.ask(f"{n}", "PUT", at("DeviceTaintRule", version, "/told/status?dryRun=All"), sent)
    assert both.different == []


CONDITION = {**STATUS["devices"][0]["conditions"][0], "type": "EvictionInProgress", "observedGeneration": 1}
DEVICE = {"driver": DRIVER, "pool": "n", "device": "g"}


def rule_in(version: str, effect: str) -> Document:
    taint = {**RULE["spec"]["taint"], "effect": effect}
    return {**written_in(version, named(RULE, "owned")), "spec": {**RULE["spec"], "taint": taint}}


def told_in(version: str, kind: str, **status: Any) -> Document:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": "owned"},
        "status": status,
    }


def consumer(name: str) -> Document:
    return {"resource": "pods", "name": name, "uid": name}


#: kind, version, subresource and field manager, how, what: one after the other
WRITES: list[tuple[str, str, str, str, Any]] = [
    ("DeviceTaintRule", "v1alpha3", "?fieldManager=a", APPLY, rule_in("v1alpha3", "NoSchedule")),
    ("DeviceTaintRule", "v1", "?fieldManager=b", APPLY, rule_in("v1", "NoSchedule")),
    ("DeviceTaintRule", "v1", "?fieldManager=b", APPLY, rule_in("v1", "None")),
    ("DeviceTaintRule", "v1beta2", "?fieldManager=b&force=true", APPLY, rule_in("v1beta2", "None")),
    *(
        ("DeviceTaintRule", version, "/status?fieldManager=c", APPLY,
         told_in(version, "DeviceTaintRule", conditions=[{**CONDITION, "message": version}]))
        for version in ("v1", "v1beta2", "v1alpha3")
    ),
    ("DeviceTaintRule", "v1", "/status", STRATEGIC, {"status": {"conditions": [{**CONDITION, "type": "Other"}]}}),
    ("DeviceTaintRule", "v1", "", MERGE, {"spec": {"taint": {"value": "w"}}}),
    ("DeviceTaintRule", "v1", "", MERGE, {"spec": {"taint": None}}),
    ("DeviceTaintRule", "v1beta2", "", MERGE, rule_in("v1beta2", "None")),
    ("ResourceClaim", "v1beta1", "?fieldManager=a", APPLY, written_in("v1beta1", named(CLAIM, "owned"))),
    ("ResourceClaim", "v1", "?fieldManager=a", APPLY, named(CLAIM, "owned")),
    ("ResourceClaim", "v1", "", MERGE, {"spec": {"devices": {"requests": []}}}),
    ("ResourceClaim", "v1", "/status", MERGE,
     {"status": {"allocation": {"devices": {"results": [{"request": "r", **DEVICE}]}},
                 "reservedFor": [consumer("p")]}}),
    ("ResourceClaim", "v1", "/status", STRATEGIC, {"status": {"reservedFor": [consumer("q")]}}),
    ("ResourceClaim", "v1", "/status", STRATEGIC, {"status": {"reservedFor": [{"uid": "p", "$patch": "delete"}]}}),
    ("ResourceClaim", "v1beta2", "/status?fieldManager=d", APPLY,
     told_in("v1beta2", "ResourceClaim", devices=[{**DEVICE, "data": {"a": 1}, "conditions": [CONDITION]}])),
    ("ResourceClaim", "v1", "/status", MERGE, {"metadata": {"labels": {"a": "b"}, "finalizers": ["x.io/y"]}}),
    ("ResourceClaim", "v1", "/status", MERGE, {"status": {"allocation": None, "reservedFor": None}}),
]  # fmt: skip


def test_writes_in_every_version_leave_the_same_owners(both) -> None:
    for number, (kind, version, rest, how, body) in enumerate(WRITES):
        both.ask(f"write {number}", "PATCH", at(kind, version, f"/owned{rest}"), body, content=how)
        both.ask(f"read after {number}", "GET", at(kind, "v1", "/owned"))
    assert both.accepted and both.different == []
