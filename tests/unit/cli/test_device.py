"""`weir device`: what it shows of a dump and of a live cluster, and that bad input is one line."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from tests.golden.cluster import TOKEN, Cluster
from weir.apiserver.transport.http import Request
from weir.cli._device_list import fetch
from weir.cli.main import run
from weir.client.api import Client
from weir.client.local import LocalTransport
from weir.errors import Forbidden, NotFound
from weir.exit_codes import CANNOT_SAY, FINDINGS, FINE, USAGE
from weir.gates import ALL_FEATURES
from weir.inputs.files import CannotSay

DRIVER = "gpu.example.com"
SLICE: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "n1-gpus"},
    "spec": {
        "driver": DRIVER,
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {
                "name": "gpu-0",
                "attributes": {"model": {"string": "a100"}},
                "capacity": {"memory": {"value": "80Gi"}},
            },
            {
                "name": "gpu-1",
                "taints": [{"key": "hot", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
            },
        ],
    },
}
RULE: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "maintenance", "uid": "1"},
    "spec": {
        "deviceSelector": {"device": "gpu-0"},
        "taint": {"key": "m", "value": "1", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
    },
}
CLAIM: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
    "status": {
        "allocation": {
            "devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}]}
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
    },
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default", "uid": "u"},
    "spec": {"nodeName": "n1", "resourceClaims": [{"name": "x", "resourceClaimName": "c"}]},
}
Show = Callable[..., str]


@pytest.fixture
def show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Show:
    def run_on(documents: list[Any], *options: str, code: int = FINE) -> str:
        file = tmp_path / "dump.yaml"
        file.write_text(yaml.safe_dump_all(documents))
        assert run(["device", "list", "-c", str(file), *options]) == code
        captured = capsys.readouterr()
        return captured.out + captured.err

    return run_on


@pytest.mark.proves("5055-99", "5055-112")
def test_each_device_has_a_line_with_its_claim_pods_and_taints(show: Show) -> None:
    lines = show([SLICE, RULE, CLAIM, POD]).splitlines()
    assert lines[0].split() == ["NODE", "DEVICE", "ATTRIBUTES", "CLAIM", "PODS", "TAINTS", "TOLERATED"]
    assert lines[1].startswith(
        f"n1    {DRIVER}/n1/gpu-0  model=a100, memory=80Gi  default/c  default/p  m=1:NoExecute ("
    )
    assert lines[1].split(")")[-1].strip() == "no, pods leave now"
    assert lines[2].endswith("driver, slice n1-gpus)  -")


def test_a_toleration_in_the_allocation_is_seen(show: Show) -> None:
    tolerant = json.loads(json.dumps(CLAIM))
    tolerant["status"]["allocation"]["devices"]["results"][0]["tolerations"] = [{"operator": "Exists"}]
    (line,) = (one for one in show([SLICE, RULE, tolerant, POD]).splitlines() if "rule maintenance)" in one)
    assert line.endswith(" yes")


def test_a_toleration_for_a_time_says_how_much_is_left(show: Show) -> None:
    tolerant, late = json.loads(json.dumps(CLAIM)), json.loads(json.dumps(RULE))
    late["spec"]["taint"]["timeAdded"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    bounded = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 7190}
    tolerant["status"]["allocation"]["devices"]["results"][0]["tolerations"] = [bounded]
    assert "for 119m more" in show([SLICE, late, tolerant, POD])


def test_names_alone_serve_as_selectors(show: Show) -> None:
    assert show([SLICE], "-o", "name") == f"{DRIVER}/n1/gpu-0\n{DRIVER}/n1/gpu-1\n"


def test_attributes_that_name_one_device_only_are_left_out_unless_wide(show: Show) -> None:
    twins = json.loads(json.dumps(SLICE))
    for number, device in enumerate(twins["spec"]["devices"]):
        device["attributes"] = {"model": {"string": "a100"}, "uuid": {"string": f"u-{number}"}}
    assert ("uuid" in show([twins]), "uuid=u-1" in show([twins], "-o", "wide")) == (False, True)


def test_wide_shows_attributes_and_capacity(show: Show) -> None:
    assert "model=a100, memory=80Gi" in show([SLICE], "-o", "wide")


@pytest.mark.parametrize(
    ("columns", "titles"),
    [
        (200, ["NODE", "DEVICE", "ATTRIBUTES", "CLAIM", "PODS", "TAINTS", "TOLERATED"]),
        (130, ["NODE", "DEVICE", "CLAIM", "PODS", "TAINTS", "TOLERATED"]),
        (105, ["DEVICE", "PODS", "TAINTS", "TOLERATED"]),
    ],
)
def test_a_narrow_terminal_does_without_what_can_be_done_without(
    show: Show, monkeypatch: pytest.MonkeyPatch, columns: int, titles: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    lines = show([SLICE, RULE, CLAIM, POD]).splitlines()
    told = [line for line in lines if line.startswith(f"left out to fit {columns} columns: ATTRIBUTES")]
    assert (lines[0].split(), len(told)) == (titles, len(titles) < 7)


def test_a_namespace_leaves_out_what_its_claims_do_not_have(show: Show) -> None:
    documents = [SLICE, RULE, CLAIM, POD]
    found = [show(documents, "-n", name, "-o", "name").split() for name in ("default", "defaul")]
    assert found == [[f"{DRIVER}/n1/gpu-0"], []]


def test_filters_leave_out_the_rest(show: Show) -> None:
    assert "gpu-0" not in show([SLICE], "--tainted")
    assert show([SLICE], "--node", "n2") == "No devices.\n"
    assert show([SLICE], "--driver", "other") == "No devices.\n"


def test_programs_get_origins_and_times(show: Show) -> None:
    found = json.loads(show([SLICE, RULE, CLAIM, POD], "-o", "json"))
    first, second = found["devices"]
    assert first["taints"][0] == {
        "key": "m",
        "value": "1",
        "effect": "NoExecute",
        "timeAdded": "2026-01-01T00:00:00Z",
        "origin": {"rule": "maintenance"},
        "tolerated": False,
        "podsLeaveAt": "2026-01-01T00:00:00Z",
    }
    assert first["claims"] == [{"claim": "default/c", "request": "r", "pods": ["default/p"]}]
    assert second["taints"][0]["origin"] == {"slice": "n1-gpus", "index": 0}


@pytest.mark.parametrize("columns", [50, 60, 80])
def test_a_table_that_does_not_fit_becomes_a_list_without_broken_words(
    show: Show, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    lines = show([SLICE, RULE, CLAIM, POD]).splitlines()
    listed = [line for line in lines if not line.startswith("left out")]
    assert max(map(len, listed)) <= columns and f"{DRIVER}/n1/gpu-0" in listed


def test_what_programs_get_fits_the_published_schema(show: Show) -> None:
    schema = json.loads(
        (Path(__file__).parents[3] / "docs" / "reference" / "devices.schema.json").read_text()
    )
    validator = jsonschema_rs.validator_for(schema)
    bad = json.loads(json.dumps(RULE))
    bad["metadata"] = {"name": "bad"}
    bad["spec"]["deviceSelector"] = {"selectors": [{"cel": {"expression": "device.attributes['x'].y"}}]}
    for documents in ([SLICE], [SLICE, RULE, CLAIM, POD], [RULE, CLAIM, POD], [SLICE, bad]):
        validator.validate(json.loads(show(documents, "-o", "json")))
    assert not validator.is_valid({"schema": "weir.devices/v1", "devices": [{}], "problems": []})


def test_an_allocated_device_nobody_publishes_is_still_listed(show: Show) -> None:
    text = show([CLAIM, RULE, POD])
    assert "gpu-0" in text
    assert "(no current slice publishes it)" in text
    assert "no, pods leave now" in text


def test_an_incomplete_pool_says_so(show: Show) -> None:
    half = json.loads(json.dumps(SLICE))
    half["spec"]["pool"]["resourceSliceCount"] = 2
    assert "(the pool is incomplete)" in show([half])


def test_a_rule_that_fails_is_named(show: Show) -> None:
    bad = json.loads(json.dumps(RULE))
    bad["spec"]["deviceSelector"] = {"selectors": [{"cel": {"expression": "device.attributes['x'].y"}}]}
    assert "DeviceTaintRule maintenance: selector #0: runtime error: no such key: y" in show([SLICE, bad])


def test_old_versions_and_lists_are_read(show: Show) -> None:
    old = json.loads(json.dumps(SLICE))
    old["apiVersion"] = "resource.k8s.io/v1beta1"
    old["spec"]["devices"] = [
        {"name": one.pop("name"), "basic": one} for one in json.loads(json.dumps(SLICE["spec"]["devices"]))
    ]
    assert "hot:NoSchedule" in show([{"kind": "List", "apiVersion": "v1", "items": [old]}])
    assert "hot:NoSchedule" in show(
        [{"kind": "ResourceSliceList", "apiVersion": "resource.k8s.io/v1", "items": [SLICE]}]
    )


def test_what_cannot_be_read_is_one_line(show: Show) -> None:
    bad = json.loads(json.dumps(SLICE))
    bad["spec"]["devices"] = 7
    text = show([bad], code=CANNOT_SAY)
    assert text.startswith("weir: the cluster's dump cannot be read: ResourceSlice n1-gpus: ")
    assert text.count("\n") == 1


@pytest.mark.parametrize("nonsense", [[], 7, {"kind": 7}, {"kind": "Pod", "metadata": 7}])
def test_what_is_no_object_is_refused_in_one_line(show: Show, nonsense: Any) -> None:
    text = show([nonsense, RULE], code=CANNOT_SAY)
    assert "must be" in text and text.count("\n") == 1


@pytest.mark.parametrize("nonsense", [None, {"kind": "ResourceSlice"}, {"kind": "PodList", "items": 7}])
def test_what_is_no_device_is_left_out(show: Show, nonsense: Any) -> None:
    assert show([nonsense, RULE]) == "No devices.\n"


def test_a_dump_without_devices_says_nothing_of_them(show: Show) -> None:
    assert "resourceslices could not be read: the dump has none of them" in show([POD], code=CANNOT_SAY)


def test_a_dump_and_a_cluster_at_once_is_a_mistake() -> None:
    assert run(["device", "list", "-c", "x", "--context", "y"]) == USAGE


def test_a_cluster_that_does_not_answer_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "x", "user": {}}],
    }
    file = tmp_path / "config"
    file.write_text(json.dumps(config))
    assert run(["device", "list", "--kubeconfig", str(file)]) == CANNOT_SAY
    assert capsys.readouterr().err.count("\n") == 1


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A running server that the commands reach; its `missing` versions answer 404."""
    cluster = Cluster(ALL_FEATURES)
    cluster.missing = ()  # type: ignore[attr-defined]

    async def prepare() -> None:
        await cluster.start()
        for document in (SLICE, CLAIM, POD):
            await cluster.put(document)

    asyncio.run(prepare())

    async def handle(request: Request) -> Any:
        if any(f"/apis/resource.k8s.io/{version}/" in request.path for version in cluster.missing):  # type: ignore[attr-defined]
            request.path = "/apis/nothing.example/v1/things"
        return await cluster.server.handle(request)

    def connect(*_: Any, **__: Any) -> Client:
        return Client(LocalTransport(handle, Request, {"authorization": f"Bearer {TOKEN}"}))

    monkeypatch.setattr("weir.client.http.connect", connect)
    return cluster


