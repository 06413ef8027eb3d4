"""A stock cluster under virtual time: every extended operator is off, and weir's operator is installed."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

import msgspec

from weir.apiserver.compat.webhooks.review import CallFailed
from weir.client.api import Client, Unreachable
from weir.gates import KUBERNETES_DEFAULTS
from weir.lowering import webhooks
from weir.lowering.names import NAMESPACE, OPERATOR
from weir.lowering.webhooks import CONDITION_KEYS
from weir.operator.run import Operator
from weir.simulation.cluster import Cluster

Document = dict[str, Any]
URL = "https://weir.invalid"
SECRET = "5ec2e7"


class StockCluster(Cluster):
    """Kubernetes as it is, with the operator beside it; `down` takes its webhooks off the network."""

    def __init__(
        self,
        *,
        replicas: int = 1,
        install: bool = True,
        gates: Any = KUBERNETES_DEFAULTS,
        grace_seconds: int | None = None,
        **more: Any,
    ) -> None:
        super().__init__(gates=gates, **more)
        self._grace_seconds = grace_seconds
        self.down = False
        self.calls: list[str] = []
        self.operators: list[Operator] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._turn = 0
        self._running.webhook_client.post = self._post  # type: ignore[method-assign]
        if install:
            self.install(replicas)

    def install(self, replicas: int = 1) -> None:
        """Start operators, and switch their webhooks on once they know the cluster."""
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        account = {"name": OPERATOR, "namespace": NAMESPACE}
        self.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        for number in range(replicas):
            self.start_operator(f"operator-{number}", elect=replicas > 1)
        for operator in self.operators:
            self._do(operator.wait_ready())
        for made in (webhooks.mutating_configuration, webhooks.validating_configuration):
            configuration = made({"url": URL})
            for hook in configuration["webhooks"]:
                hook["clientConfig"] |= webhooks.addressed(hook["clientConfig"], hook["name"], SECRET)
            self.create(configuration)
        self.advance(1)

    def start_operator(self, identity: str, *, elect: bool = False) -> Operator:
        client = Client(self._transport(), clock=self.clock, user_agent=identity)

        async def make() -> Operator:
            operator = Operator(
                client,
                self.clock,
                identity=identity,
                leader_elect=elect,
                grace_seconds=self._grace_seconds,
                seed=len(self.operators),
            )
            self._tasks.append(asyncio.ensure_future(operator.run()))
            return operator

        operator = self._do(make())
        self.operators.append(operator)
        return operator

    def kill_operator(self, number: int) -> None:
        """End one replica as a crash does: it says nothing any more."""

        async def silent(*given: Any, **more: Any) -> Any:
            raise Unreachable("killed")

        self.operators[number]._client.call = silent  # type: ignore[method-assign]
        self.operators[number]._client.exchange = silent  # type: ignore[method-assign]
        self.stop_operator(number)

    def stop_operator(self, number: int) -> None:
        """End one replica as SIGTERM does."""

        async def stop() -> None:
            self._tasks[number].cancel()
            await asyncio.gather(self._tasks[number], return_exceptions=True)

        self._do(stop())
        del self._tasks[number], self.operators[number]

    async def _post(self, endpoint: Any, body: bytes, seconds: float) -> bytes:
        path = urlsplit(endpoint.url).path.removeprefix(f"/{SECRET}")
        self.calls.append(path)
        if self.down or not self.operators:
            raise CallFailed(
                f'failed to call webhook: Post "{endpoint.url}": dial tcp: connect: connection refused'
            )
        self._turn += 1
        operator = self.operators[self._turn % len(self.operators)]
        return msgspec.json.encode(await operator.review(path, msgspec.json.decode(body)))

    def close(self) -> None:
        for number in reversed(range(len(self._tasks))):
            self.stop_operator(number)
        super().close()

    # ── words of the tests ───────────────────────────────────────────────────────────────────────

    def node(self, name: str, *taints: str, **labels: str) -> None:
        self.add_node(name, taints=taints, labels=labels)

    def run_pod(self, name: str, *tolerations: Document, node: str = "", **spec: Any) -> Document:
        more = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
        spec = {"tolerations": list(tolerations), "containers": [{"name": "c", "image": "i"}], **more, **spec}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
        }
        created = self.create(pod)
        self.advance(5)
        return created

    def set_taints(self, node: str, *taints: tuple[str, str, str]) -> None:
        """Replace the taints of people's on a node; Kubernetes' own stay."""
        stored = self.get("Node", node)
        assert stored is not None
        kept = [
            t for t in stored["spec"].get("taints") or () if t["key"] in CONDITION_KEYS[:-1]
        ]  # the last is people's
        written = [dict(zip(("key", "value", "effect"), taint, strict=True)) for taint in taints]
        self.patch("Node", node, {"spec": {"taints": kept + written}})

    def where(self, pod: str) -> str | None:
        """Return the pod's node, "" while it has none, None when it is gone or going."""
        found = self.get("Pod", pod)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return None
        return found["spec"].get("nodeName", "")
