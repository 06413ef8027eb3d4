"""The validation vectors as data: what is written, under which gates, and the lines the API server answers.

`tests/vectors/validation/*.yaml` hold them, each naming the section of the specification it comes from. A vector gives
a whole `object` (and `old` for an update) or one of the short forms below, which become whole objects here, so that
the library, the command line and a live API server can all be asked the same question.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

#: libyaml's where it is built in: reading all vectors takes a second less.
FastLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

FOLDER = Path(__file__).parent / "vectors" / "validation"


@dataclass(frozen=True)
class Vector:
    """One question and its answer."""

    name: str
    section: str
    gates: str  #: what differs from Kubernetes' own defaults
    object: dict[str, Any]
    old: dict[str, Any] | None
    errors: list[str]


def pod(**spec: Any) -> dict[str, Any]:
    """Return a sound pod with *spec* on top."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "registry.example/app:1"}], **spec},
    }


def _affinity(**terms: Any) -> dict[str, Any]:
    names = {
        "required": "requiredDuringSchedulingIgnoredDuringExecution",
        "preferred": "preferredDuringSchedulingIgnoredDuringExecution",
    }
    return pod(affinity={"nodeAffinity": {names[key]: value for key, value in terms.items()}})


def _node(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": spec}


def _volume(**spec: Any) -> dict[str, Any]:
    sound = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pv"},
        "spec": {**sound, **spec},
    }


def _deployment(template: dict[str, Any], **spec: Any) -> dict[str, Any]:
    labels = {"app": "web"}
    whole = {"metadata": {"labels": labels}, "spec": {**pod()["spec"], **template}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": whole, **spec},
    }


def _whole(side: dict[str, Any]) -> dict[str, Any]:
    """Return the object a short form stands for."""
    (form, value), *_ = side.items()
    match form:
        case "object":
            found: dict[str, Any] = value
            return found
        case "tolerations":
            return pod(tolerations=value)
        case "pod":
            return pod(**value)
        case "required":
            return _affinity(required={"nodeSelectorTerms": value})
        case "preferred":
            return _affinity(preferred=value)
        case "taints":
            return _node(taints=value)
        case "node":
            return _node(**value)
        case "volume":
            return _volume(**value)
        case "deployment":
            return _deployment(value)
    raise ValueError(f"unknown form {form!r}")


def load() -> list[Vector]:
    """Return every vector of every file."""
    vectors = []
    for path in sorted(FOLDER.glob("*.yaml")):
        document = yaml.load(path.read_text(), FastLoader)
        for row in document["vectors"]:
            old = row.get("old")
            vectors.append(
                Vector(
                    name=f"{path.stem}: {row['name']}",
                    section=row.get("section", document["section"]),
                    gates=f"AllAlpha=false,{row.get('gates', document.get('gates', ''))}",
                    object=_whole(row["new"]),
                    old=None if old is None else _whole(old),
                    errors=row.get("errors", []),
                )
            )
    return vectors