def rules(cluster: Cluster) -> list[Any]:
    answer = asyncio.run(cluster.call("GET", "/apis/resource.k8s.io/v1/devicetaintrules", "", {}, b""))
    items: list[Any] = answer["body"]["items"]
    return items


@pytest.mark.parametrize("missing", [(), ("v1",), ("v1", "v1beta2")])
def test_a_live_cluster_is_read_in_the_newest_version_it_serves(
    missing: tuple[str, ...], live: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(live.put(RULE))
    live.missing = missing  # type: ignore[attr-defined]
    assert run(["device", "list"]) == FINE
    out = capsys.readouterr().out
    assert "hot:NoSchedule" in out
    assert "no, pods leave now" in out


class TestTaint:
    def test_a_rule_is_written_printed_and_explained(
        self, live: Cluster, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["device", "taint", f"{DRIVER}/n1/gpu-0", "m=1:NoExecute", "--rate", "2", "--yes"]) == FINE
        (rule,) = rules(live)
        printed, said = capsys.readouterr()
        assert rule["spec"]["deviceSelector"] == {"driver": DRIVER, "pool": "n1", "device": "gpu-0"}
        assert rule["spec"]["taint"]["evictionsPerSecond"] == 2
        assert yaml.safe_load(printed)["spec"]["deviceSelector"] == rule["spec"]["deviceSelector"]
        assert "1 published device and 1 allocated device selected" in said
        assert "1 pod must leave:\n  default/p at once" in said

    def test_tainting_again_changes_the_same_rule(self, live: Cluster) -> None:
        for text in ("m:None", "m=2:NoExecute"):
            assert run(["device", "taint", "pool=n1", text, "--yes"]) == FINE
        assert [rule["spec"]["taint"]["effect"] for rule in rules(live)] == ["NoExecute"]

    def test_pods_are_not_evicted_without_a_yes(
        self, live: Cluster, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["device", "taint", "pool=n1", "m:NoExecute"]) == USAGE
        assert "no terminal to ask on: add --yes" in capsys.readouterr().err
        assert rules(live) == []

    @pytest.mark.parametrize("answer, code, left", [("y", FINE, 1), ("n", FINDINGS, 0), ("", FINDINGS, 0)])
    def test_the_question_names_the_cluster(
        self,
        live: Cluster,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        answer: str,
        code: int,
        left: int,
    ) -> None:
        monkeypatch.setattr("weir.cli._confirm.check_askable", lambda yes: None)
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{answer}\n"))
        assert run(["device", "taint", "pool=n1", "m:NoExecute"]) == code
        assert "evict 1 pod in context test (https://cluster.test:6443)? [y/N]" in capsys.readouterr().err
        assert len(rules(live)) == left

    def test_a_dry_run_writes_nothing(self, live: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["device", "taint", "pool=n1", "m:None", "--dry-run"]) == FINE
        said = capsys.readouterr().err
        assert "1 pod would have to leave if the effect was NoExecute" in said
        assert said.endswith("nothing was written\n")
        assert rules(live) == []

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["pool=elsewhere"], "the rule is for another pool; `weir device list -o name`"),
            (
                ["--cel", f"device.attributes['{DRIVER}'].nope == 1"],
                "devices for which a selector fails are not selected: selector #0: runtime error: no such key: nope",
            ),
        ],
    )
    def test_a_rule_that_selects_nothing_says_why(
        self, live: Cluster, capsys: pytest.CaptureFixture[str], words: list[str], said: str
    ) -> None:
        assert run(["device", "taint", *words, "hot:NoSchedule", "--dry-run"]) == FINDINGS
        assert said in capsys.readouterr().err

    def test_everything_must_be_typed_out(self, live: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["device", "taint", "m:NoExecute"]) == USAGE
        assert run(["device", "taint", "*", "m:NoExecute"]) == USAGE
        assert "--all-devices" in capsys.readouterr().err
        assert rules(live) == []
        assert run(["device", "taint", "m:NoSchedule", "--all-devices"]) == FINE
        assert rules(live)[0]["spec"]["deviceSelector"] == {}

    def test_an_old_cluster_gets_its_own_version(
        self, live: Cluster, capsys: pytest.CaptureFixture[str]
    ) -> None:
        live.missing = ("v1", "v1beta2")  # type: ignore[attr-defined]
        assert run(["device", "taint", "pool=n1", "m:None"]) == FINE
        assert "apiVersion: resource.k8s.io/v1alpha3" in capsys.readouterr().out
        assert len(rules(live)) == 1

    def test_a_cluster_that_would_drop_part_of_the_selector_is_not_written_to(
        self, live: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        real = Client.patch

        async def forgetful(self: Client, kind: Any, name: str, body: Any, *rest: Any, **more: Any) -> Any:
            document = json.loads(body)
            document["spec"]["deviceSelector"].pop("selectors")
            return await real(self, kind, name, json.dumps(document).encode(), *rest, **more)

        monkeypatch.setattr(Client, "patch", forgetful)
        assert run(["device", "taint", "--cel", "device.driver == 'x'", "m:NoExecute"]) != FINE
        assert "would only keep {} of the selector; nothing was written" in capsys.readouterr().err
        assert rules(live) == []

    @pytest.mark.parametrize(
        "words",
        [
            ["gpu-0", "m:NoExecute"],
            ["a//b", "m:NoExecute"],
            ["pool=", "m:NoExecute"],
            ["pool=a,pool=b", "m:NoExecute"],
            ["color=a", "m:NoExecute"],
            ["pool=a", "m"],
            ["pool=a", "m:PreferNoSchedule"],
            ["pool=a", "!:None"],
            ["pool=a", "--cel", "device.nope", "m:None"],
            ["pool=a", "x", "m:None"],
            [],
        ],
    )
    def test_what_cannot_be_meant_is_one_line(
        self, words: list[str], live: Cluster, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["device", "taint", *words]) == USAGE
        assert capsys.readouterr().err.count("\n") == 1
        assert rules(live) == []


class TestUntaint:
    def test_exactly_the_rule_that_was_made_is_removed(self, live: Cluster) -> None:
        for words in (["pool=n1", "m:None"], ["pool=n1", "other:None"], ["pool=n2", "m:None"]):
            assert run(["device", "taint", *words]) == FINE
        assert run(["device", "untaint", "pool=n1", "m", "--dry-run"]) == FINE
        assert len(rules(live)) == 3
        assert run(["device", "untaint", "pool=n1", "m", "--yes"]) == FINE
        left = [(one["spec"]["deviceSelector"]["pool"], one["spec"]["taint"]["key"]) for one in rules(live)]
        assert sorted(left) == [("n1", "other"), ("n2", "m")]

    def test_a_drivers_taint_is_named_not_removed(
        self, live: Cluster, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["device", "untaint", f"{DRIVER}/n1/gpu-1", "hot"]) == FINDINGS
        assert "these devices have it from ResourceSlice n1-gpus" in capsys.readouterr().err


@pytest.mark.parametrize("command, last", [("untaint", "KEY"), ("taint", "KEY[=VALUE]:EFFECT")])
@pytest.mark.parametrize("selector", [f"{DRIVER}/n1/gpu-1", "*/*/gpu-1", "pool=n1"])
def test_a_selector_without_a_taint_is_asked_for_the_taint(command, last, selector, capsys):
    assert run(["device", command, selector]) == USAGE
    assert f"'{selector}' selects devices: which taint? write SELECTOR {last}" in capsys.readouterr().err


class Refusing:
    """A client that may not list some kinds, and whose server does not have others."""

    def __init__(self, **refusals: type[Exception]) -> None:
        self.refusals = refusals

    async def pages(self, kind: Any, *_: object, **__: object) -> Any:
        if refusal := self.refusals.get(kind.kind):
            raise refusal("no")
        return
        yield


def test_every_kind_that_may_not_be_listed_is_named_before_a_rule_is_written():
    with pytest.raises(CannotSay, match="devicetaintrules and pods could not be read: you may not list them"):
        asyncio.run(fetch(Refusing(Pod=Forbidden, DeviceTaintRule=Forbidden)))


def test_a_kind_that_the_server_does_not_have_has_no_objects():
    assert asyncio.run(fetch(Refusing(DeviceTaintRule=NotFound))) == []
