"""The controller that type-checks policies writes each generation's status once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace

from weir.client.api import APPLY_PATCH
from weir.client.cache import ObjectKey
from weir.controllers.compat.policy_status import POLICIES, CheckWithDefinitions, PolicyStatus
from weir.controllers.runtime.listers import Listers
from weir.errors import NotFound
from weir.gates import Gates
from weir.objects.kinds import CUSTOM_RESOURCE_DEFINITIONS as DEFINITIONS

T0 = datetime(2026, 1, 1, tzinfo=UTC)
RULE = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}


def policy(expression, observed=None, rule=RULE):
    return {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": {"name": "p", "uid": "p", "resourceVersion": "1", "generation": 2},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]},
        "status": {} if observed is None else {"observedGeneration": observed},
    }


def actions(document, name="p"):
    return list(PolicyStatus(Gates()).reconcile(ObjectKey("", name), Listers.of([document]), T0))


def test_a_policy_gets_its_warnings_and_the_generation_they_are_about():
    (found,) = actions(policy("object.spec.bogus == 1", observed=1))
    assert (found.kind, found.name, found.patch_type, found.subresource) == (
        POLICIES,
        "p",
        APPLY_PATCH,
        "status",
    )
    assert (found.field_manager, found.force) == ("validatingadmissionpolicy-status", True)
    status = found.patch["status"]
    assert status["observedGeneration"] == 2
    (warning,) = status["typeChecking"]["expressionWarnings"]
    assert (
        warning["fieldRef"] == "spec.validations[0].expression"
        and "undefined field 'bogus'" in warning["warning"]
    )


def test_a_policy_without_warnings_says_that_it_was_checked():
    (found,) = actions(policy("object.spec.replicas == 1"))
    assert found.patch["status"] == {"observedGeneration": 2, "typeChecking": {}}


def test_what_was_checked_or_is_gone_is_left_alone():
    assert actions(policy("object.spec.bogus == 1", observed=2)) == []
    assert actions(policy("true"), "gone") == []


CUSTOM_RULE = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"]}
NAMES = {"plural": "widgets", "kind": "Widget", "singular": "widget"}
WIDGETS = {
    "apiVersion": DEFINITIONS.api_version,
    "kind": DEFINITIONS.kind,
    "metadata": {"name": "widgets.example.com", "resourceVersion": "1"},
    "spec": {
        "group": "example.com",
        "names": NAMES,
        "scope": "Cluster",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
    "status": {"acceptedNames": NAMES, "conditions": [{"type": "Established", "status": "True"}]},
}


class Server:
    def __init__(self, gone=False):
        self.patches, self.gone = [], gone

    async def list(self, kind):
        assert kind is DEFINITIONS
        return SimpleNamespace(documents=lambda: [WIDGETS])

    async def patch(self, kind, name, patch, **options):
        if self.gone:
            raise NotFound("gone")
        self.patches.append((kind, name, patch["status"], options))


def test_a_policy_about_custom_kinds_is_checked_with_the_definitions_of_the_server():
    (action,) = actions(policy("object.bogus == 1", rule=CUSTOM_RULE))
    assert isinstance(action, CheckWithDefinitions)
    server = Server()
    asyncio.run(action.carry_out(SimpleNamespace(client=server)))
    ((kind, name, status, options),) = server.patches
    assert (kind, name, status["observedGeneration"], options["subresource"]) == (POLICIES, "p", 2, "status")
    assert "example.com/v1, Kind=Widget: ERROR" in status["typeChecking"]["expressionWarnings"][0]["warning"]
    asyncio.run(action.carry_out(SimpleNamespace(client=Server(gone=True))))


def test_what_the_core_group_stands_for_is_looked_up_in_the_copy():
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    document = policy("object.bogus == 1", rule=rule)
    definition = {**WIDGETS, "spec": {**WIDGETS["spec"], "names": {**NAMES, "plural": "pods"}}}
    found = PolicyStatus(Gates()).reconcile(ObjectKey("", "p"), Listers.of([document, definition]), T0)
    (warning,) = next(iter(found)).patch["status"]["typeChecking"]["expressionWarnings"]
    assert "/v1, Kind=Pod:" in warning["warning"] and "example.com/v1, Kind=Widget:" in warning["warning"]


def test_definitions_do_not_wake_it():
    assert list(PolicyStatus(Gates()).changed(DEFINITIONS, None, WIDGETS)) == []
