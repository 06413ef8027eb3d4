"""A plan as a shell script: kubectl commands, each wave followed by waits for the state it must reach."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from weir.plan.document import Plan, Wave

Document = dict[str, Any]
#: Where the status of a workload says how many of its pods are ready. Jobs are not waited for, since they end.
_READY: Final = {
    "Deployment": "readyReplicas",
    "StatefulSet": "readyReplicas",
    "ReplicaSet": "readyReplicas",
    "ReplicationController": "readyReplicas",
    "DaemonSet": "numberReady",
}
#: So many pods are named in one command.
_NAMED: Final = 100
_HEAD: Final = """\
#!/usr/bin/env bash
# {command}
# Made {at}. Carries out {waves}; stops where a wait does not end in ${{TIMEOUT:-{minutes}m}}.
set -euo pipefail
timeout=${{TIMEOUT:-{minutes}m}}
case $timeout in
  *h) limit=$((${{timeout%h}} * 3600)) ;;
  *m) limit=$((${{timeout%m}} * 60)) ;;
  *) limit=${{timeout%s}} ;;
esac
"""
#: Waits that `kubectl wait` does not have: it waits for equal numbers, and for the end of any pod of a name.
_WAITS: Final = """\
at_least() {  # KIND/NAME NAMESPACE JSONPATH NUMBER: waits until the number in its status is as high
  local found end=$((SECONDS + limit))
  until found=$(kubectl get "$1" -n "$2" -o "jsonpath=$3"); [ "${found:-0}" -ge "$4" ]; do
    if [ "$SECONDS" -ge "$end" ]; then
      echo "$1 in $2: $3 is ${found:-0}, not $4" >&2
      exit 1
    fi
    sleep 2
  done
}
gone() {  # POD NAMESPACE UID: waits until this pod is gone, whatever has its name then
  local found end=$((SECONDS + limit))
  while found=$(kubectl get "pod/$1" -n "$2" --ignore-not-found -o 'jsonpath={.metadata.uid}') || found=$3
  [ "$found" = "$3" ]; do
    if [ "$SECONDS" -ge "$end" ]; then
      echo "pod/$1 in $2 is still there" >&2
      exit 1
    fi
    sleep 2
  done
}
"""


def script(plan: Plan, to_yaml: Callable[[Document], str]) -> str:
    """Return the script; *to_yaml* writes a manifest."""
    waves = "one wave" if len(plan.waves) == 1 else f"{len(plan.waves)} waves"
    minutes = math.ceil(max(wave.limit_seconds for wave in plan.waves) / 60)
    command = plan.made.command.replace("\n", " ")
    lines = [_HEAD.format(command=command, at=plan.made.at, waves=waves, minutes=minutes), _WAITS]
    for wave in plan.waves:
        title = f"wave {wave.number} of {len(plan.waves)}: {', '.join(wave.nodes) or '; '.join(wave.changes)}"
        lines.append(f"\necho {shlex.quote(title)}")
        for change in wave.changes:
            lines += _command(change, wave.manifests, to_yaml)
        lines += _waits(wave)
        lines.append(f"# undo: {'; '.join(wave.undo) or 'cannot be undone'}")
    return "\n".join([*lines, "echo done", ""])


def _command(line: str, manifests: Sequence[Document], to_yaml: Callable[[Document], str]) -> Iterator[str]:
    """Yield the commands of one line of changes."""
    word, *rest = shlex.split(line)
    if word == "apply":
        text = "---\n".join(map(to_yaml, manifests)).rstrip("\n")
        yield f"kubectl apply -f - <<'WEIR-PLAN'\n{text}\nWEIR-PLAN"
        return
    arguments: list[str] | None
    match word:
        case "taint":
            arguments = ["taint", "nodes", *_chosen(rest), "--overwrite"]
        case "untaint":
            arguments = ["taint", "nodes", *rest[:-1], f"{rest[-1]}-"]
            if ":" in "".join(rest[:-1]):
                nodes = [each for each in rest if ":" not in each]
                arguments = ["taint", "nodes", *nodes, *(f"{each}-" for each in rest if ":" in each)]
        case "label":
            arguments = ["label", "nodes", *_chosen(rest), "--overwrite"]
        case "cordon" | "uncordon":
            arguments = [word, *_chosen(rest)]
        case "drain":
            arguments = [
                "drain",
                *rest,
                "--ignore-daemonsets",
                "--delete-emptydir-data",
                "--timeout=$timeout",
            ]
        case "delete-node":
            arguments = ["delete", "node", *rest]
        case "scale":
            arguments = ["scale", rest[0], f"--replicas={rest[1]}", *rest[2:]]
        case "rollout":
            arguments = ["rollout", "restart", *rest]
        case _:
            arguments = None
    if arguments is None:
        yield f"read -r -p {shlex.quote(f'By hand: {line}; then press Enter ')}"
    else:
        yield "kubectl " + " ".join(
            '--timeout="$timeout"' if each == "--timeout=$timeout" else shlex.quote(each)
            for each in arguments
        )


def _chosen(words: Sequence[str]) -> list[str]:
    """Return words of weir as kubectl takes them."""
    return ["--all" if each == "--all-nodes" else each for each in words]


def _waits(wave: Wave) -> Iterator[str]:
    """Yield what waits for the state that a wave must reach."""
    gone: dict[str, list[str]] = {}
    for one in wave.evictions:
        namespace, _, name = one.pod.partition("/")
        if "/StatefulSet/" not in one.workload:
            gone.setdefault(namespace, []).append(f"pod/{shlex.quote(name)}")
        elif one.uid:  # the next one has its name
            yield f"gone {shlex.quote(name)} {namespace} {shlex.quote(one.uid)}"
    for namespace, pods in sorted(gone.items()):
        for start in range(0, len(pods), _NAMED):
            some = " ".join(pods[start : start + _NAMED])
            yield f'kubectl wait --for=delete --timeout="$timeout" -n {namespace} {some}'
    for state in wave.wait_for.workloads:
        namespace, kind, name = state.workload.split("/", 2)
        if kind in _READY and state.ready > 0:
            field = f"'{{.status.{_READY[kind]}}}'"
            yield f"at_least {kind.lower()}/{shlex.quote(name)} {namespace} {field} {state.ready}"
    for each in wave.wait_for.budgets:
        namespace, _, name = each.budget.partition("/")
        yield f"at_least pdb/{name} {namespace} '{{.status.currentHealthy}}' {each.healthy}"
