"""Encoding of keys, values and revisions in etcd, and the connection to it.

A revision is etcd's revision with ten more bits: the write's place in its transaction. etcd gives all writes of a
transaction the same revision, and a reader that resumes after one of them would miss the others. A value has a
six-byte header with its place and the offset of the revision, because etcd assigns the revision after the value is
sent.
"""

from __future__ import annotations

import asyncio
import importlib
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from weir.store.backend import NO_STAMP, PLAIN, Compacted, KeyValue, StoreUnavailable, TooLarge, Transformer

# ── the subset of etcd's v3 protocol that the store needs, as protobuf messages built at run time ──
# Field names and numbers are etcd's (packages etcdserverpb and mvccpb); unused fields are left out. A table instead of
# a .proto file, so that installation needs no protobuf compiler. The messages have their own descriptor pool and cannot
# clash with another etcd client in the process.


# protobuf has no types for what it makes at run time
descriptor_pb2: Any = importlib.import_module("google.protobuf.descriptor_pb2")
descriptor_pool: Any = importlib.import_module("google.protobuf.descriptor_pool")
message_factory: Any = importlib.import_module("google.protobuf.message_factory")

_TABLE = """
Header        revision:int64=3
KeyValue      key:bytes=1 create_revision:int64=2 mod_revision:int64=3 value:bytes=5 lease:int64=6
RangeRequest  key:bytes=1 range_end:bytes=2 limit:int64=3 revision:int64=4 count_only:bool=9
RangeResponse header:Header=1 kvs:KeyValue[]=2 more:bool=3
PutRequest    key:bytes=1 value:bytes=2 lease:int64=3
PutResponse   header:Header=1
DeleteRangeRequest   key:bytes=1 range_end:bytes=2
DeleteRangeResponse  header:Header=1 deleted:int64=2
Compare       result:int32=1 target:int32=2 key:bytes=3 mod_revision:int64=6/target_union
RequestOp     request_range:RangeRequest=1/request request_put:PutRequest=2/request request_delete_range:DeleteRangeRequest=3/request request_txn:TxnRequest=4/request
ResponseOp    response_range:RangeResponse=1/response response_put:PutResponse=2/response response_delete_range:DeleteRangeResponse=3/response response_txn:TxnResponse=4/response
TxnRequest    compare:Compare[]=1 success:RequestOp[]=2 failure:RequestOp[]=3
TxnResponse   header:Header=1 succeeded:bool=2 responses:ResponseOp[]=3
CompactionRequest    revision:int64=1
CompactionResponse   header:Header=1
Event         type:int32=1 kv:KeyValue=2
WatchCreateRequest   key:bytes=1 range_end:bytes=2 start_revision:int64=3
WatchRequest  create_request:WatchCreateRequest=1/request_union
WatchResponse header:Header=1 created:bool=3 canceled:bool=4 compact_revision:int64=5 cancel_reason:string=6 events:Event[]=11
LeaseGrantRequest    TTL:int64=1 ID:int64=2
LeaseGrantResponse   header:Header=1 ID:int64=2 TTL:int64=3
SnapshotRequest
SnapshotResponse     header:Header=1 remaining_bytes:int64=2 blob:bytes=3
AuthenticateRequest  name:string=1 password:string=2
AuthenticateResponse header:Header=1 token:string=2
"""  # noqa: E501

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "int64": _Field.TYPE_INT64,
    "int32": _Field.TYPE_INT32,  # also reads and writes enums: the same bytes on the wire
    "bool": _Field.TYPE_BOOL,
    "bytes": _Field.TYPE_BYTES,
    "string": _Field.TYPE_STRING,
}
COMPARE_EQUAL, COMPARE_GREATER, TARGET_MOD = 0, 1, 2
EVENT_DELETE = 1


