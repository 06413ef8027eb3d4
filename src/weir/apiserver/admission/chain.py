"""The admission chain: order of plugins, and dispatch to those that handle a write.

Spec: core.md 7 (order of the mutating plugins); upstream's order for the rest: namespace, limits, account, node,
priority, tolerations, storage, runtime class, then webhooks, then quota. `mutate` runs before object validation,
`validate` after it. When a webhook changed the object, the plugins before it run again. The plugins of a write are
computed once per (operation, kind, subresource). `mutate` and `validate` return an awaitable only when policies or
webhooks must be called.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

from weir.apiserver.admission.attributes import Attributes, Plugin, Reader
from weir.apiserver.admission.certificates import CertificateSubjectRestriction
from weir.apiserver.admission.default_classes import DefaultIngressClass, DefaultStorageClass
from weir.apiserver.admission.event_rate_limit import EventRateLimit, Limit
from weir.apiserver.admission.limit_ranger import LimitRanger
from weir.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from weir.apiserver.admission.pod_classes import Priority, RuntimeClass
from weir.apiserver.admission.resource_quota import ResourceQuota
from weir.apiserver.admission.service_account import ServiceAccount
from weir.apiserver.admission.storage import (
    PersistentVolumeClaimResize,
    StorageObjectInUseProtection,
)
from weir.apiserver.admission.tolerations import (
    DefaultTolerationSeconds,
    ExtendedResourceToleration,
    PodTolerationRestriction,
    TaintNodesByCondition,
    Toleration,
)
from weir.apiserver.admission.versions import Conversion, Unconverted, fetch
from weir.objects.document import copied
from weir.objects.kind import Kind
from weir.values.names import name_suffix

MUTATING_WEBHOOKS = "MutatingAdmissionWebhook"
VALIDATING_WEBHOOKS = "ValidatingAdmissionWebhook"
ORDER = (
    "NamespaceLifecycle",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "MutatingAdmissionPolicy",
    MUTATING_WEBHOOKS,
    "ValidatingAdmissionPolicy",
    VALIDATING_WEBHOOKS,
    "ResourceQuota",
)
OFF_BY_DEFAULT = frozenset({"PodTolerationRestriction", "EventRateLimit", "ExtendedResourceToleration"})
_RUNS_TO_FOLD = 500


class PluginError(ValueError):
    """An unknown plugin name, or a plugin that cannot run as it is configured."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Which plugins run, and their settings."""

    enable: Iterable[str] = ()
    disable: Iterable[str] = ()
    not_ready_seconds: int = 300
    unreachable_seconds: int = 300
    default_tolerations: Sequence[Toleration] = ()
    tolerations_whitelist: Sequence[Toleration] = ()
    event_limits: Sequence[Limit] = ()
    event_limits_spare_masters: bool = False

    def enabled(self) -> frozenset[str]:
        """Return the names of the plugins that run; switching off wins.

        >>> "ServiceAccount" in Settings(disable=["ServiceAccount"]).enabled()
        False
        """
        unknown = sorted({*self.enable, *self.disable} - set(ORDER))
        if unknown:
            raise PluginError(f"unknown admission plugins: {', '.join(unknown)}; known: {', '.join(ORDER)}")
        found = (frozenset(ORDER) - OFF_BY_DEFAULT | set(self.enable)) - set(self.disable)
        if EventRateLimit.name in found and not self.event_limits:
            raise PluginError(
                f"{EventRateLimit.name} has no limits: name a file that has some with --admission-control-config-file"
            )
        return found


class Webhooks(Protocol):
    """Both kinds of webhooks (weir.apiserver.compat.webhooks.dispatch); None: none has to be called."""

    def mutate(self, a: Attributes, again: Callable[[Attributes], None]) -> Awaitable[None] | None: ...

    def validate(self, a: Attributes) -> Awaitable[None] | None: ...


@runtime_checkable
class MutatingPolicies(Protocol):
    """The plugin that replaces objects (weir.apiserver.compat.policies); others edit them in place."""

    def wants(self, a: Attributes) -> bool: ...


class Seconds(Protocol):
    """Takes the seconds one plugin took; they are counted when `fold` is called, at the latest."""

    @property
    def note(self) -> Callable[[float], None]: ...

    def fold(self) -> None: ...


class Durations(Protocol):
    """Where the time of each plugin is counted (weir.observe.metrics)."""

    def child(self, plugin: str, step: str, operation: str, rejected: bool) -> Seconds: ...


class _NoMetric:
    def note(self, seconds: float) -> None:
        pass

    def fold(self) -> None:
        pass


class _NoMetrics:
    def child(self, plugin: str, step: str, operation: str, rejected: bool) -> Seconds:
        return _NoMetric()


class _Step(NamedTuple):
    """One plugin's part in one kind of write."""

    plugin: str
    run: Callable[[Attributes], None]
    note: Callable[[float], None]


@dataclass(slots=True)
class Plan:
    """All plugins' parts in one kind of write."""

    steps: tuple[_Step, ...]
    passed: tuple[Seconds, ...]
    runs: int = 0  #: since the times were counted


