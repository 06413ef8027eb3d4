"""`weir what-if`: who would leave, when, and where they could go, before a taint is set or a rule applied.

Reads a live cluster or a dump of one and changes neither. Exit 0 when every pod that leaves has somewhere to go,
1 when one has not or a waiting pod loses its place, 2 for input that cannot be read, 3 for a cluster that does not
answer.
Not here: the answer itself (weir.explain.whatif).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from weir.cli._certainty import asked_gates_option, because, distinct, doubt, known_gates, needed_kinds
from weir.cli._options import Where, output_option, together
from weir.cli.inputs import CannotSay, Held, asked_cluster, read_cluster, read_documents
from weir.cli.main import CANNOT_SAY, FINDINGS, FINE
from weir.cli.render import BAD, DIM, GOOD, NOTE, emit, paint, progress, table, wants_colour
from weir.gates import Gates

if TYPE_CHECKING:
    from weir.client.cluster_gates import KnownGates
    from weir.explain.whatif import Forecast, Leaving
    from weir.objects.core import Taint

Document = dict[str, Any]

_ROWS: Final = 20
#: What can be changed; anything else makes new pods, which is explain's question.
_CHANGEABLE: Final = ("Node", "DeviceTaintRule", "ResourceSlice", "DeviceClass")
_EPILOG: Final = (
    "Exit codes: 0 everybody finds a place, 1 somebody does not, 2 unreadable input, 3 cannot say (the "
    "cluster is out of reach, rights are missing, or gates that decide are not known)."
)
_answer_options: Final = together(
    output_option("text", "json", "yaml"),
    click.option("--all", "show_all", is_flag=True, help="Show every pod."),
    asked_gates_option(),
)


@click.group()
def what_if() -> None:
    """Say what a change to the cluster would do before making it. Nothing is written."""


@what_if.command(epilog=_EPILOG)
@click.argument("words", nargs=-1, required=True, metavar="NODE… KEY[=VALUE]:EFFECT…")
@click.option("-l", "--selector", default="", help="All nodes with these labels, instead of NODE….")
@click.option("--all-nodes", is_flag=True, help="All nodes, instead of NODE….")
@asked_cluster
@_answer_options
def taint(
    words: Sequence[str],
    selector: str,
    all_nodes: bool,
    where: Where,
    output: str,
    show_all: bool,
    given: Mapping[str, bool],
) -> int:
    """Taint nodes, as `kubectl taint nodes` would; a taint with `-` behind it is taken away.

    \b
    Examples:
      weir what-if taint spot-1 spot-2 sla=800:NoExecute
      weir what-if taint -l pool=spot failure-probability=15:NoExecute --context production
      weir what-if taint spot-1 maintenance:NoSchedule- --cluster snapshot.yaml
    """
    names, taints = _nodes_and_taints(words)
    if sum((bool(names), bool(selector), all_nodes)) != 1:
        raise click.UsageError("name nodes, or give --selector, or --all-nodes: one of them")

    def change(held: Held) -> list[Document]:
        nodes = {
            document["metadata"]["name"]: document for document in _flat(held) if document["kind"] == "Node"
        }
        chosen = names or [name for name, node in nodes.items() if _selected(selector, node)]
        for name in chosen:
            if name not in nodes:
                raise click.UsageError(f"no node {name} in the cluster (it has {len(nodes)})")
        if not chosen:
            raise click.UsageError(f"no node has the labels {selector}")
        return [_tainted(nodes[name], taints) for name in chosen]

    return _ask(change, where, output, show_all, given)


@what_if.command(epilog=_EPILOG)
@click.option(
    "-f", "--filename", "files", multiple=True, required=True, metavar="FILE|DIR|-", help="What to apply."
)
@asked_cluster
@_answer_options
def apply(
    files: Sequence[str],
    where: Where,
    output: str,
    show_all: bool,
    given: Mapping[str, bool],
) -> int:
    """Apply nodes, DeviceTaintRules, ResourceSlices or DeviceClasses, as `kubectl apply -f` would.

    \b
    Examples:
      weir what-if apply -f rule.yaml
      weir device taint driver=gpu.example.com recall:NoExecute --dry-run 2>/dev/null | weir what-if apply -f -
    """
    documents = [item.value for document in read_documents(files) for item in document.items()]
    for document in documents:
        kind = document.get("kind") if isinstance(document, dict) else None
        if kind not in _CHANGEABLE:
            raise click.UsageError(
                f"{kind or 'a document without a kind'} is not among {', '.join(_CHANGEABLE)}; "
                "where new pods fit says `weir explain -f`"
            )
        if not (document.get("metadata") or {}).get("name"):
            raise click.UsageError(f"a {kind} without metadata.name cannot be applied")

    def change(held: Held) -> list[Document]:
        known = {_identity(document): document for document in _flat(held)}
        return [_merged(known.get(_identity(document), {}), document) for document in documents]

    return _ask(change, where, output, show_all, given)


# ── the change ───────────────────────────────────────────────────────────────────────────────────


def _nodes_and_taints(words: Sequence[str]) -> tuple[list[str], list[tuple[Taint, bool]]]:
    """Return the nodes and the taints (and whether each goes) that *words* name, in kubectl's form."""
    from weir.taints.notation import TaintNotationError, parse_taint

    names, taints = [], []
    for position, word in enumerate(words):
        removes = word.endswith("-")
        text = word[:-1] if removes else word
        if ":" not in text and "=" not in text and not removes:
            if position or text.lower() not in ("no", "node", "nodes"):
                names.append(text.removeprefix("node/").removeprefix("nodes/"))
            continue
        try:
            taint = parse_taint(text, effect_required=not removes)
        except TaintNotationError as error:
            raise click.UsageError(str(error)) from None
        taints.append((taint, removes))
    if not taints:
        raise click.UsageError("which taint? write KEY[=VALUE]:EFFECT, or KEY:EFFECT- to take one away")
    return names, taints


