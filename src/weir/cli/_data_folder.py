"""The data folder of a command: finding and purging it, and exclusive use of it by one `weir up`.

`weir status` and `weir down` use --data-dir; else ./.weir, and if nothing runs there the folder of the kubeconfig in
KUBECONFIG. Purging removes only what weir wrote: a folder with other files stays. A folder is held by a kernel lock, a
shared etcd by a Lease (`kube-system/weir-up`), renewed while `weir up` runs; one whose process on this machine is dead
is taken over at once.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

from weir.cli._options import Option
from weir.client.api import Client
from weir.client.leases import LEASES, Elector, Leadership
from weir.clock import Clock
from weir.errors import NotFound
from weir.store.backend import Locked, StoreUnavailable
from weir.store.lockfile import LockFile

#: The locks of a data folder: that of `weir up`, and that of the SQLite file.
LOCKS: Final = ("up.lock", "store.db.lock")
LEASE: Final = ("weir-up", "kube-system")
_PROCESS: Final = re.compile(r"process (\d+) \(.*?\) on (\S+)")


def hold(data_dir: Path) -> LockFile:
    """Lock a data folder, created if need be. Raises Locked with the holder."""
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(f"cannot use the folder {data_dir}: {error.strerror}") from None
    try:
        return LockFile(data_dir / LOCKS[0])
    except Locked as error:
        raise Locked(f"{data_dir} is in use by {_who(error)}") from None


def find_holder(data_dir: Path) -> str | None:
    """Return the holder of the data, as the lock names it; None if unlocked."""
    for path in (data_dir / name for name in LOCKS):
        if not path.exists():
            continue
        try:
            LockFile(path).release()
        except Locked as error:
            return _who(error)
        except StoreUnavailable as error:
            raise click.ClickException(str(error)) from None
    return None


def find_pid(holder: str) -> int:
    """Return the process that a lock names, 0 when it names none.

    >>> find_pid("process 42 (weir) on laptop since 2026-01-01T00:00:00+00:00")
    42
    """
    match = _PROCESS.search(holder)
    return int(match[1]) if match else 0


def _who(error: Locked) -> str:
    return str(error).partition(" is in use by ")[2]


@asynccontextmanager
async def lease_of(client: Client, clock: Clock, store: str) -> AsyncIterator[None]:
    """Hold a shared store during the block. Raises Locked when a live process has it."""
    since = clock.now().isoformat(timespec="seconds")
    identity = f"process {os.getpid()} (weir) on {socket.gethostname()} since {since}"
    elector = Elector(client, clock, name=LEASE[0], namespace=LEASE[1], identity=identity)
    lease = await elector.read()
    if holder := living_holder(lease, clock.now()):
        raise Locked(f"{store} is in use by {holder}")
    if lease is not None:  # of a dead process: no waiting
        with suppress(NotFound):
            await client.delete(LEASES, *LEASE, resource_version=lease["metadata"]["resourceVersion"])

    async def stay(_: Leadership) -> None:
        await asyncio.Event().wait()

    task = asyncio.ensure_future(elector.run(stay))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.result()


def living_holder(lease: dict[str, Any] | None, now: datetime) -> str:
    """Return the holder of a Lease that may still be alive, or ''."""
    spec = (lease or {}).get("spec") or {}
    holder = str(spec.get("holderIdentity") or "")
    renewed = spec.get("renewTime") or ""
    if not holder or not renewed:
        return ""
    until = datetime.fromisoformat(renewed).astimezone(UTC) + timedelta(
        seconds=int(spec.get("leaseDurationSeconds") or 0)
    )
    match = _PROCESS.search(holder)
    dead = match is not None and match[2] == socket.gethostname() and not _alive(int(match[1]))
    return "" if dead or until <= now else holder


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


# ── its folder ──────────────────────────────────────────────────────────────────────────────────

DEFAULT: Final = Path(".weir")
LOG: Final = "up.log"  #: what a detached `weir up` says
_OURS: Final = (*LOCKS, LOG, "kubeconfig", "api.sock", "store.db", "store.db-wal", "store.db-shm")
_FOLDERS: Final = ("pki",)


def _find(ctx: click.Context, parameter: click.Parameter, given: Path | None) -> Path:
    if given is not None:
        return given
    if find_holder(DEFAULT) is None:
        for path in os.environ.get("KUBECONFIG", "").split(os.pathsep):
            folder = Path(path).parent
            if path and (folder / LOCKS[0]).exists() and find_holder(folder) is not None:
                return folder
    return DEFAULT


running_data_dir_option: Final[Option] = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_find,
    help="The folder given to weir up.  [default: .weir, else that of the running cluster KUBECONFIG names]",
)


def has_state(data_dir: Path) -> bool:
    """Return whether a cluster has left something in the folder."""
    return any((data_dir / name).exists() for name in (*_OURS, *_FOLDERS))


def purge(data_dir: Path) -> None:
    """Remove what weir wrote into the folder, and the folder when it is empty then."""
    for name in _OURS:
        (data_dir / name).unlink(missing_ok=True)
    for name in _FOLDERS:
        shutil.rmtree(data_dir / name, ignore_errors=True)
    if data_dir.is_dir() and not any(data_dir.iterdir()):
        data_dir.rmdir()
