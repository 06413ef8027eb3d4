"""Checks of an installation, the whole way: from the API server to the hooks and back.

Spec: stock.md 7, 9, 11. Objects in a dry run are shown to the hooks as real ones are; the confirm step is done once,
with the clock beside it; every lowered pod is held against the taints that exist.
Nothing is written but one count of the sentinel, which the operator itself raises all day. No line shows a path secret.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from weir import errors
from weir.client.api import Client
from weir.clock import Clock
from weir.install.checks import Check, Verdict, ask_all, listed, may, milliseconds, one_line
from weir.install.rights import CERTIFICATES, RIGHTS, Right
from weir.lowering.key_rules import MOST_VALUES
from weir.lowering.names import GATE, NAMESPACE, OPERATOR, SENTINEL, marked_hash
from weir.lowering.sentinel import address, counter_of, is_reached, sentinel_pod
from weir.lowering.tolerations import MANY_ENTRIES, MOST_ENTRIES, Table, needed, read_originals
from weir.lowering.triples import Triple, triples_of
from weir.lowering.webhooks import (
    MUTATING_CONFIGURATION,
    PROBE_KEY,
    VALIDATING_CONFIGURATION,
    WEBHOOKS,
    origin,
    own_user,
    path_secret,
)
from weir.objects.kinds import (
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    NODES,
    PODS,
    SECRETS,
    SUBJECT_ACCESS_REVIEWS,
    by_kind,
)
from weir.operator.certificates import Certificates
from weir.operator.credentials import CONFIGURATIONS
from weir.operator.native import has_numeric
from weir.operator.path_secrets import PathSecrets, redacted

_CONFIRM_SECONDS: Final = 10.0
_SLOW_CONFIRM_SECONDS: Final = 1.0
_GRACE: Final = "--grace-seconds="

_POLICIES: Final = by_kind("networking.k8s.io/v1", "NetworkPolicy")
_HOOKS: Final = (
    (CONFIGURATIONS["MutatingWebhookConfiguration"], MUTATING_CONFIGURATION),
    (CONFIGURATIONS["ValidatingWebhookConfiguration"], VALIDATING_CONFIGURATION),
)


class Health:
    """Asks one cluster about the installation in one namespace."""

    def __init__(self, client: Client, clock: Clock, namespace: str = NAMESPACE) -> None:
        self._client, self._clock, self._namespace = client, clock, namespace

    async def installed(self) -> bool:
        """Return whether a webhook configuration of weir's is there."""
        for kind, name in _HOOKS:
            if await self._client.find(kind, name) is not None:
                return True
        return False

    async def grace_seconds(self) -> int | None:
        """Return how long grace entries last where the installation says so; None when the operator decides."""
        try:
            found = await self._client.find(DEPLOYMENTS, OPERATOR, self._namespace)
        except errors.ApiError:  # the operator's own line says what is missing
            return None
        spec = (((found or {}).get("spec") or {}).get("template") or {}).get("spec") or {}
        words = [word for one in spec.get("containers") or () for word in one.get("args") or ()]
        said = [word.removeprefix(_GRACE) for word in words if word.startswith(_GRACE)]
        return int(said[-1]) if said and said[-1].isdecimal() else None

    async def answers(self) -> bool:
        """Return whether the hook answers the API server now."""
        return (await self._hook()).verdict is Verdict.FINE

    async def checks(self) -> list[Check]:
        """Return what was found."""
        return await ask_all(
            (
                ("operator", self._operator),
                ("its rights", self._rights),
                ("certificate", self._certificate),
                ("callers", self._callers),
                ("hook", self._hook),
                ("barrier", self._barrier),
                ("confirm", self._confirm),
                ("pods", self._pods),
            )
        )

    async def _operator(self) -> Check:
        name = "operator"
        found = await self._client.find(DEPLOYMENTS, OPERATOR, self._namespace)
        if found is None:
            url = await self._url()
            if url:
                return Check(name, Verdict.FINE, f"runs outside of the cluster, at {url}")
            return Check(
                name,
                Verdict.TO_DO,
                f"no deployment {self._namespace}/{OPERATOR}",
                "weir install again, or weir uninstall",
            )
        wanted, ready = (
            found["spec"].get("replicas", 1),
            (found.get("status") or {}).get("availableReplicas", 0),
        )
        if not ready:
            return Check(
                name,
                Verdict.TO_DO,
                f"none of {wanted} replicas is available: extended objects and nodes with new taints are refused",
                f"kubectl -n {self._namespace} describe deployment,pods -l app.kubernetes.io/name={OPERATOR}",
            )
        if ready < wanted:
            return Check(
                name,
                Verdict.TO_DO,
                f"{ready} of {wanted} replicas are available",
                f"kubectl -n {self._namespace} describe pods -l app.kubernetes.io/name={OPERATOR}",
            )
        return Check(name, Verdict.FINE, f"{ready} of {wanted} replicas are available")

    async def _url(self) -> str:
        for kind, name in _HOOKS:
            for hook in ((await self._client.find(kind, name)) or {}).get("webhooks") or ():
                if url := hook["clientConfig"].get("url"):
                    return origin(str(url))
        return ""

    async def _rights(self) -> Check:
        if await self._url():
            return Check("its rights", Verdict.NOTE, "it runs outside, with the rights of its own kubeconfig")
        user = own_user(self._namespace)
        missing = [
            f"{verb} {resource}"
            for right in RIGHTS
            for resource, verb, names in _asked_of(right)
            if not await may(
                self._client,
                SUBJECT_ACCESS_REVIEWS,
                verb,
                right.group,
                resource,
                self._namespace if right.own else "",
                names,
                user,
            )
        ]
        if missing:
            return Check(
                "its rights", Verdict.TO_DO, f"the operator may not {listed(missing)}", "weir install again"
            )
        return Check("its rights", Verdict.FINE, "the operator may do what it needs")

    async def _certificate(self) -> Check:
        name = "certificate"
        bundles: set[str] = set()
        for kind, configuration in _HOOKS:
            for hook in ((await self._client.find(kind, configuration)) or {}).get("webhooks") or ():
                bundles.add(hook["clientConfig"].get("caBundle") or "")
        if "" in bundles:
            return Check(
                name,
                Verdict.TO_DO,
                "the API server does not yet trust the hooks: the operator has not written its authority",
                "see whether the operator runs and what it logs",
            )
        secret = await self._client.find(SECRETS, CERTIFICATES, self._namespace)
        found = Certificates.read((secret or {}).get("data"))
        if found is None:
            return Check(
                name,
                Verdict.NOTE,
                "the hooks have a certificate of somebody else's, which weir does not renew",
            )
        if bundles != {base64.b64encode(found.authority).decode()}:
            return Check(
                name,
                Verdict.TO_DO,
                "the webhook configurations trust another authority than the operator has",
                "see what the operator logs: it mends this within a minute",
            )
        left = (found.expires - self._clock.now()).days
        if left < 1:
            return Check(
                name,
                Verdict.TO_DO,
                f"it ends {found.expires:%Y-%m-%d %H:%M} and was not renewed",
                "see what the operator logs",
            )
        return Check(name, Verdict.FINE, f"good for {left} days; the operator renews it")

    async def _callers(self) -> Check:
        """Check that the hooks are called by a path that only the API server knows, and who may connect."""
        name = "callers"
        secret = await self._client.find(SECRETS, CERTIFICATES, self._namespace)
        paths = PathSecrets.read((secret or {}).get("data"))
        used: set[str] = set()
        for kind, configuration in _HOOKS:
            for hook in ((await self._client.find(kind, configuration)) or {}).get("webhooks") or ():
                used.add(path_secret(hook["clientConfig"], hook["name"]))
        if paths is None or not all(map(paths.accepts, used)):
            return Check(
                name,
                Verdict.TO_DO,
                "the webhook configurations name no path that the operator accepts: it refuses every call",
                "see what the operator logs: it mends this within a minute",
            )
        if await self._url():
            return Check(name, Verdict.FINE, "the hooks are called by a secret path")
        policy = await self._client.find(_POLICIES, OPERATOR, self._namespace)
        rules = ((policy or {}).get("spec") or {}).get("ingress") or []
        if policy is None or not all(rule.get("from") for rule in rules[:1]):
            return Check(
                name,
                Verdict.NOTE,
                "the hooks are called by a secret path; any pod may connect and be refused (install with "
                "--api-server-cidr to let only the API servers connect)",
            )
        return Check(
            name, Verdict.FINE, "the hooks are called by a secret path, and only the API servers may connect"
        )

    async def _hook(self) -> Check:
        probe = sentinel_pod(self._namespace)
        probe["metadata"] = {"generateName": "weir-check-", "namespace": self._namespace}
        del probe["spec"]["serviceAccountName"]  # the hook is asked about, not the account
        probe["spec"]["tolerations"] = [{"operator": "CEL", "value": f"taint.key == '{PROBE_KEY}'"}]
        began = self._clock.monotonic()
        try:
            answer = await self._client.create(PODS, probe, self._namespace, dry_run=True)
        except errors.ApiError as error:
            return _unreached("hook", error)
        took = self._clock.monotonic() - began
        if not any(marked_hash(each.get("key") or "") for each in answer["spec"].get("tolerations") or ()):
            return Check(
                "hook",
                Verdict.TO_DO,
                "the API server took an extended pod without asking the hook",
                "weir install again",
            )
        return Check(
            "hook", Verdict.FINE, f"the API server reaches it: a pod in a dry run took {milliseconds(took)}"
        )

    async def _barrier(self) -> Check:
        name = "barrier"
        kind = CONFIGURATIONS["ValidatingWebhookConfiguration"]
        found = await self._client.find(kind, VALIDATING_CONFIGURATION)
        if found is None:
            return Check(
                name,
                Verdict.TO_DO,
                "node writes pass unseen: a new taint can evict pods that tolerate it",
                "weir install again",
            )
        policies = {hook.name: hook.failure_policy for hook in WEBHOOKS}
        if any(
            hook.get("failurePolicy") != policies.get(hook["name"], "Fail")
            for hook in found.get("webhooks") or ()
        ):
            return Check(
                name,
                Verdict.TO_DO,
                "failurePolicy is not Fail: while the operator is away, pods are wrongly evicted",
                "weir install again",
            )
        nodes = (await self._client.list(NODES, limit=1)).documents()
        if not nodes:
            return Check(name, Verdict.NOTE, "there is no node to try it with")
        node = nodes[0]
        taints = (node.get("spec") or {}).get("taints") or []
        probe = {"key": PROBE_KEY, "value": "1", "effect": "PreferNoSchedule"}
        began = self._clock.monotonic()
        try:
            await self._client.patch(
                NODES, node["metadata"]["name"], {"spec": {"taints": [*taints, probe]}}, dry_run=True
            )
        except errors.ApiError as error:
            return _unreached(name, error)
        took = self._clock.monotonic() - began
        return Check(
            name, Verdict.FINE, f"the API server reaches it: a node in a dry run took {milliseconds(took)}"
        )

    async def _confirm(self) -> Check:
        name = "confirm"
        pod = await self._client.find(PODS, SENTINEL, self._namespace)
        if pod is None:
            return Check(
                name,
                Verdict.TO_DO,
                f"the sentinel pod {self._namespace}/{SENTINEL} is gone",
                "weir install again",
            )
        shown = await self._shown(pod["metadata"]["uid"])
        status = pod.get("status") or {}
        family = "IPv6" if ":" in (status.get("podIP") or "") else "IPv4"
        count = max(counter_of(status.get("podIP") or ""), shown, 0) + 1
        ip = address(count, family)
        patch = {
            "metadata": {"resourceVersion": pod["metadata"]["resourceVersion"]},
            "status": {"podIP": ip, "podIPs": [{"ip": ip}]},
        }
        began = self._clock.monotonic()
        with suppress(errors.Conflict):  # the operator counted meanwhile: its count is as good
            await self._client.patch(PODS, SENTINEL, patch, self._namespace, subresource="status")
        while not is_reached(await self._shown(pod["metadata"]["uid"]), counter_of(ip)):
            if self._clock.monotonic() - began > _CONFIRM_SECONDS:
                return Check(
                    name,
                    Verdict.TO_DO,
                    f"kube-controller-manager did not answer within {_CONFIRM_SECONDS:.0f} s: nodes with new NoExecute "
                    "taints are refused",
                    "see whether kube-controller-manager runs and writes EndpointSlices",
                )
            await self._clock.sleep(0.01)
        took = self._clock.monotonic() - began
        if took > _SLOW_CONFIRM_SECONDS:
            return Check(
                name,
                Verdict.NOTE,
                f"kube-controller-manager answered after {milliseconds(took)}: node writes wait as long",
            )
        return Check(name, Verdict.FINE, f"kube-controller-manager answered after {milliseconds(took)}")

    async def _shown(self, uid: str) -> int:
        listed = await self._client.list(
            ENDPOINT_SLICES, self._namespace, label_selector=f"kubernetes.io/service-name={SENTINEL}"
        )
        return max(
            (
                counter_of(text)
                for each in listed.documents()
                for endpoint in each.get("endpoints") or ()
                if (endpoint.get("targetRef") or {}).get("uid") == uid
                for text in endpoint.get("addresses") or ()
            ),
            default=-1,
        )

    async def _pods(self) -> Check:
        native = await has_numeric(self._client, self._namespace)
        nodes = {
            each["metadata"]["name"]: triples_of(each)
            for each in (await self._client.list(NODES)).documents()
        }
        every = Table(dict.fromkeys(each for of_node in nodes.values() for each in of_node))
        lowered = 0
        lagging: list[str] = []
        held: list[str] = []
        full: list[str] = []
        many: list[str] = []
        async for page in self._client.pages(PODS):
            for pod in page.documents():
                state = _state(pod, nodes, every, native)
                if state is None:
                    continue
                lowered += 1
                place = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
                for name, found in (("lags", lagging), ("held", held), ("full", full), ("many", many)):
                    if name in state:
                        found.append(place)
        if full:
            return Check(
                "pods",
                Verdict.TO_DO,
                f"{len(full)} of {lowered} lowered pods have {MOST_ENTRIES} entries and get no more: {listed(full)}",
                "delete those that wait: new ones select nodes by a label; or use fewer distinct taint values",
            )
        if lagging or held:
            texts = (
                [f"{len(lagging)} lack entries for taints that exist ({listed(lagging)})"] if lagging else []
            )
            texts += [f"{len(held)} are still held ({listed(held)})"] if held else []
            return Check(
                "pods",
                Verdict.TO_DO,
                f"of {lowered} lowered pods {' and '.join(texts)}",
                "ask again in a moment; if it stays, see what the operator logs",
            )
        values = Counter(triple.key for triple in every if not triple.conditional)
        key, number = values.most_common(1)[0] if values else ("", 0)
        if not many and number < MANY_ENTRIES:
            return Check("pods", Verdict.FINE, f"{lowered} lowered pods, all with every entry they need")
        says = (
            f"key {key} has {number} values; a new pod that would stand as more than {MOST_VALUES} entries "
        )
        says += "selects nodes by a label instead"
        if many:
            stand = f"{len(many)} of {lowered} lowered pods stand as {MANY_ENTRIES} entries or more: {listed(many)}"
            says = f"{stand}; {says}" if key else stand
        return Check("pods", Verdict.NOTE, says, "use fewer distinct taint values, or narrower tolerations")


