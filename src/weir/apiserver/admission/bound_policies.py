"""Cache of compiled policies with their bindings, by kind of write.

Rebuilt when a policy or binding changes; an unchanged policy keeps its compiled expressions. The CEL packages are
imported with the first binding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from weir.apiserver.admission.attributes import Attributes, Reader
from weir.objects import kinds
from weir.objects.kind import Kind
from weir.objects.served_kinds import ServedKinds
from weir.policies.dispatch import bound_policies, may_match

if TYPE_CHECKING:
    from weir.policies.dispatch import Bound

P = TypeVar("P")
_NONE: tuple[Any, ...] = ()


class BoundPolicies(Generic[P]):
    """The policies of one kind that bindings put to use, by the sort of write."""

    def __init__(
        self, reader: Reader, policy: Kind, binding: Kind, compile: Callable[[Mapping[str, Any]], P]
    ) -> None:
        self._reader, self._policy, self._binding, self._compile = reader, policy, binding, compile
        self.served: ServedKinds | None = None  #: custom kinds, which parameters may be of
        self._versions = (-1, -1, -1)
        self._bound: tuple[Bound[P], ...] = ()
        self._by_write: dict[tuple[str, Kind, str, bool], tuple[Bound[P], ...]] = {}

    def about(self, a: Attributes) -> tuple[Bound[P], ...]:
        """Return the policies whose rules could cover the write."""
        version = self._reader.version
        versions = (
            version(self._binding),
            version(self._policy),
            0 if self.served is None else self.served.version,
        )
        if versions != self._versions:
            self._read(versions)
        if not self._bound:
            return _NONE
        key = (a.operation, a.requested, a.subresource, bool(a.namespace))
        found = self._by_write.get(key)
        if found is None:
            found = tuple(bound for bound in self._bound if may_match(bound.policy.match, a))  # type: ignore[attr-defined]
            self._by_write[key] = found
        return found

    def _read(self, versions: tuple[int, int, int]) -> None:
        self._versions = versions
        self._by_write = {}
        bindings = self._reader.list_now(self._binding, None)
        if not bindings:
            self._bound = ()
            return
        policies = self._reader.list_now(self._policy, None)
        self._bound = bound_policies(policies, bindings, self.find_kind, self._compile, self._bound)

    def find_kind(self, api_version: str, kind: str) -> Kind | None:
        """Return the row of a kind, of the table or of a definition."""
        found = kinds.find_kind(api_version, kind)
        if found is None and self.served is not None:
            named = (
                one for one in self.served.joined() if (one.api_version, one.kind) == (api_version, kind)
            )
            found = next(named, None)
        return found
