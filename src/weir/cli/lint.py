"""`weir lint`: the API server's own verdicts, offline, and the traps beyond them; or a running cluster's workloads."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

import weir
from weir.cli._certainty import asked_gates_option, because, known_gates
from weir.cli._options import Live, Where, live_options, output_option
from weir.cli.inputs import CannotSay, read_documents, read_files, read_live
from weir.cli.main import CANNOT_SAY
from weir.cli.render import BAD, DIM, NOTE, paint, wants_colour

if TYPE_CHECKING:
    from weir.client.cluster_gates import KnownGates
    from weir.client.snapshot import Missing
    from weir.lint.rule import Finding
    from weir.objects.manifest import Document

_COLOURS: Final = {"error": BAD, "warning": NOTE, "note": DIM}
#: What `--cluster` without a file means.
_LIVE: Final = ""
#: What a person writes, and what tells how it fares.
_WORKLOADS: Final = (
    "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicaSet", "ReplicationController",
)  # fmt: skip


@click.command(
    epilog="Exit code: 0 clean (notes allowed), 1 findings, 2 usage or unreadable input, 3 cannot say (the cluster is "
    "out of reach, rights are missing, or gates that decide are not known)."
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
@live_options
@click.option("-n", "--namespace", default="", help="Only this namespace of the live cluster.")
@click.option(
    "-A", "--all-namespaces", is_flag=True, help="All namespaces of the live cluster (the default)."
)
@output_option("text", "json", "sarif", "junit", help="How to print the findings.")
@click.option("--rules", multiple=True, metavar="CODES", help="Only these rules, by code or name.")
@click.option("--ignore", multiple=True, metavar="CODES", help="All rules but these.")
@asked_gates_option()
@click.option("--explain", "explain_code", metavar="CODE", help="Print the page of one rule and leave.")
def lint(
    files: tuple[str, ...],
    cluster: tuple[str, ...],
    live: Live,
    namespace: str,
    all_namespaces: bool,
    output: str,
    rules: tuple[str, ...],
    ignore: tuple[str, ...],
    given: Mapping[str, bool],
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
    from weir.client.cluster_gates import API_SERVER
    from weir.lint.check import choose, either
    from weir.lint.check import lint as check
    from weir.lint.live import Troubles, is_own
    from weir.lint.pages import page
    from weir.objects.features import needed_gates

    chosen = choose(rules, ignore)
    if explain_code is not None:
        (rule,) = choose([explain_code], [])
        click.echo(page(rule), nl=False)
        return 0
    ask_live = _LIVE in cluster
    dumps = [place for place in cluster if place != _LIVE]
    if not ask_live and (live.named or namespace or all_namespaces):
        raise click.UsageError("--kubeconfig, --context, -n and -A are for the live cluster: add --cluster")
    if namespace and all_namespaces:
        raise click.UsageError("give either -n or -A, not both")
    if not files and not ask_live:
        raise click.UsageError(
            "nothing to check: name files, folders, or - for standard input; or give --cluster"
        )
    known = read_documents(dumps)
    missing: tuple[Missing, ...] = ()
    troubles = None
    if ask_live:
        found, missing = _read_live(live, namespace, workloads=not files)
        known += [_document(each) for each in found if each["kind"] == "Node"]
    if files:
        documents = read_documents(files)
        names = {name for name, _ in read_files(file for file in files if file != "-")}
        names |= {"<stdin>"} if "-" in files else set()
    else:
        troubles = Troubles.of(found, datetime.now(UTC))
        documents = [
            _document(each) for each in found if each["kind"] in ("Pod", *_WORKLOADS) and is_own(each)
        ]
        names = {document.file for document in documents}
    gates = known_gates(Where((), live) if ask_live else None, given, (API_SERVER,), [namespace or "default"])
    used = needed_gates(item.value for document in documents for item in document.items())
    answers = [
        check(documents, each, known=known, rules=chosen, troubles=troubles) for each in gates.possible(used)
    ]
    doubtful = [name for name in gates.unknown if name in used]
    findings = answers[0] if len(answers) == 1 else either(answers[0], answers[1], doubtful)
    code = _report(findings, documents, sorted(names), output, gates, live=not files)
    if missing:
        click.echo(f"not looked at: {because(missing)}", err=True)
    return CANNOT_SAY if missing or (len(answers) > 1 and answers[0] != answers[1]) else code


def _read_live(live: Live, namespace: str, *, workloads: bool) -> tuple[list[Any], tuple[Missing, ...]]:
    """Return the live cluster's nodes, and with *workloads* everything that says how they fare; and what is missing."""
    kinds = ("Node", *(("Pod", *_WORKLOADS, "Event") if workloads else ()))
    found = read_live(live, kinds, namespace)
    if len(found.missing) == len(kinds):
        raise CannotSay(f"cannot say anything of the cluster: {because(found.missing)}")
    return found.documents, found.missing


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
    gates: KnownGates,
    *,
    live: bool,
) -> int:
    from weir.lint import formats

    match output:
        case "json":
            click.echo(formats.as_json(findings, str(gates.possible(())[0]), gates.report()))
        case "sarif":
            click.echo(formats.sarif(findings, weir.__version__))
        case "junit":
            click.echo(formats.junit(findings, names))
        case _:
            colour = wants_colour()
            for line in formats.text(findings, lambda text, style: _paint(text, style, colour)):
                click.echo(line)
            objects = sum(1 for document in documents for _ in document.items())
            click.echo(formats.summary(findings, objects, len(names), live=live))
            click.echo(gates.line(), err=True)
    return 1 if any(found.severity.fails for found in findings) else 0


def _paint(text: str, style: str, on: bool) -> str:
    return paint(text, _COLOURS.get(style, "reset"), bold=style == "bold", on=on)
