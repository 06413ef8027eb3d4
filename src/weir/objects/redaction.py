"""Objects without what containers are told and what people note on them: env values, arguments, annotations.

What decides where pods run and how long stays. A value is replaced by a keyed digest, so that two templates that
differ in it still differ: a Deployment finds its ReplicaSet by that. Without the key, which nobody keeps, a digest says
nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

Document = dict[str, Any]

#: What can be asked for.
PARTS: Final = ("env", "args", "annotations")
#: On a template: the digest of the annotations that were left out.
LEFT_OUT: Final = "snapshot.weir.dev/left-out"
#: Annotations that a component decides on, by name and by prefix.
DECIDING: Final = frozenset(
    {
        "kubernetes.io/config.mirror",
        "kubernetes.io/config.source",
        "controller.kubernetes.io/pod-deletion-cost",
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/job-index-failure-count",
        "batch.kubernetes.io/job-index-ignored-failure-count",
        "batch.kubernetes.io/cronjob-scheduled-timestamp",
        "deployment.kubernetes.io/revision",
        "deployment.kubernetes.io/desired-replicas",
        "deployment.kubernetes.io/max-replicas",
        "deprecated.daemonset.template.generation",
        "resource.kubernetes.io/pod-claim-name",
        "resource.kubernetes.io/extended-resource-claim",
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
        "pv.kubernetes.io/provisioned-by",
        "volume.kubernetes.io/selected-node",
        "volume.kubernetes.io/storage-provisioner",
        "volume.beta.kubernetes.io/storage-provisioner",
        "volume.beta.kubernetes.io/storage-class",
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
        "storage.alpha.kubernetes.io/migrated-plugins",
        "scheduler.alpha.kubernetes.io/node-selector",
        "scheduler.alpha.kubernetes.io/defaultTolerations",
        "scheduler.alpha.kubernetes.io/tolerationsWhitelist",
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        LEFT_OUT,
    }
)
DECIDING_PREFIXES: Final = ("lowered.weir.dev/", "weir.dev/")
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
#: Free parameters of drivers, which may hold credentials; no component reads them.
_PARAMETERS: Final = frozenset({"volumeAttributes", "parameters", "options"})
_DROPPED_METADATA: Final = ("managedFields", "selfLink")


@dataclass(frozen=True)
class Redaction:
    """What is left out of objects: everything in PARTS but *include*."""

    key: bytes
    include: Collection[str] = ()

    def apply(self, document: Document) -> Document:
        """Return *document* without what is left out; the original stays as it is."""
        changed: Document = self._walk(document, in_template=False)
        if changed.get("kind") == "ControllerRevision" and "spec" not in (changed.get("data") or {}):
            changed["data"] = {}  # another controller's, in a form of its own
        return changed

    def _walk(self, value: Any, *, in_template: bool) -> Any:
        if isinstance(value, list):
            return [self._walk(each, in_template=in_template) for each in value]
        if not isinstance(value, dict):
            return value
        changed: Document = {}
        for name, part in value.items():
            if name == "metadata" and isinstance(part, dict):
                changed[name] = self._metadata(part, in_template)
            elif name in _CONTAINERS and isinstance(part, list):
                changed[name] = [self._container(each) if isinstance(each, dict) else each for each in part]
            elif name in _PARAMETERS and isinstance(part, dict):
                continue
            elif name == "terminated" and isinstance(part, dict):
                changed[name] = {key: each for key, each in part.items() if key != "message"}
            else:
                changed[name] = self._walk(part, in_template=in_template or name.lower().endswith("template"))
        return changed

    def _metadata(self, metadata: Document, in_template: bool) -> Document:
        changed = {name: part for name, part in metadata.items() if name not in _DROPPED_METADATA}
        annotations = metadata.get("annotations")
        if not isinstance(annotations, dict) or "annotations" in self.include:
            return changed
        kept = {name: text for name, text in annotations.items() if _decides(name)}
        others = {name: text for name, text in annotations.items() if name not in kept}
        if others and in_template:
            kept[LEFT_OUT] = self._digest(others)
        changed.pop("annotations")
        return {**changed, "annotations": kept} if kept else changed

    def _container(self, container: Document) -> Document:
        changed = dict(container)
        if "env" not in self.include and isinstance(changed.get("env"), list):
            changed["env"] = [self._variable(each) for each in changed["env"] if isinstance(each, dict)]
        if "args" not in self.include:
            for name in ("command", "args"):
                if changed.get(name):
                    changed[name] = [self._digest(changed[name])]
            for name in (*_PROBES, "lifecycle"):
                if isinstance(changed.get(name), dict):
                    changed[name] = self._handlers(changed[name])
        return changed

    def _variable(self, variable: Document) -> Document:
        if not variable.get("value"):
            return variable
        return {**variable, "value": self._digest(variable["value"])}

    def _handlers(self, value: Any) -> Any:
        """Return a probe or the hooks of a container without commands, paths and headers."""
        if not isinstance(value, dict):
            return value
        changed: Document = {}
        for name, part in value.items():
            if name == "command" and part:
                changed[name] = [self._digest(part)]
            elif name == "httpHeaders":
                continue
            elif name == "path" and part:
                changed[name] = f"/{self._digest(part)}"
            else:
                changed[name] = self._handlers(part)
        return changed

    def _digest(self, value: Any) -> str:
        text = msgspec.json.encode(value, order="sorted")
        return f"redacted-{hashlib.blake2b(text, key=self.key, digest_size=8).hexdigest()}"


def _decides(annotation: str) -> bool:
    return annotation in DECIDING or annotation.startswith(DECIDING_PREFIXES)


def left_out(include: Collection[str]) -> list[str]:
    """Return what a snapshot leaves out, in words."""
    words: Mapping[str, str] = {
        "env": "values of environment variables",
        "args": "commands and arguments of containers",
        "annotations": "annotations that no component decides on",
    }
    return [words[part] for part in PARTS if part not in include]
