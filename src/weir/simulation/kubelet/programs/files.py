"""Files of simulated containers, by volume and time.

A file is in a container's own layer (lost on restart), in an emptyDir or in a directory of the node. Each version has
a start time, because commands are played ahead: what a command writes after a `sleep` is not there before, and never
if the container is killed first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

MOST_FILES: Final = 100  # of one place; more cannot be written
MOST_VERSIONS: Final = 16  # of one file
LONGEST: Final = 1 << 14  # characters of one file


class Place(NamedTuple):
    """Where files lie together: a container's layer, a pod's volume, a node's directories."""

    kind: str
    owner: str
    name: str = ""


class Version(NamedTuple):
    """What a file holds from a time on; None: it is removed."""

    at: float
    text: str | None
    writer: str


@dataclass
class Files:
    """The files of all containers that one process plays."""

    _owners: dict[str, dict[Place, dict[str, list[Version]]]] = field(default_factory=dict)

    def read(self, place: Place, path: str, at: float) -> str | None:
        """Return what a file holds at a time; None when it is not there."""
        found = [each for each in self._in(place).get(path, ()) if each.at <= at]
        return max(found, key=lambda each: each.at).text if found else None

    def is_folder(self, place: Place, path: str, at: float) -> bool:
        """Return whether something lies below *path*."""
        below = f"{path.rstrip('/')}/"
        return any(
            name.startswith(below) and self.read(place, name, at) is not None for name in self._in(place)
        )

    def write(self, place: Place, path: str, text: str | None, at: float, writer: str) -> bool:
        """Note what a file holds from *at* on; returns whether there was room for it."""
        files = self._owners.setdefault(place.owner, {}).setdefault(place, {})
        if len(text or "") > LONGEST or (path not in files and len(files) >= MOST_FILES):
            return False
        versions = files.setdefault(path, [])
        if len(versions) >= MOST_VERSIONS and versions[-1].at <= at:
            del versions[0]  # older versions are not read
        versions.append(Version(at, text, writer))
        return True

    def undo(self, owner: str, writer: str, after: float) -> None:
        """Forget what *writer* was to write after a time into the places of *owner*: it has ended before."""
        for files in self._owners.get(owner, {}).values():
            for path, versions in list(files.items()):
                versions[:] = [each for each in versions if each.writer != writer or each.at <= after]
                if not versions:
                    del files[path]

    def remove(self, place: Place) -> None:
        """Forget all files of a place."""
        self._owners.get(place.owner, {}).pop(place, None)

    def forget(self, owner: str) -> None:
        """Forget all places of a pod or node that is gone."""
        self._owners.pop(owner, None)

    def _in(self, place: Place) -> dict[str, list[Version]]:
        return self._owners.get(place.owner, {}).get(place, {})
