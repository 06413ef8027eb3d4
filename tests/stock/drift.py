"""What kubectl and GitOps tools see of one manifest that is applied again and again, in every order.

Real kubectl, and the two comparisons that Argo CD documents: three-way (every field of the manifest is as in the live
object) and server-side (a dry run of an apply gives the live object). What is seen is compared with a `plain` object,
which weir does not touch. The spelling `annotated` leaves every object as it was applied; `operators` are the KEPs'
own, of which an API server that refuses them cannot store what was written.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Document = dict[str, Any]
#: Runs kubectl with these arguments and this input, and returns its exit code and its output, errors included.
Kubectl = Callable[..., tuple[int, str]]

ENTRIES = [
    {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute"},
    {"key": "kernel", "operator": "SemverGt", "value": "5.15.0"},
]
EXPRESSION = "taint.key == 'zone' && taint.value.startsWith('eu-')"
_NEWER = {"key": "kernel", "operator": "SemverGt", "values": ["5.15.0"]}
AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [_NEWER]}]},
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [_NEWER]}}
    ],
}
KINDS = ("Deployment", "StatefulSet", "DaemonSet", "CronJob", "Pod")
_GROUPS = {"Pod": "v1", "CronJob": "batch/v1"}
SERVER_SIDE = ("apply", "--server-side", "-f", "-")
CLIENT_SIDE = ("apply", "-f", "-")
ORDERS = {
    "client-first": (CLIENT_SIDE, CLIENT_SIDE, SERVER_SIDE, CLIENT_SIDE, SERVER_SIDE),
    "server-first": (SERVER_SIDE, SERVER_SIDE, CLIENT_SIDE, CLIENT_SIDE, SERVER_SIDE),
}


def manifest(kind: str, form: str, name: str) -> Document:
    """Return an object of *kind* with extended tolerations in the spelling *form*."""
    labels = {"app": name}
    template: Document = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    if form == "annotated":
        entries = [*ENTRIES, {"expression": EXPRESSION}]
        template["metadata"]["annotations"] = {
            "weir.dev/tolerations": json.dumps(entries),
            "weir.dev/node-affinity": json.dumps(AFFINITY),
        }
    elif form == "operators":
        template["spec"]["tolerations"] = [*ENTRIES, {"operator": "CEL", "value": EXPRESSION}]
        template["spec"]["affinity"] = {"nodeAffinity": AFFINITY}
    made: Document = {"apiVersion": _GROUPS.get(kind, "apps/v1"), "kind": kind, "metadata": {"name": name}}
    if kind == "Pod":
        made["spec"] = template["spec"]
        made["metadata"] |= template["metadata"]
        return made
    if kind == "CronJob":
        template["spec"]["restartPolicy"] = "Never"
        made["spec"] = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}}
        return made
    made["spec"] = {"selector": {"matchLabels": labels}, "template": template}
    return made


class Seen(NamedTuple):
    """What one apply showed, and what came after it."""

    command: str
    answer: str  #: the last word of kubectl's, or the error
    changed: str  #: how the object differs from what it was first
    diff: bool  #: `kubectl diff` shows something
    server_side_diff: bool
    three_way: str
    server_side: str


def play(
    kubectl: Kubectl, kind: str, form: str, name: str, commands: Sequence[tuple[str, ...]]
) -> list[Seen]:
    """Apply one manifest by each of the *commands*, and return what was seen."""
    document = manifest(kind, form, name)
    text = json.dumps(document)
    first: Document = {}
    found: list[Seen] = []
    for command in commands:
        answer = kubectl(*command, stdin=text)
        live = json.loads(kubectl("get", kind, name, "-o", "json")[1])
        first = first or live
        found.append(look(kubectl, command, answer, document, live, first))
    if kind == "Deployment":
        replicasets = json.loads(kubectl("get", "replicasets", "-l", f"app={name}", "-o", "json")[1])["items"]
        assert len(replicasets) == 1, replicasets
    return found


def look(
    kubectl: Kubectl,
    command: str | tuple[str, ...],
    answer: tuple[int, str],
    document: Document,
    live: Document,
    first: Document,
) -> Seen:
    """Return what is seen of an object that is *live* now and was so *first*, after a *command* with its *answer*."""
    text = json.dumps(document)
    code, output = answer
    return Seen(
        command if isinstance(command, str) else " ".join(command),
        output.strip() if code else output.split()[-1],
        three_way(_content(first), _content(live)) or three_way(_content(live), _content(first)),
        differs(kubectl, text),
        differs(kubectl, text, "--server-side"),
        three_way(document, live),
        server_side(kubectl, text, live),
    )


def differs(kubectl: Kubectl, text: str, *more: str) -> bool:
    """Return whether `kubectl diff` keeps showing something; a status that moves on is shown once."""
    for seconds in (0.0, 0.5):
        time.sleep(seconds)
        if not kubectl("diff", *more, "-f", "-", stdin=text)[0]:
            return False
    return True


def shows_more(seen: Seen, plain: Seen) -> list[str]:
    """Return in which respects *seen* shows a change that a *plain* object does not show."""
    quiet = Seen(seen.command, "unchanged", "", False, False, "", "")
    return [
        f"{name}: {mine} instead of {other}"
        for name, mine, other, none in zip(Seen._fields, seen, plain, quiet, strict=True)
        if mine not in (other, none)
    ]


def as_stored(seen: Seen) -> Seen:
    """Return *seen* without what follows from storing something else than was written, which operators cannot avoid."""
    return seen._replace(answer=seen.answer.replace("unchanged", "configured"), three_way="")


def three_way(manifest: Any, live: Any, at: str = "") -> str:
    """Return where *live* lacks or changes what *manifest* has, or "": what Argo CD shows as out of sync by default."""
    if isinstance(manifest, dict) and isinstance(live, dict):
        inner = (three_way(value, live.get(name), f"{at}.{name}") for name, value in manifest.items())
        return next(filter(None, inner), "")
    if isinstance(manifest, list) and isinstance(live, list) and len(manifest) == len(live):
        pairs = enumerate(zip(manifest, live, strict=True))
        return next(filter(None, (three_way(*pair, f"{at}[{i}]") for i, pair in pairs)), "")
    return "" if manifest == live else f"{at}: {manifest!r} is {live!r}"


def server_side(kubectl: Kubectl, text: str, live: Document) -> str:
    """Return how a forced server-side apply of the manifest would change *live*, or ""."""
    words = (
        "apply",
        "--server-side",
        "--dry-run=server",
        "--force-conflicts",
        "--field-manager=argocd-controller",
    )
    code, output = kubectl(*words, "-o", "json", "-f", "-", stdin=text)
    if code:
        return output.strip()
    predicted = _content(json.loads(output))
    return "" if predicted == _content(live) else f"{predicted} instead of {_content(live)}"


def _content(live: Document) -> Document:
    """Return what an author would call the object: without what the server keeps about it and what its status says."""
    metadata = live.get("metadata") or {}
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if not key.startswith(("kubectl.kubernetes.io/", "deployment.kubernetes.io/", "deprecated.daemonset"))
    }
    kept = {
        "labels": metadata.get("labels"),
        "annotations": annotations,
        "generation": metadata.get("generation"),
    }
    spec = dict(live.get("spec") or {})
    if live.get("kind") == "Pod":  # released and bound meanwhile
        spec.pop("schedulingGates", None)
        spec.pop("nodeName", None)
        kept.pop("generation")
    return {"metadata": kept, "spec": spec}
