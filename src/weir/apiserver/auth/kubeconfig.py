"""Writes kubeconfig files for clients of this server.

Everything is embedded, mode 0600. An existing file is merged: the named cluster, user and context are replaced, all
others stay, and `current-context` is set only if there was none or on request. Reading is in weir.client.kubeconfig.
"""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.apiserver.transport.negotiation import to_yaml
from weir.objects.manifest import ManifestError, read_document


class KubeconfigError(ValueError):
    """The existing file cannot be merged into."""


@dataclass(frozen=True, slots=True)
class Access:
    """Address, CA and client credentials of one server."""

    server: str
    authority: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = None
    token: str | None = None


def document(access: Access, name: str = "weir", user: str = "weir-admin") -> dict[str, Any]:
    """Return a whole kubeconfig for *access*.

    >>> document(Access("https://127.0.0.1:6443", token="t"))["contexts"]
    [{'name': 'weir', 'context': {'cluster': 'weir', 'user': 'weir-admin'}}]
    """
    cluster: dict[str, Any] = {"server": access.server}
    if access.authority:
        cluster["certificate-authority-data"] = _base64(access.authority)
    bearer: dict[str, Any] = {}
    if access.certificate and access.key:
        bearer["client-certificate-data"] = _base64(access.certificate)
        bearer["client-key-data"] = _base64(access.key)
    if access.token:
        bearer["token"] = access.token
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": bearer}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    }


def merge(existing: dict[str, Any], new: dict[str, Any], *, take_current: bool = True) -> dict[str, Any]:
    """Return *existing* with *new*'s entries in place of those of the same name.

    >>> merged = merge({"users": [{"name": "a"}], "current-context": "a"}, {"users": [{"name": "b"}]})
    >>> merged["users"], merged["current-context"]
    ([{'name': 'a'}, {'name': 'b'}], 'a')
    """
    merged = {**new, **existing}
    for part in ("clusters", "users", "contexts"):
        fresh = list(new.get(part) or ())
        replaced = {entry.get("name") for entry in fresh}
        merged[part] = [entry for entry in existing.get(part) or () if entry.get("name") not in replaced]
        merged[part] += fresh
    if new.get("current-context") and (take_current or not existing.get("current-context")):
        merged["current-context"] = new["current-context"]
    return merged


def write(path: Path, config: dict[str, Any], *, take_current: bool = True) -> None:
    """Put *config* at *path*, merged into what is there, mode 0600 from its first byte."""
    try:
        existing = read_document(path.read_bytes(), str(path))
    except FileNotFoundError:
        existing = None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise KubeconfigError(f"{path} cannot be a kubeconfig: {reason}") from None
    except ManifestError as error:
        where = f"{error.problem} at line {error.place.line}"
        raise KubeconfigError(f"{path} is not a kubeconfig ({where}); not overwritten") from None
    if existing is not None:
        if not isinstance(existing, dict) or existing.get("kind", "Config") != "Config":
            raise KubeconfigError(f"{path} is not a kubeconfig; not overwritten")
        config = merge(existing, config, take_current=take_current)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(to_yaml(config))
    temporary.replace(path)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
