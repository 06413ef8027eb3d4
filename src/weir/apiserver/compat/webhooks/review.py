"""AdmissionReview requests and responses.

Spec: admission.k8s.io/v1 AdmissionReview. Pure. An invalid response (another uid, no response, a patch without a
type) is a failed call, not a denial. A denial is the webhook's Status with a prefix; a failed call is `Internal error
occurred: failed calling webhook …`.
"""

from __future__ import annotations

import base64
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from weir.apiserver.admission.attributes import Attributes
from weir.apiserver.documents import zero_fields
from weir.errors import ApiError, BadRequest, InternalError, from_status
from weir.objects.document import yaml_to_json
from weir.objects.jsontext import JsonError, parse_json, plain
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind
from weir.objects.strict_decoder import json_word
from weir.values.quoting import quote

Document = Mapping[str, Any]
VERSIONS = ("v1", "v1beta1")
KIND_STRUCT = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
SCHEME = '"pkg/runtime/scheme.go:111"'
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_FIELDS: Mapping[str, tuple[str, type[Any]]] = {
    "uid": ("types.UID", str),
    "allowed": ("bool", bool),
    "status": ("v1.Status", dict),
    "patch": ("[]uint8", str),
    "patchType": ("v1.PatchType", str),
    "auditAnnotations": ("map[string]string", dict),
    "warnings": ("[]string", list),
}
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class CallFailed(Exception):
    """The webhook could not be called, or its response is invalid. `code` is its label in metrics."""

    def __init__(self, reason: str, code: int = 503) -> None:
        super().__init__(reason)
        self.reason, self.code = reason, code

    def error(self, hook: str) -> InternalError:
        """Return the error for the client when the failure refuses the write."""
        text = f"failed calling webhook {quote(hook)}: {self.reason}"
        return InternalError(
            f"Internal error occurred: {text}",
            reason="InternalError",
            details={"causes": [{"message": text}]},
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """What a webhook said."""

    allowed: bool
    patch: bytes = b""
    status: Document | None = None
    warnings: tuple[str, ...] = ()


def review_version(hook: Document) -> str:
    """Return the first version of AdmissionReview that the hook accepts and we can send."""
    for version in hook.get("admissionReviewVersions") or ():
        if version in VERSIONS:
            return str(version)
    raise CallFailed(
        "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)",
        400,
    )


def request_of(a: Attributes, uid: str, kind: Kind) -> dict[str, Any]:
    """Return the `request` of an AdmissionReview without the objects; *kind* is the version that the rule means."""
    request: dict[str, Any] = {"uid": uid, "kind": _spoken_kind(a, kind), "resource": _resource(kind)}
    if a.subresource:
        request["subResource"] = a.subresource
    request |= {"requestKind": _spoken_kind(a, a.requested), "requestResource": _resource(a.requested)}
    if a.subresource:
        request["requestSubResource"] = a.subresource
    if a.name:
        request["name"] = a.name
    namespace = a.namespace or (a.name if a.kind.kind == "Namespace" else "")  # it lies in itself
    if namespace:
        request["namespace"] = namespace
    return request | {
        "operation": a.operation,
        "userInfo": a.user.info(),
        "dryRun": a.dry_run,
        "options": _options(a),
    }


def printed(a: Attributes) -> Document | None:
    """Return the object as it is sent: a status that is still empty is printed too."""
    if a.object is None or a.subresource or "status" in a.object or not a.kind.has_status:
        return a.object
    empty = zero_fields(a.kind)
    return {**a.object, "status": empty["status"]} if "status" in empty else a.object


def _spoken_kind(a: Attributes, kind: Kind) -> dict[str, str]:
    """Return the kind of what is sent: a subresource may speak another than its object (Binding, Eviction)."""
    row = kind.subresource(a.subresource) if a.subresource else None
    if row is None or not row.kind:
        return {"group": kind.group, "version": kind.version, "kind": kind.kind}
    return {"group": row.group or kind.group, "version": row.version or kind.version, "kind": row.kind}


def _resource(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


def _options(a: Attributes) -> Document | None:
    kind = _OPTIONS.get(a.operation)
    if kind is None:
        return None
    dry_run = {"dryRun": ["All"]} if a.dry_run else {}
    given = {name: value for name, value in a.options.items() if name != "force"}  # a patch is an update here
    return {**dry_run, **given, "kind": kind, "apiVersion": "meta.k8s.io/v1"}


def encoded(
    a: Attributes, uid: str, version: str, kind: Kind, new: Document | None, old: Document | None
) -> bytes:
    """Return the whole AdmissionReview to send; the objects are in the version of *kind*."""
    review = {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}"}
    asked = request_of(a, uid, kind)
    last = {name: asked.pop(name) for name in ("dryRun", "options")}
    request = {**asked, "object": new, "oldObject": old, **last}
    return msgspec.json.encode({**review, "request": request})


def read_answer(body: bytes, uid: str, version: str, *, mutating: bool) -> Answer:
    """Return what the webhook said; raises CallFailed for an answer that is not one."""
    review = read_review(body)
    check_kind(review, "AdmissionReview", "admission.k8s.io", version)
    response = review.get("response")
    if response is None:
        raise _invalid("webhook response was absent")
    if not isinstance(response, dict):
        raise mistyped(response, "AdmissionReview.response", f"{version}.AdmissionResponse")
    _check_types(response)
    if version == "v1":
        _check_identity(review, response, uid)
        _check_patch(response, mutating=mutating)
    return Answer(
        response.get("allowed") is True,
        _patch(response) if mutating and response.get("allowed") is True else b"",
        response.get("status"),
        tuple(warning for warning in response.get("warnings") or () if _is_header_safe(warning)),
    )


def _is_header_safe(warning: str | None) -> bool:
    """Return whether a warning can be a header: not empty, no control characters."""
    return bool(warning) and not any(unicodedata.category(character) == "Cc" for character in warning or "")


def check_kind(review: Document, name: str, group: str, version: str) -> None:
    """Raise when the answer is of a kind that is none, or not the one asked for; what is not said is as asked."""
    asked = f"{group}/{version}"
    kind, api_version = str(review.get("kind") or name), str(review.get("apiVersion") or asked)
    if (kind, api_version) == (name, asked):
        return
    reviews = tuple(f"{group}/{known}" for known in VERSIONS)
    if (kind == name and api_version in reviews) or (kind, api_version) == ("Status", "v1"):
        given = f"{api_version.rpartition('/')[2]}.{kind}"
        raise CallFailed(
            f"failed to call webhook: converting ({given}) to ({version}.{name}): unknown conversion"
        )
    raise CallFailed(
        f"failed to call webhook: no kind {quote(kind)} is registered for version {quote(api_version)} in "
        f"scheme {SCHEME}"
    )


def _check_types(response: Document) -> None:
    """Raise for the first field that is not of its type."""
    for name, value in response.items():
        if value is None or name not in _FIELDS:
            continue
        into, kind = _FIELDS[name]
        at = f"AdmissionResponse.response.{name}"
        if not isinstance(value, kind):
            raise mistyped(value, at, into)
        inner = value if name == "warnings" else value.values() if name == "auditAnnotations" else ()
        for one in inner:
            if one is not None and not isinstance(one, str):
                raise mistyped(one, at, "string")
        if name == "patch" and (offset := _illegal_base64(value)) is not None:
            raise CallFailed(f"failed to call webhook: illegal base64 data at input byte {offset}")


def mistyped(value: object, field: str, into: str) -> CallFailed:
    problem = f"json: cannot unmarshal {json_word(value)} into Go struct field {field} of type {into}"
    return CallFailed(f"failed to call webhook: {problem}")


def _illegal_base64(text: str) -> int | None:
    """Return where *text* stops being base64, as Go counts it; None when it is base64.

    >>> [_illegal_base64(text) for text in ("YWI=", "?!", "abc", "YW=x", "YWI=x")]
    [None, 0, 0, 2, 4]
    """
    taken = 0  # characters of the current group of four
    for at, character in enumerate(text):
        if character in "\r\n":
            continue
        if character == "=":
            return _illegal_padding(text, at, taken)
        if character not in _BASE64:
            return at
        taken = (taken + 1) % 4
    return len(text) - taken if taken else None


def _illegal_padding(text: str, at: int, taken: int) -> int | None:
    if taken < 2:
        return at
    places = [place for place in range(at + 1, len(text)) if text[place] not in "\r\n"]
    if taken == 2:
        if not places:
            return len(text)
        if text[places[0]] != "=":
            return places[0] - 1
        places = places[1:]
    return places[0] if places else None


def read_review(body: bytes) -> dict[str, Any]:
    """Return the document; what is no JSON is reported in the words of upstream's reader of YAML and JSON."""
    try:
        review = plain(parse_json(body))
        problem = f"json: cannot unmarshal {json_word(review)} into Go value of type {KIND_STRUCT}"
    except JsonError as error:
        starts_like_json = body.lstrip()[:1] in (b"{", b"[")
        review = "" if starts_like_json else _yaml(body)
        text = f"json: cannot unmarshal {json_word(review)} into Go value of type {KIND_STRUCT}"
        problem = str(error) if starts_like_json else text
    if review is None:
        return {}
    if isinstance(review, dict):
        return review
    raise CallFailed(f"failed to call webhook: couldn't get version/kind; json parse error: {problem}")


def _yaml(body: bytes) -> Any:
    """Return what stands in a body that is no JSON: a reader of JSON upstream reads YAML too."""
    try:
        return plain(parse_json(yaml_to_json(body)))
    except (JsonError, ApiError, ValueError):
        return ""


def _check_identity(review: Document, response: Document, uid: str) -> None:
    answered = str(response.get("uid") or "")
    if answered != uid:
        raise _invalid(f"expected response.uid={quote(uid)}, got {quote(answered)}")
    group, _, version = str(review.get("apiVersion") or "").rpartition("/")
    got = f"{group}/{version}, Kind={review.get('kind') or ''}"
    if got != "admission.k8s.io/v1, Kind=AdmissionReview":
        raise _invalid(f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {got}")


def _check_patch(response: Document, *, mutating: bool) -> None:
    has_patch, patch_type = bool(response.get("patch")), response.get("patchType")
    if not mutating:
        if has_patch:
            raise _invalid("validating webhook may not return response.patch")
        if patch_type is not None:
            raise _invalid("validating webhook may not return response.patchType")
        return
    if has_patch and patch_type is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    if not has_patch and patch_type is not None:
        raise _invalid("webhook returned response.patchType but not response.patch")
    if patch_type == "":
        raise _invalid('webhook returned invalid response.patchType of ""')
    if patch_type not in (None, "JSONPatch"):
        raise CallFailed(f"unsupported patch type {quote(str(patch_type))}", 400)


def _patch(response: Document) -> bytes:
    """Return the JSON patch; b"" when there is none or it lists nothing."""
    text = response.get("patch")
    if not text:
        return b""
    patch = base64.b64decode(text)
    try:
        operations = plain(parse_json(patch))
    except JsonError as error:
        raise CallFailed(f"received undecodable patch in webhook response: {error}") from error
    into = "jsonpatch.Patch"
    if isinstance(operations, list):
        odd = [one for one in operations if not isinstance(one, dict)]
        if not odd:
            return patch if operations else b""
        operations, into = odd[0], "jsonpatch.Operation"
    problem = f"json: cannot unmarshal {json_word(operations)} into Go value of type {into}"
    raise CallFailed(f"received undecodable patch in webhook response: {problem}")


def check_patched_kind(patched: Document, before: Document, kind: Kind) -> None:
    """Raise when a patch made something else of the object; what is not said stays."""
    was = before.get("kind") or kind.kind, before.get("apiVersion") or kind.api_version
    named, api_version = patched.get("kind") or was[0], patched.get("apiVersion") or was[1]
    if (named, api_version) == was:
        return
    try:
        other = by_kind(str(api_version), str(named))
    except KeyError:
        text = f"no kind {quote(str(named))} is registered for version {quote(str(api_version))} in scheme {SCHEME}"
        raise InternalError(text) from None
    package = kind.group.partition(".")[0] or "core"
    raise Unconvertible(
        f"converting ({other.version}.{other.kind}) to ({package}.{kind.kind}): unknown conversion"
    )


class Unconvertible(InternalError):
    """A patch made an object of another kind: reported without a reason."""


def _invalid(text: str) -> CallFailed:
    return CallFailed(f"received invalid webhook response: {text}")


def refusal(hook: str, status: Document | None) -> ApiError:
    """Return the error a refused write gets: the webhook's Status, said to come from it.

    >>> refusal("w.example", {"message": "no"}).message
    'admission webhook "w.example" denied the request: no'
    """
    answer = dict(status or {})
    denied = f"admission webhook {quote(hook)} denied the request"
    explained = answer.get("message") or answer.get("reason")
    answer["message"] = f"{denied}: {explained}" if explained else f"{denied} without explanation"
    code = answer.get("code")
    answer["code"] = (
        code if isinstance(code, int) and 400 <= code <= 999 else 400
    )  # it becomes an HTTP status
    error = from_status(answer)
    error.reason = str(answer.get("reason") or "")
    return error


def dry_run_unsupported(hook: str) -> BadRequest:
    """Return the error of a dry run that would call a webhook with side effects."""
    return BadRequest(f"admission webhook {quote(hook)} does not support dry run")


def check_dry_run(hook: str, side_effects: object) -> None:
    """Raise when a dry run may not reach a hook of this `sideEffects` class."""
    if side_effects is None:
        raise CallFailed("Webhook SideEffects is nil", 400)
    if side_effects not in ("None", "NoneOnDryRun"):
        raise dry_run_unsupported(hook)
