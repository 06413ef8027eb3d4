"""Publishes the ClusterTrustBundle of the API server's serving CA.

Spec: upstream's kube-apiserver-serving-clustertrustbundle-publisher-controller: one bundle of the signer
`kubernetes.io/kube-apiserver-serving`, named by its content; other bundles of this signer are deleted. The CA comes
from kube-system's ConfigMap, which the API server writes at startup.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from weir.controllers.cluster.service_account import BUNDLE, SOURCE
from weir.controllers.runtime.actions import Action, Create, Delete, Patch
from weir.controllers.runtime.controller import Controller
from weir.controllers.runtime.listers import Listers
from weir.objects.kind import Kind
from weir.objects.kinds import CLUSTER_TRUST_BUNDLES, CONFIG_MAPS

SIGNER: Final = "kubernetes.io/kube-apiserver-serving"


class AuthorityKey(msgspec.Struct, frozen=True):
    """The authorities of the API server."""


class TrustBundlePublisher(Controller):
    """The controller that publishes the API server's authorities."""

    name = "kube-apiserver-serving-clustertrustbundle-publisher-controller"
    kinds: Sequence[Kind] = (CONFIG_MAPS, CLUSTER_TRUST_BUNDLES)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[AuthorityKey]:
        """Yield that the CA or a bundle of this signer changed."""
        found = new or old
        if kind is CLUSTER_TRUST_BUNDLES:
            if (found.get("spec") or {}).get("signerName") == SIGNER:
                yield AuthorityKey()
        elif (found["metadata"]["namespace"], found["metadata"]["name"]) == (SOURCE, BUNDLE):
            yield AuthorityKey()

    def reconcile(self, key: AuthorityKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield what makes the one bundle, and the end of all others."""
        source = listers.get(CONFIG_MAPS, BUNDLE, SOURCE)
        text = ((source or {}).get("data") or {}).get("ca.crt") or ""
        if not text:
            return
        name = bundle_name(text)
        there = listers.get(CLUSTER_TRUST_BUNDLES, name)
        if there is None:
            spec = {"signerName": SIGNER, "trustBundle": text}
            yield Create(CLUSTER_TRUST_BUNDLES, {"metadata": {"name": name}, "spec": spec})
        elif there["spec"].get("trustBundle") != text:
            yield Patch(CLUSTER_TRUST_BUNDLES, name, "", {"spec": {"trustBundle": text}})
        for one in listers.all(CLUSTER_TRUST_BUNDLES):
            other = one["metadata"]["name"]
            if one["spec"].get("signerName") == SIGNER and other != name:
                yield Delete(CLUSTER_TRUST_BUNDLES, other)


def bundle_name(text: str) -> str:
    """Return what the bundle of these authorities is called.

    >>> bundle_name("x")
    'kubernetes.io:kube-apiserver-serving:2d711642b726b04401627ca9'
    """
    return f"{SIGNER.replace('/', ':')}:{hashlib.sha256(text.encode()).hexdigest()[:24]}"
