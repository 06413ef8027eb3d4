"""`weir operator`: runs the operator, in the cluster or anywhere the API server can reach."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from weir.cli._component import Component, identity, run_component
from weir.cli._options import leader_elect_option, live_options, logging_options
from weir.inputs.live import Live
from weir.lowering.names import NAMESPACE

if TYPE_CHECKING:
    from weir.client.api import Client
    from weir.observe.logs import Log
    from weir.operator.credentials import Credentials

_PATH = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command()
@live_options
@click.option(
    "-n", "--namespace", default=NAMESPACE, show_default=True, help="The namespace of the installation."
)
@click.option(
    "--url",
    default="",
    metavar="https://HOST:PORT",
    help="Where the API server reaches this process, as in `weir install --url`  [default: through the Service]",
)
@click.option(
    "--bind-address",
    metavar="ADDRESS",
    help="Address to listen on  [default: that of --url where it is one, else 127.0.0.1]",
)
@click.option(
    "--secure-port",
    type=click.IntRange(0, 65535),
    help="The port of the webhooks; 0 picks one  [default: that of --url, else 9443]",
)
@click.option(
    "--tls-cert-file", type=_PATH, help="A certificate to show instead of one of the installation's own."
)
@click.option("--tls-private-key-file", type=_PATH, help="Its key.")
@click.option(
    "--client-ca-file",
    type=_PATH,
    help="Hear only callers with a certificate of one of these authorities, beside the secret in the path.",
)
@click.option(
    "--client-name",
    "client_names",
    multiple=True,
    metavar="NAME",
    help="Only certificates for this name (common name or alternative name); may be repeated  [default: any]",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Serve /metrics, /healthz, /livez and /readyz on this port, without TLS (0: any free port).",
)
@leader_elect_option("All replicas answer webhooks; only the elected one releases pods.")
@click.option(
    "--leader-elect-lease-duration",
    "lease_seconds",
    type=click.FloatRange(1, 3600),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="So long after a leader died the next one is elected; pods are released by any replica meanwhile.",
)
@click.option(
    "--grace-seconds",
    type=click.IntRange(0, 3600),
    metavar="SECONDS",
    help="How long a bound pod stays that a controller sees without its newest entry; 0 gives no grace  "
    "[default: 10 where there are several API servers, or taint eviction runs apart; else 0]",
)
@logging_options()
def operator(
    live: Live,
    namespace: str,
    url: str,
    bind_address: str | None,
    secure_port: int | None,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    client_ca_file: Path | None,
    client_names: tuple[str, ...],
    metrics_port: int | None,
    leader_elect: bool,
    lease_seconds: float,
    grace_seconds: int | None,
) -> None:
    """Give a stock cluster numeric, SemVer and CEL tolerations and SemVer affinity.

    Serves the webhooks that `weir install` registers and keeps lowered objects right. Inside of a cluster it needs no
    kubeconfig.

    \b
    weir operator --url https://192.0.2.7:9443
    """
    if (tls_cert_file is None) != (tls_private_key_file is None):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file go together")
    if client_names and client_ca_file is None:
        raise click.UsageError("--client-name needs --client-ca-file, which says who may vouch for names")
    if url and (urlsplit(url).scheme != "https" or not urlsplit(url).hostname):
        raise click.BadParameter("write it like https://host:9443", param_hint="--url")
    host, port = _listens_at(url, bind_address, secure_port)
    names = (urlsplit(url).hostname or "",) if url else (f"weir-operator.{namespace}.svc",)
    static = _static(tls_cert_file, tls_private_key_file) if tls_cert_file and tls_private_key_file else None

    def make(client: Client, log: Log) -> Component:
        from weir.client.leases import Timing
        from weir.clock import RealClock
        from weir.operator.run import Operator

        replica = Operator(
            client,
            RealClock(),
            namespace=namespace,
            identity=identity(),
            leader_elect=leader_elect,
            grace_seconds=grace_seconds,
            timing=Timing(lease_seconds, lease_seconds * 2 / 3, lease_seconds * 2 / 15),
        )

        async def work() -> None:
            from weir.observe.interpreter import return_memory
            from weir.operator.credentials import wait_until_served
            from weir.operator.hook_server import Callers, serving

            return_memory()  # of handshakes and bodies: the manifest gives it little
            credentials = _credentials(client, namespace, names, static)
            if client_ca_file is not None:
                _ask_for_certificates(credentials.context, client_ca_file)
            await wait_until_served(
                credentials,
                RealClock(),
                lambda error: log.warning("No credentials yet", error=str(error)),
            )
            callers = Callers(credentials.admits, frozenset(client_names), replica.metrics.refuse)
            try:
                async with serving(
                    replica.review, lambda: replica.ready, host, port, credentials.context, callers
                ) as served:
                    log.info("Serving webhooks", address=f"https://{host}:{served}")
                    await _both(replica.run, credentials, log)
            except OSError as error:
                raise click.ClickException(
                    f"--secure-port {port} at {host}: {error.strerror or error}"
                ) from None

        return work, replica.pages()

    door = None if metrics_port is None else (host, metrics_port)
    run_component(make, live, "weir-operator", "weir.operator", None, door=door)


async def _both(run: Callable[[], Coroutine[Any, Any, None]], credentials: Credentials, log: Log) -> None:
    """Run the operator, and beside it what keeps its credentials good."""
    async with asyncio.TaskGroup() as group:
        group.create_task(run())
        group.create_task(
            credentials.run(lambda error: log.warning("Credentials not renewed", error=str(error)))
        )


def _listens_at(url: str, bind_address: str | None, secure_port: int | None) -> tuple[str, int]:
    """Return where to listen: as asked for, else where the API server is told to call."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        host = ""  # a name may lead anywhere
    try:
        port = parts.port or 443 if url else 9443
    except ValueError:
        raise click.BadParameter("write it like https://host:9443", param_hint="--url") from None
    return bind_address or host or "127.0.0.1", port if secure_port is None else secure_port


def _credentials(
    client: Client, namespace: str, names: tuple[str, ...], static: ssl.SSLContext | None
) -> Credentials:
    from weir.clock import RealClock
    from weir.install.rights import CERTIFICATES
    from weir.lowering.webhooks import MUTATING_CONFIGURATION, VALIDATING_CONFIGURATION
    from weir.operator.credentials import Credentials

    return Credentials(
        client,
        RealClock(),
        namespace=namespace,
        secret=CERTIFICATES,
        names=names,
        configurations=(
            ("MutatingWebhookConfiguration", MUTATING_CONFIGURATION),
            ("ValidatingWebhookConfiguration", VALIDATING_CONFIGURATION),
        ),
        static=static,
    )


def _ask_for_certificates(context: ssl.SSLContext, authorities: Path) -> None:
    try:
        context.load_verify_locations(authorities)
    except (ssl.SSLError, OSError) as error:
        raise click.BadParameter(f"{authorities}: {error}", param_hint="--client-ca-file") from None
    context.verify_mode = ssl.CERT_REQUIRED


def _static(certificate: Path, key: Path) -> ssl.SSLContext:
    from weir.operator.credentials import server_context

    context = server_context()
    try:
        context.load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        raise click.BadParameter(f"{certificate} and {key}: {error}", param_hint="--tls-cert-file") from None
    return context
