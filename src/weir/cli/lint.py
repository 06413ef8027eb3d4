"""`weir lint`: the API server's own verdicts, offline, and the traps beyond them; or a running cluster's workloads."""

from __future__ import annotations

from importlib.metadata import version as package_version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from weir.cli.inputs import read_documents, read_files
from weir.cli.render import BAD, DIM, NOTE, paint, wants_colour
from weir.gates import ALL_FEATURES, GateError, Gates

if TYPE_CHECKING:
    from weir.lint.rule import Finding, Rule
    from weir.objects.manifest import Document

_COLOURS: Final = {"error": BAD, "warning": NOTE, "note": DIM}
#: What `--cluster` without a file means.
_LIVE: Final = ""
#: What a person writes, and what tells how it fares.
_WORKLOADS: Final = (
    "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicaSet", "ReplicationController",
)  # fmt: skip


@click.command(
    epilog="Exit code: 0 clean (notes allowed), 1 findings, 2 usage or unreadable input, 3 no cluster answers."
)
@click.argument("files", nargs=-1, metavar="[FILE|DIR|-]...")
@click.option(
    "--cluster",
    multiple=True,
    is_flag=False,
    flag_value=_LIVE,
    metavar="[FILE|DIR|-]",
    help="Nodes to hold tolerations against (kubectl get nodes -o yaml); not linted themselves. Without a file: "
    "the live cluster; and without manifests to check, its workloads are checked, and those named whose pods are "
    "refused or loop.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="The live cluster's kubeconfig (default: as kubectl).",
)
@click.option("--context", default="", help="The context of the kubeconfig.")
@click.option("-n", "--namespace", default="", help="Only this namespace of the live cluster.")
@click.option(
    "-A", "--all-namespaces", is_flag=True, help="All namespaces of the live cluster (the default)."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "sarif", "junit"]),
    default="text",
    help="How to print the findings.",
)
@click.option("--rules", multiple=True, metavar="CODES", help="Only these rules, by code or name.")
@click.option("--ignore", multiple=True, metavar="CODES", help="All rules but these.")
@click.option(
    "--feature-gates",
    "gates_text",
    metavar="A=true,B=false",
    help="The cluster's feature gates; without it all features of the four KEPs are on.",
)
@click.option("--explain", "explain_code", metavar="CODE", help="Print the page of one rule and leave.")
def lint(
    files: tuple[str, ...],
    cluster: tuple[str, ...],
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    all_namespaces: bool,
    output: str,
    rules: tuple[str, ...],
    ignore: tuple[str, ...],
    gates_text: str | None,
    explain_code: str | None,
) -> int:
    """Check manifests: what the API server would refuse, and what it accepts but nobody means.

    \b
    weir lint manifests/
    helm template . | weir lint -
    kubectl get nodes -o yaml > nodes.yaml; weir lint app.yaml --cluster nodes.yaml
    weir lint --cluster                   # the workloads of the live cluster
    weir lint app.yaml --cluster          # held against the live cluster's nodes
    """
    from weir.lint.check import choose
    from weir.lint.check import lint as check
    from weir.lint.pages import page

    chosen = choose(rules, ignore)
    if explain_code is not None:
        (rule,) = choose([explain_code], [])
        click.echo(page(rule), nl=False)
        return 0
    try:
        gates = ALL_FEATURES if gates_text is None else Gates.parse(gates_text)
    except GateError as error:
        raise click.BadParameter(str(error), param_hint="--feature-gates") from None
    live = _LIVE in cluster
    dumps = [place for place in cluster if place != _LIVE]
    if not live and (kubeconfig or context or namespace or all_namespaces):
        raise click.UsageError("--kubeconfig, --context, -n and -A are for the live cluster: add --cluster")
    if namespace and all_namespaces:
        raise click.UsageError("give either -n or -A, not both")
    if not files and not live:
        raise click.UsageError(
            "nothing to check: name files, folders, or - for standard input; or give --cluster"
        )
    known = read_documents(dumps)
    if live:
        found = _read_live(kubeconfig, context, namespace, workloads=not files)
        known += [_document(each) for each in found if each["kind"] == "Node"]
    if files:
        documents = read_documents(files)
        names = {name for name, _ in read_files(file for file in files if file != "-")}
        names |= {"<stdin>"} if "-" in files else set()
        findings = check(documents, gates, known=known, rules=chosen)
    else:
        documents, findings = _check_live(found, known, gates, chosen)
        names = {document.file for document in documents}
    return _report(findings, documents, sorted(names), output, gates, live=not files)


def _read_live(kubeconfig: Path | None, context: str, namespace: str, *, workloads: bool) -> list[Any]:
    """Return the live cluster's nodes, and with *workloads* everything that tells how they fare."""
    import asyncio

    from weir.cli.render import progress
    from weir.client.http import connect
    from weir.client.snapshot import Snapshot, snapshot

    kinds = ("Node", *(("Pod", *_WORKLOADS, "Event") if workloads else ()))

    async def run() -> Snapshot:
        client = connect(kubeconfig, context=context, user_agent="weir")
        try:
            with progress("reading the cluster, kinds:") as tick:
                return await snapshot(client, kinds, tick, namespace)
        finally:
            await client.close()

    found = asyncio.run(run())
    if found.forbidden:
        click.echo(f"not looked at, since you may not list them: {', '.join(found.forbidden)}", err=True)
    return found.documents


def _check_live(
    found: list[Any], known: list[Document], gates: Gates, rules: list[Rule]
) -> tuple[list[Document], list[Finding]]:
    """Return what people wrote in the cluster, and what is wrong with it."""
    from datetime import UTC, datetime

    from weir.lint.check import lint as check
    from weir.lint.live import Troubles, is_own

    troubles = Troubles.of(found, datetime.now(UTC))
    documents = [_document(each) for each in found if each["kind"] in ("Pod", *_WORKLOADS) and is_own(each)]
    return documents, check(documents, gates, known=known, rules=rules, troubles=troubles)


def _document(each: Any) -> Document:
    from weir.objects.manifest import Document

    metadata = each["metadata"]
    name = "/".join(filter(None, (each["kind"].lower(), metadata.get("namespace"), metadata["name"])))
    return Document(each, name, ())


def _report(
    findings: list[Finding],
    documents: list[Document],
    names: list[str],
    output: str,
    gates: Gates,
    *,
    live: bool,
) -> int:
    from weir.lint import formats

    match output:
        case "json":
            click.echo(formats.as_json(findings, gates.changes()))
        case "sarif":
            click.echo(formats.sarif(findings, package_version("weir")))
        case "junit":
            click.echo(formats.junit(findings, names))
        case _:
            colour = wants_colour()
            for line in formats.text(findings, lambda text, style: _paint(text, style, colour)):
                click.echo(line)
            objects = sum(1 for document in documents for _ in document.items())
            click.echo(formats.summary(findings, objects, len(names), live=live))
            click.echo(f"feature gates: {gates.changes() or 'Kubernetes defaults'}", err=True)
    return 1 if any(found.severity.fails for found in findings) else 0


def _paint(text: str, style: str, on: bool) -> str:
    return paint(text, _COLOURS.get(style, "reset"), bold=style == "bold", on=on)
