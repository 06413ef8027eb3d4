"""Cluster data of the screens: a dump read once, or a live cluster followed by watches.

Every change of a live cluster makes a new version; bursts of changes are one. A kind that is forbidden or not served
is named, and results that need it are unavailable. Uses the user's credentials.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from weir.client.api import Client
from weir.client.cache import Informer, decode_document, wait_all_synced
from weir.client.cluster_gates import API_SERVER, CONTROLLERS, SCHEDULER
from weir.client.known_gates import KnownGates
from weir.client.snapshot import MAY_NOT_LIST, NOT_SERVED, VERSIONS, Missing
from weir.clock import RealClock
from weir.errors import Forbidden, NotFound
from weir.inputs.certainty import because, known_gates
from weir.inputs.cluster import ClusterObjects, read_cluster
from weir.inputs.live import ClusterSource
from weir.objects.kind import Document, Kind
from weir.objects.kinds import find_kind
from weir.ui.workloads import Workload, find_workloads
from weir.world import World, flatten

#: Debounce time: changes within it make one version.
_CALM_SECONDS: Final = 0.15
_START_SECONDS: Final = 60.0


@dataclass(frozen=True)
class ClusterView:
    """The cluster at one moment."""

    version: int
    held: ClusterObjects
    known: KnownGates

    @cached_property
    def documents(self) -> list[Document]:
        """Every object, Lists opened."""
        return list(flatten(document for _, document in self.held.documents))

    @cached_property
    def world(self) -> World:
        """What decisions read."""
        return self.held.world()

    @cached_property
    def workloads(self) -> list[Workload]:
        """Top-level workloads with their pods."""
        return find_workloads(self.documents)

    def workload(self, name: str) -> Workload | None:
        """Return the workload with this id."""
        return next((each for each in self.workloads if each.id == name), None)

    @cached_property
    def pods(self) -> dict[str, Document]:
        """Every pod, by `namespace/name`."""
        found = {}
        for each in self.documents:
            metadata = each.get("metadata")
            if each.get("kind") == "Pod" and isinstance(metadata, dict):
                found[f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"] = each
        return found

    @cached_property
    def _lacking(self) -> dict[frozenset[str], str]:
        return {}

    def lacking(self, kinds: frozenset[str]) -> str:
        """Return why nothing can be said that needs *kinds*; a dump is searched once for each set of them."""
        if kinds not in self._lacking:
            missing = self.held.lacks(kinds)
            self._lacking[kinds] = because(missing) if missing else ""
        return self._lacking[kinds]


_COMPONENTS: Final = (API_SERVER, SCHEDULER, CONTROLLERS)


class Source:
    """A dump: it never changes."""

    live = False

    def __init__(self, where: ClusterSource, given: Mapping[str, bool]) -> None:
        self.where, self._given = where, given
        self._seen: ClusterView | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Read what can be read; raises what the commands raise."""
        held = read_cluster(self.where, tuple(VERSIONS))
        self._seen = ClusterView(
            1, held, known_gates(self.where, self._given, _COMPONENTS, record=held.record)
        )
        _ = self._seen.world  # one that cannot be read is named now

    def stop(self) -> None:
        """Close the watches."""

    def title(self) -> str:
        """Return which cluster this is, in words."""
        return ", ".join(self.where.dump)

    def seen(self) -> ClusterView:
        """Return the cluster as it is now."""
        assert self._seen is not None
        return self._seen

    def wait(self, after: int, seconds: float) -> int:
        """Return the version once it is another than *after*, or when so many *seconds* have passed."""
        if after == self.seen().version:
            threading.Event().wait(seconds)
        return self.seen().version


