"""Options of an API server, and the store they select."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weir.apiserver.admission.chain import Settings
from weir.apiserver.compat.audit import LogRetention
from weir.apiserver.compat.encryption.configuration import AtRest
from weir.clock import Clock
from weir.gates import ALL_FEATURES, Gates
from weir.objects.pod_usage import UsageModel
from weir.store import Store, StoreUnavailable
from weir.store.memory import MemoryStore
from weir.store.sqlite import SqliteStore
from weir.values.entropy import system_bytes


@dataclass(frozen=True)
class Options:
    """What an operator can choose."""

    data_dir: Path
    store: str = "sqlite"  #: sqlite, memory, or etcd=host:port,host:port
    bind_address: str = "127.0.0.1"
    secure_port: int = 6443
    shares_port: bool = False  #: with other API servers of this machine; the system divides connections
    number: int = 1  #: among the API servers of this machine
    insecure: bool = False  #: plain HTTP: loopback only, for benches and tests
    admin_token: str = ""  #: of an insecure server's administrator; made by chance unless given
    gates: Gates = ALL_FEATURES
    authorization_modes: Sequence[str] = ("Node", "RBAC")
    admission: Settings = field(default_factory=Settings)
    anonymous: bool = False
    hostnames: Sequence[str] = ()
    kubeconfig: Path | None = None
    local_kubeconfig: Path | None = (
        None  #: of the Unix socket for components of this machine; None: there is none
    )
    token_file: Path | None = None
    audit_log: Path | None = None
    audit_policy: Path | None = None
    audit_keep: LogRetention = field(default_factory=LogRetention)
    compaction_seconds: float = 300.0
    event_ttl_seconds: float = 3600.0  #: how long an Event is kept
    encryption_config: Path | None = None  #: which resources are encrypted on the disk, and how
    encryption_reload: bool = False  #: read it again whenever it changes
    max_reading: int = 400
    max_writing: int = 200
    aggregation: bool = True  #: the server's groups are registered as APIServices
    priority_and_fairness: bool = True  #: flow schemas and priority levels divide the server's time
    sync_delay_seconds: float = 0.0
    etcd_ca: Path | None = None
    etcd_cert: Path | None = None
    etcd_key: Path | None = None
    etcd_user: str = ""  #: name:password
    release: str = ""  #: play a server of this older release (weir.apiserver.older_release)
    usage: UsageModel | None = None  #: answer for metrics.k8s.io, about pods that are simulated
    #: for uids and generated names; a simulation seeds it
    random_bytes: Callable[[int], bytes] = system_bytes
    debug_blocking: bool = False  #: measure how long each request holds the event loop


async def open_store(options: Options, clock: Clock, at_rest: AtRest | None = None) -> Store:
    """Return the store the options name, its values in the form that *at_rest* gives them (by default, what the
    options say); raises StoreUnavailable, ConfigurationError."""
    at_rest = at_rest or AtRest(options.encryption_config)
    keep = options.compaction_seconds
    if options.store == "memory":
        return MemoryStore(time=clock.steady_time, keep_seconds=keep)
    if options.store == "sqlite":
        return await SqliteStore.open(
            options.data_dir / "store.db",
            time=clock.steady_time,
            keep_seconds=keep,
            sync_delay=options.sync_delay_seconds,
            transformer=at_rest,
        )
    if options.store.startswith("etcd="):
        from weir.store.etcd import EtcdStore  # 70 ms of start-up
        from weir.store.etcd_wire import EtcdOptions

        return await EtcdStore.open(
            EtcdOptions(
                endpoints=options.store.removeprefix("etcd=").split(","),
                ca_file=options.etcd_ca,
                cert_file=options.etcd_cert,
                key_file=options.etcd_key,
                username=options.etcd_user.partition(":")[0],
                password=options.etcd_user.partition(":")[2],
            ),
            time=clock.steady_time,
            keep_seconds=keep,
            transformer=at_rest,
        )
    raise StoreUnavailable(f"unknown store {options.store!r}: write sqlite, memory or etcd=host:port")
