"""Every recorded refusal of a real API server, said again word for word.

The fixtures hold requests and answers in order; the test keeps the objects as the recorded answers show them and asks
the validator what each refused request deserves. Only the text before a diff is compared: fixtures record hunks whose
line numbers depend on fields of the release.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.golden.recording import RECORDED
from weir.gates import KUBERNETES_DEFAULTS
from weir.validate import validate

pytestmark = pytest.mark.proves("5471-57")

AREAS = (
    "pod_tolerations", "affinity", "pod_updates", "nodes", "volumes", "extra", "generic", "gate_off", "deletes",
    "patches", "dra", "device_taint",
)  # fmt: skip
#: Refusals that are not about an object: options, and patches that do not apply.
NOT_OBJECTS = {"ListOptions", "DeleteOptions", "PatchOptions", ""}
#: What validation accepts on purpose, and why.
DECISIONS = {
    ("dra", "claim-tol-bad-operator"): "dra.md D-15: device tolerations take the operators of pods",
    ("dra", "claim-admin-access"): "the namespace's label is looked up by the server, not by validation",
}
#: Maps are walked in no fixed order upstream (core.md 2.1).
UNORDERED = {("affinity", "nodeselector-bad")}
SUBRESOURCES = ("status", "resize", "ephemeralcontainers")


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = copy.deepcopy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged


def _written(
    request: dict[str, Any], stored: dict[str, Any] | None, subresource: str
) -> dict[str, Any] | None:
    """Return the object a request asks to store, or None when it is no write this test can follow."""
    body, content = request.get("body"), (request.get("headers") or {}).get("Content-Type", "")
    if request["method"] == "POST":
        return body if isinstance(body, dict) and body.get("kind") and not subresource else None
    if stored is None or not isinstance(body, dict):
        return None
    if request["method"] == "PUT":
        return body
    if content.startswith("application/merge-patch"):
        return _merge(stored, body)
    if subresource == "resize":
        new = copy.deepcopy(stored)
        for container, change in zip(new["spec"]["containers"], body["spec"]["containers"], strict=True):
            container["resources"] = change["resources"]
        return new
    return None


def _refusals() -> Iterator[Any]:
    for area in AREAS:
        objects: dict[str, dict[str, Any]] = {}
        for fixture in json.loads((RECORDED / f"{area}.json").read_text()):
            request, response = fixture["request"], fixture["response"]
            path, answer = request["path"].partition("?")[0], response.get("body")
            subresource = next((s for s in SUBRESOURCES if path.endswith("/" + s)), "")
            key = path.removesuffix("/" + subresource) if subresource else path
            new = _written(request, objects.get(key), subresource)
            if (
                response["code"] == 422
                and answer["details"].get("kind", "") not in NOT_OBJECTS
                and new is not None
            ):
                old = None if request["method"] == "POST" else objects[key]
                yield pytest.param(
                    area, fixture["name"], new, old, subresource, answer, id=f"{area}/{fixture['name']}"
                )
            if (
                response["code"] in (200, 201)
                and isinstance(answer, dict)
                and "dryRun" not in request["path"]
            ):
                name = (answer.get("metadata") or {}).get("name")
                if name and answer.get("kind") != "Status":
                    objects[f"{key}/{name}" if request["method"] == "POST" else key] = answer


REFUSALS = list(_refusals())


@pytest.mark.parametrize(("area", "name", "new", "old", "subresource", "answer"), REFUSALS)
def test_a_recorded_refusal_is_said_again_in_the_same_words_and_order(
    area: str,
    name: str,
    new: dict[str, Any],
    old: dict[str, Any] | None,
    subresource: str,
    answer: dict[str, Any],
) -> None:
    gates = KUBERNETES_DEFAULTS.replace({"TaintTolerationComparisonOperators": area != "gate_off"})
    errors = {str(error): error for error in validate(new, old, gates, subresource)}
    said = [(e.type, e.field, e.body.partition("\n")[0]) for e in errors.values()]
    wanted = [(c["reason"], c["field"], c["message"].partition("\n")[0]) for c in answer["details"]["causes"]]
    if (area, name) in DECISIONS:
        wanted = []
    if (area, name) in UNORDERED:
        said, wanted = sorted(said), sorted(wanted)
    assert said == wanted


def test_the_fixtures_hold_enough_refusals_to_mean_something() -> None:
    assert len(REFUSALS) >= 100
