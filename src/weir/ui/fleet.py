"""Device screen: devices, their claims and taints, and previews of rules.

Devices are the document of `weir device list -o json`. A rule is built, named and previewed as by `weir device
taint`. Writing is in weir.ui.writes.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from weir.client.snapshot import DEVICES
from weir.device_rules.document import SCHEMA, device_document, distinguishing_attributes
from weir.device_rules.rule import make_rule, rule_effect, rule_name
from weir.devices.inventory import Inventory, Row
from weir.devices.notation import parse_selector
from weir.objects.core import read
from weir.objects.resource import DeviceTaintRule
from weir.output import to_yaml
from weir.taints.notation import DEVICE_EFFECTS, TaintNotationError, parse_taint, taint_document
from weir.ui.source import ClusterView, lacking
from weir.ui.timeline import BadQuestion

Document = dict[str, Any]
_NEEDED: Final = ("ResourceSlice", "ResourceClaim", "DeviceTaintRule", "Pod")
_LONGEST: Final = 4096
MOST_RULES: Final = 20


def inventory(seen: ClusterView) -> Inventory:
    """Return what the cluster says about devices."""
    return Inventory.of(seen.documents, seen.known.possible(())[0])


def cannot_say(seen: ClusterView) -> str:
    """Return why nothing can be said about devices; "" when it can."""
    if seen.held.dumped:
        return ""  # a cluster without devices is written down as none
    return lacking(seen, _NEEDED)


def fleet(seen: ClusterView) -> Document:
    """Return every device, the rules there are and how far their evictions are, and what happened to devices."""
    if why := cannot_say(seen):
        return {"schema": "weir.ui.fleet/v1", "cannotSay": f"cannot say which devices there are: {why}"}
    held = inventory(seen)
    rows = held.rows(datetime.now(UTC))
    return {
        "schema": "weir.ui.fleet/v1",
        "devices": {
            "schema": SCHEMA,
            "devices": [device_document(row) for row in rows],
            "problems": held.problems,
        },
        "telling": sorted(distinguishing_attributes(rows)),
        "rules": [_rule(each) for each in seen.documents if each.get("kind") == "DeviceTaintRule"],
        "events": [_event(each) for each in seen.documents if _about_devices(each)],
        "known": bool(seen.held.holds(DEVICES)) if seen.held.dumped else True,
    }


def _rule(rule: Document) -> Document:
    conditions = (rule.get("status") or {}).get("conditions") or ()
    return {
        "name": (rule.get("metadata") or {}).get("name"),
        "yaml": to_yaml(
            {
                "apiVersion": rule.get("apiVersion"),
                "kind": rule.get("kind"),
                "metadata": {"name": (rule.get("metadata") or {}).get("name")},
                "spec": rule.get("spec") or {},
            }
        ),
        "taint": (rule.get("spec") or {}).get("taint") or {},
        "conditions": [
            {"type": each.get("type"), "status": each.get("status"), "message": each.get("message") or ""}
            for each in conditions
            if isinstance(each, dict)
        ],
    }


def _about_devices(event: Document) -> bool:
    about = event.get("involvedObject") if event.get("kind") == "Event" else None
    kinds = ("ResourceSlice", "ResourceClaim", "DeviceTaintRule")
    return isinstance(about, dict) and about.get("kind") in kinds


def _event(event: Document) -> Document:
    about = event.get("involvedObject") or {}
    return {
        "time": event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp"),
        "about": f"{about.get('kind')}/{about.get('name')}",
        "reason": event.get("reason"),
        "message": event.get("message"),
    }


# ── rules ────────────────────────────────────────────────────────────────────────────────────────


def made_rule(body: Mapping[str, Any]) -> Document:
    """Return the DeviceTaintRule that the page describes; raises BadQuestion."""
    selector, taint, cel = (body.get(name, "") for name in ("selector", "taint", "cel"))
    if not all(isinstance(each, str) and len(each) <= _LONGEST for each in (selector, taint, cel)):
        raise BadQuestion("selector, cel and taint: expected texts")
    try:
        wanted = parse_selector(selector, [cel] if cel else [])
        if not wanted and body.get("allDevices") is not True:
            raise BadQuestion("this selects every device of the cluster: say so with allDevices")
        found = taint_document(parse_taint(taint, DEVICE_EFFECTS))
        return make_rule(wanted, found, rule_name(wanted, found["key"]), _rate(body), "")
    except (TaintNotationError, click.UsageError) as error:
        raise BadQuestion(
            error.format_message() if isinstance(error, click.UsageError) else str(error)
        ) from None
    except ValueError as error:
        if isinstance(error, BadQuestion) or not type(error).__module__.startswith("weir."):
            raise
        raise BadQuestion(" ".join(str(error).split())) from None


def selectors_for(chosen: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Return selectors that name exactly the *chosen* devices, as few as there can be: a rule has room for one.

    All devices of a driver or of a pool are named by it, others one by one.
    """
    known = {str(row.id): row.id for row in rows}
    missing = [name for name in chosen if name not in known]
    if missing:
        raise BadQuestion(f"no device {missing[0]} in the cluster")
    wanted, found = set(chosen), []
    for whole in (True, False):
        members: dict[str, set[str]] = {}
        for name, id in known.items():
            pool = "" if whole else f",pool={id.pool}"
            members.setdefault(f"driver={id.driver}{pool}", set()).add(name)
        for selector, names in members.items():
            if names <= wanted and len(names) > 1:
                found.append(selector)
                wanted -= names
    found += sorted(wanted)
    if len(found) > MOST_RULES:
        raise BadQuestion(
            f"these devices need {len(found)} rules; at most {MOST_RULES} are written from here"
        )
    return found


