"""A cluster to play with: a client with short words, and a stand-in for kubelets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kubernetes.client import ApiException

from kubernetes import client, config, dynamic


class Playground:
    """Creates, reads and waits; and plays the kubelet of every node."""

    def __init__(self, kubeconfig: Path) -> None:
        configuration = client.Configuration()
        config.load_kube_config(str(kubeconfig), client_configuration=configuration)
        self._api = client.ApiClient(configuration)
        self._dynamic = dynamic.DynamicClient(self._api)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Playground:
        self._thread = threading.Thread(target=self._play_kubelets, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join(10)

    def _resource(self, kind: str) -> Any:
        version = {
            "Deployment": "apps/v1", "DaemonSet": "apps/v1", "ReplicaSet": "apps/v1", "Job": "batch/v1",
            "StatefulSet": "apps/v1", "ControllerRevision": "apps/v1", "EndpointSlice": "discovery.k8s.io/v1",
            "PodDisruptionBudget": "policy/v1", "CronJob": "batch/v1", "StorageClass": "storage.k8s.io/v1",
            "HorizontalPodAutoscaler": "autoscaling/v2",
            "CertificateSigningRequest": "certificates.k8s.io/v1", "ClusterTrustBundle": "certificates.k8s.io/v1",
        }.get(kind, "v1")  # fmt: skip
        return self._dynamic.resources.get(api_version=version, kind=kind)

    def create(self, document: dict[str, Any], namespace: str = "default") -> None:
        resource = self._resource(document["kind"])
        resource.create(document, **({"namespace": namespace} if resource.namespaced else {}))

    def patch(self, kind: str, name: str, body: Any, namespace: str | None = None, **more: Any) -> None:
        content = "application/merge-patch+json"
        self._resource(kind).patch(name=name, namespace=namespace, body=body, content_type=content, **more)

    def get(self, kind: str, name: str, namespace: str | None = "default") -> dict[str, Any] | None:
        try:
            return self._resource(kind).get(name=name, namespace=namespace).to_dict()
        except ApiException as error:
            if error.status == 404:
                return None
            raise

    def list(self, kind: str, selector: str = "", namespace: str | None = "default") -> list[dict[str, Any]]:
        found = self._resource(kind).get(namespace=namespace, label_selector=selector)
        return found.to_dict()["items"]

    def pods(self, selector: str = "", namespace: str | None = None) -> list[dict[str, Any]]:
        found = self._resource("Pod").get(namespace=namespace, label_selector=selector)
        return found.to_dict()["items"]

    def events(self, reason: str) -> list[dict[str, Any]]:
        return [e for e in self._resource("Event").get().to_dict()["items"] if e.get("reason") == reason]

    def told(self, kind: str, *names: str) -> set[tuple[str, str, str]]:
        """Return what events say of objects of *kind*: name, reason and message, however often."""
        return {
            (e["involvedObject"]["name"], e["reason"], e["message"])
            for e in self._resource("Event").get(namespace="default").to_dict()["items"]
            if e["involvedObject"]["kind"] == kind and e["involvedObject"]["name"] in names
        }

    def node(self, name: str, taints: list[dict[str, Any]] | None = None, **labels: str) -> None:
        """Create a ready node."""
        amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        self.create(
            {
                "kind": "Node",
                "apiVersion": "v1",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
                "spec": {"taints": taints or []},
                "status": {
                    "capacity": amounts,
                    "allocatable": amounts,
                    "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
                                    "lastHeartbeatTime": now(), "lastTransitionTime": now()}],
                },
            }
        )  # fmt: skip
        # Admission taints new nodes as not ready; a node lifecycle controller would take that away again.
        self.patch("Node", name, {"spec": {"taints": taints or []}})

    def wait(self, what: str, check: Callable[[], Any], seconds: float = 60.0) -> Any:
        """Return what *check* returns once it is true."""
        deadline = time.monotonic() + seconds
        while True:
            found = check()
            if found:
                return found
            assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain for: {what}"
            time.sleep(0.2)

    def _play_kubelets(self) -> None:
        """Start pods that have a node, end those that are being deleted, finish those of Jobs."""
        while not self._stop.wait(0.2):
            try:
                for pod in self.pods():
                    self._play(pod)
            except Exception:
                continue  # the server may be restarting; the next round sees everything again

    def _play(self, pod: dict[str, Any]) -> None:
        metadata, name = pod["metadata"], pod["metadata"]["name"]
        if not pod["spec"].get("nodeName"):
            return
        if metadata.get("deletionTimestamp"):
            self._resource("Pod").delete(
                name=name, namespace=metadata["namespace"], body={"gracePeriodSeconds": 0}
            )
            return
        if pod["status"].get("phase") != "Pending":
            return
        done = "batch.kubernetes.io/job-name" in (metadata.get("labels") or {})
        conditions = [{"type": "Ready", "status": "False" if done else "True", "lastTransitionTime": now()}]
        status = {"phase": "Succeeded" if done else "Running", "conditions": conditions, "startTime": now()}
        self._resource("Pod").status.patch(
            name=name, namespace=metadata["namespace"], body={"status": status},
            content_type="application/strategic-merge-patch+json",
        )  # fmt: skip


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def template(app: str, **spec: Any) -> dict[str, Any]:
    """Return a pod template."""
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {
            "containers": [{"name": "c", "image": "app:v1", "resources": {"requests": {"cpu": "100m"}}}],
            **spec,
        },
    }


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """Return a pod."""
    inner = template(name, **spec)
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, **inner["metadata"]},
        "spec": inner["spec"],
    }
