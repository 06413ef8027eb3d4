"""Weir's decoder, defaults, patches and field ownership against Kubernetes' own, on random documents.

The program of `tools/machinery` answers with what Kubernetes makes of a body, a patch, an update or an apply. Every
answer must be the same: objects, managedFields and the words of every refusal.
"""

from __future__ import annotations

import copy
import json
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kubernetes.oracles import oracle
from tests.unit.objects.documents import documents
from weir.apiserver.patches import converter, merge, strategic
from weir.apiserver.patches import json as json_patch
from weir.apiserver.patches.apply import apply, update_managed_fields
from weir.apiserver.registry.conversion import from_storage, to_storage
from weir.errors import ApiError
from weir.objects import kinds, schema
from weir.objects.defaults import default
from weir.objects.document import check, decode
from weir.objects.kind import Kind

HERE = Path(__file__).parent
TABLE = HERE.parents[1] / "src" / "weir" / "objects" / "fields.json"
NOW = "2026-01-01T00:00:00Z"
POD = kinds.by_kind("v1", "Pod")
#: Kubernetes does not have v1alpha4 of resource.k8s.io, the dialect of the KEPs' stories (dra.md D-17).
STORED = [
    kind
    for kind in kinds.KINDS
    if kind.stored and kind.version != "v1alpha4" and schema.find_root(kind.api_version, kind.kind)
]
Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Return a function that asks Kubernetes: an object, or the words of a refusal."""
    with subprocess.Popen(
        [oracle("machinery")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin and process.stdout
        to, back = process.stdin, process.stdout

        def question(op: str, kind: Kind = POD, **rest: Any) -> dict[str, Any]:
            print(
                json.dumps({"op": op, "version": kind.api_version, "kind": kind.kind, **rest}),
                file=to,
                flush=True,
            )
            found: dict[str, Any] = json.loads(back.readline())
            return found

        yield question
        process.kill()


def test_the_field_table_is_what_the_types_say() -> None:
    made = subprocess.run([oracle("fields")], check=True, capture_output=True, text=True).stdout
    assert made == TABLE.read_text("utf-8")


def of_kinds(odd: bool) -> st.SearchStrategy[tuple[Kind, dict[str, Any]]]:
    def sample(kind: Kind) -> st.SearchStrategy[tuple[Kind, dict[str, Any]]]:
        root = schema.find_root(kind.api_version, kind.kind)
        assert root is not None
        return st.tuples(st.just(kind), documents(root.name, 5, odd))

    return st.sampled_from(STORED).flatmap(sample)


#: Fields weir adds, and the one default that is the time of day.
WEIRS_OWN = {row[0] for rows in schema.ADDED.values() for row in rows} | {"timeAdded", "taint"}


def known_to_both(kind: Kind, document: Any) -> bool:
    """Whether Kubernetes can have an opinion: nothing of weir's own is in *document*, nor a device taint."""
    own = WEIRS_OWN if kind.group == "resource.k8s.io" else {"expression"}
    return kind.kind != "DeviceTaintRule" and not _has_key(document, own)


def _has_key(document: Any, keys: set[str]) -> bool:
    if isinstance(document, dict):
        return bool(keys & document.keys()) or any(_has_key(item, keys) for item in document.values())
    return isinstance(document, list) and any(_has_key(item, keys) for item in document)


MANY = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))


@MANY
@given(of_kinds(odd=True))
def test_bodies_are_read_defaulted_or_refused_alike(ask: Ask, sample: tuple[Kind, dict[str, Any]]) -> None:
    kind, document = sample
    if not known_to_both(kind, document):
        return
    body = json.dumps({**document, "apiVersion": kind.api_version, "kind": kind.kind})
    theirs = ask("decode", kind, body=body)
    try:
        ours, warnings = decode(body.encode(), kind)
    except ApiError as error:
        assert error.message == theirs.get("error")
        return
    default(ours, kind)
    ours = through_storage(kind, ours)
    if ours["metadata"].get("managedFields") == []:
        del ours["metadata"]["managedFields"]
    assert (ours, warnings) == (theirs.get("object"), theirs.get("warnings", []))


@MANY
@given(of_kinds(odd=True))
def test_merged_objects_that_do_not_fit_are_told_alike(ask: Ask, sample: tuple[Kind, dict[str, Any]]) -> None:
    kind, document = sample
    if not known_to_both(kind, document):
        return
    document = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
    theirs = ask("convert", kind, body=json.dumps(document)).get("error", "")
    try:
        converter.read_merged(document, {}, kind, field_validation="Strict")
    except ApiError as error:
        assert error.message == f' "" is invalid: patch: Invalid value: "map[]": {theirs}'
    else:
        assert theirs == ""


