"""The kinds a server serves now: the table's rows and those registered at run time; the order of their versions.

The table (weir.objects.kinds) is constant. Kinds of CustomResourceDefinitions are in a registry per server, with the
group versions of APIServices served elsewhere. Caches of derived data keep `version` with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from weir.objects import kinds
from weir.objects.kind import Kind

_KUBE_LIKE: Final = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
_STAGES: Final = {"alpha": 0, "beta": 1, None: 2}


def kube_version_order(version: str) -> tuple[int, int, int, int, tuple[int, ...]]:
    """Return what sorts versions from the oldest to the newest; others than Kubernetes' come first, in reverse.

    >>> sorted(["foo1", "v1", "v11alpha2", "v10", "v3beta1", "foo10", "v10beta3"], key=kube_version_order)
    ['foo10', 'foo1', 'v11alpha2', 'v3beta1', 'v10beta3', 'v1', 'v10']
    """
    found = _KUBE_LIKE.fullmatch(version)
    if found is None:
        return 0, 0, 0, 0, (*(-ord(char) for char in version), 0)
    return 1, _STAGES[found[2]], int(found[1]), int(found[3] or 0), ()


class Registered(NamedTuple):
    """What an APIService says of one version of a group."""

    group_priority: int
    version_priority: int
    remote: bool  #: whether another server answers for it


class ServedKinds:
    """The kinds of one server."""

    def __init__(self) -> None:
        self.version = 0  #: grows with every change
        self._joined: dict[str, tuple[Kind, ...]] = {}
        self._found: dict[tuple[str, str, str], Kind] = {}
        self.registered: Mapping[tuple[str, str], Registered] = {}  #: by group and version

    def register(self, found: Mapping[tuple[str, str], Registered]) -> None:
        """Set the group versions of APIServices to *found*."""
        if found != self.registered:
            self.registered = dict(found)
            self.version += 1

    def join(self, name: str, rows: Sequence[Kind]) -> None:
        """Serve *rows* under *name*, in place of what was served under it."""
        for kind in self._joined.pop(name, ()):
            self._found.pop((kind.group, kind.version, kind.plural), None)
        if rows:
            self._joined[name] = tuple(rows)
        for kind in rows:
            self._found[kind.group, kind.version, kind.plural] = kind
        self.version += 1

    def leave(self, name: str) -> None:
        """Serve nothing under *name* any more."""
        if name in self._joined:
            self.join(name, ())

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """Return the kind served at this group, version and plural; one of the table goes first."""
        return kinds.find(group, version, plural) or self._found.get((group, version, plural))

    def under(self, name: str) -> Sequence[Kind]:
        """Return what is served under *name*."""
        return self._joined.get(name, ())

    def joined(self) -> Iterable[Kind]:
        """Return the kinds that are not in the table, by their names in the API."""
        return sorted(self._found.values(), key=lambda kind: (kind.group, kind.plural, kind.version))

    def groups(self, shown: Iterable[Kind] | None = None) -> dict[str, list[str]]:
        """Return the groups beside those of the table with their versions, the newest first."""
        found: dict[str, list[str]] = {}
        for kind in self.joined() if shown is None else shown:
            versions = found.setdefault(kind.group, [])
            if kind.version not in versions:
                versions.append(kind.version)
        return {
            group: sorted(versions, key=kube_version_order, reverse=True)
            for group, versions in sorted(found.items())
        }

    def __bool__(self) -> bool:
        return bool(self._found)
