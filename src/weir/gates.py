"""Feature gates as an immutable value.

Spec: KEP-5471, KEP-5721, KEP-5500 and KEP-5055, each section "Feature Enablement and Rollback". Names and stages are
upstream's where upstream has the gate. The default is the same for the library, the commands, the components and
simulated clusters: the features of the four KEPs are on, every other gate is as Kubernetes has it
(docs/decisions/0002). A setting changes only what it names. Every component holds its own value: a cluster in which
they differ is an ordinary cluster (version skew), not a mistake.

>>> Gates.parse("TaintTolerationCEL=false").numeric
True
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal

Stage = Literal["ALPHA", "BETA", "GA"]

TOLERATION_COMPARISON: Final = "TaintTolerationComparisonOperators"
SEMVER_COMPARISON: Final = "TaintTolerationNodeAffinitySemverComparisonOperators"
TOLERATION_CEL: Final = "TaintTolerationCEL"
DEVICE_TAINTS: Final = "DRADeviceTaints"
DEVICE_TAINT_RULES: Final = "DRADeviceTaintRules"


@dataclass(frozen=True, slots=True)
class Gate:
    """One feature gate: Kubernetes' default, how mature it is, and whether it can still be changed."""

    name: str
    kubernetes_default: bool
    stage: Stage
    locked: bool = False
    needs: str = ""

    @property
    def default(self) -> bool:
        """Whether it is on unless set: weir is the features of the four KEPs, so these are."""
        return self.kubernetes_default or self.name in FEATURES


#: The gates of the four KEPs.
FEATURES: Final = (
    TOLERATION_COMPARISON,
    SEMVER_COMPARISON,
    TOLERATION_CEL,
    DEVICE_TAINTS,
    DEVICE_TAINT_RULES,
)

#: The gates of what `weir install` gives to clusters that do not have it.
EXTENDED: Final = (TOLERATION_COMPARISON, SEMVER_COMPARISON, TOLERATION_CEL)

KNOWN: Final[Mapping[str, Gate]] = {
    gate.name: gate
    for gate in (
        Gate(TOLERATION_COMPARISON, False, "ALPHA"),
        Gate(SEMVER_COMPARISON, False, "ALPHA"),
        Gate(TOLERATION_CEL, False, "ALPHA"),
        Gate("MutablePVNodeAffinity", False, "ALPHA"),
        Gate("NodeInclusionPolicyInPodTopologySpread", True, "GA", locked=True),
        Gate("SchedulerPopFromBackoffQ", True, "BETA"),
        Gate("SchedulerAsyncPreemption", True, "BETA"),
        Gate("StorageCapacityScoring", True, "BETA"),
        Gate("VolumeLimitScaling", True, "BETA"),
        Gate("DynamicResourceAllocation", True, "GA"),
        Gate(DEVICE_TAINTS, True, "BETA", needs="DynamicResourceAllocation"),
        Gate(DEVICE_TAINT_RULES, True, "BETA", needs=DEVICE_TAINTS),
        Gate("DRAAdminAccess", True, "BETA", needs="DynamicResourceAllocation"),
        Gate("DRAPrioritizedList", True, "BETA", needs="DynamicResourceAllocation"),
        Gate("DRAPartitionableDevices", True, "BETA", needs="DynamicResourceAllocation"),
        Gate("DRAConsumableCapacity", True, "BETA", needs="DynamicResourceAllocation"),
        Gate("DRADeviceBindingConditions", True, "BETA", needs="DynamicResourceAllocation"),
        Gate("DRAResourceClaimDeviceStatus", True, "BETA", needs="DynamicResourceAllocation"),
        Gate("DRAExtendedResource", True, "BETA", needs="DynamicResourceAllocation"),
    )
}

#: Switches that stand for every gate of a stage that was not named itself.
_GROUPS: Final[Mapping[str, Stage]] = {"AllAlpha": "ALPHA", "AllBeta": "BETA"}
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})


class GateError(ValueError):
    """A feature-gate setting that cannot be used, with what to write instead."""


