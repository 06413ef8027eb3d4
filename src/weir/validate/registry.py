"""Validation functions by kind: `validate_KIND`, at the address of the kind.

The address is a module per API group, named after the first label of the group (`core` for the one without a name). A
large group is a folder of modules named after its kinds (weir.validate.core.pod); groups of which there is little share
the module `small_groups`. Modules are imported when their kind is first written. A kind without a function has metadata
rules only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Final

from weir.caches import bounded
from weir.fields.field import Context, Document, Errors
from weir.fields.meta import validate_meta
from weir.objects.kinds import KINDS

Rule = Callable[[Document, Document | None, Context], Errors]
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BUILT_IN = frozenset((kind.group, kind.kind) for kind in KINDS)
#: Kinds that stand beside another kind, with which they share their rules.
_BESIDE: Final = {
    "Binding": ("core", "pod"),
    "DeviceClass": ("resource", "resource_claim"),
    "Endpoints": ("core", "service"),
    "Event": ("core", "event"),
    "LimitRange": ("core", "resource_quota"),
    "MutatingAdmissionPolicy": ("admissionregistration", "admission_policy"),
    "MutatingAdmissionPolicyBinding": ("admissionregistration", "admission_policy"),
    "MutatingWebhookConfiguration": ("admissionregistration", "webhook_configuration"),
    "ReplicationController": ("apps", "replica_set"),
    "ResourceClaimTemplate": ("resource", "resource_claim"),
    "Secret": ("core", "config_map"),
    "ValidatingAdmissionPolicy": ("admissionregistration", "admission_policy"),
    "ValidatingAdmissionPolicyBinding": ("admissionregistration", "admission_policy"),
    "ValidatingWebhookConfiguration": ("admissionregistration", "webhook_configuration"),
}


def snake_case(kind: str) -> str:
    """Return the name of a kind as modules and functions have it.

    >>> snake_case("DeviceTaintRule"), snake_case("CSINode"), snake_case("IPAddress")
    ('device_taint_rule', 'csi_node', 'ip_address')
    """
    return _WORD.sub("_", kind).lower()


def address(group: str, kind: str) -> tuple[str, str]:
    """Return the module of a kind's group, and that of the kind where the group is a folder.

    >>> address("", "Pod"), address("resource.k8s.io", "DeviceTaintRule"), address("", "Secret")
    (('core', 'pod'), ('resource', 'device_taint_rule'), ('core', 'config_map'))
    """
    return _BESIDE.get(kind) or (group.partition(".")[0] or "core", snake_case(kind))


def _home(group: str, kind: str) -> ModuleType:
    """Return the module at the address of a kind; of a folder without a module for it, the folder."""
    folder, module = address(group, kind)
    path = f"weir.validate.{folder}"
    if find_spec(path) is None:
        return import_module("weir.validate.small_groups")
    home = import_module(path)
    if hasattr(home, "__path__") and find_spec(f"{path}.{module}") is not None:
        return import_module(f"{path}.{module}")
    return home


@bounded(256)
def find_rule(group: str, kind: str) -> Rule:
    """Return the function that checks objects of a kind."""
    if (group, kind) not in _BUILT_IN:
        return validate_meta  # a custom resource, whose group may begin with the same label
    rule: Rule = getattr(_home(group, kind), f"validate_{snake_case(kind)}", validate_meta)
    return rule
