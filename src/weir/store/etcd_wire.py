"""Encoding of keys, values and revisions in etcd, and the connection to it.

A revision is etcd's revision with ten more bits: the write's place in its transaction. etcd gives all writes of a
transaction the same revision, and a reader that resumes after one of them would miss the others. A value has a
six-byte header with its place and the offset of the revision, because etcd assigns the revision after the value is
sent.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from weir.store import etcd_messages as pb
from weir.store.backend import NO_STAMP, Compacted, KeyValue, StoreUnavailable, TooLarge
from weir.store.transformer import PLAIN, Transformer

PLACE_BITS = 10
LAST_PLACE = (1 << PLACE_BITS) - 1
_HEADER = struct.Struct(">BBhi")  # format, unused, place in the transaction, stamp
_FORMAT = 1
_CALL_SECONDS = 5.0


def revision_of(main: int, place: int = LAST_PLACE) -> int:
    """Return weir's revision for etcd's *main*; without *place*, the state after all of it.

    >>> revision_of(2, 0), revision_of(2)
    (2048, 3071)
    """
    return main << PLACE_BITS | place


def main_of(revision: int) -> int:
    """Return etcd's revision that *revision* is part of."""
    return revision >> PLACE_BITS


def encode_value(value: bytes, place: int, stamp: int) -> bytes:
    """Return what is stored in etcd for *value*, which has gone through the transformer."""
    return _HEADER.pack(_FORMAT, 0, place, stamp) + value


def place_of(stored: bytes) -> int:
    """Return the place a stored value's write had in its transaction; 0 for what weir did not write."""
    if len(stored) < _HEADER.size or stored[0] != _FORMAT:
        return 0
    place: int = _HEADER.unpack_from(stored)[2]
    return place


def content_of(stored: bytes) -> bytes:
    """Return a stored value without its header."""
    return stored[_HEADER.size :] if len(stored) >= _HEADER.size and stored[0] == _FORMAT else stored


def decode(key: str, stored: Any, transformer: Transformer = PLAIN) -> KeyValue:
    """Return etcd's key-value pair *stored* as weir's. Raises Unreadable."""
    raw: bytes = stored.value
    place, stamp, value = 0, NO_STAMP, raw
    if len(raw) >= _HEADER.size and raw[0] == _FORMAT:
        _, _, place, stamp = _HEADER.unpack_from(raw)
        value = raw[_HEADER.size :]
    value = transformer.from_storage(key, value)
    revision = revision_of(stored.mod_revision, place)
    if stamp != NO_STAMP:
        value = b"%b%d%b" % (value[:stamp], revision, value[stamp:])
    return KeyValue(key, value, revision_of(stored.create_revision, 0), revision, stamp)


@dataclass(frozen=True)
class EtcdOptions:
    """Endpoints and credentials of etcd."""

    endpoints: Sequence[str] = ("127.0.0.1:2379",)
    ca_file: Path | None = None  # given: TLS
    cert_file: Path | None = None  # given with key_file: the client's certificate
    key_file: Path | None = None
    server_name: str = ""  # when the certificate names another host than the endpoint
    username: str = ""
    password: str = ""


