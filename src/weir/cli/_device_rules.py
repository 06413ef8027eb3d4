"""`weir device taint` and `untaint`: DeviceTaintRules from the command line.

Both print the YAML they apply and its effect; with `--dry-run`, or on a dump, nothing is written. A rule is named
after its selector and key, so tainting again updates it. With `--ttl` the rule carries its expiry; where no
controller deletes it, the command waits and does (docs/decisions/0074).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from weir.cli._confirm import agreed, yes_option
from weir.cli._options import cluster_options, read_seconds, together
from weir.device_rules.rule import counted, make_rule, rule_effect, undo
from weir.device_rules.write import MANAGER, condition, served_version, settle, write
from weir.exit_codes import FINDINGS, FINE, INTERRUPTED
from weir.inputs.live import ClusterSource
from weir.objects.times import format_time
from weir.output import say, to_yaml, write_document

if TYPE_CHECKING:
    from weir.client.api import Client
    from weir.devices.inventory import Inventory
    from weir.objects.kind import Kind

Document = dict[str, Any]
Ask = Callable[[str], bool]  #: says what is about to happen; False: not wanted

EXPIRES_AT: Final = "weir.dev/expires-at"
EXPIRES: Final = "Expires"
_ANSWER_SECONDS: Final = 3.0

rule_options: Final = together(
    cluster_options("Try it on a dump of a cluster: nothing is written."),
    click.option("--cel", multiple=True, metavar="EXPRESSION", help="A CEL selector; all must be true."),
    click.option("--all-devices", is_flag=True, help="Yes, every device of the cluster."),
    click.option("--name", default="", help="The rule's name (default: made of selector and key)."),
    click.option("--dry-run", is_flag=True, help="Say what would happen, change nothing."),
)
rate_option: Final = click.option(
    "--rate", type=click.IntRange(min=1), help="Pods evicted a second (default: 10)."
)
description_option: Final = click.option(
    "--description", default="", help="The reason, stored with the rule."
)


@click.command(short_help="Taint devices with a rule.")
@click.argument("words", nargs=-1, metavar="[SELECTOR] KEY[=VALUE]:EFFECT")
@rate_option
@click.option("--ttl", default="", metavar="2h", help="Remove the taint after this time.")
@click.option("--no-wait", is_flag=True, help="With --ttl: do not stay where no controller would remove it.")
@yes_option
@description_option
@rule_options
def taint(
    words: Sequence[str],
    rate: int | None,
    ttl: str,
    no_wait: bool,
    yes: bool,
    description: str,
    where: ClusterSource,
    cel: Sequence[str],
    all_devices: bool,
    name: str,
    dry_run: bool,
) -> int:
    """Taint the devices SELECTOR names with a DeviceTaintRule; asks first when pods must leave because of it.

    \b
    Examples:
      weir device taint gpu.example.com/node-1/gpu-0 example.com/hot=90:NoSchedule
      weir device taint driver=gpu.example.com,pool=node-1 maintenance:NoExecute --rate 2 --dry-run
      weir device taint --cel "device.attributes['gpu.example.com'].model == 'a100'" recall:None
      weir device taint driver=gpu.example.com,pool=node-1 hot:NoSchedule --ttl 2h
    """
    from weir.taints.notation import DEVICE_EFFECTS, parse_taint, taint_document

    text, taint_text = selector_and_taint(words, "KEY[=VALUE]:EFFECT")
    taint = taint_document(parse_taint(taint_text, DEVICE_EFFECTS))
    wanted = read_selector(text, cel, all_devices)
    expires = datetime.now(UTC) + timedelta(seconds=read_seconds(ttl, "--ttl")) if ttl else None
    rule = make_rule(wanted, taint, name, rate, description)
    if expires is not None:
        rule["metadata"]["annotations"] = {EXPIRES_AT: format_time(expires)}

    ask = partial(agreed, live=where.live, yes=yes)
    try:
        return with_cluster(where, lambda held, client: _taint(rule, held, client, ask, dry_run, not no_wait))
    except KeyboardInterrupt:
        if expires is None:
            raise
        say(err=True)
        say(f"the rule {rule['metadata']['name']} stays; {undo(rule)}", err=True)
        return INTERRUPTED


@click.command(short_help="Remove taints of rules.")
@click.argument("words", nargs=-1, metavar="[SELECTOR] KEY")
@yes_option
@rule_options
def untaint(
    words: Sequence[str],
    yes: bool,
    where: ClusterSource,
    cel: Sequence[str],
    all_devices: bool,
    name: str,
    dry_run: bool,
) -> int:
    """Remove the DeviceTaintRules with exactly this SELECTOR and the taint key KEY.

    Taints that drivers publish cannot be removed from outside; they are named if they are in the way.

    \b
    Examples:
      weir device untaint gpu.example.com/node-1/gpu-0 example.com/hot
      weir device untaint --all-devices maintenance --dry-run
    """
    text, key = selector_and_taint(words, "KEY")
    wanted = read_selector(text, cel, all_devices)
    ask = partial(agreed, live=where.live, yes=yes)
    return with_cluster(where, lambda held, client: _untaint(wanted, key, name, held, client, ask, dry_run))


# ── what to do ───────────────────────────────────────────────────────────────────────────────────


def selector_and_taint(words: Sequence[str], last: str) -> tuple[str, str]:
    """Return the selector, if there is one, and the word behind it."""
    if len(words) not in (1, 2):
        raise click.UsageError(f"write [SELECTOR] {last}, got {len(words)} words")
    if len(words) == 1 and _looks_like_a_selector(words[0]):
        raise click.UsageError(f"{words[0]!r} selects devices: which taint? write SELECTOR {last}")
    return (words[0] if len(words) == 2 else ""), words[-1]


def _looks_like_a_selector(word: str) -> bool:
    """Report whether *word* can be no taint: a key has one slash at most and no star, a value neither.

    >>> _looks_like_a_selector("gpu.example.com/node-1/gpu-0"), _looks_like_a_selector("pool=node-1,device=gpu-0")
    (True, True)
    >>> _looks_like_a_selector("example.com/hot"), _looks_like_a_selector("example.com/hot=1:NoExecute")
    (False, False)
    """
    return word.count("/") > 1 or "*" in word or ("=" in word and ":" not in word)


def read_selector(text: str, cel: Sequence[str], all_devices: bool) -> Document:
    from weir.devices.notation import parse_selector

    wanted = parse_selector(text, cel)
    if not wanted and not all_devices:
        raise click.UsageError("this selects every device of the cluster: add --all-devices if that is meant")
    if wanted and all_devices:
        raise click.UsageError("--all-devices goes with no selector")
    return wanted


def with_cluster(where: ClusterSource, work: Callable[[Inventory, Client | None], Awaitable[int]]) -> int:
    """Return what *work* comes to with the devices of a cluster and, where it lives, a client of it."""
    from weir.cli._device_list import fetch
    from weir.devices.inventory import Inventory
    from weir.gates import ALL_FEATURES
    from weir.inputs.files import read_dump

    where.check()

    async def live(client: Client) -> int:
        return await work(Inventory.of(await fetch(client), ALL_FEATURES), client)

    async def dumped() -> int:
        return await work(Inventory.of(read_dump(where.dump), ALL_FEATURES), None)

    return asyncio.run(dumped()) if where.dump else where.live.run(MANAGER, live)


async def _taint(
    rule: Document, held: Inventory, client: Client | None, ask: Ask, dry_run: bool, wait: bool
) -> int:
    from weir.objects.core import read
    from weir.objects.resource import DeviceTaintRule

    now = datetime.now(UTC)
    preview = held.preview(read(DeviceTaintRule, rule), now)
    served = await served_version(client) if client is not None else None
    ignored: list[str] = []
    if client is not None and served is not None:
        rule, ignored = await settle(client, served, rule)
    write_document(to_yaml(rule))
    for line in rule_effect(rule, preview, now):
        say(line, err=True)
    for option in ignored:
        say(f"this cluster does not know {option}: left out", err=True)
    if dry_run or client is None or served is None:
        say("nothing was written", err=True)
        return FINDINGS if preview.selects_nothing else FINE
    evicts = preview.pods and rule["spec"]["taint"]["effect"] == "NoExecute"
    if evicts and not ask(f"evict {counted(len(preview.pods), 'pod')}"):
        say("nothing was written", err=True)
        return FINDINGS
    stored = await write(client, served, rule)
    say(f"devicetaintrule.resource.k8s.io/{rule['metadata']['name']} applied", err=True)
    if EXPIRES_AT in (rule["metadata"].get("annotations") or {}):
        await _expire(client, served, stored, wait)
    return FINE


async def _expire(client: Client, served: Kind, rule: Document, wait: bool) -> None:
    """See to it that the rule goes when its time has come: a controller does it, or we stay and do."""
    name, text = rule["metadata"]["name"], rule["metadata"]["annotations"][EXPIRES_AT]
    expires = datetime.fromisoformat(text)
    deadline = min(expires, datetime.now(UTC) + timedelta(seconds=_ANSWER_SECONDS))
    while datetime.now(UTC) < deadline:
        current = await client.find(served, name)
        if current is None or condition(current, EXPIRES) is not None:
            say(f"the cluster removes it at {text}", err=True)
            return
        await asyncio.sleep(0.2)
    say("no controller of this cluster removes rules that expire (weir's does)", err=True)
    if not wait:
        say(f"it stays until you remove it; {undo(rule)}", err=True)
        return
    say(f"waiting here to remove it at {text}; Ctrl-C leaves it", err=True)
    await asyncio.sleep(max(0.0, (expires - datetime.now(UTC)).total_seconds()))
    current = await client.find(served, name)
    same = current is not None and current["metadata"]["uid"] == rule["metadata"]["uid"]
    if current is None or not same or (current["metadata"].get("annotations") or {}).get(EXPIRES_AT) != text:
        say("it was removed or changed meanwhile", err=True)
        return
    await client.delete(served, name, uid=rule["metadata"]["uid"])
    say(f'devicetaintrule.resource.k8s.io "{name}" deleted', err=True)


async def _untaint(
    wanted: Document, key: str, name: str, held: Inventory, client: Client | None, ask: Ask, dry_run: bool
) -> int:
    from weir.objects.core import read
    from weir.objects.resource import DeviceTaintSelector

    selector = read(DeviceTaintSelector, wanted)
    chosen = [
        rule
        for rule in held.rules.values()
        if rule.spec.device_selector == selector and rule.spec.taint.key == key and name in ("", rule.name)
    ]
    if not chosen:
        say(f"weir: no rule with this selector and the key {key}{_others(wanted, key, held)}", err=True)
        return FINDINGS
    served = await served_version(client) if client is not None and not dry_run else None
    version = served.api_version if served is not None else "resource.k8s.io/v1"
    for number, rule in enumerate(chosen):
        spec: Document = {"deviceSelector": wanted, "taint": {"key": key, "effect": rule.spec.taint.effect}}
        named = {"apiVersion": version, "kind": "DeviceTaintRule", "metadata": {"name": rule.name}}
        write_document(("---\n" if number else "") + to_yaml({**named, "spec": spec}))
    if client is None or served is None:
        say("nothing was written", err=True)
        return FINE
    if not ask(f"delete devicetaintrule {', '.join(rule.name for rule in chosen)}"):
        say("nothing was written", err=True)
        return FINDINGS
    for rule in chosen:
        await client.delete(served, rule.name, uid=rule.metadata.uid)
        say(f'devicetaintrule.resource.k8s.io "{rule.name}" deleted', err=True)
    return FINE


def _others(wanted: Document, key: str, held: Inventory) -> str:
    """Return where else the key comes from on these devices."""
    from weir.devices.published import TrackedDevice
    from weir.objects.core import read
    from weir.objects.resource import DeviceTaintRule

    asking = read(DeviceTaintRule, {"metadata": {"name": "?"}, "spec": {"deviceSelector": wanted}})
    origins = {
        str(taint.origin)
        for one in held.selected(asking)
        if isinstance(one, TrackedDevice)
        for taint in one.taints
        if taint.taint.key == key
    }
    return f"; these devices have it from {', '.join(sorted(origins)[:3])}" if origins else ""
