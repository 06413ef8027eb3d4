"""Claims about the plugin MutatingAdmissionPolicy: what policies change, who runs again, and who is refused."""

# ruff: noqa: E501  (tables read better on long lines)

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.apiserver.admission_world import Objects, create, namespace, ordinary, stored
from weir.apiserver.admission import Attributes, Chain
from weir.apiserver.admission.mutating_policies import MutatingPolicies
from weir.errors import ApiError, Forbidden
from weir.objects.defaults import default
from weir.objects.document import check
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind

VERSION = "admissionregistration.k8s.io/v1"
RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}


def apply(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def data(text: str) -> dict[str, Any]:
    return apply(f"Object{{data: {text}}}")


def policy(name: str, *mutations: dict[str, Any], **spec: Any) -> list[dict[str, Any]]:
    whole = {"matchConstraints": {"resourceRules": [RULE]}, "mutations": list(mutations), **spec}
    bound = stored(VERSION, "MutatingAdmissionPolicyBinding", name, spec={"policyName": name})
    return [stored(VERSION, "MutatingAdmissionPolicy", name, spec=whole), bound]


def settle(document: dict[str, Any], kind: Kind) -> dict[str, Any]:
    made, _ = check(document, kind, field_validation="Strict")
    default(made, kind)
    return made


def config(**values: str) -> dict[str, Any]:
    return stored("v1", "ConfigMap", "c", "ns", data=dict(values))


def changed(*policies: dict[str, Any], a: Attributes | None = None, webhooks: Any = None) -> Any:
    """Return the data of a ConfigMap after a whole admission."""
    objects = Objects(*ordinary().documents, *policies)
    a = a or create(config(a="1"))
    chain = Chain.build(objects, more=[MutatingPolicies(objects, settle)], webhooks=webhooks)
    pending = chain.mutate(a)
    assert pending is not None, "no policy was about the write"

    async def done() -> None:
        await pending

    asyncio.run(done())
    assert a.object is not None
    return a.object.get("data")


@pytest.mark.parametrize(
    ("mutations", "left"),
    [
        ([data("{'b': object.data.a + '!'}")], {"a": "1", "b": "1!"}),
        ([patch("[JSONPatch{op: 'replace', path: '/data/a', value: '2'}]")], {"a": "2"}),
        ([patch("[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('x'), value: 'y'}]")], {"a": "1", "x": "y"}),
        ([patch("[JSONPatch{op: 'test', path: '/data/a', value: '2'}, JSONPatch{op: 'remove', path: '/data/a'}]")], {"a": "1"}),
        ([data("{'b': '1'}"), data("{'c': object.data.b + '2'}")], {"a": "1", "b": "1", "c": "12"}),
        ([patch("has(object.data.z) ? [JSONPatch{op: 'remove', path: '/data/z'}] : []")], {"a": "1"}),
    ],
)  # fmt: skip
def test_what_a_policy_changes(mutations, left):
    assert changed(*policy("p", *mutations)) == left


def test_containers_are_merged_by_name_and_defaults_filled_in():
    sidecar = apply(
        "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 'proxy:1'}, "
        "Object.spec.containers{name: 'c', workingDir: '/'}]}}"
    )
    written = stored("v1", "Pod", "p", "ns", spec={"containers": [{"name": "c", "image": "app"}]})
    a = create(written)
    changed(*policy("p", sidecar), a=a)
    found = {one["name"]: one for one in a.object["spec"]["containers"]}
    assert found["c"]["image"] == "app" and found["c"]["workingDir"] == "/"
    assert found["side"]["imagePullPolicy"] == "IfNotPresent"


@pytest.mark.parametrize(
    ("mutation", "said"),
    [
        (data("{'b': string(object.data.zzz)}"), "resulted in error: no such key: zzz"),
        (apply("Object{bogus: 1}"), "failed to convert patch object to typed object: .bogus: field not declared in schema"),
        (
            apply("Object{metadata: Object.spec{}}"),
            'type mismatch: unexpected type name "Object.spec", expected "Object.metadata"',
        ),
        (patch("[JSONPatch{op: 'remove', path: '/data/zzz'}]"), "JSON Patch: error in remove for path: '/data/zzz'"),
        (
            apply("Object{metadata: Object.metadata{ownerReferences: null}}"),
            ".metadata.ownerReferences: expected list, got",
        ),
        (apply("Object{immutable: null}"), ".immutable: expected boolean, got"),
    ],
)  # fmt: skip
def test_a_mutation_that_cannot_be_made_is_refused_or_ignored(mutation, said):
    with pytest.raises(Forbidden) as caught:
        changed(*policy("p", mutation))
    assert caught.value.message.startswith("policy 'p' with binding 'p' denied request: ")
    assert said in caught.value.message and caught.value.reason == "Invalid"
    assert changed(*policy("p", mutation, failurePolicy="Ignore")) == {"a": "1"}


def test_what_is_owned_whole_is_left_alone():
    written = stored("v1", "Pod", "p", "ns", spec={"containers": [{"name": "c", "image": "app"}]})
    args = apply("Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', args: ['x']}]}}")
    with pytest.raises(
        Forbidden, match=r"may not mutate atomic arrays, maps or structs: \.spec\.containers\[0\]\.args"
    ):
        changed(*policy("p", args), a=create(written))


def test_a_patch_that_makes_no_object_of_the_kind_is_the_servers_error():
    with pytest.raises(ApiError, match="cannot unmarshal number") as caught:
        changed(*policy("p", patch("[JSONPatch{op: 'add', path: '/data', value: 1}]")))
    assert caught.value.code == 500


@pytest.mark.parametrize(("reinvocation", "count"), [("IfNeeded", "11"), ("Never", "1")])
def test_a_policy_that_ran_before_a_change_runs_again_once_if_it_wants_to(reinvocation, count):
    first = policy(
        "a", data("{'n': (has(object.data.n) ? object.data.n : '') + '1'}"), reinvocationPolicy=reinvocation
    )
    second = policy("b", data("{'b': 'x'}"))
    assert changed(*first, *second)["n"] == count


def test_a_policy_after_which_nothing_changed_does_not_run_again():
    only = policy(
        "a", data("{'n': (has(object.data.n) ? object.data.n : '') + '1'}"), reinvocationPolicy="IfNeeded"
    )
    assert changed(*only)["n"] == "1"


class Hooks:
    """Webhooks that come after policies: they see what those left, and may change it themselves."""

    def __init__(self, changes: bool) -> None:
        self.changes, self.saw = changes, []

    def mutate(self, a, again):
        async def ask():
            self.saw.append(dict(a.object["data"]))
            if self.changes:
                a.object["data"] = {**a.object["data"], "hook": "y"}
            if self.changes or a.rounds.changed:
                again(a)

        return ask()

    def validate(self, a):
        return None


def test_webhooks_see_what_policies_left_and_policies_look_again_after_webhooks():
    noted = policy(
        "p", data("{'seen': has(object.data.hook) ? object.data.hook : 'n'}"), reinvocationPolicy="IfNeeded"
    )
    hooks = Hooks(changes=True)
    assert changed(*noted, webhooks=hooks) == {"a": "1", "hook": "y", "seen": "y"}
    assert hooks.saw == [{"a": "1", "seen": "n"}]


def test_match_conditions_and_parameters_decide_as_for_validating_policies():
    conditions = [{"name": "c", "expression": "object.data.a == '2'"}]
    assert changed(*policy("p", data("{'b': 'x'}"), matchConditions=conditions)) == {"a": "1"}
    with pytest.raises(Forbidden, match='policy "p" denied request: failed to configure policy'):
        changed(*policy("p", data("{'b': 'x'}"), paramKind={"apiVersion": "a.b/v1", "kind": "Gone"}))


def test_deletions_and_policies_themselves_are_not_changed():
    plugin = MutatingPolicies(Objects(namespace()), settle)
    assert plugin.handles("CREATE", by_kind("v1", "Pod"), "")
    assert not plugin.handles("DELETE", by_kind("v1", "Pod"), "")
    assert not plugin.handles("CREATE", by_kind(VERSION, "MutatingAdmissionPolicy"), "")
