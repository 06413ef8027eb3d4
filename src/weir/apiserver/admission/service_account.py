"""ServiceAccount: sets a pod's service account and mounts its token.

Spec: core.md 7; apiserver.md 5.1 (token volume, refusal). A mirror pod is left alone, but may not use an account or a
secret. A container that mounts something at the token's path keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weir.apiserver.admission.attributes import CREATE, Attributes, Reader, is_pod
from weir.objects.kind import Kind
from weir.objects.kinds import SERVICE_ACCOUNTS

MIRROR = "kubernetes.io/config.mirror"
TOKEN_VOLUME = "kube-api-access-"
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SECONDS = 3607
ENFORCE_SECRETS = "kubernetes.io/enforce-mountable-secrets"


def token_volume(name: str) -> dict[str, Any]:
    """Return the volume that shows a pod its token, the cluster's authority and its namespace."""
    return {
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {
                    "downwardAPI": {
                        "items": [
                            {
                                "path": "namespace",
                                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                            }
                        ]
                    }
                },
            ],
            "defaultMode": 420,
        },
    }


def mount_token(spec: dict[str, Any], new_suffix: Callable[[], str]) -> None:
    """Mount the token in every container that has nothing at its place; add the volume when one needs it."""
    volumes = spec.get("volumes")
    name = next((v["name"] for v in volumes or () if v.get("name", "").startswith(TOKEN_VOLUME)), "")
    is_new = not name
    name = name or TOKEN_VOLUME + new_suffix()
    needed = False
    for part in ("initContainers", "containers"):
        for container in spec.get(part) or ():
            mounts = container.get("volumeMounts")
            if mounts is None:
                mounts = container["volumeMounts"] = []
            elif any(mount.get("mountPath") == TOKEN_PATH for mount in mounts):
                continue
            mounts.append({"name": name, "readOnly": True, "mountPath": TOKEN_PATH})
            needed = True
    if is_new and needed:
        if volumes is None:
            spec["volumes"] = [token_volume(name)]
        else:
            volumes.append(token_volume(name))


class ServiceAccount:
    name = "ServiceAccount"

    def __init__(self, reader: Reader, new_suffix: Callable[[], str]) -> None:
        """*new_suffix* returns five characters as generated names end with them."""
        self._reader = reader
        self._new_suffix = new_suffix

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return operation == CREATE and is_pod(kind, subresource)

    def admit(self, a: Attributes) -> None:
        assert a.object is not None
        spec = a.object.setdefault("spec", {})
        if MIRROR in ((a.object.get("metadata") or {}).get("annotations") or ()):
            self._check_mirror(a, spec)
            return
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = self._account(a, name)
        automount = spec.get("automountServiceAccountToken")
        if automount is None:
            automount = account.get("automountServiceAccountToken")
        if automount is None or automount:
            mount_token(spec, self._new_suffix)
        pull_secrets = account.get("imagePullSecrets")
        if pull_secrets and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": secret.get("name", "")} for secret in pull_secrets]

    def validate(self, a: Attributes) -> None:
        """Look again after webhooks: they may have named another account."""
        assert a.object is not None
        spec = a.object.get("spec") or {}
        if MIRROR in ((a.object.get("metadata") or {}).get("annotations") or ()):
            self._check_mirror(a, spec)
            return
        name = spec.get("serviceAccountName")
        if not name:
            raise a.forbidden(f"no service account specified for pod {a.namespace}/{a.shown_name()}")
        account = self._account(a, name)
        annotations = (account.get("metadata") or {}).get("annotations")
        if annotations and annotations.get(ENFORCE_SECRETS, "").lower() in ("1", "t", "true"):
            self._check_secrets(a, spec, account)

    def _account(self, a: Attributes, name: str) -> Mapping[str, Any]:
        account = self._reader.get_now(SERVICE_ACCOUNTS, a.namespace, name)
        if account is None:
            raise a.forbidden(
                f'error looking up service account {a.namespace}/{name}: serviceaccount "{name}" not found'
            )
        return account

    @staticmethod
    def _check_mirror(a: Attributes, spec: Mapping[str, Any]) -> None:
        if spec.get("serviceAccountName"):
            raise a.forbidden("a mirror pod may not reference service accounts")
        volumes = spec.get("volumes") or ()
        if any("secret" in volume for volume in volumes):
            raise a.forbidden("a mirror pod may not reference secrets")
        for volume in volumes:
            for source in (volume.get("projected") or {}).get("sources") or ():
                if "serviceAccountToken" in source:
                    raise a.forbidden("a mirror pod may not use ServiceAccountToken volume projections")

    @staticmethod
    def _check_secrets(a: Attributes, spec: Mapping[str, Any], account: Mapping[str, Any]) -> None:
        """Restrict the pod to the secrets of its account, if the account enforces it."""
        allowed = {secret.get("name") for secret in account.get("secrets") or ()}
        who = account["metadata"]["name"]
        for volume in spec.get("volumes") or ():
            secret = (volume.get("secret") or {}).get("secretName")
            if secret is not None and secret not in allowed:
                raise a.forbidden(
                    f'volume with secret.secretName="{secret}" is not allowed because service account {who} '
                    "does not reference that secret"
                )