def _tainted(node: Document, taints: Sequence[tuple[Taint, bool]]) -> Document:
    """Return *node* with the taints set and taken away; one with the same key and effect is replaced."""
    from weir.taints.notation import taint_document
    from weir.validate import validate

    spec = node.get("spec") or {}
    kept = list(spec.get("taints") or ())
    for taint, removes in taints:
        key, effect = taint.key, taint.effect
        same = [one for one in kept if one.get("key") == key and effect in ("", one.get("effect"))]
        if removes and not same:
            name = node["metadata"]["name"]
            raise click.UsageError(f"node {name} has no taint {key}{':' + effect if effect else ''}")
        kept = [one for one in kept if one not in same]
        if not removes:
            kept.append(taint_document(taint))
    changed = {**node, "spec": {**spec, "taints": kept}}
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": kept}}
    if wrong := validate(bare):
        raise click.UsageError("; ".join(" ".join(str(error).split()) for error in wrong))
    return changed


def _selected(selector: str, node: Document) -> bool:
    from weir.selectors.labels import parse

    return parse(selector).matches(node["metadata"].get("labels") or {})


def _flat(held: Held) -> Iterator[Document]:
    from weir.world import flatten

    return flatten(document for _, document in held.documents)


def _identity(document: Document) -> tuple[str, str]:
    return str(document.get("kind")), str((document.get("metadata") or {}).get("name"))


