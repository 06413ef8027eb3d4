"""Validation of podFailurePolicy and successPolicy of a Job.

Spec: upstream's rules for Job. Rules name containers of the template, exit codes and pod conditions; a success policy
names indexes and needs an Indexed Job.
"""

from __future__ import annotations

import re
from typing import Any, Final

from weir.validate import field
from weir.validate.core.pod_template import validate_not_negative
from weir.validate.field import Bare, Document, Errors
from weir.values.names import check_label_key

_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")
_MAX_RULES: Final = 20
_MAX_VALUES: Final = 255


def _listed(values: tuple[str, ...]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def validate_failure_policy(spec: Document, at: str) -> Errors:
    """Yield what is wrong with the pod failure policy of a job."""
    policy = spec.get("podFailurePolicy")
    if policy is None:
        return
    rules, pod = policy.get("rules") or [], (spec.get("template") or {}).get("spec") or {}
    names = {c.get("name") for key in ("containers", "initContainers") for c in pod.get(key) or ()}
    if len(rules) > _MAX_RULES:
        yield field.too_many(f"{at}.podFailurePolicy.rules", len(rules), _MAX_RULES)
    for i, rule in enumerate(rules):
        yield from _validate_rule(rule, names, f"{at}.podFailurePolicy.rules[{i}]")


def _validate_choice(value: str, allowed: tuple[str, ...], at: str) -> Errors:
    if not value:
        yield field.required(at, f"valid values: {_listed(allowed)}")
    elif value not in allowed:
        yield field.not_supported(at, value, allowed)


def _validate_rule(rule: Document, names: set[Any], at: str) -> Errors:
    yield from _validate_choice(rule.get("action") or "", _ACTIONS, f"{at}.action")
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
    if codes is not None:
        yield from _validate_exit_codes(codes, names, f"{at}.onExitCodes")
    if len(conditions) > _MAX_RULES:
        yield field.too_many(f"{at}.onPodConditions", len(conditions), _MAX_RULES)
    for i, condition in enumerate(conditions):
        where, kind = f"{at}.onPodConditions[{i}]", condition.get("type") or ""
        yield from field.each_invalid(f"{where}.type", kind, check_label_key(kind))
        yield from _validate_choice(condition.get("status") or "True", _STATUSES, f"{where}.status")
    if codes is not None and conditions:
        yield field.invalid(at, Bare("specifying both OnExitCodes and OnPodConditions is not supported"), "")
    if codes is None and not conditions:
        yield field.invalid(at, Bare("specifying one of OnExitCodes and OnPodConditions is required"), "")


def _validate_exit_codes(codes: Document, names: set[Any], at: str) -> Errors:
    operator = codes.get("operator") or ""
    yield from _validate_choice(operator, _OPERATORS, f"{at}.operator")
    name = codes.get("containerName")
    if name is not None and name not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        yield field.invalid(f"{at}.containerName", name, detail)
    values = codes.get("values") or []
    if not values:
        yield field.invalid(f"{at}.values", codes.get("values"), "at least one value is required")
    elif len(values) > _MAX_VALUES:
        yield field.too_many(f"{at}.values", len(values), _MAX_VALUES)
    seen: set[int] = set()
    ordered = True
    for i, value in enumerate(values):
        if operator == "In" and value == 0:
            yield field.invalid(f"{at}.values[{i}]", value, "must not be 0 for the In operator")
        if value in seen:
            yield field.duplicate(f"{at}.values[{i}]", value)
        if i and value < values[i - 1]:
            ordered = False
        seen.add(value)
    if not ordered:
        yield field.invalid(f"{at}.values", values, "must be ordered")


def validate_success_policy(spec: Document, at: str) -> Errors:
    """Yield what is wrong with the success policy of a job."""
    policy = spec.get("successPolicy")
    if policy is None:
        return
    rules, where = policy.get("rules") or [], f"{at}.successPolicy"
    if spec.get("completionMode") != "Indexed":
        yield field.invalid(where, _go_policy(policy), "requires indexed completion mode")
        return
    if not rules:
        yield field.required(
            f"{where}.rules", "at least one rules must be specified when the successPolicy is specified"
        )
    if len(rules) > _MAX_RULES:
        yield field.too_many(f"{where}.rules", len(rules), _MAX_RULES)
    for i, rule in enumerate(rules):
        yield from _validate_success_rule(rule, spec.get("completions"), f"{where}.rules[{i}]")


def _go_policy(policy: Document) -> dict[str, Any]:
    rules = [
        {"SucceededIndexes": rule.get("succeededIndexes"), "SucceededCount": rule.get("succeededCount")}
        for rule in policy.get("rules") or ()
    ]
    return {"Rules": rules or None}


def _validate_success_rule(rule: Document, completions: int | None, at: str) -> Errors:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if indexes is None and count is None:
        yield field.required(at, "at least one of succeededCount or succeededIndexes must be specified")
    chosen: int | None = None
    if indexes is not None:
        chosen, problem = _count_indexes(indexes, completions or 0)
        if problem:
            yield field.invalid(
                f"{at}.succeededIndexes", indexes, f"error parsing succeededIndexes: {problem}"
            )
    if count is None:
        return
    yield from validate_not_negative(rule, ("succeededCount",), at)
    if completions is not None and count > completions:
        detail = f"must be less than or equal to {completions} (the number of specified completions)"
        yield field.invalid(f"{at}.succeededCount", count, detail)
    if chosen is not None and count > chosen:
        detail = (
            f"must be less than or equal to {chosen} "
            "(the number of indexes in the specified succeededIndexes field)"
        )
        yield field.invalid(f"{at}.succeededCount", count, detail)


def _count_indexes(text: str, completions: int) -> tuple[int, str]:
    """Return how many indexes `0,2-4` names, and what is wrong with the text."""
    total, last = 0, -1
    for part in text.split(",") if text else ():
        ends = part.split("-")
        if len(ends) > 2:
            rule = "an index interval can have at most two parts separated by '-'"
            return 0, f'the fragment "{part}" violates the requirement that {rule}'
        numbers = []
        for end in ends:
            if not re.fullmatch(r"[0-9]{1,18}", end):
                return 0, f'cannot convert string to integer for index: "{end}"'
            if int(end) >= completions:
                return 0, f'too large index: "{end}"'
            numbers.append(int(end))
        if numbers[0] <= last:
            return 0, f"non-increasing order, previous: {last}, current: {numbers[0]}"
        if numbers[-1] < numbers[0]:
            return 0, f"non-increasing order, previous: {numbers[0]}, current: {numbers[-1]}"
        total, last = total + numbers[-1] - numbers[0] + 1, numbers[-1]
    return total, ""
