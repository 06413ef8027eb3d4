"""The controller that type-checks policies writes each generation's status once."""

from __future__ import annotations

from datetime import UTC, datetime

from weir.client.api import APPLY_PATCH
from weir.controllers.cluster.policy_status import POLICIES, PolicyKey, PolicyStatus
from weir.controllers.runtime.listers import Listers
from weir.gates import Gates

T0 = datetime(2026, 1, 1, tzinfo=UTC)
RULE = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}


def policy(expression, observed=None):
    return {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": {"name": "p", "uid": "p", "resourceVersion": "1", "generation": 2},
        "spec": {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": expression}]},
        "status": {} if observed is None else {"observedGeneration": observed},
    }


def actions(document, name="p"):
    return list(PolicyStatus(Gates()).reconcile(PolicyKey(name), Listers.of([document]), T0))


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
