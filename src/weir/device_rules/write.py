"""Writes a rule to a cluster that may not know all its fields.

Uses the newest served version. A dry run first shows what the server would store: if it would drop a part of the
selector, which would taint more devices, nothing is written; a dropped rate or description is reported.
"""

from __future__ import annotations

import json
from typing import Final

import click

from weir.client.api import Client
from weir.errors import ApiError, NotFound
from weir.objects.kind import Document, Kind
from weir.objects.kinds import by_kind

MANAGER: Final = "weir-device"
#: Newest first; a cluster may have only the oldest.
_VERSIONS: Final = ("v1", "v1beta2", "v1alpha3")
#: Fields of a taint that Kubernetes does not have: the rule means the same without them.
_EXTRAS: Final = {"evictionsPerSecond": "--rate", "description": "--description"}
_UNKNOWN: Final = "field not declared in schema"


async def served_version(client: Client) -> Kind:
    """Return the newest version of DeviceTaintRule that the cluster serves."""
    for version in _VERSIONS:
        kind = by_kind(f"resource.k8s.io/{version}", "DeviceTaintRule")
        try:
            await client.list(kind, limit=1)
        except NotFound:
            continue
        return kind
    raise click.ClickException("this cluster has no DeviceTaintRules: is DRADeviceTaintRules off?")


async def settle(client: Client, kind: Kind, rule: Document) -> tuple[Document, list[str]]:
    """Return the rule as this cluster takes it, and the options it has no use for; nothing is written.

    Raises click's error when it would not keep the selector as it is.
    """
    rule = {**rule, "apiVersion": kind.api_version}
    try:
        tried = await _apply(client, kind, rule, dry_run=True)
    except ApiError as error:
        if _UNKNOWN not in str(error):
            raise
        if ".spec.deviceSelector." in str(error):
            raise click.ClickException(
                f"this cluster cannot select so ({_one_line(error)}); nothing was written"
            ) from None
        plain = without_extras(rule)
        if plain == rule:
            raise
        tried = await _apply(client, kind, plain, dry_run=True)
    wanted = rule["spec"]["deviceSelector"]
    if tried["spec"].get("deviceSelector", {}) != wanted:
        kept = json.dumps(tried["spec"].get("deviceSelector"))
        raise click.ClickException(
            f"this cluster would only keep {kept} of the selector; nothing was written"
        )
    taint = rule["spec"]["taint"]
    ignored = [name for name in _EXTRAS if name in taint and name not in tried["spec"]["taint"]]
    return without_extras(rule) if ignored else rule, [_EXTRAS[name] for name in ignored]


def without_extras(rule: Document) -> Document:
    """Return the rule with those fields of its taint that every cluster knows."""
    taint = {name: value for name, value in rule["spec"]["taint"].items() if name not in _EXTRAS}
    return {**rule, "spec": {**rule["spec"], "taint": taint}}


async def write(client: Client, kind: Kind, rule: Document) -> Document:
    """Create or change the rule; return it as it is stored."""
    return await _apply(client, kind, rule, dry_run=False)


async def _apply(client: Client, kind: Kind, rule: Document, *, dry_run: bool) -> Document:
    return await client.patch(
        kind,
        rule["metadata"]["name"],
        json.dumps(rule).encode(),
        patch_type="application/apply-patch+yaml",
        field_manager=MANAGER,
        force=True,
        dry_run=dry_run,
    )


def condition(rule: Document, type: str) -> Document | None:
    """Return a condition of the rule's status that is about the rule as it is now."""
    for one in (rule.get("status") or {}).get("conditions") or ():
        if one["type"] == type:
            current = int(one.get("observedGeneration") or 0) >= int(rule["metadata"].get("generation") or 0)
            return dict(one) if current or "observedGeneration" not in one else None
    return None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