#: What strategies take back from whoever writes an object itself: mostly its status.
STATUS = [["status"]]
NOT_BY_USERS = {"CertificateSigningRequest": [["spec"], ["status"]]}


def scales_by_no_policy(document: dict[str, Any]) -> bool:
    """Whether an autoscaler has the one empty list that is not the same as none, and is refused for it."""
    behavior = (document.get("spec") or {}).get("behavior") or {}
    return any(rules.get("policies") == [] for rules in behavior.values() if isinstance(rules, dict))


def timeless(document: dict[str, Any]) -> Any:
    entries = document["metadata"].get("managedFields") or []
    return sorted(
        ({**entry, "time": bool(entry.get("time"))} for entry in entries), key=lambda entry: json.dumps(entry)
    )


def read(kind: Kind, document: dict[str, Any]) -> dict[str, Any]:
    metadata = {
        key: value for key, value in (document.get("metadata") or {}).items() if key != "managedFields"
    }
    body = {
        **document,
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {**metadata, "uid": "u"},
    }
    found, _ = decode(json.dumps(body).encode(), kind)
    default(found, kind)
    return through_storage(kind, found)


def through_storage(kind: Kind, document: dict[str, Any]) -> dict[str, Any]:
    """An object as the real program has it: read into the version that is stored, and told in that of the request.

    What the stored version lacks is in an autoscaler's annotations then, and what it does not tell apart from nothing
    (a device's `basic` of v1beta1) is there.
    """
    return from_storage(kind, to_storage(kind, document))


@MANY
@given(of_kinds(odd=False), st.data())
def test_updates_are_owned_alike(ask: Ask, sample: tuple[Kind, dict[str, Any]], data: st.DataObject) -> None:
    kind, first = sample
    root = schema.find_root(kind.api_version, kind.kind)
    assert root is not None
    second = data.draw(documents(root.name, 5))
    if not known_to_both(kind, [first, second]):
        return
    live: dict[str, Any] | None = None
    for manager, document in (("one", first), (data.draw(st.sampled_from(["one", "two"])), second)):
        new = read(kind, document)
        if scales_by_no_policy(new):
            return
        reset = NOT_BY_USERS.get(kind.kind, STATUS)
        theirs = ask("update", kind, live=live, new=new, manager=manager, reset=reset)
        if "error" in theirs:  # items without their key: the server keeps what it knew
            return
        update_managed_fields(new, live, kind, manager=manager, now=NOW)
        assert timeless(new) == timeless(theirs["object"])
        live = new


# ── patches and applies: small worlds where collisions are likely ────────────────────────────────


def some(chance: random.Random, choices: dict[str, Any]) -> dict[str, Any]:
    return {key: make() if callable(make) else make for key, make in choices.items() if chance.random() < 0.5}


def container(chance: random.Random) -> dict[str, Any]:
    return {
        "name": chance.choice("abc"),
        **some(
            chance,
            {
                "image": chance.choice("xy"),
                "command": chance.choice([["p"], ["p", "q"]]),
                "env": [{"name": name, "value": chance.choice("12")} for name in chance.sample("EF", 1)],
                "ports": [
                    {"containerPort": port} for port in chance.sample([80, 81], chance.randrange(1, 3))
                ],
                "resources": chance.choice([{}, {"limits": {"cpu": chance.choice("12")}}]),
            },
        ),
    }


def pod(chance: random.Random) -> dict[str, Any]:
    containers = {item["name"]: item for item in (container(chance) for _ in range(chance.randrange(1, 4)))}
    metadata = some(
        chance,
        {
            "labels": {key: chance.choice("12") for key in chance.sample("lmn", 2)},
            "finalizers": chance.sample(["f/a", "f/b", "f/c"], 2),
        },
    )
    spec = some(
        chance,
        {
            "containers": list(containers.values()),
            "tolerations": [{"key": chance.choice("kj"), "operator": "Exists"}],
            "nodeSelector": {"a": chance.choice("12")},
            "securityContext": chance.choice([{}, {"runAsUser": 1}, {"runAsUser": 2}]),
            "volumes": [{"name": "v", **chance.choice([{"emptyDir": {}}, {"hostPath": {"path": "/x"}}])}],
            "hostNetwork": chance.choice([True, False]),
        },
    )
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", **metadata}, "spec": spec}


