"""`weir lint`: API validation offline, checks beyond it, and stuck workloads of a running cluster.

An unreadable file is a finding; the rest is still checked. Project settings come from pyproject.toml or .weir.yaml,
and the command line overrides them.
"""

from __future__ import annotations

from typing import Any

import click

from weir.cli._options import asked_gates_option, live_options, output_option


@click.command(
    epilog="Exit code: 0 clean (notes allowed), 1 findings, 2 wrong use, 3 cannot say (the cluster is "
    "out of reach, rights are missing, or gates that decide are not known)."
)
@click.argument("files", nargs=-1, metavar="[FILE|DIR|URL|-]...")
@click.option(
    "-f", "--filename", "more", multiple=True, metavar="FILE|DIR|URL|-", help="The same, as kubectl has it."
)
@click.option(
    "--cluster",
    multiple=True,
    is_flag=False,
    flag_value="",  # LIVE in weir.cli._lint_run
    metavar="[FILE|DIR|-]",
    help="Nodes to hold tolerations against (a snapshot, or manifests); not linted themselves. Without a file: "
    "the live cluster; and without manifests to check, its workloads are checked, and those named whose pods are "
    "refused or loop.",
)
@click.option(
    "--policies",
    multiple=True,
    metavar="FILE|DIR|-",
    help="Judge the manifests by the ValidatingAdmissionPolicies and bindings in these files, which may hold their "
    "parameters and namespaces too; not linted themselves.",
)
@live_options
@click.option("-n", "--namespace", default="", help="Only this namespace of the live cluster.")
@click.option(
    "-A", "--all-namespaces", is_flag=True, help="All namespaces of the live cluster (the default)."
)
@output_option("text", "json", "sarif", "junit", "github", help="How to print the findings.")
@click.option("--rules", multiple=True, metavar="CODES", help="Only these rules, by code or name.")
@click.option("--ignore", multiple=True, metavar="CODES", help="All rules but these.")
@click.option(
    "--level",
    type=click.Choice(["error", "warning", "note"]),
    help="Show only what weighs at least so much; the rest is counted.  [default: warning]",
)
@click.option("-q", "--quiet", is_flag=True, help="One line a finding: no source, no fix, no summary.")
@click.option("--statistics", is_flag=True, help="Count the findings by rule instead of showing them.")
@click.option(
    "--strict", is_flag=True, help="Objects of kinds that are not known, and so not checked, are errors."
)
@click.option(
    "--fix", "mend", is_flag=True, help="Change the files where only one thing can have been meant."
)
@click.option(
    "--kubernetes-version",
    default="",
    metavar="1.N",
    help="The version the manifests are for: features it does not have are off.",
)
@click.option(
    "--target",
    type=click.Choice(["native", "stock"]),
    help="What the manifests are for: a cluster that knows the features itself, or any cluster that `weir install` "
    "extends.  [default: native]",
)
@asked_gates_option()
@click.option("--explain", "explain_code", metavar="CODE", help="Print the page of one rule and leave.")
def lint(**options: Any) -> int:
    """Check manifests: what the API server would refuse, and what it accepts but nobody means.

    Settings of a project stand in pyproject.toml ([tool.weir.lint]) or .weir.yaml (lint:): paths, exclude, rules,
    ignore, level, levels, strict, kubernetes-version, target, feature-gates.

    \b
    weir lint manifests/
    helm template . | weir lint -
    weir lint app.yaml --fix
    weir lint app.yaml --target stock     # for a cluster that `weir install` extends
    weir snapshot && weir lint app.yaml --cluster snapshot.json.gz
    weir lint app.yaml --policies policies/   # what admission policies would refuse
    weir lint --cluster                   # the workloads of the live cluster
    weir lint app.yaml --cluster          # held against the live cluster's nodes
    """
    from weir.cli._lint_run import answer

    return answer(**options)
