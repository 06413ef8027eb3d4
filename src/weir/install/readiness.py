"""Checks of a cluster before an installation: whether the operator would work there.

Spec: stock.md 7, 12. The version, which operators are the cluster's own, the caller's rights, and whether one
kube-controller-manager runs both taint eviction and endpoint slices. What a managed control plane hides is reported as
a note, not as a fault.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from weir.client.api import Client
from weir.install.checks import SELF_REVIEWS, Check, Verdict, ask_all, listed, may
from weir.lowering.names import NAMESPACE
from weir.objects.kinds import NAMESPACES
from weir.operator.control_plane import managers
from weir.operator.native import has_numeric

#: matchConditions and scheduling gates are stable from here on.
OLDEST: Final = 30

#: What whoever installs has to be able to make.
_TO_MAKE: Final = (
    ("", "namespaces", ""), ("", "serviceaccounts", "own"), ("rbac.authorization.k8s.io", "clusterroles", ""),
    ("rbac.authorization.k8s.io", "clusterrolebindings", ""), ("rbac.authorization.k8s.io", "roles", "own"),
    ("rbac.authorization.k8s.io", "rolebindings", "own"), ("", "secrets", "own"), ("", "configmaps", "own"),
    ("", "services", "own"), ("", "pods", "own"), ("apps", "deployments", "own"),
    ("policy", "poddisruptionbudgets", "own"), ("networking.k8s.io", "networkpolicies", "own"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", ""),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", ""),
)  # fmt: skip


class Readiness:
    """Asks one cluster whether the operator may come, into one namespace; *grace_seconds* as it will be told."""

    def __init__(self, client: Client, namespace: str = NAMESPACE, grace_seconds: int | None = None) -> None:
        self._client, self._namespace, self._grace_seconds = client, namespace, grace_seconds

    async def checks(self) -> list[Check]:
        """Return what was found."""
        return await ask_all(
            (
                ("server", self._server),
                ("operators", self._operators),
                ("your rights", self._own_rights),
                ("controllers", self._controllers),
            )
        )

    async def _server(self) -> Check:
        said = msgspec.json.decode(await self._client.call("GET", "/version"))
        version, digits = str(said.get("gitVersion")), re.match(r"\d+", str(said.get("minor", "")))
        if digits and said.get("major") == "1" and int(digits.group()) < OLDEST:
            return Check(
                "server",
                Verdict.TO_DO,
                f"{version} has no stable matchConditions and scheduling gates",
                f"upgrade it to 1.{OLDEST} or newer",
            )
        return Check("server", Verdict.FINE, f"{version} (1.{OLDEST} or newer is needed)")

    async def _operators(self) -> Check:
        place = self._namespace if await self._client.find(NAMESPACES, self._namespace) else "default"
        if await has_numeric(self._client, place):
            says = "Gt and Lt are the cluster's own and are left alone; SemVer and CEL are lowered"
        else:
            says = "Gt, Lt, SemVer and CEL are not the cluster's own: all are lowered"
        return Check("operators", Verdict.FINE, says)

    async def _own_rights(self) -> Check:
        missing = [
            f"create {resource}"
            for group, resource, where in _TO_MAKE
            if not await may(
                self._client, SELF_REVIEWS, "create", group, resource, self._namespace if where else ""
            )
        ]
        if missing:
            return Check(
                "your rights",
                Verdict.TO_DO,
                f"you may not {listed(missing)}",
                "let a cluster administrator install it",
            )
        return Check("your rights", Verdict.FINE, "you may make everything that the installation consists of")

    async def _controllers(self) -> Check:
        name = "controllers"
        found = await managers(self._client)
        if not found.seen:
            version = msgspec.json.decode(await self._client.call("GET", "/version")).get("gitVersion") or ""
            if "+weir" in version:
                return Check(name, Verdict.FINE, "taint eviction and endpoint slices run in one process")
            return Check(
                name,
                Verdict.NOTE,
                "kube-controller-manager is hidden here; taint eviction and endpoint slices run in one process unless "
                "somebody gave it --controllers",
            )
        if found.without and self._grace_seconds:
            return Check(
                name,
                Verdict.NOTE,
                f"kube-controller-manager runs without {listed(list(found.without))}: a confirmed barrier proves "
                f"nothing, and grace entries of {self._grace_seconds} s protect pods instead",
            )
        if found.without:
            return Check(
                name,
                Verdict.TO_DO,
                f"kube-controller-manager runs without {listed(list(found.without))}: where that runs, "
                "pods are read another way, and a confirmed barrier proves nothing",
                "let one kube-controller-manager run both, or install with --grace-seconds=10",
            )
        return Check(
            name, Verdict.FINE, "one kube-controller-manager runs taint eviction and endpoint slices"
        )
