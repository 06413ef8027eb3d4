"""Types of an AdmissionReview's fields, as far as webhooks read them.

An API server decodes an object before it sends it, so that a field of another type says that somebody else sent the
review. It is refused at the door: what reads a review relies on its types.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

Text = str | None
Texts = dict[str, str] | None


class _Part(msgspec.Struct, gc=False, rename="camel"):
    """What is read of a part of an object."""


class _Manager(_Part):
    manager: Text = None
    operation: Text = None
    subresource: Text = None
    fields_v1: dict[str, Any] | None = None


class _Owner(_Part):
    kind: Text = None
    name: Text = None
    uid: Text = None
    controller: bool | None = None


class _Meta(_Part):
    name: Text = None
    namespace: Text = None
    uid: Text = None
    labels: Texts = None
    annotations: Texts = None
    managed_fields: list[_Manager] | None = None
    owner_references: list[_Owner] | None = None


class _Taint(_Part):
    key: Text = None
    value: Text = None
    effect: Text = None
    time_added: Text = None


class _Toleration(_Part):
    key: Text = None
    operator: Text = None
    value: Text = None
    effect: Text = None
    expression: Text = None
    toleration_seconds: int | None = None


class _Requirement(_Part):
    key: Text = None
    operator: Text = None
    values: list[str] | None = None


class _Term(_Part):
    match_expressions: list[_Requirement] | None = None
    match_fields: list[_Requirement] | None = None


class _NodeSelector(_Part):
    node_selector_terms: list[_Term] | None = None


class _Preference(_Part):
    weight: int | None = None
    preference: _Term | None = None


class _NodeAffinity(_Part):
    """Of a pod, and (*required*) of a volume."""

    required_during_scheduling_ignored_during_execution: _NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[_Preference] | None = None
    required: _NodeSelector | None = None


class _Affinity(_Part):
    node_affinity: _NodeAffinity | None = None


class _Gate(_Part):
    name: Text = None


class _Spec(_Part):
    """Of a pod, a node, a volume, or what has a template of pods."""

    node_name: Text = None
    node_selector: Texts = None
    tolerations: list[_Toleration] | None = None
    affinity: _Affinity | None = None
    scheduling_gates: list[_Gate] | None = None
    taints: list[_Taint] | None = None
    node_affinity: _NodeAffinity | None = None
    template: _Object | None = None
    job_template: _Object | None = None


class _Object(_Part):
    metadata: _Meta | None = None
    spec: _Spec | None = None


class _Kind(_Part):
    group: Text = None
    version: Text = None
    kind: Text = None


class _Request(_Part):
    uid: Text = None
    name: Text = None
    namespace: Text = None
    operation: Text = None
    sub_resource: Text = None
    dry_run: bool | None = None
    kind: _Kind | None = None
    object: _Object | None = None
    old_object: _Object | None = None


class _Review(_Part):
    request: _Request


_check: Final = msgspec.json.Decoder(_Review).decode
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


def decode_review(body: bytes) -> dict[str, Any]:
    """Return the AdmissionReview of *body*; raises ValueError or RecursionError for what is none.

    >>> decode_review(b'{"request": {"name": "n"}}')
    {'request': {'name': 'n'}}
    """
    _check(body)
    return _decode(body)
