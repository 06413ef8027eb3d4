"""`weir snapshot`: a cluster's objects in one file, for every command that takes `--cluster`.

Exit 0 when everything was read that the server has, 1 when a kind could not be read, 3 when nodes or pods could not.
"""

from __future__ import annotations

import gzip
import os
import secrets
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

import click
import msgspec

from weir.cli._options import live_options
from weir.client.api import Client
from weir.client.cluster_gates import detect_gates
from weir.client.snapshot import NOT_SERVED, VERSIONS, Missing, read_kind
from weir.client.snapshot_record import Record
from weir.exit_codes import CANNOT_SAY, FINDINGS, FINE
from weir.explain.phrases import counted
from weir.inputs.live import Live
from weir.objects.anonymity import anonymous as renamed
from weir.objects.redaction import PARTS, Redaction, left_out
from weir.objects.times import format_time
from weir.output import progress, say

Document = dict[str, Any]
_INDENT: Final = b"        "


@click.command(
    epilog="Exit codes: 0 all read, 1 a kind not read, 2 usage, 3 cluster out of reach, or nodes or pods not read."
)
@click.option(
    "-o",
    "--output",
    "file",
    default="snapshot.json.gz",
    show_default=True,
    metavar="FILE|-",
    help="Where to write it; gzip unless the name ends in .json.",
)
@click.option(
    "--include",
    multiple=True,
    type=click.Choice(PARTS),
    help="Take along what is left out otherwise; may be given several times.",
)
@click.option(
    "--anonymous",
    is_flag=True,
    help="Replace names, label values, images and addresses, each by the same word everywhere.",
)
@live_options
def snapshot(file: str, include: tuple[str, ...], anonymous: bool, live: Live) -> int:
    """Write down what explain, what-if, advise, lint and ui need to know of a cluster.

    Every command reads the file with --cluster. It holds no Secrets and no ConfigMaps, and of containers neither env
    values nor commands and arguments; annotations only where a component decides on them. Taints, tolerations, label
    keys, expressions, attributes of devices and names of classes stay as they are under --anonymous, too.

    \b
    weir snapshot
    weir explain -f pod.yaml --cluster snapshot.json.gz
    weir snapshot --anonymous --context production -o for-the-issue.json.gz
    """
    if anonymous and include:
        raise click.UsageError("--anonymous and --include exclude each other")
    documents, record = live.run("weir", lambda client: _read(client, include, anonymous))
    if anonymous:
        documents, _ = renamed(documents)
    with _target(file) as target:
        _write(target, [record.document(), *documents])

    for each in record.missing:
        say(f"{each.plural}: not read: {each.why}{_consequence(each)}", err=True)
    kinds = {document["kind"] for document in documents}
    where = "standard output" if file == "-" else file
    say(f"{where}: {counted(len(documents), 'object')} of {counted(len(kinds), 'kind')}", err=file == "-")
    return _code(record.missing)


async def _read(client: Client, include: Iterable[str], anonymous: bool) -> tuple[list[Document], Record]:
    redaction = Redaction(secrets.token_bytes(32), frozenset(include))
    documents: list[Document] = []
    missing: list[Missing] = []
    listed: list[str] = []
    gates = await detect_gates(client)
    with progress("reading the cluster, objects:", 0.5) as tick:
        for name in VERSIONS:
            items, absent = await read_kind(client, name, tick=partial(_tick, tick, len(documents)))
            documents += map(redaction.apply, items)
            if absent is not None:
                missing.append(absent)
            if absent is None or absent.why == NOT_SERVED:
                listed.append(name)
    taken = format_time(datetime.now(UTC))
    return documents, Record(
        taken, tuple(listed), tuple(missing), tuple(left_out(tuple(include))), anonymous, gates
    )


def _tick(tick: Any, before: int, done: int, total: int) -> None:
    tick(before + done, before + total)


def _consequence(missing: Missing) -> str:
    if missing.why == NOT_SERVED:
        return ""
    return "; answers that need them will say that they are not certain"


def _code(missing: Iterable[Missing]) -> int:
    unread = {each.kind for each in missing if each.why != NOT_SERVED}
    if unread & {"Node", "Pod"}:
        return CANNOT_SAY
    return FINDINGS if unread else FINE


@contextmanager
def _target(file: str) -> Iterator[BinaryIO]:
    """Yield where the file is written to: a new file that takes its name when it is whole."""
    if file == "-":
        with gzip.open(sys.stdout.buffer, "wb") as target:
            yield target  # type: ignore[misc]
        return
    part = Path(f"{file}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as plain:
            if file.endswith(".json"):
                yield plain
            else:
                with gzip.GzipFile("", "wb", fileobj=plain) as packed:
                    yield packed  # type: ignore[misc]
        part.replace(file)
    except OSError as error:
        raise click.ClickException(f"{file}: cannot be written: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)


def _write(target: BinaryIO, documents: Iterable[Document]) -> None:
    """Write a List with each object on lines of its own, so that it can be read piece by piece."""
    target.write(b'{\n    "apiVersion": "v1",\n    "kind": "List",\n    "items": [\n')
    for number, document in enumerate(documents):
        separator = b",\n" if number else b""
        target.write(
            separator + _INDENT + b"{\n" + msgspec.json.encode(document)[1:-1] + b"\n" + _INDENT + b"}"
        )
    target.write(b"\n    ]\n}\n")
