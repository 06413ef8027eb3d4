"""Request options from query parameters or, for deletes, the body.

Spec: apiserver.md 1.3 "422 for options", 9.3 "resourceVersion and limit", 10.1 "Start". Invalid numbers are 400,
unsupported values are 422 on a kind of group `meta.k8s.io`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from weir.apiserver.transport.http import Query
from weir.errors import BadRequest, Invalid
from weir.fields.field import FieldError, forbidden, invalid, not_supported, required
from weir.objects.jsontext import JsonError, parse_json
from weir.values.duration import duration_problem
from weir.values.integer import IntegerError, parse_int64

META = "meta.k8s.io"
POLICIES = ("Foreground", "Background", "Orphan")


def _refuse(kind: str, problems: Iterable[FieldError]) -> None:
    found = list(problems)
    if found:
        raise Invalid.of(META, kind, "", found)


def parse_int(text: str) -> int:
    """Return a query number as Go reads it; raises 400 in its words."""
    try:
        return parse_int64(text)
    except IntegerError as error:
        raise BadRequest(str(error)) from None


def parse_bool(text: str | None) -> bool:
    """Return a query flag: everything but absent, `0` and `false` is true.

    >>> parse_bool(""), parse_bool("maybe"), parse_bool("False"), parse_bool(None)
    (True, True, False, False)
    """
    return text is not None and text.lower() not in ("0", "false")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of create, update and patch."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    force: bool = False
    #: what the client said, as webhooks are shown it; without dryRun, which they see anyway
    document: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, params: Mapping[str, str], kind: str, *, apply: bool = False) -> WriteOptions:
        """Return the options; *kind* is CreateOptions, UpdateOptions or PatchOptions."""
        if not params:
            if apply:
                _refuse(kind, [required("fieldManager", "is required for apply patch")])
            return _DEFAULT_WRITE
        manager = params.get("fieldManager", "")
        validation = params.get("fieldValidation", "")
        problems: list[FieldError] = []
        force = params.get("force")
        if apply:
            if not manager:
                problems.append(required("fieldManager", "is required for apply patch"))
        elif force is not None and kind == "PatchOptions":
            problems.append(forbidden("force", "may not be specified for non-apply patch"))
        if len(manager.encode()) > 128:
            problems.append(
                FieldError("FieldValueTooLong", "fieldManager", manager, "may not be more than 128 bytes")
            )
        elif not manager.isprintable():
            at, odd = next((i, char) for i, char in enumerate(manager) if not char.isprintable())
            place = len(manager[:at].encode())
            detail = f"invalid character U+{ord(odd):04X} (at position {place})"
            problems.append(invalid("fieldManager", manager, detail))
        dry_run = all_values(params, "dryRun")
        problems += dry_run_problems(dry_run)
        if validation not in ("", "Ignore", "Strict", "Warn"):
            problems.append(not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
        _refuse(kind, problems)
        said = {"fieldManager": manager, "fieldValidation": validation, "force": parse_bool(force) or ""}
        document = {name: value for name, value in said.items() if value != ""}
        return cls(bool(dry_run), manager, validation or "Warn", parse_bool(force), document)


_DEFAULT_WRITE = WriteOptions()


def all_values(params: Mapping[str, str], name: str) -> list[str]:
    """Return every value of a parameter that may be repeated."""
    if isinstance(params, Query):
        return params.all(name)
    return [params[name]] if name in params else []


def dry_run_problems(values: list[str]) -> list[FieldError]:
    """Return what is wrong with the values of dryRun."""
    if all(value == "All" for value in values):
        return []
    return [not_supported("dryRun", values, ("All",))]


GO_WORDS = {str: "string", bool: "bool", list: "array", dict: "object"}
#: field → what it is here and in the words of the decoder
_DELETE_FIELDS: dict[str, tuple[type, str]] = {
    "gracePeriodSeconds": (int, "int64"),
    "preconditions": (dict, "v1.Preconditions"),
    "orphanDependents": (bool, "bool"),
    "propagationPolicy": (str, "v1.DeletionPropagation"),
    "dryRun": (list, "[]string"),
}


def _json_problem(body: bytes) -> str:
    """Return what is wrong with a text that is not JSON, in the decoder's words."""
    try:
        parse_json(body)
    except JsonError as error:
        return str(error)
    return "unexpected end of JSON input"


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of delete, deletecollection and eviction."""

    dry_run: bool = False
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    uid: str | None = None
    resource_version: str | None = None

    @property
    def document(self) -> dict[str, Any]:
        """What the client said, as webhooks are shown it; without dryRun, which they see anyway."""
        conditions = {"uid": self.uid, "resourceVersion": self.resource_version}
        said = {
            "gracePeriodSeconds": self.grace_period_seconds,
            "preconditions": {name: value for name, value in conditions.items() if value} or None,
            "orphanDependents": self.orphan_dependents,
            "propagationPolicy": self.propagation_policy,
        }
        return {name: value for name, value in said.items() if value is not None}

    @classmethod
    def parse(cls, params: Mapping[str, str], body: bytes) -> DeleteOptions:
        """Return the options; a body wins over the query."""
        if body.strip():
            try:
                sent = msgspec.json.decode(body)
            except (ValueError, RecursionError):
                raise BadRequest(
                    f"couldn't get version/kind; json parse error: {_json_problem(body)}"
                ) from None
            if not isinstance(sent, dict):
                word = GO_WORDS.get(type(sent), "number")
                wanted = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string }'
                problem = f"json: cannot unmarshal {word} into Go value of type {wanted}"
                raise BadRequest(f"couldn't get version/kind; json parse error: {problem}")
            kind, version = sent.get("kind") or "DeleteOptions", sent.get("apiVersion") or "v1"
            if kind != "DeleteOptions":
                scheme = 'in scheme "pkg/runtime/scheme.go:111"'
                raise BadRequest(f'no kind "{kind}" is registered for version "{version}" {scheme}')
            return cls.from_document(sent)
        orphan = params.get("orphanDependents")
        grace = params.get("gracePeriodSeconds")
        return cls.checked(
            dry_run=all_values(params, "dryRun"),
            grace=parse_int(grace) if grace is not None else None,
            policy=params.get("propagationPolicy") or None,
            orphan=parse_bool(orphan) if orphan is not None else None,
        )

    @classmethod
    def from_document(cls, sent: Mapping[str, Any]) -> DeleteOptions:
        """Return the options a DeleteOptions document stands for."""
        grace, policy = sent.get("gracePeriodSeconds"), sent.get("propagationPolicy")
        dry, orphan, conditions = sent.get("dryRun"), sent.get("orphanDependents"), sent.get("preconditions")
        for name, (python, go) in _DELETE_FIELDS.items():
            value = sent.get(name)
            flag = isinstance(value, bool)
            if value is not None and (not isinstance(value, python) or flag is not (python is bool)):
                word = GO_WORDS.get(type(value), "number")
                field = f"Go struct field DeleteOptions.{name} of type {go}"
                raise BadRequest(f"json: cannot unmarshal {word} into {field}")
        conditions = conditions or {}
        return cls.checked(
            dry_run=[str(value) for value in dry or ()],
            grace=grace,
            policy=policy or None,
            orphan=orphan,
            uid=conditions.get("uid"),
            resource_version=conditions.get("resourceVersion"),
        )

    @classmethod
    def checked(
        cls,
        *,
        dry_run: list[str],
        grace: int | None,
        policy: str | None,
        orphan: bool | None,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> DeleteOptions:
        """Return the options, or raise the 422 that says what is wrong with them."""
        problems: list[FieldError] = []
        if orphan is not None and policy is not None:
            problems.append(
                invalid(
                    "propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set"
                )
            )
        if policy is not None and policy not in POLICIES:
            problems.append(not_supported("propagationPolicy", policy, (*POLICIES, "nil")))
        problems += dry_run_problems(dry_run)
        _refuse("DeleteOptions", problems)
        return cls(bool(dry_run), grace, policy, orphan, uid, resource_version)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options of list, watch and deletecollection."""

    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    match: str = ""
    timeout_seconds: int | None = None
    bookmarks: bool = False
    send_initial_events: bool | None = None

    @classmethod
    def parse(cls, params: Mapping[str, str], *, watch: bool) -> ListOptions:
        """Return the options, or raise what is wrong with them."""
        if not params:
            return _DEFAULT_LIST
        limit, timeout = params.get("limit"), params.get("timeoutSeconds")
        initial = params.get("sendInitialEvents")
        options = cls(
            params.get("labelSelector", ""),
            params.get("fieldSelector", ""),
            parse_int(limit) if limit is not None else 0,
            params.get("continue", ""),
            params.get("resourceVersion", ""),
            params.get("resourceVersionMatch", ""),
            parse_int(timeout) if timeout is not None else None,
            parse_bool(params.get("allowWatchBookmarks")),
            parse_bool(initial) if initial is not None else None,
        )
        _refuse("ListOptions", options._watch_problems() if watch else options._list_problems())
        return options

    def _watch_problems(self) -> Iterable[FieldError]:
        at = "resourceVersionMatch"
        if self.send_initial_events is not None and self.match != "NotOlderThan":
            yield forbidden(at, f"sendInitialEvents requires setting {at} to NotOlderThan")
        if self.match and self.send_initial_events is None:
            yield forbidden(at, f"{at} is forbidden for watch unless sendInitialEvents is provided")
        if self.match not in ("", "NotOlderThan"):
            yield not_supported(at, self.match, ("NotOlderThan",))
        # A watch that starts from now is given both options before it is looked at.
        if self.continue_token and (self.match or self.resource_version in ("", "0")):
            yield forbidden(at, f"{at} is forbidden when continue is provided")

    def _list_problems(self) -> Iterable[FieldError]:
        if self.match:
            yield from self._match_problems()
        if self.send_initial_events is not None:
            yield forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")

    def _match_problems(self) -> Iterable[FieldError]:
        at = "resourceVersionMatch"
        if not self.resource_version:
            yield forbidden(at, f"{at} is forbidden unless resourceVersion is provided")
        if self.continue_token:
            yield forbidden(at, f"{at} is forbidden when continue is provided")
        if self.match not in ("Exact", "NotOlderThan"):
            yield not_supported(at, self.match, ("Exact", "NotOlderThan", ""))
        if self.match == "Exact" and self.resource_version == "0":
            yield forbidden(at, f'{at} "exact" is forbidden for resourceVersion "0"')


_DEFAULT_LIST = ListOptions()


def check_timeout(text: str) -> None:
    """Refuse a `timeout` of the request that is no duration; raises 400.

    How long a request may take is bounded by the server alone: none takes so long that a shorter wish would matter.
    """
    if problem := duration_problem(text):
        raise BadRequest(f"invalid timeout specified in the request URL - {problem}")