def preview_chosen(seen: ClusterView, body: Mapping[str, Any]) -> Document:
    """Return the rules that taint the devices that were chosen, each with what it would do."""
    chosen = body.get("devices")
    if not isinstance(chosen, list) or not chosen or not all(isinstance(name, str) for name in chosen):
        raise BadQuestion("devices: expected the names of devices")
    if why := cannot_say(seen):
        return {"schema": "weir.ui.rules/v1", "cannotSay": f"cannot say what the rule would do: {why}"}
    rows = inventory(seen).rows(datetime.now(UTC))
    selectors = selectors_for(chosen, rows)
    return {
        "schema": "weir.ui.rules/v1",
        "rules": [preview(seen, {**body, "selector": each}) for each in selectors],
    }


def _rate(body: Mapping[str, Any]) -> int | None:
    rate = body.get("rate")
    if rate is None:
        return None
    if not isinstance(rate, int) or isinstance(rate, bool) or rate < 1:
        raise BadQuestion("rate: expected a whole number above 0")
    return rate


def preview(seen: ClusterView, body: Mapping[str, Any]) -> Document:
    """Return what a rule would do, its YAML, and the commands that write it and take it back."""
    if why := cannot_say(seen):
        return {"schema": "weir.ui.rule/v1", "cannotSay": f"cannot say what the rule would do: {why}"}
    rule, now, held = made_rule(body), datetime.now(UTC), inventory(seen)
    view = read(DeviceTaintRule, rule)
    found = held.preview(view, now)
    words = [str(body["selector"])] if body.get("selector") else []
    words += ["--cel", str(body["cel"])] if body.get("cel") else []
    words += ["--all-devices"] if body.get("allDevices") is True else []
    taint = rule["spec"]["taint"]
    return {
        "schema": "weir.ui.rule/v1",
        "rule": rule,
        "yaml": to_yaml(rule),
        "said": list(rule_effect(rule, found, now)),
        "published": found.published,
        "allocated": found.allocated,
        "pods": [
            {"pod": pod, "afterSeconds": max(0.0, round((at - now).total_seconds(), 3))}
            for pod, at in found.pods
        ],
        "stay": held.unaffected_pods(view, now),
        "commands": [
            shlex.join(["weir", "device", "taint", *words, str(body["taint"])]),
            shlex.join(["weir", "device", "untaint", *words, taint["key"]]),
        ],
    }