def _describe() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="weir/etcd.proto", package="weir.etcd", syntax="proto3")
    for line in _TABLE.strip().splitlines():
        name, *fields = line.split()
        message = file.message_type.add(name=name)
        unions: dict[str, int] = {}
        for text in fields:
            field_name, _, rest = text.partition(":")
            kind, _, rest = rest.partition("=")
            number, _, union = rest.partition("/")
            field = message.field.add(name=field_name, number=int(number), label=_Field.LABEL_OPTIONAL)
            if kind.endswith("[]"):
                kind, field.label = kind[:-2], _Field.LABEL_REPEATED
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type, field.type_name = _Field.TYPE_MESSAGE, f".weir.etcd.{kind}"
            if union:
                if union not in unions:
                    unions[union] = len(message.oneof_decl)
                    message.oneof_decl.add(name=union)
                field.oneof_index = unions[union]
    return file


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_describe())


def message(name: str) -> Any:
    """Return the class of the message called *name*.

    >>> message("RangeRequest")(key=b"/a", limit=1).SerializeToString()
    b'\\n\\x02/a\\x18\\x01'
    """
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"weir.etcd.{name}"))


RangeRequest, RangeResponse = message("RangeRequest"), message("RangeResponse")
TxnRequest, TxnResponse = message("TxnRequest"), message("TxnResponse")
CompactionRequest, CompactionResponse = message("CompactionRequest"), message("CompactionResponse")
WatchRequest, WatchResponse = message("WatchRequest"), message("WatchResponse")
LeaseGrantRequest, LeaseGrantResponse = message("LeaseGrantRequest"), message("LeaseGrantResponse")
SnapshotRequest, SnapshotResponse = message("SnapshotRequest"), message("SnapshotResponse")
AuthenticateRequest, AuthenticateResponse = message("AuthenticateRequest"), message("AuthenticateResponse")


# ── encoding of keys, values and revisions in etcd, and the connection to it ──


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
        request = AuthenticateRequest(name=self._options.username, password=self._options.password)
        call = self._call("Auth/Authenticate", AuthenticateRequest, AuthenticateResponse)
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
        request = RangeRequest(**fields)
        for _ in self._options.endpoints[1:]:
            with suppress(StoreUnavailable):  # reading may be repeated, elsewhere
                return await self._invoke("KV/Range", request, RangeResponse)
        return await self._invoke("KV/Range", request, RangeResponse)

    async def txn(self, request: Any) -> Any:
        return await self._invoke("KV/Txn", request, TxnResponse)

    async def compact(self, main: int) -> None:
        """Compact etcd at *main*; not an error when another server already did."""
        with suppress(Compacted):
            await self._invoke("KV/Compact", CompactionRequest(revision=main), CompactionResponse)

    async def grant_lease(self, ttl_seconds: int) -> int:
        request = LeaseGrantRequest(TTL=ttl_seconds)
        return int((await self._invoke("Lease/LeaseGrant", request, LeaseGrantResponse)).ID)

    async def watch(self, key: bytes, range_end: bytes, start: int) -> Any:
        """Open a stream of everything in the range from etcd's revision *start* on; call `.read()` on it."""
        if self._options.username and not self._token:
            try:
                await self._authenticate()
            except grpc.aio.AioRpcError as error:
                raise unavailable(error) from None
        call = self._call("Watch/Watch", WatchRequest, WatchResponse, stream=True)
        # a partitioned member must fail the watch instead of going quiet
        stream = call(metadata=(*self._metadata(), ("hasleader", "true")))
        create = {"key": key, "range_end": range_end, "start_revision": start}
        await stream.write(WatchRequest(create_request=create))
        return stream

    async def snapshot(self) -> AsyncIterator[bytes]:
        """Yield the whole of etcd as it is now, in parts, with a checksum at the end (etcd's own file)."""
        try:
            if self._options.username and not self._token:
                await self._authenticate()
            call = self._channels[self._at].unary_stream(
                "/etcdserverpb.Maintenance/Snapshot",
                request_serializer=SnapshotRequest.SerializeToString,
                response_deserializer=SnapshotResponse.FromString,
            )
            async for part in call(SnapshotRequest(), metadata=self._metadata()):
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
