"""Dispatch of admission webhooks: mutating ones in order, validating ones concurrently.

Spec: admissionregistration.k8s.io/v1; core.md 7 (webhooks after the in-tree plugins). Each mutating webhook sees the
changes of earlier ones. After a change the in-tree plugins run again, and webhooks with `reinvocationPolicy:
IfNeeded` called before it are called a second time, never a third. Without webhook configurations a write costs one
version comparison.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from weir.apiserver.admission.attributes import Attributes, Reader
from weir.apiserver.admission.versions import Conversion, Unconverted, fetch, seen_as, spoken_kind, taken_from
from weir.apiserver.auth.cel_authorizer import Decide
from weir.apiserver.compat.policies import expression_values
from weir.apiserver.compat.webhooks.client import Endpoint, endpoint_of
from weir.apiserver.compat.webhooks.review import (
    Answer,
    CallFailed,
    Unconvertible,
    check_dry_run,
    check_patched_kind,
    encoded,
    printed,
    read_answer,
    refusal,
    review_version,
)
from weir.apiserver.off_loop import LARGE_BYTES
from weir.caches import bounded
from weir.compat.customresources.served import CustomResourceKind
from weir.compat.policies import matching as policy_matching
from weir.compat.policies.expressions import MATCH_BUDGET, Expression, Inputs, environment
from weir.compat.policies.matching import EXEMPT_GROUPS, matched_kind, selectors_match
from weir.errors import ApiError, Forbidden, InternalError, qualified, resource_details
from weir.objects.kind import Document, Kind
from weir.objects.kinds import by_kind
from weir.observe.logs import Log
from weir.values.quoting import quote

if TYPE_CHECKING:
    from weir.compat.policies.expressions import Expression


# ── webhook matching: whether a webhook is called for a write, and in which version ──
# Spec: admissionregistration.k8s.io/v1. Rules and selectors are those of policies (weir.compat.policies.matching). The
# objects are sent in the client's version, or with `matchPolicy: Equivalent` in that of the rule.
# Match conditions of webhooks, evaluated with CEL. Spec: admissionregistration.k8s.io/v1 `matchConditions`; cel.md 9.1.
# CEL over `object`, `oldObject`, `request` and `authorizer`. The CEL packages are imported with the first condition.


CACHED_CONDITIONS = 1000


def conditions_hold(
    conditions: Iterable[Mapping[str, Any]],
    a: Attributes,
    kind: Kind,
    decide: Decide | None,
    *,
    ignore_failures: bool,
) -> bool:
    """Return whether every condition holds of the write as *kind*; raises Forbidden for a failure that counts."""
    compiled = [_compiled(condition.get("expression", "")) for condition in conditions]
    inputs = Inputs(expression_values(a, decide, kind), {}, MATCH_BUDGET)
    try:
        return policy_matching.conditions_hold(compiled, inputs, ignore_failures=ignore_failures)
    except policy_matching.ConditionsFailed as error:
        named = qualified(a.kind.plural, a.kind.group)
        shown = f'{named} "{a.name}"' if a.name else named
        raise Forbidden(f"{shown} is forbidden: {error}", details=resource_details(a.kind, a.name)) from error


@bounded(CACHED_CONDITIONS, longest=2048)
def _compiled(text: str) -> Expression:
    return Expression(text, environment())


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of one configuration."""

    configuration: str
    index: int
    wire: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.wire.get("name", ""))

    @property
    def uid(self) -> tuple[str, int]:
        """What distinguishes this hook from all others, also from one of the same name."""
        return self.configuration, self.index

    @property
    def ignores_failures(self) -> bool:
        return self.wire.get("failurePolicy") == "Ignore"

    @property
    def seconds(self) -> int:
        return int(self.wire.get("timeoutSeconds") or 10)


def hooks_of(configurations: Iterable[Mapping[str, Any]]) -> tuple[Hook, ...]:
    """Return every hook in calling order: configurations by name, hooks as written."""
    ordered = sorted(configurations, key=lambda one: str(one["metadata"]["name"]))
    return tuple(
        Hook(one["metadata"]["name"], index, wire)
        for one in ordered
        for index, wire in enumerate(one.get("webhooks") or ())
    )


def wants(hook: Hook, a: Attributes, reader: Reader, decide: Decide | None = None) -> Kind | None:
    """Return as which kind *hook* is to be sent the write, None when it is not; raises when that cannot be decided.

    *decide* answers what match conditions ask about rights.
    """
    kind = rules_match(hook, a)
    if kind is None or not selectors_match(hook.wire, a, reader):
        return None
    return kind if _conditions_hold(hook, a, kind, decide) else None


def _conditions_hold(hook: Hook, a: Attributes, kind: Kind, decide: Decide | None) -> bool:
    conditions = hook.wire.get("matchConditions")
    if not conditions:
        return True
    return conditions_hold(conditions, a, kind, decide, ignore_failures=hook.ignores_failures)


