"""What is a webhook asked, what did it answer, and how does the client hear of it?

Spec: admission.k8s.io/v1 AdmissionReview. Pure: documents in, documents and errors out. An answer that is not one
(another uid, no response, a patch without a type) counts as a failure to call, not as a refusal.

A refusal is the webhook's own Status with a sentence in front; a failure to call is `Internal error occurred:
failed calling webhook …`.
Not here: HTTP (weir.apiserver.webhook_client).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from weir.apiserver.admission.attributes import Attributes
from weir.errors import ApiError, BadRequest, InternalError, from_status
from weir.objects.jsontext import JsonError, parse_json, plain
from weir.values.quoting import quote

Document = Mapping[str, Any]
VERSIONS = ("v1", "v1beta1")
KIND_STRUCT = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class CallFailed(Exception):
    """The webhook could not be asked, or did not answer as one must. `code` is what metrics count it as."""

    def __init__(self, reason: str, code: int = 503) -> None:
        super().__init__(reason)
        self.reason, self.code = reason, code

    def error(self, hook: str) -> InternalError:
        """Return what the client is told when the failure refuses the write."""
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


def request_of(a: Attributes, uid: str) -> dict[str, Any]:
    """Return the `request` of an AdmissionReview."""
    kind = _spoken_kind(a)
    resource = {"group": a.kind.group, "version": a.kind.version, "resource": a.kind.plural}
    request: dict[str, Any] = {"uid": uid, "kind": kind, "resource": resource}
    if a.subresource:
        request["subResource"] = a.subresource
    request |= {"requestKind": kind, "requestResource": resource}
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
        "object": a.object,
        "oldObject": a.old,
        "dryRun": a.dry_run,
        "options": _options(a),
    }


def _spoken_kind(a: Attributes) -> dict[str, str]:
    """Return the kind of what is sent: a subresource may speak another than its object (Binding, Eviction)."""
    row = a.kind.subresource(a.subresource) if a.subresource else None
    if row is None or not row.kind:
        return {"group": a.kind.group, "version": a.kind.version, "kind": a.kind.kind}
    return {"group": row.group or a.kind.group, "version": row.version or a.kind.version, "kind": row.kind}


def _options(a: Attributes) -> Document | None:
    kind = _OPTIONS.get(a.operation)
    if kind is None:
        return None
    dry_run = {"dryRun": ["All"]} if a.dry_run else {}
    return {"kind": kind, "apiVersion": "meta.k8s.io/v1", **dry_run, **a.options}


def encoded(a: Attributes, uid: str, version: str) -> bytes:
    """Return the whole AdmissionReview to send."""
    review = {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}"}
    return msgspec.json.encode({**review, "request": request_of(a, uid)})


def read_answer(body: bytes, uid: str, version: str, *, mutating: bool) -> Answer:
    """Return what the webhook said; raises CallFailed for an answer that is not one."""
    review = _review(body)
    kind, api_version = str(review.get("kind") or ""), str(review.get("apiVersion") or "")
    if kind and (kind != "AdmissionReview" or not api_version.startswith("admission.k8s.io/")):
        raise CallFailed(
            f"failed to call webhook: no kind {quote(kind)} is registered for version {quote(api_version)} in "
            'scheme "pkg/runtime/scheme.go:111"'
        )
    response = review.get("response")
    if not isinstance(response, dict):
        raise _invalid("webhook response was absent")
    if version == "v1":
        _check_identity(review, response, uid)
        _check_patch(response, mutating=mutating)
    status = response.get("status")
    warnings = response.get("warnings")
    return Answer(
        response.get("allowed") is True,
        _patch(response) if mutating else b"",
        status if isinstance(status, dict) else None,
        tuple(str(warning) for warning in warnings) if isinstance(warnings, list) else (),
    )


def _review(body: bytes) -> dict[str, Any]:
    """Return the document; what is no JSON is told as the reader of YAML and JSON upstream tells it."""
    try:
        review = plain(parse_json(body))
        problem = f"json: cannot unmarshal {_word(review)} into Go value of type {KIND_STRUCT}"
    except JsonError as error:
        review = None
        starts_like_json = body.lstrip()[:1] in (b"{", b"[")
        text = f"json: cannot unmarshal string into Go value of type {KIND_STRUCT}"
        problem = str(error) if starts_like_json else text
    if isinstance(review, dict):
        return review
    raise CallFailed(f"failed to call webhook: couldn't get version/kind; json parse error: {problem}")


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    words = {"str": "string", "dict": "object", "list": "array", "NoneType": "null"}
    return words.get(type(value).__name__, "number")


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
    try:
        patch = base64.b64decode(str(text), validate=True)
        operations = plain(parse_json(patch))
    except (binascii.Error, JsonError) as error:
        raise CallFailed(f"received undecodable patch in webhook response: {error}") from error
    into = "jsonpatch.Patch"
    if isinstance(operations, list):
        odd = [one for one in operations if not isinstance(one, dict)]
        if not odd:
            return patch if operations else b""
        operations, into = odd[0], "jsonpatch.Operation"
    problem = f"json: cannot unmarshal {_word(operations)} into Go value of type {into}"
    raise CallFailed(f"received undecodable patch in webhook response: {problem}")


def _invalid(text: str) -> CallFailed:
    return CallFailed(f"received invalid webhook response: {text}")


def refusal(hook: str, status: Document | None) -> ApiError:
    """Return the error a refused write gets: the webhook's Status, said to come from it.

    >>> refusal("w.example", {"message": "no"}).message
    'admission webhook "w.example" denied the request: no'
    """
    told = dict(status or {})
    denied = f"admission webhook {quote(hook)} denied the request"
    explained = told.get("message") or told.get("reason")
    told["message"] = f"{denied}: {explained}" if explained else f"{denied} without explanation"
    code = told.get("code")
    told["code"] = code if isinstance(code, int) and 400 <= code <= 599 else 400  # it becomes an HTTP status
    error = from_status(told)
    error.reason = str(told.get("reason") or "")
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
