"""Changes of `weir what-if`: each sub-command, parsed into a value of weir.whatif.changes.

The same syntax works on a line of a file of changes.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from weir.cli._options import read_seconds, together
from weir.inputs.cluster import find_kind_mistake
from weir.inputs.files import read_documents, read_files
from weir.objects.envelope import envelope_problem

if TYPE_CHECKING:
    from weir.whatif.changes import Change, Nodes

Reader = Callable[..., "Change"]
#: Every change by its name, with how its words are read and what it says about itself.
CHANGES: Final[dict[str, click.Command]] = {}


def _change(name: str) -> Callable[[Reader], Reader]:
    def keep(reader: Reader) -> Reader:
        CHANGES[name] = click.command(name)(reader)
        return reader

    return keep


_SELECTOR: Final = click.option(
    "-l", "--selector", default="", help="All nodes with these labels, instead of NODE…."
)
_ALL_NODES: Final = click.option("--all-nodes", is_flag=True, help="All nodes, instead of NODE….")
_NODES: Final = together(click.argument("names", nargs=-1, metavar="NODE…"), _SELECTOR, _ALL_NODES)
_NAMESPACE: Final = click.option(
    "-n", "--namespace", default="default", show_default=True, help="Its namespace."
)


def _as_kubectl(flag: str, always: str) -> Callable[[Reader], Reader]:
    """Return an option that kubectl's command has and that changes nothing here: it holds *always*."""
    return click.option(flag, is_flag=True, expose_value=False, help=f"As kubectl's. {always}")


def _chosen(names: Sequence[str], selector: str, all_nodes: bool) -> Nodes:
    from weir.selectors.labels import SelectorError, parse
    from weir.whatif.changes import Nodes

    if sum((bool(names), bool(selector), all_nodes)) != 1:
        raise click.UsageError("name nodes, or give --selector, or --all-nodes: one of them")
    try:
        parse(selector)
    except SelectorError as error:
        raise click.BadParameter(str(error), param_hint="--selector") from None
    return Nodes(tuple(_node_name(name) for name in names), selector)


def _node_name(text: str) -> str:
    return text.removeprefix("node/").removeprefix("nodes/")


def _without_noun(words: Sequence[str]) -> Sequence[str]:
    """Return *words* without the `nodes` that kubectl wants first."""
    return words[1:] if words and words[0].lower() in ("no", "node", "nodes") else words


@_change("taint")
@click.argument("words", nargs=-1, required=True, metavar="NODE… KEY[=VALUE]:EFFECT…")
@_SELECTOR
@_ALL_NODES
@_as_kubectl("--overwrite", "A taint of the same key and effect is replaced either way.")
def taint(words: Sequence[str], selector: str, all_nodes: bool) -> Change:
    """Taint nodes, as `kubectl taint nodes --overwrite` would; a taint with `-` behind it is taken away.

    \b
    Examples:
      weir what-if taint spot-1 spot-2 sla=800:NoExecute
      weir what-if taint -l pool=spot failure-probability=15:NoExecute --context production
      weir what-if taint spot-1 maintenance:NoSchedule- --cluster snapshot.yaml
    """
    from weir.taints.notation import TaintNotationError, parse_taint
    from weir.whatif.changes import Taint, TaintEdit

    names, edits = [], []
    for word in _without_noun(words):
        removes = word.endswith("-")
        text = word[:-1] if removes else word
        if ":" not in text and "=" not in text and not removes:
            names.append(text)
            continue
        try:
            edits.append(TaintEdit(parse_taint(text, effect_required=not removes), removes))
        except TaintNotationError as error:
            raise click.UsageError(str(error)) from None
    if not edits:
        raise click.UsageError("which taint? write KEY[=VALUE]:EFFECT, or KEY:EFFECT- to take one away")
    return Taint(_chosen(names, selector, all_nodes), tuple(edits))


@_change("untaint")
@click.argument("words", nargs=-1, required=True, metavar="NODE… KEY[:EFFECT]…")
@_SELECTOR
@_ALL_NODES
def untaint(words: Sequence[str], selector: str, all_nodes: bool) -> Change:
    """Take taints away from nodes.

    \b
    Examples:
      weir what-if untaint spot-1 maintenance:NoSchedule
      weir what-if untaint --all-nodes maintenance
    """
    words = [word.removesuffix("-") for word in _without_noun(words)]
    named = [word for word in words if ":" in word]
    rest = [word for word in words if ":" not in word]
    if (
        not named and rest
    ):  # a taint without its effect: the last word, or every one when nodes are chosen otherwise
        at = 0 if selector or all_nodes else len(rest) - 1
        rest, named = rest[:at], rest[at:]
    return taint([*rest, *(f"{word}-" for word in named)], selector, all_nodes)


