"""`weir lint`: the API server's own verdicts, offline, and the traps beyond them."""

from __future__ import annotations

from importlib.metadata import version as package_version
from typing import Final

import click

from weir.cli.inputs import read_documents, read_files
from weir.cli.render import BAD, DIM, NOTE, paint, wants_colour
from weir.gates import ALL_FEATURES, GateError, Gates

_COLOURS: Final = {"error": BAD, "warning": NOTE, "note": DIM}


@click.command(epilog="Exit code: 0 clean (notes allowed), 1 findings, 2 usage or unreadable input.")
@click.argument("files", nargs=-1, metavar="[FILE|DIR|-]...")
@click.option(
    "--cluster",
    multiple=True,
    metavar="FILE|DIR|-",
    help="Nodes to hold tolerations against (kubectl get nodes -o yaml); not linted themselves.",
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
    """
    from weir.lint import formats
    from weir.lint.check import choose
    from weir.lint.check import lint as check
    from weir.lint.pages import page

    chosen = choose(rules, ignore)
    if explain_code is not None:
        (rule,) = choose([explain_code], [])
        click.echo(page(rule), nl=False)
        return 0
    if not files:
        raise click.UsageError("nothing to check: name files, folders, or - for standard input")
    try:
        gates = ALL_FEATURES if gates_text is None else Gates.parse(gates_text)
    except GateError as error:
        raise click.BadParameter(str(error), param_hint="--feature-gates") from None
    names = [name for name, _ in read_files(file for file in files if file != "-")]
    documents = read_documents(files)
    findings = check(documents, gates, known=read_documents(cluster), rules=chosen)
    all_names = sorted({*names, *(["<stdin>"] if "-" in files else [])})
    match output:
        case "json":
            click.echo(formats.as_json(findings, gates.changes()))
        case "sarif":
            click.echo(formats.sarif(findings, package_version("weir")))
        case "junit":
            click.echo(formats.junit(findings, all_names))
        case _:
            colour = wants_colour()
            for line in formats.text(findings, lambda text, style: _paint(text, style, colour)):
                click.echo(line)
            objects = sum(1 for document in documents for _ in document.items())
            click.echo(formats.summary(findings, objects, len(all_names)))
            click.echo(f"feature gates: {gates.changes() or 'Kubernetes defaults'}", err=True)
    return 1 if any(found.severity.fails for found in findings) else 0


def _paint(text: str, style: str, on: bool) -> str:
    return paint(text, _COLOURS.get(style, "reset"), bold=style == "bold", on=on)