class LiveSource(Source):
    """A live cluster, followed by watch in a thread of its own."""

    live = True

    def __init__(self, where: ClusterSource, given: Mapping[str, bool]) -> None:
        super().__init__(where, given)
        self._version = 0
        self._changed = threading.Condition()
        self._informers: dict[str, tuple[Kind, Informer[Document]]] = {}
        self._missing: tuple[Missing, ...] = ()
        self._ready = threading.Event()
        self._failure: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._known: KnownGates | None = None

    def title(self) -> str:
        return self.where.live.cluster_name()

    def start(self) -> None:
        self._known = known_gates(self.where, self._given, _COMPONENTS)
        threading.Thread(target=self._follow, name="weir-ui-watch", daemon=True).start()
        if not self._ready.wait(_START_SECONDS):
            raise TimeoutError(f"the cluster did not answer within {_START_SECONDS:g} seconds")
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        loop = self._loop
        if loop is not None and loop.is_running():
            loop.call_soon_threadsafe(loop.stop)

    def seen(self) -> ClusterView:
        with self._lock:
            version = self._version
            if self._seen is None or self._seen.version != version:
                self._seen = self._read(version)
            return self._seen

    def wait(self, after: int, seconds: float) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._version != after, seconds)
            return self._version

    def _read(self, version: int) -> ClusterView:
        documents = [
            ("the cluster", {"apiVersion": kind.api_version, "kind": kind.kind, **document})
            for kind, informer in list(self._informers.values())
            for document in informer.cache
        ]
        forbidden = {each.kind for each in self._missing if each.why == MAY_NOT_LIST}
        listed = tuple(kind for kind in VERSIONS if kind not in forbidden)
        held = ClusterObjects.of(documents, keep_gate=True, missing=self._missing, listed=listed)
        assert self._known is not None
        return ClusterView(version, held, self._known)

    # ── in the thread ──

    def _follow(self) -> None:
        try:
            asyncio.run(self._main())
        except RuntimeError:
            pass  # stopped in the middle of something
        except Exception as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        client = self.where.live.connect("weir-ui")
        try:
            self._missing = tuple(await self._open(client))
            tasks = [asyncio.ensure_future(each.run()) for _, each in self._informers.values()]
            await wait_all_synced([each for _, each in self._informers.values()])
            stirred = asyncio.Event()

            def on_change(old: Document | None, new: Document | None) -> None:
                if matters(old, new):
                    stirred.set()

            for _, informer in self._informers.values():
                informer.cache.listen(on_change)
            stirred.clear()
            self._publish()
            self._ready.set()
            while True:
                await stirred.wait()
                await asyncio.sleep(_CALM_SECONDS)
                stirred.clear()
                self._publish()
        finally:
            for task in tasks if self._informers else ():
                task.cancel()
            await client.close()

    def _publish(self) -> None:
        with self._changed:
            self._version += 1
            self._changed.notify_all()

    async def _open(self, client: Client) -> list[Missing]:
        """Find what may be watched; return the kinds that may not, or are not served."""
        missing = []
        for name, versions in VERSIONS.items():
            absent: Missing | None = None
            for version in versions:
                kind = find_kind(version, name)
                if kind is None:
                    continue
                try:
                    await client.list(kind, limit=1)
                except NotFound:
                    absent = Missing(name, kind.plural, NOT_SERVED)
                    continue
                except Forbidden:
                    absent = Missing(name, kind.plural, MAY_NOT_LIST)
                    break
                absent = None
                self._informers[name] = (kind, Informer(client, kind, RealClock(), decode_document))
                break
            if absent is not None:
                missing.append(absent)
        return missing


def matters(old: Document | None, new: Document | None) -> bool:
    """Return whether a change is news: a node that only says that it is alive is none.

    >>> matters({"kind": "Node", "spec": {}}, {"kind": "Node", "spec": {"unschedulable": True}})
    True
    """
    if old is None or new is None:
        return True
    return _relevant(old) != _relevant(new)


def _relevant(document: Document) -> Document:
    """Return *document* without the times at which it was written and looked at."""
    metadata = document.get("metadata")
    kept = {**document}
    if isinstance(metadata, dict):
        kept["metadata"] = {
            name: value
            for name, value in metadata.items()
            if name not in ("resourceVersion", "managedFields")
        }
    status = document.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    if isinstance(status, dict) and isinstance(conditions, list):
        times = ("lastHeartbeatTime", "lastProbeTime")
        plain = [
            {name: value for name, value in each.items() if name not in times}
            for each in conditions
            if isinstance(each, dict)
        ]
        kept["status"] = {**status, "conditions": plain}
    return kept


def open_source(where: ClusterSource, given: Mapping[str, bool]) -> Source:
    """Return where the screens read from: a dump, or the live cluster."""
    where.check()
    return Source(where, given) if where.dump else LiveSource(where, given)


def lacking(seen: ClusterView, kinds: Iterable[str]) -> str:
    """Return why nothing can be said that needs *kinds*; "" when they were read."""
    return seen.lacking(frozenset(kinds))
