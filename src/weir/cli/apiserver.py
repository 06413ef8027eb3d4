"""`weir apiserver`: serves the Kubernetes API.

Binds loopback, uses TLS with its own CA, authorizes with RBAC, and writes a kubeconfig readable by the owner only.
Everything else is an option.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from weir.cli._loop import run_loop
from weir.cli._options import (
    State,
    bind_options,
    encryption_option,
    feature_gates_option,
    logging_options,
    retention_options,
    secure_port_option,
    state_options,
)
from weir.cli.render import say
from weir.gates import Gates


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
def apiserver(
    state: State,
    bind_address: str,
    secure_port: int,
    hostnames: tuple[str, ...],
    insecure_http: bool,
    gates: Gates,
    authorization_mode: str,
    enable_admission_plugins: str,
    disable_admission_plugins: str,
    admission_config: Path | None,
    anonymous_auth: bool,
    token_auth_file: Path | None,
    kubeconfig: Path | None,
    local_kubeconfig: Path | None,
    audit_log_path: Path | None,
    audit_policy_file: Path | None,
    audit_log_maxsize: int,
    audit_log_maxbackup: int,
    audit_log_maxage: int,
    simulate_metrics: bool,
    max_requests_inflight: int,
    max_mutating_requests_inflight: int,
    enable_priority_and_fairness: bool,
    compaction_seconds: float,
    event_ttl_seconds: float,
    encryption_config: Path | None,
    encryption_reload: bool,
    debug_blocking: bool,
) -> None:
    """Serve the Kubernetes API."""
    from weir.apiserver.admission.chain import PluginError, Settings
    from weir.apiserver.admission.configuration import read_event_limits
    from weir.apiserver.audit.events import PolicyError
    from weir.apiserver.audit.log import LogRetention
    from weir.apiserver.auth.authn import TokenFileError
    from weir.apiserver.auth.authz import ModeError
    from weir.apiserver.auth.pki import PkiError
    from weir.apiserver.encryption.configuration import ConfigurationError
    from weir.apiserver.run import run
    from weir.apiserver.running import Running
    from weir.objects.pod_usage import UsageModel
    from weir.store import StoreError

    if encryption_reload and encryption_config is None:
        raise click.UsageError(
            "--encryption-provider-config-automatic-reload must be set only when --encryption-provider-config is set"
        )
    if encryption_config is not None and state.store == "memory":
        raise click.UsageError("--encryption-provider-config: a store in memory has no disk to encrypt")
    if insecure_http and bind_address not in ("127.0.0.1", "::1", "localhost"):
        raise click.UsageError("--insecure-http serves loopback only: leave --bind-address out or use TLS")

    if insecure_http and local_kubeconfig is not None:
        raise click.UsageError(
            "--local-kubeconfig needs the administrator's certificate: leave --insecure-http out"
        )

    if local_kubeconfig is not None and local_kubeconfig == (kubeconfig or state.data_dir / "kubeconfig"):
        raise click.UsageError(
            "--local-kubeconfig: kubectl cannot read it; name another file than --kubeconfig"
        )

    def ready(running: Running) -> None:
        say(f"weir apiserver is ready at {running.url}")
        say(f"export KUBECONFIG={running.options.kubeconfig}")
        sys.stdout.flush()

    try:
        options = state.options(
            bind_address=bind_address,
            secure_port=secure_port,
            insecure=insecure_http,
            gates=gates,
            authorization_modes=tuple(filter(None, authorization_mode.split(","))),
            admission=Settings(
                enable=tuple(filter(None, enable_admission_plugins.split(","))),
                disable=tuple(filter(None, disable_admission_plugins.split(","))),
                event_limits=() if admission_config is None else read_event_limits(admission_config),
            ),
            anonymous=anonymous_auth,
            hostnames=hostnames,
            kubeconfig=kubeconfig,
            local_kubeconfig=local_kubeconfig,
            token_file=token_auth_file,
            audit_log=audit_log_path,
            audit_policy=audit_policy_file,
            audit_keep=LogRetention(audit_log_maxsize, audit_log_maxbackup, audit_log_maxage),
            compaction_seconds=compaction_seconds,
            event_ttl_seconds=event_ttl_seconds,
            encryption_config=encryption_config,
            encryption_reload=encryption_reload,
            usage=UsageModel() if simulate_metrics else None,
            max_reading=max_requests_inflight,
            max_writing=max_mutating_requests_inflight,
            priority_and_fairness=enable_priority_and_fairness,
            debug_blocking=debug_blocking,
        )
        run_loop(run(options, ready=ready))
    except (PluginError, ModeError, PkiError, ConfigurationError, PolicyError, TokenFileError) as error:
        raise click.UsageError(str(error)) from None
    except StoreError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(f"{where}{error.strerror or error}") from None
