"""Run of `weir apiserver`: opens the store and serves the API until it is stopped."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from weir.apiserver.admission.chain import PluginError, Settings
from weir.apiserver.admission.configuration import read_event_limits
from weir.apiserver.auth.authn import TokenFileError
from weir.apiserver.auth.authz import ModeError
from weir.apiserver.auth.pki import PkiError
from weir.apiserver.build import Running
from weir.apiserver.compat.audit import LogRetention, PolicyError
from weir.apiserver.compat.encryption.configuration import ConfigurationError
from weir.apiserver.run import run
from weir.cli._component import run_loop
from weir.cli._options import (
    State,
)
from weir.gates import Gates
from weir.objects.pod_usage import UsageModel
from weir.output import say
from weir.store import StoreError


def answer(
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
    """Return the exit code of `weir apiserver`, after writing its result."""
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