@pytest.mark.parametrize("seed", range(40))
def test_a_history_of_applies_and_updates_goes_alike(ask: Ask, seed: int) -> None:
    chance = random.Random(seed)
    live: dict[str, Any] | None = None
    for _ in range(8):
        manager, force = chance.choice(["one", "two", "kubectl"]), chance.random() < 0.5
        configuration = pod(chance)
        if live is not None and chance.random() < 0.3:
            new, _ = check({**copy.deepcopy(live), "spec": {**live["spec"], **configuration["spec"]}}, POD)
            default(new, POD)
            theirs = ask("update", live=live, new=new, manager=manager, reset=STATUS)
            update_managed_fields(new, live, POD, manager=manager, now=NOW)
            assert timeless(new) == timeless(theirs["object"])
            live = theirs["object"]
            continue
        body = json.dumps(configuration)
        theirs = ask("apply", live=live, body=body, manager=manager, force=force, reset=STATUS)
        try:
            made = apply(live, body.encode(), POD, manager=manager, force=force, now=NOW)
        except ApiError as error:
            assert sorted(error.message.split("\n")) == sorted(theirs.get("error", "").split("\n"))
            continue
        default(made, POD)
        assert timeless(made) == timeless(theirs["object"])
        made["metadata"].pop("managedFields", None)
        live = copy.deepcopy(theirs["object"])
        theirs["object"]["metadata"].pop("managedFields", None)
        assert made == theirs["object"]
        live["metadata"]["uid"] = "u"


def spoilt(chance: random.Random, overlay: dict[str, Any]) -> dict[str, Any]:
    """Return a strategic patch with at most one directive (several errors come in any order)."""
    spec, metadata = overlay["spec"], overlay["metadata"]
    match chance.randrange(8):
        case 0 if spec.get("containers"):
            spec["containers"][0]["$patch"] = chance.choice(["delete", "replace", "merge", "odd"])
        case 1 if metadata.get("labels"):
            metadata["labels"]["$patch"] = chance.choice(["replace", "delete", "odd"])
        case 2:
            metadata.pop("finalizers", None)
            metadata["$deleteFromPrimitiveList/finalizers"] = ["f/a"]
        case 3 if spec.get("containers"):
            spec["$setElementOrder/containers"] = [{"name": name} for name in chance.sample("abc", 3)]
            order = [item["name"] for item in spec["$setElementOrder/containers"]]
            spec["containers"].sort(key=lambda item: order.index(item["name"]))
        case 4 if spec.get("volumes"):
            volume = spec["volumes"][0]
            volume["$retainKeys"] = list(volume)
        case 5 if spec.get("containers"):
            del spec["containers"][-1]["name"]
        case 6:
            spec["nodeSelector"] = {"a": None, "b": "1"}
    return overlay


@pytest.mark.parametrize("seed", range(300))
def test_strategic_patches_come_out_alike(ask: Ask, seed: int) -> None:
    chance = random.Random(seed)
    document, overlay = pod(chance), spoilt(chance, pod(chance))
    body = json.dumps(overlay)
    theirs = ask("strategic", live=document, body=body)
    try:
        ours: Any = strategic.patch(document, body.encode(), POD)
    except ApiError as error:
        ours = error.message
    assert ours == theirs.get("object", theirs.get("error"))


def value(chance: random.Random, depth: int = 0) -> Any:
    roll = chance.random()
    if depth > 2 or roll < 0.5:
        return chance.choice([1, 2, "a", "b", True, None])
    if roll < 0.75:
        return {chance.choice("abc"): value(chance, depth + 1) for _ in range(chance.randrange(3))}
    return [value(chance, depth + 1) for _ in range(chance.randrange(3))]


@pytest.mark.parametrize("seed", range(300))
def test_merge_and_json_patches_come_out_alike(ask: Ask, seed: int) -> None:
    chance = random.Random(seed)
    document, overlay = ({chance.choice("abcd"): value(chance) for _ in range(4)} for _ in range(2))
    assert (
        merge.patch(document, json.dumps(overlay).encode())
        == ask("merge", live=document, body=json.dumps(overlay))["object"]
    )
    operations = []
    for _ in range(chance.randrange(1, 4)):
        paths = [
            "".join(
                "/" + chance.choice(["a", "b", "0", "1", "-", "-1"]) for _ in range(chance.randrange(1, 3))
            )
            for _ in "ab"
        ]
        name = chance.choice(["add", "add", "remove", "replace", "test", "copy", "move"])
        operations.append({"op": name, "path": paths[0], "from": paths[1], "value": value(chance)})
    theirs = ask("json", live=document, body=json.dumps(operations))
    if theirs.get("error", "").startswith("panic"):
        return
    try:
        ours = json_patch.patch(document, json.dumps(operations).encode())
    except ApiError:
        assert "error" in theirs
    else:
        assert ours == theirs.get("object")