@_change("label")
@click.argument("words", nargs=-1, required=True, metavar="NODE… KEY=VALUE… KEY-…")
@_SELECTOR
@_ALL_NODES
@_as_kubectl("--overwrite", "A label that is there is replaced either way.")
def label(words: Sequence[str], selector: str, all_nodes: bool) -> Change:
    """Label nodes, as `kubectl label nodes` would; a key with `-` behind it is taken away.

    \b
    Example:
      weir what-if label spot-1 pool=on-demand --cluster snapshot.yaml
    """
    from weir.whatif.changes import Label

    names: list[str] = []
    labels: list[tuple[str, str | None]] = []
    for word in _without_noun(words):
        key, equals, value = word.partition("=")
        if equals:
            labels.append((key, value))
        elif word.endswith("-"):
            labels.append((word[:-1], None))
        else:
            names.append(word)
    if not labels:
        raise click.UsageError("which label? write KEY=VALUE, or KEY- to take one away")
    return Label(_chosen(names, selector, all_nodes), tuple(labels))


@_change("cordon")
@_NODES
def cordon(names: Sequence[str], selector: str, all_nodes: bool) -> Change:
    """Keep new pods from nodes, as `kubectl cordon` would."""
    from weir.whatif.changes import Cordon

    return Cordon(_chosen(names, selector, all_nodes))


@_change("uncordon")
@_NODES
def uncordon(names: Sequence[str], selector: str, all_nodes: bool) -> Change:
    """Let new pods onto nodes again, as `kubectl uncordon` would."""
    from weir.whatif.changes import Cordon

    return Cordon(_chosen(names, selector, all_nodes), on=False)


@_change("drain")
@_NODES
@click.option("--force", is_flag=True, help="Delete pods without a controller, too.")
@_as_kubectl("--ignore-daemonsets", "Pods of DaemonSets stay either way.")
@_as_kubectl("--delete-emptydir-data", "Pods with emptyDir volumes leave either way.")
def drain(names: Sequence[str], selector: str, all_nodes: bool, force: bool) -> Change:
    """Drain nodes, as `kubectl drain --ignore-daemonsets --delete-emptydir-data` would: budgets are asked.

    \b
    Example:
      weir what-if drain node-7 --until 15m
    """
    from weir.whatif.changes import Drain

    return Drain(_chosen(names, selector, all_nodes), force)


@_change("delete-node")
@_NODES
def delete_node(names: Sequence[str], selector: str, all_nodes: bool) -> Change:
    """Delete nodes, as `kubectl delete node` would: their pods follow when somebody notices."""
    from weir.whatif.changes import DeleteNode

    return DeleteNode(_chosen(names, selector, all_nodes))


@_change("add-nodes")
@click.argument("count", type=click.IntRange(1, 10_000))
@click.option("--like", required=True, metavar="NODE", help="The node they are like.")
@click.option(
    "--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label they have beside (repeatable)."
)
@click.option(
    "--taint", "taints", multiple=True, metavar="KEY=VALUE:EFFECT", help="Their taints, instead of its own."
)
def add_nodes(count: int, like: str, labels: Sequence[str], taints: Sequence[str]) -> Change:
    """Add nodes, each like one that is there.

    \b
    Example:
      weir what-if add-nodes 3 --like spot-1
    """
    from weir.taints.notation import TaintNotationError, parse_taint
    from weir.whatif.changes import AddNodes

    pairs = []
    for text in labels:
        key, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter(f"{text!r}: write KEY=VALUE", param_hint="--label")
        pairs.append((key, value))
    try:
        own = tuple(parse_taint(text) for text in taints)
    except TaintNotationError as error:
        raise click.BadParameter(str(error), param_hint="--taint") from None
    return AddNodes(count, _node_name(like), tuple(pairs), own or None)


