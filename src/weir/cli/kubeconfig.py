"""`weir kubeconfig`: client access for a user, a component or a node.

Signs a client certificate with the CA of a server's data directory and writes a kubeconfig: for a user (`--user jane
--group dev`), or a component under its Kubernetes identity (`--component kube-scheduler`, `--node worker-1`).
Permissions are RBAC's.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click
import yaml

from weir.apiserver.auth import pki
from weir.cli._options import data_dir_option
from weir.objects.manifest import read_document
from weir.output import write_document

COMPONENTS = ("kube-scheduler", "kube-controller-manager")


@click.command()
@data_dir_option("The data directory of the server.", exists=True)
@click.option("--user", help="Name of the user.")
@click.option("--group", "groups", multiple=True, help="Group of the user (repeatable).")
@click.option("--component", type=click.Choice(COMPONENTS), help="A component of the control plane.")
@click.option("--node", help="The kubelet of this node.")
@click.option("--server", help="Address of the server (default: as in DATA_DIR/kubeconfig).")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write or merge into this file, mode 0600."
)
def kubeconfig(
    data_dir: Path,
    user: str | None,
    groups: tuple[str, ...],
    component: str | None,
    node: str | None,
    server: str | None,
    output: Path | None,
) -> None:
    """Write a kubeconfig for a user, a component or a node."""
    if sum(choice is not None for choice in (user, component, node)) != 1:
        raise click.UsageError("say who it is for: --user NAME, --component NAME or --node NAME")
    if not (user or component or node):
        raise click.UsageError("the name is empty: say who it is for")
    if "" in groups:
        raise click.UsageError("--group is empty: leave it out, or name a group")
    if groups and user is None:
        raise click.UsageError("--group goes with --user")
    if user is not None:
        identity = pki.Identity(user, groups)
    elif node is not None:
        identity = pki.node_identity(node)
    else:
        identity = pki.SCHEDULER if component == "kube-scheduler" else pki.CONTROLLER_MANAGER
    if not (data_dir / "pki" / "ca.key").exists():
        raise click.UsageError(f"{data_dir} has no certificate authority; start `weir apiserver` there first")
    address = server or _server(data_dir / "kubeconfig")
    now = datetime.now(UTC)
    try:
        credentials = pki.ensure(data_dir / "pki", now=now)
    except pki.PkiError as error:
        raise click.UsageError(str(error)) from None
    pair = credentials.issue_client(identity, now)
    access = pki.Access(address, credentials.ca_pem, pair.certificate, pair.key)
    document = pki.kubeconfig_document(access, name=f"{identity.user}@weir", user=identity.user)
    if output is None:
        write_document(yaml.safe_dump(document, sort_keys=False), nl=False)
        return
    try:
        pki.write_kubeconfig(output, document)
    except pki.KubeconfigError as error:
        raise click.UsageError(str(error)) from None


def _server(path: Path) -> str:
    """Return the address in the administrator's kubeconfig."""
    try:
        clusters = read_document(path.read_bytes(), str(path))["clusters"]
        return str(next(c["cluster"]["server"] for c in clusters if c["name"] == "weir"))
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        raise click.UsageError(f"cannot tell the server's address from {path}; use --server") from None
