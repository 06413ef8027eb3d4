"""Feature gates and release per component."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from weir.apiserver.older_release import DEFAULT_RELEASE, RELEASES
from weir.gates import ALL_FEATURES, Gates, GatesLike

COMPONENTS: Final = ("apiserver", "scheduler", "controllers", "kubelet")
#: The components that ask whether a toleration tolerates a taint; the API server never does (core.md 8.5).
READERS: Final = ("scheduler", "controllers", "kubelet")


@dataclass(frozen=True)
class ComponentGates:
    """Each component's own feature gates; a cluster in which they differ is an ordinary cluster."""

    apiserver: Gates = ALL_FEATURES
    scheduler: Gates = ALL_FEATURES
    controllers: Gates = ALL_FEATURES
    kubelet: Gates = ALL_FEATURES
    #: Components from before KEP-5500, which do not know the field `expression` (core.md 8.4); an `apiserver` of an
    #: older release (`apiserver=1.35`, 1.34 unless said) knows none of the KEPs' fields
    older: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for each in sorted(self.older):
            name, equals, release = each.partition("=")
            if name not in (*READERS, "apiserver"):
                raise ValueError(f"older: {each!r} is none of {', '.join(('apiserver', *READERS))}")
            if equals and (name != "apiserver" or release not in RELEASES):
                known = ", ".join(f"apiserver={number}" for number in RELEASES)
                raise ValueError(f"older: {each!r}: a release is played of the API server only: {known}")

    @property
    def release(self) -> str:
        """The older release that the API server plays, or nothing."""
        for each in self.older:
            name, _, release = each.partition("=")
            if name == "apiserver":
                return release or DEFAULT_RELEASE
        return ""

    @classmethod
    def of(cls, gates: GatesLike | Mapping[str, GatesLike] | ComponentGates) -> ComponentGates:
        """Return gates for all components: one value for all, or a mapping from component to gates."""
        if isinstance(gates, ComponentGates):
            return gates
        if gates is None:
            return cls()
        if isinstance(gates, Mapping) and set(gates) & set(COMPONENTS):
            return cls(**{name: Gates.of(gates[name]) for name in COMPONENTS if name in gates})  # type: ignore[arg-type]
        same = Gates.of(gates)  # type: ignore[arg-type]
        return cls(same, same, same, same)