@_change("scale")
@click.argument("workload", metavar="KIND/NAME")
@click.argument("count", type=click.IntRange(0), required=False, metavar="[REPLICAS]")
@click.option("--replicas", type=click.IntRange(0), default=None, help="As kubectl's, instead of REPLICAS.")
@_NAMESPACE
def scale(workload: str, count: int | None, replicas: int | None, namespace: str) -> Change:
    """Scale a workload, as `kubectl scale --replicas` would.

    \b
    Examples:
      weir what-if scale deploy/web 20 -n shop
      weir what-if scale deploy/web --replicas 20 -n shop
    """
    from weir.whatif.changes import Scale

    if (count is None) == (replicas is None):
        raise click.UsageError("how many replicas? write KIND/NAME REPLICAS, or --replicas REPLICAS")
    return Scale(workload, count if count is not None else replicas or 0, namespace)


@_change("rollout")
@click.argument("workload", metavar="KIND/NAME")
@_NAMESPACE
def rollout(workload: str, namespace: str) -> Change:
    """Replace the pods of a workload, as `kubectl rollout restart` would.

    \b
    Example:
      weir what-if rollout deploy/web -n shop
    """
    from weir.whatif.changes import Rollout

    return Rollout(workload, namespace)


@_change("apply")
@click.option(
    "-f", "--filename", "files", multiple=True, required=True, metavar="FILE|DIR|-", help="What to apply."
)
def apply(files: Sequence[str]) -> Change:
    """Apply manifests, as `kubectl apply -f` would: nodes, workloads, rules, budgets, whatever the cluster serves.

    \b
    Examples:
      weir what-if apply -f rule.yaml
      weir device taint driver=gpu.example.com recall:NoExecute --dry-run 2>/dev/null | weir what-if apply -f -
    """
    from weir.whatif.changes import Apply
    from weir.whatif.changes.apply import why_not

    items = [item for document in read_documents(files) for item in document.items()]
    if not items:
        raise click.UsageError(f"no objects to apply in {', '.join(files)}")
    for item in items:
        if problem := find_kind_mistake(item.value) or envelope_problem(item.value) or why_not(item.value):
            raise click.UsageError(f"{item.place}: {problem}")
    return Apply(tuple(item.value for item in items))


@_change("gates")
@click.argument("settings", metavar="A=false,B=true", default="")
@click.option(
    "--to",
    type=click.Choice(("1.34", "1.35")),
    default=None,
    help="Go back to this release, whose components never heard of what the KEPs add.",
)
@click.option(
    "--component",
    "components",
    multiple=True,
    type=click.Choice(("apiserver", "scheduler", "controllers", "kubelet")),
    help="Only this component (repeatable).  [default: all of them]",
)
def gates(settings: str, to: str | None, components: Sequence[str]) -> Change:
    """Restart components with other feature gates, or as an older release.

    Says which templates would be refused, what should be removed first and in which order to go.

    \b
    Examples:
      weir what-if gates TaintTolerationComparisonOperators=false
      weir what-if gates TaintTolerationCEL=false --component scheduler
      weir what-if gates --to 1.34 --component apiserver
    """
    from weir.gates import GateError, parse_settings
    from weir.whatif.changes import SetGates

    try:
        changed = parse_settings(settings)
    except GateError as error:
        raise click.UsageError(str(error)) from None
    if not changed and to is None:
        raise click.UsageError("which gate? write A=false, or --to 1.34")
    return SetGates(tuple(changed.items()), tuple(components), to=to or "")


@_change("wait")
@click.argument("time", metavar="TIME")
def wait(time: str) -> Change:
    """Let time pass between two changes of a file."""
    from weir.whatif.changes import Wait

    return Wait(read_seconds(time, "TIME"))


def read_changes(name: str) -> list[Change]:
    """Return the changes that the lines of a file describe: the same words as on the command line."""
    changes: list[Change] = []
    for file, content in read_files([name]):
        for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
            if line.split("#")[0].strip():
                changes.append(read_line(line, f"{file}:{number}"))
    if not changes:
        raise click.UsageError(f"{name}: no change in this file")
    return changes


def read_line(line: str, place: str) -> Change:
    """Return the change that one *line* describes; raises UsageError with its *place*."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise click.UsageError(f"{place}: {error}") from None
    if words[:2] == ["weir", "what-if"]:
        words = words[2:]
    command = CHANGES.get(words[0]) if words else None
    if command is None:
        raise click.UsageError(
            f"{place}: {' '.join(words[:1])!r} is no change: there are {', '.join(CHANGES)}"
        )
    try:
        change: Change = _read(command, words[1:])
    except click.UsageError as error:
        raise click.UsageError(f"{place}: {error.format_message()}") from None
    return change


def _read(command: click.Command, words: list[str]) -> Any:
    with command.make_context(command.name, list(words)) as context:
        return command.invoke(context)