def _merged(old: Any, new: Any) -> Any:
    """Return *new* laid over *old*: objects are merged, anything else replaced."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}


# ── asking ───────────────────────────────────────────────────────────────────────────────────────


def _ask(
    change: Callable[[Held], list[Document]],
    where: Where,
    output: str,
    show_all: bool,
    given: Mapping[str, bool],
) -> int:
    from weir.client.cluster_gates import API_SERVER, CONTROLLERS, SCHEDULER
    from weir.client.snapshot import DEVICES, PLACEMENT
    from weir.devices.inventory import Inventory
    from weir.explain.whatif import State
    from weir.explain.whatif import what_if as forecast
    from weir.objects.features import needed_gates

    held = read_cluster(where, (*PLACEMENT, *DEVICES))
    if missing := held.lacks({"Node", "Pod"}):
        raise CannotSay(f"cannot say what would change: {because(missing)}")
    changes = change(held)
    specs = [document.get("spec") for document in _flat(held) if document.get("kind") == "Pod"]
    needed = frozenset(kind for spec in specs for kind in needed_kinds(spec))
    if missing := held.lacks(needed | {str(document.get("kind")) for document in changes} - {"Node"}):
        raise CannotSay(f"cannot say where pods would go that need them: {because(missing)}")
    replaced = {_identity(document) for document in changes}
    kept = [document for document in _flat(held) if _identity(document) not in replaced]
    then = Held([*(("the cluster", document) for document in kept), *(("the change", d) for d in changes)])
    now = datetime.now(UTC)
    known = known_gates(where, given, (API_SERVER, SCHEDULER, CONTROLLERS))
    used = needed_gates([*_flat(held), *changes])
    unread = [each.plural for each in held.missing]

    def answer(gates: Gates) -> Forecast:
        before, after = (
            State(each.world(), Inventory.of((document for _, document in each.documents), gates))
            for each in (held, then)
        )
        with progress("finding places:") as tick:
            return forecast(before, after, gates, now, tick)

    def same(one: Forecast, other: Forecast) -> bool:
        return report(one, known, Gates(), unread) == report(other, known, Gates(), unread)

    answers = distinct(known, used, answer, same)
    if output == "text":
        colour = wants_colour()
        for gates, found in answers:
            if len(answers) > 1:
                click.echo(paint(doubt(known, used, gates), NOTE, bold=True, on=colour))
            for line in text(found, known.line(), unread, show_all=show_all, colour=colour):
                click.echo(line)
    else:
        (gates, found), *others = answers
        document = report(found, known, gates, unread)
        for gates, other in others:
            document["otherwise"] = report(other, known, gates, unread)
        emit(document, output)
    if len(answers) > 1:
        return CANNOT_SAY
    return FINDINGS if found.lost or found.hindered else FINE


# ── telling ──────────────────────────────────────────────────────────────────────────────────────


def text(
    found: Forecast, assumed: str, unread: Sequence[str], *, show_all: bool = False, colour: bool = False
) -> Iterator[str]:
    """Yield the lines of the answer, most important first."""
    from weir.explain.phrases import counted, listed, short

    if not found.changed:
        yield paint("Nothing would change: the cluster is like that already.", GOOD, on=colour)
        return
    yield f"If {listed(found.changed, 3)} {'changes' if len(found.changed) == 1 else 'change'} so:"
    yield ""
    bad = bool(found.lost or found.hindered)
    headline = "No pod leaves"
    if number := len(found.leaving):
        headline = f"{counted(number, 'pod')} {'leaves' if number == 1 else 'leave'}"
        headline += f", {len(found.lost) or 'none'} of them with nowhere to go"
    yield paint(
        f"{headline}; {found.staying} on the changed nodes stay.", BAD if bad else GOOD, bold=True, on=colour
    )
    if found.leaving:
        yield ""
        shown = found.leaving if show_all else found.leaving[:_ROWS]
        rows = [("WHEN", "POD", "FROM", "BECAUSE", "THEN"), *(_row(one) for one in shown)]
        yield from table(rows)
        if rest := len(found.leaving) - len(shown):
            yield f"  … {counted(rest, 'pod')} more: --all shows them"
    for title, turns in (
        ("Waiting pods that would fit then", found.helped),
        ("Waiting pods that would fit no more", found.hindered),
    ):
        if turns:
            yield ""
            yield f"{title}:"
            yield from table([(turn.pod, short(turn.why_not, 200) or turn.node) for turn in turns[:_ROWS]])
    if found.locked_out:
        yield ""
        yield (
            f"{counted(len(found.locked_out), 'pod')} may stay, but could not come back there once gone: "
            f"{listed(found.locked_out, 3)}."
        )
    yield ""
    yield paint(assumed, DIM, on=colour)
    yield paint(f"Not considered: {'; '.join(not_considered(unread))}.", DIM, on=colour)


def _row(one: Leaving) -> tuple[str, str, str, str, str]:
    from weir.explain.phrases import duration, short

    when = duration(one.cause.after) if one.cause.after else "at once"
    then = f"→ {one.goes_to}" if one.goes_to else f"✗ {short(one.why_nowhere, 120)}"
    if one.again_after is not None:
        then += f", to leave again after {duration(one.again_after)}"
    return when, one.pod, one.node, one.cause.say(), then


def not_considered(unread: Sequence[str]) -> Iterator[str]:
    """Yield what the answer did not look at."""
    if unread:
        yield f"{', '.join(unread)} (not read, and no pod here needs them)"
    yield "how long pods take to end and to start; preemption; cluster autoscalers; what else changes meanwhile"


def report(found: Forecast, known: KnownGates, gates: Gates, unread: Sequence[str]) -> Document:
    """Return the answer for machines."""
    from weir.explain.whatif import SCHEMA

    return {
        "schema": SCHEMA,
        "changed": list(found.changed),
        "leaving": [
            {
                "pod": one.pod,
                "node": one.node,
                "afterSeconds": round(one.cause.after.total_seconds(), 3),
                "taint": {
                    "key": one.cause.taint.key,
                    "value": one.cause.taint.value,
                    "effect": one.cause.taint.effect,
                    "of": one.cause.of,
                },
                "toleratedSeconds": one.cause.tolerated_for,
                "owner": one.owner,
                "goesTo": one.goes_to,
                "leavesAgainAfterSeconds": one.again_after.total_seconds()
                if one.again_after is not None
                else None,
                "whyNowhere": one.why_nowhere,
            }
            for one in found.leaving
        ],
        "staying": found.staying,
        "lockedOut": list(found.locked_out),
        "helped": [{"pod": turn.pod, "node": turn.node} for turn in found.helped],
        "hindered": [{"pod": turn.pod, "node": turn.node, "whyNot": turn.why_not} for turn in found.hindered],
        "featureGates": str(gates),
        "gates": known.report(),
        "notConsidered": list(not_considered(unread)),
    }
