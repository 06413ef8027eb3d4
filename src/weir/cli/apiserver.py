"""`weir apiserver`: serves the Kubernetes API.

Binds loopback, uses TLS with its own CA, authorizes with RBAC, and writes a kubeconfig readable by the owner only.
Everything else is an option.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from weir.cli._options import (
    bind_options,
    encryption_option,
    feature_gates_option,
    logging_options,
    retention_options,
    secure_port_option,
    state_options,
)


@click.command()
@state_options
@bind_options
@secure_port_option
@click.option("--insecure-http", is_flag=True, help="Plain HTTP with a token; loopback only.")
@feature_gates_option()
@click.option(
    "--authorization-mode",
    default="Node,RBAC",
    show_default=True,
    metavar="MODE,…",
    help="Node, RBAC, AlwaysAllow, AlwaysDeny.",
)
@click.option("--enable-admission-plugins", default="", metavar="A,B", help="Plugins to add.")
@click.option("--disable-admission-plugins", default="", metavar="A,B", help="Plugins to leave out.")
@click.option(
    "--admission-control-config-file",
    "admission_config",
    type=click.Path(path_type=Path),
    help="An AdmissionConfiguration: the limits of EventRateLimit.",
)
@click.option(
    "--anonymous-auth", is_flag=True, help="Allow requests without credentials, as system:anonymous."
)
@click.option(
    "--token-auth-file", type=click.Path(path_type=Path, exists=True), help='token,user,uid,"groups" lines.'
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Where to write the admin kubeconfig (default: DATA_DIR/kubeconfig).",
)
@click.option(
    "--local-kubeconfig",
    type=click.Path(path_type=Path),
    help="Let components of this machine come by a Unix socket as well, without TLS; where to write the kubeconfig "
    "that names it (for weir's own commands).",
)
@click.option("--audit-log-path", type=click.Path(path_type=Path), help="Write an audit log.")
@click.option(
    "--audit-policy-file", type=click.Path(path_type=Path, exists=True), help="What to write to it."
)
@click.option(
    "--audit-log-maxsize",
    type=click.IntRange(0),
    default=0,
    help="Begin a new file after so many MB (0: 100).",
)
@click.option(
    "--audit-log-maxbackup", type=click.IntRange(0), default=0, help="Keep so many old files (0: all)."
)
@click.option(
    "--audit-log-maxage", type=click.IntRange(0), default=0, help="Keep old files so many days (0: for ever)."
)
@click.option(
    "--simulate-metrics",
    is_flag=True,
    help="Answer for metrics.k8s.io (kubectl top, autoscalers) as metrics-server would over simulated nodes.",
)
@click.option("--max-requests-inflight", type=int, default=400, show_default=True, help="Reads at once.")
@click.option(
    "--max-mutating-requests-inflight", type=int, default=200, show_default=True, help="Writes at once."
)
@click.option(
    "--enable-priority-and-fairness",
    type=bool,
    default=True,
    show_default=True,
    help="Divide the sum of both by FlowSchemas and PriorityLevelConfigurations.",
)
@retention_options
@encryption_option
@click.option(
    "--encryption-provider-config-automatic-reload",
    "encryption_reload",
    is_flag=True,
    help="Read it again whenever it changes.",
)
@click.option(
    "--debug-blocking",
    is_flag=True,
    help="Measure how long each request holds up the others; the worst are at /debug/blocking.",
)
@logging_options()
def apiserver(**options: Any) -> None:
    """Serve the Kubernetes API."""
    from weir.cli._apiserver_run import answer

    answer(**options)
