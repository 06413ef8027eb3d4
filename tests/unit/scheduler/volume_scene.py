"""A cluster of nodes, claims and volumes over one engine, for the tests of plugins that look at volumes."""

from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.objects.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.profile_arguments import ProfileArguments
from weir.scheduler.volumes import (
    Storage,
)

GIB = "1Gi"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"


class Cluster:
    def __init__(self, gates=ALL_FEATURES, **labels_by_node):
        self.storage = Storage()
        self.engine = Engine(gates, ProfileArguments(), storage=self.storage)
        for name, labels in (labels_by_node or {"n1": {}, "n2": {}}).items():
            self.node(name, **labels)

    def node(self, name, **labels):
        labels = {key.replace("__", "/"): value for key, value in labels.items()}
        self.engine.table.put_node(
            read(Node, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
                        "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}}})
        )  # fmt: skip

    def claim(self, name, storage_class="wait", size=GIB, annotations=None, status=None, meta=None, **spec):
        self.storage.put("claims", None, read(PersistentVolumeClaim, {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}",
                         "annotations": annotations or {}, **(meta or {})},
            "spec": {"storageClassName": storage_class, "accessModes": ["ReadWriteOnce"],
                     "resources": {"requests": {"storage": size}}, **spec}, "status": status or {}}))  # fmt: skip

    def volume(self, name, terms=None, size=GIB, phase="Available", labels=None, **spec):
        affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms is not None else {}
        self.storage.put("volumes", None, read(PersistentVolume, {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"storageClassName": "wait", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size},
                     **affinity, **spec}, "status": {"phase": phase}}))  # fmt: skip

    def storage_class(self, name="wait", provisioner="kubernetes.io/no-provisioner", **more):
        self.storage.put("classes", None, read(StorageClass, {
            "metadata": {"name": name}, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer", **more}))  # fmt: skip

    def place(self, pod):
        answer = self.engine.place(pod)
        return answer.node if isinstance(answer, Placement) else answer.message


def on(host):
    return [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]}]


def pod(*claims, name="p", **spec):
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    return read(Pod, {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
                      "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": volumes, **spec}})  # fmt: skip