def rules_match(hook: Hook, a: Attributes) -> Kind | None:
    """Return as which kind the hook's rules cover the write: the part that does not depend on the object."""
    return matched_kind(hook.wire.get("rules") or (), a, exact=hook.wire.get("matchPolicy") == "Exact")


T = TypeVar("T")
REGISTRATION = "admissionregistration.k8s.io/v1"
MUTATING = by_kind(REGISTRATION, "MutatingWebhookConfiguration")
VALIDATING = by_kind(REGISTRATION, "ValidatingWebhookConfiguration")
ADMIT, VALIDATE = "admit", "validating"
log = Log("weir.apiserver.webhooks.dispatch")


class Client(Protocol):
    """How a webhook is called (weir.apiserver.compat.webhooks.client.WebhookClient)."""

    async def post(self, endpoint: Endpoint, body: bytes, seconds: float) -> bytes: ...


class Counts(Protocol):
    """Where calls are counted (weir.apiserver.metrics.WebhookMetrics)."""

    def called(
        self, name: str, step: str, operation: str, seconds: float, *, rejected: bool, code: int
    ) -> None: ...

    def refused(self, name: str, step: str, operation: str, error_type: str, code: int) -> None: ...

    def failed_open(self, name: str, step: str) -> None: ...


Patch = Callable[[Document, bytes], Document]
"""(document, JSON patch) → the patched document; the argument stays as it was."""
Settle = Callable[[Document, Kind], Document]
"""Makes a patched document a good one of its kind again: unknown fields dropped, defaults filled in."""


@dataclass(slots=True)
class _Known:
    """The hooks of one kind of configuration, as of one version of them."""

    version: int
    hooks: tuple[Hook, ...]
    by_write: dict[tuple[str, Kind, str, bool], tuple[Hook, ...]] = field(default_factory=dict)


