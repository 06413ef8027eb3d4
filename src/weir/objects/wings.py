"""Addresses of kinds: a kind has the same address in every wing of the code that has something of its own for it.

A wing (weir.validate, weir.apiserver.strategies, weir.apiserver.printers) holds a module per API group, named after the
group's first label (`core` for the group without a name). Where a group is large, it is a folder of modules named after
the kinds: weir.validate.policy, weir.validate.core.pod. What a wing holds for a kind is named after the kind. Groups of
which a wing has little share its module `small_groups`.
"""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from weir.objects.kinds import KINDS

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


def find_member(wing: str, group: str, kind: str, name: str) -> Any:
    """Return what *wing* holds for a built-in kind, None without it; *name* has `{}` where the kind's name stands."""
    if (group, kind) not in _BUILT_IN:
        return None  # a custom resource, whose group may begin with the same label
    folder, module = address(group, kind)
    path = f"{wing}.{folder}"
    if find_spec(path) is None:
        return None
    home = import_module(path)
    if hasattr(home, "__path__"):
        path = f"{path}.{module}"
        if find_spec(path) is None:
            return None
        home = import_module(path)
    return getattr(home, name.format(snake_case(kind)), None)
