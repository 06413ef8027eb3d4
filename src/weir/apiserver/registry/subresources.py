"""Subresources: the verbs of each, logs and tokens.

Spec: apiserver.md 12 "Subresources". Exec and other kubelet streams answer that simulated nodes do not support them.
Binding, eviction and scale have their own modules; status, ephemeralcontainers, resize and finalize are updates
(.verbs).
"""

from __future__ import annotations

from datetime import UTC, datetime

from weir import errors
from weir.apiserver.admission.attributes import CREATE
from weir.apiserver.auth.tokens import Signer, token_request
from weir.apiserver.registry import codec
from weir.apiserver.registry.container_logs import ContainerLogs, LogOptions
from weir.apiserver.registry.deletion import Deletion
from weir.apiserver.registry.pod_subresources import CREATED, bind, evict
from weir.apiserver.registry.verbs import Verbs
from weir.apiserver.registry.write_path import body_of
from weir.apiserver.registry.write_request import WriteRequest, WriteResult
from weir.apiserver.transport.http import TEXT, Request, Response
from weir.apiserver.transport.options import WriteOptions
from weir.objects.kind import Kind
from weir.objects.kinds import NODES, by_kind

STREAMS = frozenset({"exec", "attach", "portforward", "proxy"})


class Subresources:
    """The verbs of subresources."""

    def __init__(self, verbs: Verbs, deletion: Deletion, signer: Signer | None) -> None:
        self._verbs, self._deletion, self._signer = verbs, deletion, signer
        self._logs = ContainerLogs()

    async def create(
        self, request: Request, kind: Kind, namespace: str, name: str, subresource: str, warnings: list[str]
    ) -> WriteResult:
        """POST to a subresource."""
        if subresource == "binding":
            return await bind(self._verbs, request, namespace, name, warnings)
        if subresource == "eviction":
            return await evict(self._verbs, self._deletion, request, namespace, name, warnings)
        if subresource == "token":
            return await self._token(request, kind, namespace, name, warnings)
        return self.stream(kind, namespace, name, subresource)

    def stream(self, kind: Kind, namespace: str, name: str, subresource: str) -> WriteResult:
        """Refuse what only a real kubelet could do."""
        self._verbs.find(kind, namespace, name)
        raise errors.NotImplementedHere(f"{kind.plural}/{subresource} is not supported by simulated nodes")

    def log(self, request: Request, kind: Kind, namespace: str, name: str, verb: str) -> Response:
        """Return what a simulated container has printed, or take it in from its kubelet."""
        pod = codec.decode(kind, self._verbs.find(kind, namespace, name).value)
        if verb == "create":
            self._logs.write(request.body)
            return Response(201, CREATED.body)
        now = self._verbs.clock.time()
        return Response(200, self._logs.read(pod, LogOptions.parse(request.params, now), now), TEXT)

    async def _token(
        self, request: Request, kind: Kind, namespace: str, name: str, warnings: list[str]
    ) -> WriteResult:
        """Issue a token for a service account."""
        options = WriteOptions.parse(request.params, "CreateOptions")
        row = by_kind("authentication.k8s.io/v1", "TokenRequest")
        asked = await self._verbs.decode(request, row, options.field_validation, warnings)
        sent = asked.get("spec") or {}
        account = codec.decode(kind, self._verbs.find(kind, namespace, name).value)
        write = WriteRequest.of(request, kind, namespace, name, "token", options, warnings)
        await self._verbs.admit(write.attributes(CREATE, object=asked))
        if self._signer is None:
            raise errors.ServiceUnavailable("this server has no key to sign service account tokens with")
        reference = (asked.get("spec") or {}).get("boundObjectRef") or {}
        bound = None
        if reference.get("kind") in ("Pod", "Secret", "Node"):
            other = by_kind("v1", reference["kind"])
            bound = self._verbs.reader.get_now(
                other, namespace if other.namespaced else "", reference.get("name", "")
            )
        now = datetime.fromtimestamp(int(self._verbs.clock.time()), UTC)
        node_name = ((bound or {}).get("spec") or {}).get("nodeName")
        node = self._verbs.reader.get_now(NODES, "", node_name) if node_name else None
        answer = token_request(self._signer, account, asked, bound, now, node)
        metadata = answer["metadata"]
        metadata["managedFields"] = [
            {
                "manager": write.manager,
                "operation": "Update",
                "apiVersion": row.api_version,
                "time": self._verbs.now,
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {f"f:{name}": {} for name, value in sorted(sent.items()) if value}},
                "subresource": "token",
            }
        ]
        return WriteResult(201, body_of(answer))