class Gates:
    """The gates of one component: immutable, hashable, cheap to ask.

    `Gates(settings)` is the default with *settings* changed. The three gates that matching asks on every comparison
    are plain attributes.

    >>> Gates({"TaintTolerationCEL": False})
    Gates('TaintTolerationCEL=false')
    >>> Gates.parse("AllAlpha=false") == KUBERNETES_DEFAULTS
    True
    """

    __slots__ = ("_on", "cel", "numeric", "semver")

    _on: frozenset[str]
    numeric: bool  #: `Lt` and `Gt` in tolerations (KEP-5471)
    semver: bool  #: `SemverLt`, `SemverGt`, `SemverEq` (KEP-5721)
    cel: bool  #: `expression` in tolerations (KEP-5500)

    def __init__(self, settings: Mapping[str, bool] | None = None) -> None:
        on = _resolve(settings or {})
        object.__setattr__(self, "_on", on)
        object.__setattr__(self, "numeric", TOLERATION_COMPARISON in on)
        object.__setattr__(self, "semver", SEMVER_COMPARISON in on)
        object.__setattr__(self, "cel", TOLERATION_CEL in on)

    @classmethod
    def parse(cls, text: str) -> Gates:
        """Return the default with what *text* sets, in Kubernetes' `A=true,B=false` form.

        >>> Gates.parse("AllAlpha=true,TaintTolerationCEL=false").cel
        False
        """
        return cls(parse_settings(text))

    @classmethod
    def of(cls, value: GatesLike) -> Gates:
        """Return *value* as Gates: a Gates, a mapping, Kubernetes' string form, or None for the default."""
        if isinstance(value, Gates):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        return cls(value)

    def enabled(self, name: str) -> bool:
        """Return whether the gate *name* is on; asking for an unknown name is a bug and raises."""
        if name not in KNOWN:
            raise _unknown(name)
        return name in self._on

    def replace(self, settings: Mapping[str, bool]) -> Gates:
        """Return these gates with *settings* changed; what needs a gate that is turned off goes off with it.

        >>> ALL_FEATURES.replace({"DRADeviceTaints": False}).enabled("DRADeviceTaintRules")
        False
        """
        kept = {name: name in self._on for name in KNOWN if not KNOWN[name].locked and name not in settings}
        off = {name for name, value in settings.items() if not value}
        while lost := {name for name in kept if KNOWN[name].needs in off} - off:
            off |= lost
        return Gates({**{name: value and name not in off for name, value in kept.items()}, **settings})

    def changes(self) -> str:
        """Return the settings that differ from the default, in Kubernetes' string form."""
        return _written(
            self._on, (gate for gate in KNOWN.values() if (gate.name in self._on) != gate.default)
        )

    def __str__(self) -> str:
        """Return the gates of the four KEPs and what else differs from the default, in Kubernetes' string form."""
        shown = (
            gate
            for gate in KNOWN.values()
            if gate.name in FEATURES or (gate.name in self._on) != gate.default
        )
        return _written(self._on, shown)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Gates are immutable; use gates.replace({{{name!r}: …}})")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gates) and self._on == other._on

    def __hash__(self) -> int:
        return hash(self._on)

    def __repr__(self) -> str:
        return f"Gates({self.changes()!r})"

    def __reduce__(self) -> tuple[type[Gates], tuple[dict[str, bool]]]:
        return Gates, ({name: name in self._on for name in KNOWN if not KNOWN[name].locked},)


#: What every public function takes for its `gates` argument.
GatesLike = Gates | Mapping[str, bool] | str | None


def parse_settings(text: str) -> dict[str, bool]:
    """Return which gates *text* sets, in Kubernetes' `A=true,B=false` form.

    >>> parse_settings("AllAlpha=true, TaintTolerationCEL=f")
    {'AllAlpha': True, 'TaintTolerationCEL': False}
    """
    settings: dict[str, bool] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise GateError(f"missing bool value for feature gate {name}: write {name}=true")
        if value not in _TRUE and value not in _FALSE:
            raise GateError(f"invalid value of {name}: {value!r} is not a bool, write true or false")
        if name not in KNOWN and name not in _GROUPS:
            raise _unknown(name)
        settings[name] = value in _TRUE
    return settings


def _resolve(settings: Mapping[str, bool]) -> frozenset[str]:
    for name, value in settings.items():
        if name in _GROUPS:
            continue
        if name not in KNOWN:
            raise _unknown(name)
        if KNOWN[name].locked and value != KNOWN[name].default:
            raise GateError(
                f"cannot set feature gate {name} to {str(value).lower()}, "
                f"feature is locked to {str(KNOWN[name].default).lower()}"
            )
    grouped = {stage: settings[group] for group, stage in _GROUPS.items() if group in settings}
    on = frozenset(
        gate.name
        for gate in KNOWN.values()
        if settings.get(gate.name, gate.default if gate.locked else grouped.get(gate.stage, gate.default))
    )
    for name, value in settings.items():
        gate = KNOWN.get(name)
        if gate and value and gate.needs and gate.needs not in on:
            raise GateError(f"feature gate {name} needs {gate.needs}: turn that on as well")
    # A feature whose prerequisite was turned off is off with it, so turning one gate off is enough.
    while orphans := {name for name in on if KNOWN[name].needs and KNOWN[name].needs not in on}:
        on -= orphans
    return on


def _written(on: frozenset[str], gates: Iterable[Gate]) -> str:
    return ",".join(f"{gate.name}={str(gate.name in on).lower()}" for gate in gates)


def _unknown(name: str) -> GateError:
    known = (*KNOWN, *_GROUPS)
    close = get_close_matches(name, known, n=1)
    hint = f" did you mean {close[0]}?" if close else ""
    return GateError(f"unrecognized feature gate: {name};{hint} known gates: {', '.join(sorted(known))}")


#: The features of all four KEPs on: what everything of weir uses by default.
ALL_FEATURES: Final = Gates()

#: What Kubernetes' own components use by default: alpha features are off.
KUBERNETES_DEFAULTS: Final = Gates({gate.name: gate.kubernetes_default for gate in KNOWN.values()})
