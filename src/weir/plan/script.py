"""A plan as a shell script: kubectl commands, each wave followed by waits for the state it must reach."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from weir.plan.document import Plan, Wave, WorkloadState

Document = dict[str, Any]
_ROLLED_OUT: Final = ("Deployment", "StatefulSet", "DaemonSet")
_HEAD: Final = """\
#!/usr/bin/env bash
# {command}
# Made {at}. Carries out {waves}; stops where a wait does not end in ${{TIMEOUT:-10m}}.
set -euo pipefail
timeout=${{TIMEOUT:-10m}}
"""
#: Waits for a number in an object's status to reach at least another one; kubectl only waits for equal ones.
_AT_LEAST: Final = """\
at_least() {  # KIND/NAME NAMESPACE JSONPATH NUMBER
  local tries=0 found
  until found=$(kubectl get "$1" -n "$2" -o "jsonpath=$3"); [ "${found:-0}" -ge "$4" ]; do
    tries=$((tries + 1))
    if [ "$tries" -ge "${TRIES:-300}" ]; then
      echo "$1 in $2: $3 is ${found:-0}, not $4" >&2
      exit 1
    fi
    sleep 2
  done
}
"""


def script(plan: Plan, to_yaml: Callable[[Document], str]) -> str:
    """Return the script; *to_yaml* writes a manifest."""
    waves = "one wave" if len(plan.waves) == 1 else f"{len(plan.waves)} waves"
    head = _HEAD.format(command=plan.made.command.replace("\n", " "), at=plan.made.at, waves=waves)
    lines = [head, _AT_LEAST]
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
        if "/StatefulSet/" not in one.workload:  # the next one has its name: the rollout is waited for
            gone.setdefault(namespace, []).append(f"pod/{name}")
    for namespace, pods in sorted(gone.items()):
        yield f'kubectl wait --for=delete --timeout="$timeout" -n {namespace} {" ".join(map(shlex.quote, pods))}'
    for state in wave.wait_for.workloads:
        yield from _wait_for_workload(state)
    for each in wave.wait_for.budgets:
        namespace, _, name = each.budget.partition("/")
        yield f"at_least pdb/{name} {namespace} '{{.status.currentHealthy}}' {each.healthy}"


def _wait_for_workload(state: WorkloadState) -> Iterator[str]:
    namespace, kind, name = state.workload.split("/", 2)
    if kind in _ROLLED_OUT:
        yield f'kubectl rollout status {kind.lower()}/{name} -n {namespace} --timeout="$timeout"'
    elif kind in ("ReplicaSet", "ReplicationController"):
        yield f"at_least {kind.lower()}/{name} {namespace} '{{.status.readyReplicas}}' {state.running}"
    elif kind == "Job":
        yield f"at_least job/{name} {namespace} '{{.status.ready}}' {state.running}"