@dataclass(slots=True)
class Chain:
    """The plugins in their order."""

    plugins: Sequence[Plugin]
    webhooks: Webhooks | None = None
    durations: Durations = field(default_factory=_NoMetrics)
    policies: MutatingPolicies | None = None
    clock: Callable[[], float] = time.perf_counter
    conversion: Conversion | None = None  #: asks the webhooks of definitions
    _mutating: dict[tuple[str, Kind, str], Plan] = field(default_factory=dict)
    _validating: dict[tuple[str, Kind, str], Plan] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        reader: Reader,
        settings: Settings | None = None,
        *,
        more: Iterable[Plugin] = (),
        guards: Iterable[Plugin] = (),
        webhooks: Webhooks | None = None,
        durations: Durations | None = None,
        new_suffix: Callable[[], str] | None = None,
        conversion: Conversion | None = None,
    ) -> Chain:
        """Return the chain of *settings*.

        *more* are plugins that need more than a reader; *guards* look last and cannot be switched off.
        """
        settings = settings or Settings()
        enabled = settings.enabled()
        known: list[Plugin] = [
            NamespaceLifecycle(reader),
            LimitRanger(reader),
            ServiceAccount(reader, new_suffix or partial(name_suffix, os.urandom)),
            TaintNodesByCondition(),
            Priority(reader),
            DefaultTolerationSeconds(settings.not_ready_seconds, settings.unreachable_seconds),
            PodTolerationRestriction(reader, settings.default_tolerations, settings.tolerations_whitelist),
            EventRateLimit(settings.event_limits, spare_masters=settings.event_limits_spare_masters),
            ExtendedResourceToleration(),
            DefaultStorageClass(reader),
            StorageObjectInUseProtection(),
            PersistentVolumeClaimResize(reader),
            RuntimeClass(reader),
            CertificateSubjectRestriction(),
            DefaultIngressClass(reader),
            ResourceQuota(reader),
            *more,
        ]
        plugins = sorted(
            (plugin for plugin in known if plugin.name in enabled),
            key=lambda plugin: ORDER.index(plugin.name),
        )
        changing = next((one for one in plugins if isinstance(one, MutatingPolicies)), None)
        return cls([*plugins, *guards], webhooks, durations or _NoMetrics(), changing, conversion=conversion)

    def mutate(self, a: Attributes) -> Awaitable[None] | None:
        """Let every mutating plugin edit the object; return an awaitable when policies or webhooks must be called."""
        if self.policies is not None and self.policies.wants(a):
            return self._mutate_by_policies(a)
        self._run_mutating(a)
        return self.webhooks.mutate(a, self._run_mutating) if self.webhooks is not None else None

    async def _mutate_by_policies(self, a: Attributes) -> None:
        """Mutate where policies may change the object."""
        await self._converting(a, self._attempt)
        pending = self.webhooks.mutate(a, self._attempt) if self.webhooks is not None else None
        if pending is not None:
            await pending
        elif a.rounds is not None and a.rounds.changed:
            await self._converting(a, self._attempt)  # no webhook does the second round

    async def _converting(self, a: Attributes, run: Callable[[Attributes], None]) -> None:
        """Run plugins once everything their policies look at has been converted."""
        while True:
            try:
                run(a)
                return
            except Unconverted as wanted:
                await fetch(self.conversion, a, wanted)

    def _attempt(self, a: Attributes) -> None:
        """Run the mutating plugins; when an object has to be converted first, it is as if they had not run."""
        before, rounds, told = copied(a.object), deepcopy(a.rounds), len(a.warnings)
        try:
            self._run_mutating(a)
        except Unconverted:
            if a.object is not None and before is not None:
                a.object.clear()
                a.object.update(before)
            a.rounds = rounds
            del a.warnings[told:]
            raise

    def validate(self, a: Attributes) -> Awaitable[None] | None:
        """Let every validating plugin refuse; an awaitable when webhooks have to be called."""
        key = (a.operation, a.kind, a.subresource)
        plan = self._validating.get(key)
        if plan is None:
            plan = self._validating[key] = self._plan(key, "validate")
        try:
            self._run(plan, a, "validate")
        except Unconverted as wanted:
            return self._validate_converted(a, plan, wanted)
        return self.webhooks.validate(a) if self.webhooks is not None else None

    async def _validate_converted(self, a: Attributes, plan: Plan, wanted: Unconverted) -> None:
        """Validate where a policy looks at objects in a version that a webhook has to make."""
        await fetch(self.conversion, a, wanted)
        await self._converting(a, lambda a: self._run(plan, a, "validate"))
        pending = self.webhooks.validate(a) if self.webhooks is not None else None
        if pending is not None:
            await pending

    def _run_mutating(self, a: Attributes) -> None:
        key = (a.operation, a.kind, a.subresource)
        plan = self._mutating.get(key)
        if plan is None:
            plan = self._mutating[key] = self._plan(key, "admit")
        self._run(plan, a, "admit")

    def _run(self, plan: Plan, a: Attributes, method: str) -> None:
        clock = self.clock
        started = clock()
        plugin = ""
        try:
            for plugin, run, note in plan.steps:  # noqa: B007 (named when one refuses)
                run(a)
                now = clock()
                note(now - started)
                started = now
        except Unconverted:
            raise
        except Exception:
            refused = self.durations.child(plugin, method, a.operation, True)
            refused.note(clock() - started)
            refused.fold()
            raise
        plan.runs += 1
        if plan.runs >= _RUNS_TO_FOLD:
            plan.runs = 0
            for passed in plan.passed:
                passed.fold()

    def _plan(self, key: tuple[str, Kind, str], method: str) -> Plan:
        operation, kind, subresource = key
        steps = []
        counted = []
        for plugin in self.plugins:
            run = getattr(plugin, method, None)
            if run is not None and plugin.handles(operation, kind, subresource):
                passed = self.durations.child(plugin.name, method, operation, False)
                counted.append(passed)
                steps.append(_Step(plugin.name, run, passed.note))
        return Plan(tuple(steps), tuple(counted))