class Webhooks:
    """Both kinds of webhooks (weir.apiserver.admission.chain.Webhooks)."""

    def __init__(
        self,
        reader: Reader,
        client: Client,
        patch: Patch,
        settle: Settle,
        counts: Counts | None = None,
        *,
        conversion: Conversion | None = None,
        decide: Decide | None = None,
        mutating: bool = True,
        validating: bool = True,
    ) -> None:
        """*decide* answers what match conditions ask about rights, *conversion* asks the webhooks of definitions."""
        self._reader, self._client, self._decide, self._conversion = reader, client, decide, conversion
        self._patch, self._settle, self._counts = patch, settle, counts
        self._kinds = {MUTATING: mutating, VALIDATING: validating}
        self._known: dict[Kind, _Known] = {}

    def mutate(self, a: Attributes, again: Callable[[Attributes], None]) -> Awaitable[None] | None:
        """Return an awaitable that calls the mutating webhooks, None when none matches."""
        # By rules only: a hook whose selectors do not match now may be wanted after another's patch.
        hooks = self._hooks(MUTATING, a)
        return self._mutate(a, hooks, again) if hooks else None

    def validate(self, a: Attributes) -> Awaitable[None] | None:
        """Return an awaitable that calls the validating webhooks, None when none matches."""
        hooks = self._hooks(VALIDATING, a)
        return self._validate(a, hooks) if hooks else None

    def _hooks(self, kind: Kind, a: Attributes) -> tuple[Hook, ...]:
        """Return the hooks whose rules cover this kind of write."""
        version = self._reader.version(kind)
        known = self._known.get(kind)
        if known is None or known.version != version:
            on = self._kinds[kind]
            known = _Known(version, hooks_of(self._reader.list_now(kind, None)) if on else ())
            self._known[kind] = known
        if not known.hooks:
            return ()
        key = (a.operation, a.requested, a.subresource, bool(a.namespace))
        found = known.by_write.get(key)
        if found is None:
            exempt = a.kind.group in EXEMPT_GROUPS
            found = () if exempt else tuple(hook for hook in known.hooks if rules_match(hook, a) is not None)
            known.by_write[key] = found
        return found

    # --- mutating ---

    async def _mutate(
        self, a: Attributes, hooks: Sequence[Hook], again: Callable[[Attributes], None]
    ) -> None:
        repeatable: set[tuple[str, int]] = set()  # called, and may be called once more
        repeat: set[tuple[str, int]] = set()  # to be called once more, because something changed after them
        changed = a.rounds is not None and a.rounds.changed  # by a policy before
        for hook in hooks:
            kind = await self._wanted(hook, a)
            if kind is None:
                continue
            if await self._change(hook, a, kind):
                changed = True
                repeat |= repeatable
                repeatable.clear()
            if hook.wire.get("reinvocationPolicy") == "IfNeeded":
                repeatable.add(hook.uid)
        if not changed:
            return
        before = msgspec.json.encode(a.object)
        await self._waited(a, lambda: again(a))
        if msgspec.json.encode(a.object) != before:
            repeat |= repeatable
        for hook in hooks:
            if hook.uid in repeat and (kind := await self._wanted(hook, a)) is not None:
                await self._change(hook, a, kind)

    async def _change(self, hook: Hook, a: Attributes, kind: Kind) -> bool:
        """Ask one hook and apply its patch; return whether the object is another one now."""
        answer = await self._ask(hook, a, kind, ADMIT)
        if answer is None or not answer.patch:
            return False
        if a.object is None:
            raise _internal(
                f"admission webhook {quote(hook.name)} attempted to modify the object, which is not supported "
                "for this operation"
            )
        spoken = spoken_kind(a, kind)
        shown = await self._waited(a, lambda: dict(seen_as(a, kind, a.object) or {}))
        try:
            patched = self._patch(shown, answer.patch)
            check_patched_kind(patched, shown, spoken)
            if not isinstance(spoken, CustomResourceKind):
                patched = self._settle(patched, spoken)
        except Unconvertible:
            raise
        except ApiError as error:
            raise _internal(error.message) from error
        if patched == shown:
            return False
        patched = await self._waited(a, lambda: dict(taken_from(a, kind, patched) or {}))
        if isinstance(spoken, CustomResourceKind):  # read and pruned by the version that was written
            patched = self._settle(patched, a.kind)
        a.object.clear()  # the same dict: others hold it too
        a.object.update(patched)
        return True

    # --- validating ---

    async def _validate(self, a: Attributes, hooks: Sequence[Hook]) -> None:
        wanted = [(hook, await self._wanted(hook, a)) for hook in hooks]
        answers = await asyncio.gather(
            *(self._ask(hook, a, kind, VALIDATE) for hook, kind in wanted if kind is not None),
            return_exceptions=True,
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    # --- both ---

    async def _wanted(self, hook: Hook, a: Attributes) -> Kind | None:
        """Return as which kind a hook is to be sent the write, None when it is not."""
        return await self._waited(a, lambda: wants(hook, a, self._reader, self._decide))

    async def _waited(self, a: Attributes, ask: Callable[[], T]) -> T:
        """Return what *ask* says once everything it needs has been converted."""
        while True:
            try:
                return ask()
            except Unconverted as wanted:
                await fetch(self._conversion, a, wanted)

    async def _ask(self, hook: Hook, a: Attributes, kind: Kind, step: str) -> Answer | None:
        """Return a permission, None when a failure is ignored; raises a refusal or a failure that is not."""
        started = time.perf_counter()
        try:
            answer = await self._call(hook, a, kind, mutating=step == ADMIT)
        except CallFailed as failure:
            rejected = not hook.ignores_failures
            self._count(hook, a, step, started, rejected, failure.code, "calling_webhook_error")
            if not rejected:
                log.warning("Webhook failed, its failure is ignored", webhook=hook.name, error=failure.reason)
                if self._counts is not None:
                    self._counts.failed_open(hook.name, step)
                return None
            raise failure.error(hook.name) from failure
        except ApiError:
            self._count(hook, a, step, started, True, 0, "apiserver_internal_error")
            raise
        a.warnings.extend(answer.warnings)
        if not answer.allowed:
            error = refusal(hook.name, answer.status)
            self._count(hook, a, step, started, True, error.code, "no_error")
            raise error
        self._count(hook, a, step, started, False, 200, "")
        return answer

    async def _call(self, hook: Hook, a: Attributes, kind: Kind, *, mutating: bool) -> Answer:
        if a.dry_run:
            check_dry_run(hook.name, hook.wire.get("sideEffects"))
        version = review_version(hook.wire)
        uid = str(uuid.uuid4())
        endpoint = endpoint_of(hook.wire.get("clientConfig") or {}, self._reader, hook.seconds)
        new = await self._waited(a, lambda: seen_as(a, kind, printed(a)))
        old = await self._waited(a, lambda: seen_as(a, kind, a.old))
        body = await self._client.post(endpoint, encoded(a, uid, version, kind, new, old), hook.seconds)
        if len(body) < LARGE_BYTES:
            return read_answer(body, uid, version, mutating=mutating)
        return await asyncio.to_thread(read_answer, body, uid, version, mutating=mutating)

    def _count(
        self, hook: Hook, a: Attributes, step: str, started: float, rejected: bool, code: int, error_type: str
    ) -> None:
        if self._counts is not None:
            seconds = time.perf_counter() - started
            self._counts.called(hook.name, step, a.operation, seconds, rejected=rejected, code=code)
            if rejected:
                self._counts.refused(hook.name, step, a.operation, error_type, code)


def _internal(text: str) -> InternalError:
    return InternalError(
        f"Internal error occurred: {text}", reason="InternalError", details={"causes": [{"message": text}]}
    )
