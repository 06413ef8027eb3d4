"""The subset of etcd's v3 protocol that the store needs, as protobuf messages built at run time.

Field names and numbers are etcd's (packages etcdserverpb and mvccpb); unused fields are left out. A table instead of
a .proto file, so that installation needs no protobuf compiler. The messages have their own descriptor pool and cannot
clash with another etcd client in the process.
"""

from __future__ import annotations

import importlib
from typing import Any

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