class EtcdConnection:
    """Calls to etcd; one endpoint at a time, the next one after a failure. Raises StoreUnavailable."""

    def __init__(self, options: EtcdOptions) -> None:
        self._options = options
        self._at = 0
        self._token = ""
        self._channels = [self._open_channel(endpoint) for endpoint in options.endpoints]
        self._calls: dict[tuple[int, str], Any] = {}

    def _open_channel(self, endpoint: str) -> Any:
        options = self._options
        settings: list[tuple[str, Any]] = [
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            ("grpc.keepalive_time_ms", 10_000),
            ("grpc.keepalive_timeout_ms", 5_000),
            ("grpc.max_reconnect_backoff_ms", 1_000),
        ]
        secure = bool(endpoint.startswith("https://") or options.ca_file or options.cert_file)
        target = endpoint.split("://", 1)[-1]
        if not secure:
            return grpc.aio.insecure_channel(target, settings)
        try:
            files = (options.ca_file, options.key_file, options.cert_file)
            pem = [path.read_bytes() if path else None for path in files]
        except OSError as error:
            raise StoreUnavailable(f"cannot read {error.filename}: {error.strerror}") from None
        if options.server_name:
            settings.append(("grpc.ssl_target_name_override", options.server_name))
        credentials = grpc.ssl_channel_credentials(*pem)  # type: ignore[no-untyped-call]
        return grpc.aio.secure_channel(target, credentials, settings)

    @property
    def endpoint(self) -> int:
        """Which endpoint is used now."""
        return self._at

    def leave(self, endpoint: int) -> None:
        """Use the next endpoint from now on, unless another caller already left *endpoint*. Calls under way there
        go on: closing their channel would end the watch together with the call that failed."""
        if self._at == endpoint:
            self._at = (endpoint + 1) % len(self._channels)

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()

    def _call(self, path: str, request: Any, response: Any, *, stream: bool = False) -> Any:
        call = self._calls.get((self._at, path))
        if call is None:
            channel = self._channels[self._at]
            make = channel.stream_stream if stream else channel.unary_unary
            call = self._calls[self._at, path] = make(
                f"/etcdserverpb.{path}",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
        return call

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return (("token", self._token),) if self._token else ()

    async def _authenticate(self) -> None:
        request = pb.AuthenticateRequest(name=self._options.username, password=self._options.password)
        call = self._call("Auth/Authenticate", pb.AuthenticateRequest, pb.AuthenticateResponse)
        self._token = (await call(request, timeout=_CALL_SECONDS)).token

    async def _invoke(self, path: str, message: Any, response: Any) -> Any:
        """Call; a token that ran out is renewed once (etcd refused, so nothing happened yet)."""
        endpoint = self._at
        try:
            if self._options.username and not self._token:
                await self._authenticate()
            call = self._call(path, type(message), response)
            try:
                return await call(message, timeout=_CALL_SECONDS, metadata=self._metadata())
            except grpc.aio.AioRpcError as error:
                if not self._options.username or error.code() is not grpc.StatusCode.UNAUTHENTICATED:
                    raise
                await self._authenticate()
                return await call(message, timeout=_CALL_SECONDS, metadata=self._metadata())
        except grpc.aio.AioRpcError as error:
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                self.leave(endpoint)
            raise unavailable(error) from None
        except asyncio.InvalidStateError as error:  # the channel was closed under the call
            raise StoreUnavailable("etcd: the connection was closed", unknown=True) from error

    async def range(self, **fields: Any) -> Any:
        """Read a range; linearizable. Raises Compacted when `revision` is gone."""
        request = pb.RangeRequest(**fields)
        for _ in self._options.endpoints[1:]:
            with suppress(StoreUnavailable):  # reading may be repeated, elsewhere
                return await self._invoke("KV/Range", request, pb.RangeResponse)
        return await self._invoke("KV/Range", request, pb.RangeResponse)

    async def txn(self, request: Any) -> Any:
        return await self._invoke("KV/Txn", request, pb.TxnResponse)

    async def compact(self, main: int) -> None:
        """Compact etcd at *main*; not an error when another server already did."""
        with suppress(Compacted):
            await self._invoke("KV/Compact", pb.CompactionRequest(revision=main), pb.CompactionResponse)

    async def grant_lease(self, ttl_seconds: int) -> int:
        request = pb.LeaseGrantRequest(TTL=ttl_seconds)
        return int((await self._invoke("Lease/LeaseGrant", request, pb.LeaseGrantResponse)).ID)

    async def watch(self, key: bytes, range_end: bytes, start: int) -> Any:
        """Open a stream of everything in the range from etcd's revision *start* on; call `.read()` on it."""
        if self._options.username and not self._token:
            try:
                await self._authenticate()
            except grpc.aio.AioRpcError as error:
                raise unavailable(error) from None
        call = self._call("Watch/Watch", pb.WatchRequest, pb.WatchResponse, stream=True)
        # a partitioned member must fail the watch instead of going quiet
        stream = call(metadata=(*self._metadata(), ("hasleader", "true")))
        create = {"key": key, "range_end": range_end, "start_revision": start}
        await stream.write(pb.WatchRequest(create_request=create))
        return stream

    async def snapshot(self) -> AsyncIterator[bytes]:
        """Yield the whole of etcd as it is now, in parts, with a checksum at the end (etcd's own file)."""
        try:
            if self._options.username and not self._token:
                await self._authenticate()
            call = self._channels[self._at].unary_stream(
                "/etcdserverpb.Maintenance/Snapshot",
                request_serializer=pb.SnapshotRequest.SerializeToString,
                response_deserializer=pb.SnapshotResponse.FromString,
            )
            async for part in call(pb.SnapshotRequest(), metadata=self._metadata()):
                yield part.blob
        except grpc.aio.AioRpcError as error:
            raise unavailable(error) from None

    def forget_token(self) -> None:
        """Authenticate again before the next call."""
        self._token = ""


_CLEAN = (  # etcd answered that it did nothing
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
)


def unavailable(error: grpc.aio.AioRpcError) -> StoreUnavailable | Compacted | TooLarge:
    """Return the store's error for one of gRPC's."""
    code, details = error.code(), error.details() or ""
    if code is grpc.StatusCode.OUT_OF_RANGE and "compacted" in details:
        return Compacted(0, 0)
    if "request is too large" in details:
        return TooLarge(details)
    words = details.removeprefix("etcdserver: ") or code.name.lower()
    # The write that takes etcd over its quota is carried out and answered with "no space" all the same.
    full = "space exceeded" in details
    return StoreUnavailable(f"etcd: {words}", unknown=full or code not in _CLEAN)
