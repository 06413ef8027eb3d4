"""Fields of a configuration, each with its place, and the plugin arguments in `pluginConfig`.

Spec: core.md 3.5, 3.7 (the arguments of each plugin). A wrong value raises one error naming its path and what is
expected. Arguments are checked as Kubernetes checks them; a plugin without arguments accepts none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from weir.gates import EXTENDED
from weir.objects.core import NodeAffinity, TopologySpreadConstraint, read
from weir.scheduler.profile_arguments import FitArguments, ProfileArguments
from weir.validate.core.affinity import validate_affinity, validate_spread_constraints
from weir.validate.ratchet import Options

#: Go's way of writing durations: numbers with their units, one after the other.
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:h|ms|m|s))+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class ConfigError(ValueError):
    """A configuration that cannot be used: the place, and what to write."""


class Fields:
    """Reads values of one *file*, each with the place it stands at."""

    def __init__(self, file: str) -> None:
        self._file = file

    def wrong(self, at: str, what: str) -> ConfigError:
        return ConfigError(f"{self._file}: {at}: {what}")

    def mapping(self, value: Any, at: str, *known: str) -> dict[str, Any]:
        """Return a mapping that has no other than the *known* fields."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.wrong(at, "a mapping is expected")
        for name in value:
            if name not in known:
                raise self.wrong(
                    f"{at}.{name}" if at else f"{name}", f"unknown; known are {', '.join(known)}"
                )
        return value

    def list(self, value: Any, at: str) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.wrong(at, "a list is expected")
        return value

    def text(self, value: Any, at: str) -> str:
        if not isinstance(value, str) or not value:
            raise self.wrong(at, f"{value!r} is not a name")
        return value

    def one_of(self, value: Any, at: str, *choices: str) -> str:
        if value not in choices:
            raise self.wrong(at, f"{value!r}: write {' or '.join(choices)}")
        return str(value)

    def flag(self, value: Any, at: str, default: bool) -> bool:
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(at, f"{value!r}: write true or false")
        return value

    def number(self, value: Any, at: str, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(at, f"{value!r} is not a whole number from {low} to {high}")
        return value

    def duration(self, value: Any, at: str, default: float) -> float:
        """Return how many seconds *value* stands for.

        >>> Fields("f").duration("1m30s", "leaseDuration", 15.0)
        90.0
        """
        if value is None:
            return default
        text = str(value)
        if not _DURATION.fullmatch(text):
            raise self.wrong(at, f"{value!r} is not a duration; write 15s")
        return sum(float(amount) * _SECONDS[unit] for amount, unit in _PART.findall(text))


_TYPE: Final = ("apiVersion", "kind")
_STRATEGIES: Final = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_MOST: Final = 2**31 - 1
#: The profile's affinity may use every operator; a gate that is off makes a term match nothing.
_OPEN: Final = Options(frozenset(EXTENDED))


def read_arguments(
    profile: ProfileArguments, plugin: str, args: Any, at: str, fields: Fields
) -> ProfileArguments:
    """Return *profile* with the arguments of one plugin."""
    reader = _READERS.get(plugin)
    if reader is None:
        raise fields.wrong(at, f"no arguments are known for {plugin!r}; they are for {', '.join(_READERS)}")
    return reader(profile, args, f"{at}.args", fields)


def _node_resources_fit(p: ProfileArguments, args: Any, at: str, fields: Fields) -> ProfileArguments:
    inner = fields.mapping(args, at, *_TYPE, "ignoredResources", "ignoredResourceGroups", "scoringStrategy")
    place = f"{at}.scoringStrategy"
    strategy = fields.mapping(
        inner.get("scoringStrategy"), place, "type", "resources", "requestedToCapacityRatio"
    )
    kind = fields.one_of(strategy.get("type") or "LeastAllocated", f"{place}.type", *_STRATEGIES)
    weights = dict(_resources(strategy.get("resources"), f"{place}.resources", fields)) or None
    where = f"{place}.requestedToCapacityRatio"
    ratio = strategy.get("requestedToCapacityRatio")
    if kind != "RequestedToCapacityRatio" and ratio is not None:
        raise fields.wrong(where, f"is for type: RequestedToCapacityRatio, not {kind}")
    shape = tuple(_shape(fields.mapping(ratio, where, "shape").get("shape"), f"{where}.shape", fields))
    if kind == "RequestedToCapacityRatio" and not shape:
        raise fields.wrong(f"{where}.shape", "at least one point is needed")
    groups = _words(inner.get("ignoredResourceGroups"), f"{at}.ignoredResourceGroups", fields)
    for group in groups:
        if "/" in group:
            raise fields.wrong(
                f"{at}.ignoredResourceGroups", f"{group!r} is a resource; write what is before its /"
            )
    return replace(
        p,
        fit=FitArguments(
            kind,  # type: ignore[arg-type]
            weights,
            shape or FitArguments().shape,
            _words(inner.get("ignoredResources"), f"{at}.ignoredResources", fields),
            groups,
        ),
    )


def _balanced_allocation(p: ProfileArguments, args: Any, at: str, fields: Fields) -> ProfileArguments:
    inner = fields.mapping(args, at, *_TYPE, "resources")
    found = dict(_resources(inner.get("resources"), f"{at}.resources", fields))
    for name, weight in found.items():
        if weight != 1:
            raise fields.wrong(f"{at}.resources", f"the weight of {name} must be 1, not {weight}")
    return replace(p, balanced_resources=tuple(found) or p.balanced_resources)


def _node_affinity(p: ProfileArguments, args: Any, at: str, fields: Fields) -> ProfileArguments:
    added = fields.mapping(args, at, *_TYPE, "addedAffinity").get("addedAffinity")
    if added is None:
        return p
    place = f"{at}.addedAffinity"
    if not isinstance(added, dict):
        raise fields.wrong(place, "a mapping is expected")
    view = read(NodeAffinity, added)  # shows wrong types before values are judged
    for error in validate_affinity({"nodeAffinity": added}, place, _OPEN):
        raise fields.wrong(error.field.replace(f"{place}.nodeAffinity", place, 1), error.body)
    return replace(p, added_affinity=view)


def _inter_pod_affinity(p: ProfileArguments, args: Any, at: str, fields: Fields) -> ProfileArguments:
    ignore = "ignorePreferredTermsOfExistingPods"
    inner = fields.mapping(args, at, *_TYPE, "hardPodAffinityWeight", ignore)
    return replace(
        p,
        hard_pod_affinity_weight=fields.number(
            inner.get("hardPodAffinityWeight", 1), f"{at}.hardPodAffinityWeight", 0, 100
        ),
        ignore_preferred_terms_of_existing_pods=fields.flag(inner.get(ignore), f"{at}.{ignore}", False),
    )


def _topology_spread(p: ProfileArguments, args: Any, at: str, fields: Fields) -> ProfileArguments:
    inner = fields.mapping(args, at, *_TYPE, "defaultConstraints", "defaultingType")
    place = f"{at}.defaultConstraints"
    written = fields.list(inner.get("defaultConstraints"), place)
    kind = fields.one_of(inner.get("defaultingType") or "System", f"{at}.defaultingType", "System", "List")
    if kind == "System":
        if written:
            raise fields.wrong(place, "needs defaultingType: List")
        return p
    constraints = tuple(read(TopologySpreadConstraint, each) for each in written)
    for number, each in enumerate(constraints):
        if each.label_selector is not None:
            raise fields.wrong(
                f"{place}[{number}].labelSelector", "each pod's own services and owners say this"
            )
    for error in validate_spread_constraints(written, place):
        raise fields.wrong(error.field, error.body)
    return replace(p, spread_defaults=constraints, system_spread_defaults=False)


def _volume_binding(p: ProfileArguments, args: Any, at: str, fields: Fields) -> ProfileArguments:
    inner = fields.mapping(args, at, *_TYPE, "bindTimeoutSeconds", "shape")
    seconds = fields.number(inner.get("bindTimeoutSeconds", 600), f"{at}.bindTimeoutSeconds", 0, _MOST)
    shape = tuple(_shape(inner.get("shape"), f"{at}.shape", fields))
    return replace(p, bind_timeout_seconds=float(seconds), volume_shape=shape)


def _default_preemption(p: ProfileArguments, args: Any, at: str, fields: Fields) -> ProfileArguments:
    share, least = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
    inner = fields.mapping(args, at, *_TYPE, share, least)
    percent = fields.number(inner.get(share, p.candidate_share), f"{at}.{share}", 0, 100)
    absolute = fields.number(inner.get(least, p.least_candidates), f"{at}.{least}", 0, _MOST)
    if not percent and not absolute:
        raise fields.wrong(f"{at}.{least}", f"must not be 0 while {share} is")
    return replace(p, candidate_share=percent, least_candidates=absolute)


def _dynamic_resources(p: ProfileArguments, args: Any, at: str, fields: Fields) -> ProfileArguments:
    inner = fields.mapping(args, at, *_TYPE, "filterTimeout", "bindingTimeout")
    return replace(
        p,
        claim_filter_seconds=fields.duration(
            inner.get("filterTimeout"), f"{at}.filterTimeout", p.claim_filter_seconds
        ),
        claim_binding_seconds=fields.duration(
            inner.get("bindingTimeout"), f"{at}.bindingTimeout", p.claim_binding_seconds
        ),
    )


_READERS: Final[Mapping[str, Callable[[ProfileArguments, Any, str, Fields], ProfileArguments]]] = {
    "NodeResourcesFit": _node_resources_fit,
    "NodeResourcesBalancedAllocation": _balanced_allocation,
    "NodeAffinity": _node_affinity,
    "InterPodAffinity": _inter_pod_affinity,
    "PodTopologySpread": _topology_spread,
    "VolumeBinding": _volume_binding,
    "DefaultPreemption": _default_preemption,
    "DynamicResources": _dynamic_resources,
}


def _resources(value: Any, at: str, fields: Fields) -> Iterator[tuple[str, int]]:
    seen: set[str] = set()
    for number, entry in enumerate(fields.list(value, at)):
        place = f"{at}[{number}]"
        inner = fields.mapping(entry, place, "name", "weight")
        name = fields.text(inner.get("name"), f"{place}.name")
        if name in seen:
            raise fields.wrong(f"{place}.name", f"{name} is named twice")
        seen.add(name)
        yield name, fields.number(inner.get("weight") or 1, f"{place}.weight", 1, 100)


def _shape(value: Any, at: str, fields: Fields) -> Iterator[tuple[int, int]]:
    before = -1
    for number, entry in enumerate(fields.list(value, at)):
        place = f"{at}[{number}]"
        inner = fields.mapping(entry, place, "utilization", "score")
        used = fields.number(inner.get("utilization"), f"{place}.utilization", 0, 100)
        if used <= before:
            raise fields.wrong(f"{place}.utilization", f"{used} must be above {before}")
        before = used
        yield used, fields.number(inner.get("score"), f"{place}.score", 0, 10)


def _words(value: Any, at: str, fields: Fields) -> frozenset[str]:
    return frozenset(fields.text(each, f"{at}[{i}]") for i, each in enumerate(fields.list(value, at)))
