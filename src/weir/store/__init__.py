"""Where the API server keeps its objects: a multi-version key-value store, bytes in, bytes out.

Start at `weir.store.backend` (the contract), then `weir.store.log` (how every backend keeps its
revisions in memory). Backends: `memory`, `sqlite` (durable, one machine), `etcd` (shared).
"""

from weir.store.backend import (
    WRITTEN_BEFORE,
    Compacted,
    Conflict,
    Event,
    Exists,
    FutureRevision,
    KeyValue,
    Locked,
    Missing,
    Page,
    Result,
    Store,
    StoreError,
    StoreUnavailable,
    TooLarge,
    Watch,
    Write,
    WriteError,
)

__all__ = [
    "WRITTEN_BEFORE",
    "Compacted",
    "Conflict",
    "Event",
    "Exists",
    "FutureRevision",
    "KeyValue",
    "Locked",
    "Missing",
    "Page",
    "Result",
    "Store",
    "StoreError",
    "StoreUnavailable",
    "TooLarge",
    "Watch",
    "Write",
    "WriteError",
]