# ── reading ──


def _state(
    pod: Mapping[str, Any], nodes: Mapping[str, tuple[Triple, ...]], every: Table, native: bool
) -> set[str] | None:
    """Return what is the matter with a lowered pod; None for one that is not lowered, or over."""
    spec = pod.get("spec") or {}
    originals = read_originals((pod.get("metadata") or {}).get("annotations"))
    if not originals or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return None
    found = set()
    tolerations = spec.get("tolerations") or []
    if len(tolerations) >= MOST_ENTRIES:
        found.add("full")
    if len(tolerations) >= MANY_ENTRIES:
        found.add("many")
    if any(gate.get("name") == GATE for gate in spec.get("schedulingGates") or ()):
        found.add("held")
    else:
        bound = spec.get("nodeName")
        triples = nodes.get(bound, ()) if bound else every
        if needed(tolerations, originals, triples, native):
            found.add("lags")
    return found


def _asked_of(right: Right) -> Iterator[tuple[str, str, str]]:
    for resource in right.resources:
        for verb in right.verbs:
            yield from ((resource, verb, name) for name in right.names or ("",))


def _unreached(name: str, error: errors.ApiError) -> Check:
    text = redacted(one_line(error))
    if "failed calling webhook" in text:
        return Check(
            name,
            Verdict.TO_DO,
            f"the API server does not reach it: {text}",
            "see whether the operator runs, and whether the API server may connect to it (firewall, network policy)",
        )
    return Check(name, Verdict.UNKNOWN, f"a dry run was refused: {text}")
