"""Storage of the API server: a multi-version key-value store of bytes.

Start at `weir.store.backend` (the interface), then `weir.store.log` (revisions in memory, shared by all backends).
Backends: `memory`, `sqlite` (durable, one machine), `etcd` (shared).
"""

import os

# gRPC writes lines of its own to stderr about what it also raises; it looks here when it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

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
