"""The pods of a document: a Pod itself, or a workload's template.

The DaemonSet controller's tolerations are added. A stored pod is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from weir.controllers.workloads.daemon_nodes import daemon_tolerations
from weir.explain.phrases import short
from weir.fields.documents import find_kind_problem
from weir.lowering.originals import evaluated
from weir.objects.core import Pod, Toleration, View, ViewError, read
from weir.objects.templates import TEMPLATE_PATHS, find_template

#: The longest name the API server takes; a longer one is cut where it is shown.
_LONGEST_NAME: Final = 253
_PATH: Final = re.compile(r"\.([^.\[\]`]+)|\[(\d+)\]")


class SubjectError(ViewError):
    """A document with an invalid structure; *path* leads to the field."""

    def __init__(self, message: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True)
class Subject:
    """One pod to explain: its document and the pod's place in it."""

    document: dict[str, Any]
    kind: str
    stored: bool = False  #: already in the cluster, so admission has had its say
    source: str = ""  #: where the document was read, for messages
    in_cluster: bool = False  #: a workload that is in the cluster as it is written here
    strict: bool = False  #: held against everything the API server checks, not only what places pods

    @classmethod
    def of(cls, document: Any, *, stored: bool = False, source: str = "") -> Subject:
        """Return the subject of *document*: a dict as parsed from YAML, or a typed view of a pod.

        >>> Subject.of({"kind": "Deployment", "metadata": {"name": "web"}, "spec": {}}).title
        'Deployment default/web'
        """
        if isinstance(document, View):
            document = msgspec.json.decode(msgspec.json.encode(document))
        if not isinstance(document, dict):
            raise ViewError(f"expected an object, got {type(document).__name__}")
        kind = document.get("kind", "Pod")
        if not isinstance(kind, str) or kind not in TEMPLATE_PATHS:
            raise ViewError(
                f"kind {str(kind)[:60]!r} has no pods; expected one of {', '.join(TEMPLATE_PATHS)}"
            )
        subject = cls(document, kind, stored, source)
        version = document.get("apiVersion", "v1" if kind == "Pod" else "")
        if not isinstance(version, str):
            raise SubjectError(f"{subject.title}: apiVersion: Expected `str`", ("apiVersion",))
        if version and (problem := find_kind_problem(version, kind)):
            raise SubjectError(f"{subject.title}: {problem}", ("apiVersion",))
        return subject

    @property
    def path(self) -> tuple[str, ...]:
        return TEMPLATE_PATHS[self.kind]

    @property
    def name(self) -> str:
        metadata = self.document.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        return str(metadata.get("name") or metadata.get("generateName") or "(no name)")

    @property
    def namespace(self) -> str:
        metadata = self.document.get("metadata")
        return str((metadata if isinstance(metadata, dict) else {}).get("namespace") or "default")

    @property
    def title(self) -> str:
        return f"{self.kind} {short(self.namespace, _LONGEST_NAME)}/{short(self.name, _LONGEST_NAME)}"

    @property
    def pod_spec(self) -> Any:
        """The spec of the pod as it is written, whatever its shape."""
        template = find_template(self.document)
        return template.get("spec") if template is not None else None

    def pod(self) -> Pod:
        """Return the pod as it is written, before the server adds anything; a wrong shape raises ViewError."""
        try:
            pod = read(Pod, self.pod_document())
        except SubjectError:
            raise
        except ViewError as error:
            raise _misread(self, error) from None
        if self.stored and self.kind == "Pod":
            # The node of a stored pod is a fact, not a requirement.
            return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
        return pod

    def pod_document(self) -> dict[str, Any]:
        """Return the pod that this document, or its workload's controller, creates."""
        part: Any = self.document
        own = part.get("metadata")
        if own is not None and not isinstance(own, dict):
            wrong = f"metadata: expected an object, got {type(own).__name__}"
            raise SubjectError(f"{self.title}: {wrong}", ("metadata",))
        for depth, key in enumerate(self.path):
            part = part.get(key)
            if part is None:
                part = {}
            if not isinstance(part, dict):
                where = self.path[: depth + 1]
                wrong = f"{'.'.join(where)}: expected an object, got {type(part).__name__}"
                raise SubjectError(f"{self.title}: {wrong}", where)
        metadata = part.get("metadata")
        metadata = dict(metadata) if isinstance(metadata, dict) else {}
        metadata |= {"name": self.name, "namespace": self.namespace}
        made = {**part, "apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        made = evaluated(made, keep_gate=True)
        part = {**part, "spec": made.get("spec")} if "spec" in made else part
        if templates := self.claim_templates(0):
            spec = dict(part.get("spec") or {})
            own = {str(each.get("name")) for each in self._claim_templates()}
            kept = [
                v for v in spec.get("volumes") or () if not (isinstance(v, dict) and v.get("name") in own)
            ]
            added = [
                {"name": each.get("name"), "persistentVolumeClaim": {"claimName": claim}}
                for each, claim in zip(self._claim_templates(), templates, strict=True)
            ]
            made["spec"] = {**spec, "volumes": [*kept, *added]}
        if self.kind == "DaemonSet" and isinstance(part.get("spec"), dict):
            made["spec"] = self._of_daemon(part["spec"])
        return made

    def _claim_templates(self) -> list[dict[str, Any]]:
        spec = self.document.get("spec")
        templates = (
            spec.get("volumeClaimTemplates")
            if self.kind == "StatefulSet" and isinstance(spec, dict)
            else None
        )
        named = [each for each in templates if isinstance(each, dict)] if isinstance(templates, list) else []
        return [each | {"name": (each.get("metadata") or {}).get("name")} for each in named]

    def claim_templates(self, number: int) -> dict[str, Any]:
        """Return the claims that pod *number* of a StatefulSet gets, by name."""
        return {f"{each['name']}-{self.name}-{number}": each for each in self._claim_templates()}

    def _of_daemon(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Return a template's spec with the tolerations that the DaemonSet controller adds."""
        try:
            own = msgspec.convert(spec.get("tolerations") or [], list[Toleration])
        except msgspec.ValidationError:
            return spec  # reported when the pod is decoded
        tolerations = daemon_tolerations(own, host_network=bool(spec.get("hostNetwork")))
        return {**spec, "tolerations": msgspec.to_builtins(tolerations)}

    def edited(self) -> tuple[Subject, dict[str, Any]]:
        """Return a copy of this subject and, to be changed in place, the pod spec inside the copy."""
        document = deepcopy(self.document)
        part = document
        for key in (*self.path, "spec"):
            if not isinstance(part.get(key), dict):
                part[key] = {}
            part = part[key]
        return replace(self, document=document), part


def subjects(document: Any, source: str = "") -> Iterator[Subject]:
    """Yield a subject for every pod of *document*; Lists are opened, other kinds left out."""
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        kind = str(document.get("kind", "")).removesuffix("List")
        for item in document["items"]:
            named = {"kind": kind, **item} if kind and isinstance(item, dict) else item
            yield from subjects(named, source)
    elif isinstance(document, dict) and str(document.get("kind")) in TEMPLATE_PATHS:
        yield Subject.of(document, source=source)


def _misread(subject: Subject, error: ViewError) -> SubjectError:
    """Return the view's complaint with the place as the document has it: `spec.template.spec.…`."""
    text, marker, place = str(error).removeprefix("Pod: ").partition(" - at `$")
    if text.startswith("Expected `str`, got `"):
        text += " (write it in quotes)"
    inner = [name or int(index) for name, index in _PATH.findall(place)] if marker else []
    path = (*subject.path, *inner)
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    return SubjectError(f"{subject.title}: {shown}: {text}" if shown else f"{subject.title}: {text}", path)
