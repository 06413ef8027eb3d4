"""Feature gates used for a result: on, off or unknown, with the source of each.

Detection is in weir.client.cluster_gates.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weir.gates import (
    ALL_FEATURES,
    DEVICE_TAINT_RULES,
    DEVICE_TAINTS,
    FEATURES,
    KNOWN,
    Gates,
)


@dataclass(frozen=True, slots=True)
class Learned:
    """Whether one gate is on (None: not known), and how that was learned or why not."""

    on: bool | None
    how: str


@dataclass(frozen=True)
class KnownGates:
    """The gates that an answer uses: each feature on, off or not known, with how one knows.

    >>> known = KnownGates.default({"TaintTolerationCEL": False})
    >>> known.unknown, known.possible(FEATURES)[0].cel
    ((), False)
    """

    features: Mapping[str, Learned]
    settings: Mapping[str, bool]  #: what a person set, other gates included

    @classmethod
    def default(cls, settings: Mapping[str, bool]) -> KnownGates:
        """Return weir's own default with *settings* changed: for manifests and dumps, which say nothing of gates."""
        gates = Gates(settings)
        return cls(
            {
                name: Learned(gates.enabled(name), GIVEN if is_set(name, settings) else DEFAULT)
                for name in FEATURES
            },
            settings,
        )

    @property
    def unknown(self) -> tuple[str, ...]:
        """The gates whose state is unknown."""
        return tuple(name for name, learned in self.features.items() if learned.on is None)

    def possible(self, used: Collection[str]) -> list[Gates]:
        """Return the gates the cluster may have: one value, or, where a gate in *used* is unknown, off and then on."""
        doubtful = [name for name in self.unknown if name in used]
        others = {
            name: bool(learned.on) if learned.on is not None else ALL_FEATURES.enabled(name)
            for name, learned in self.features.items()
            if name not in doubtful
        }
        base = Gates(self.settings).replace(_consistent(others))
        if not doubtful:
            return [base]
        return [base.replace(dict.fromkeys(doubtful, on)) for on in (False, True)]

    def line(self) -> str:
        """Return in one line which gates are used and how one knows, as every answer ends."""
        groups: dict[tuple[bool | None, str], list[str]] = {}
        for name, learned in self.features.items():
            groups.setdefault((learned.on, learned.how), []).append(name)
        words = {True: "on", False: "off", None: "not known"}
        if len(groups) == 1:
            ((on, how),) = groups
            return f"Feature gates: all features of the four KEPs {words[on]} ({how})"
        parts = (f"{', '.join(names)} {words[on]} ({how})" for (on, how), names in groups.items())
        return f"Feature gates: {'; '.join(parts)}"

    def report(self) -> dict[str, dict[str, Any]]:
        """Return the same for machines: gate → on (null: not known), and how one knows."""
        return {name: {"on": learned.on, "how": learned.how} for name, learned in self.features.items()}


#: How one knows of a feature that works although no component has it.
OPERATOR: Final = "through weir's operator"
DEFAULT: Final = "weir's default; --feature-gates changes it"
GIVEN: Final = "given with --feature-gates"


def is_set(name: str, settings: Mapping[str, bool]) -> bool:
    """Return whether a person set the gate, by its name or with all of its stage."""
    return name in settings or {"ALPHA": "AllAlpha", "BETA": "AllBeta"}.get(KNOWN[name].stage) in settings


def _consistent(features: dict[str, bool]) -> dict[str, bool]:
    """Return *features* without a rule gate on above a taint gate that is off, which no component would accept."""
    if features.get(DEVICE_TAINTS) is False:
        return {**features, DEVICE_TAINT_RULES: False}
    return features
