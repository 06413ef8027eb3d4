"""Options shared by several commands.

Options that belong together arrive as one value: `--kubeconfig` and `--context` as `live`, with `--cluster` as
`where`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from weir.gates import GateError, Gates, parse_settings
from weir.inputs.live import ClusterSource, Live
from weir.values.duration import NANOSECONDS, DurationError, parse_duration

if TYPE_CHECKING:
    from weir.apiserver.options import Options

T = TypeVar("T")
Command = Callable[..., Any]
Option = Callable[[Command], Command]


class Group(click.Group):
    """A group whose help shows the summaries of its commands whole, on as many lines as they need."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, one.get_short_help_str(limit=1000))
                    for name, one in commands
                    if one and not one.hidden
                ]
            )


def together(*options: Option) -> Option:
    """Return the options as one, shown in the order they are given."""

    def give(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return give


# ── cluster ───────────────────────────────────────────────────────────────────────────────


_KUBECONFIG: Final = together(
    click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        help="The cluster's kubeconfig (default: as kubectl).",
    ),
    click.option("--context", default="", help="The context of the kubeconfig."),
)


def live_options(command: Command) -> Command:
    """Give *command* `--kubeconfig` and `--context`, as the argument `live`."""

    @wraps(command)
    def call(*, kubeconfig: Path | None, context: str, **rest: Any) -> Any:
        return command(live=Live(kubeconfig, context), **rest)

    return _KUBECONFIG(call)


def cluster_options(help: str) -> Option:
    """Return what gives a command `--cluster`, `--kubeconfig` and `--context`, as the argument `where`."""
    dump = click.option("-c", "--cluster", "cluster", multiple=True, metavar="FILE|DIR|-", help=help)

    def give(command: Command) -> Command:
        @wraps(command)
        def call(*, cluster: tuple[str, ...], kubeconfig: Path | None, context: str, **rest: Any) -> Any:
            return command(where=ClusterSource(cluster, Live(kubeconfig, context)), **rest)

        return together(dump, _KUBECONFIG)(call)

    return give


# ── behaviour ──────────────────────────────────────────────────────────────────────────


def feature_gates_option(
    help: str = "Gates to change, in Kubernetes' form.  [default: the features of the four KEPs are on]",
) -> Option:
    """Return `--feature-gates`, as the argument `gates`."""

    def read(ctx: click.Context, parameter: click.Parameter, text: str | None) -> Gates:
        try:
            return Gates.parse(text or "")
        except GateError as error:
            raise click.BadParameter(str(error), param_hint="--feature-gates") from None

    return click.option("--feature-gates", "gates", metavar="A=true,B=false", callback=read, help=help)


def output_option(*forms: str, help: str | None = None) -> Option:
    """Return `-o`, one of *forms*."""
    return click.option(
        "-o", "--output", type=click.Choice(forms), default=forms[0], show_default=True, help=help
    )


def logging_options(*, quiet: bool = False) -> Option:
    """Return `-v` and `--logging-format`, which set up logging before the command runs.

    A *quiet* command logs only warnings and errors unless `-v` is given.
    """

    def give(command: Command) -> Command:
        @wraps(command)
        def call(*, verbosity: int | None, logging_format: str, **rest: Any) -> Any:
            from weir.observe import logs

            logs.configure(verbosity if verbosity is not None or quiet else 0, form=logging_format)
            return command(**rest)

        return together(
            click.option(
                "-v",
                "--v",
                "--verbose",
                "verbosity",
                type=click.IntRange(0, 10),
                is_flag=False,
                flag_value=2,
                metavar="[0-10]",
                help="How much to log, as of Kubernetes' components: 2 (or -v alone) decisions, 4 writes, 6 requests.",
            ),
            click.option(
                "--logging-format",
                type=click.Choice(("plain", "text", "json")),
                default="plain",
                show_default=True,
                help="Plain lines, klog's text, or JSON with the fields of Kubernetes' components.",
            ),
        )(call)

    return give


def rate_options(who: str, *, qps: float | str, burst: int | str) -> Option:
    """Return `--kube-api-qps` and `--kube-api-burst`: how fast *who* writes.

    A default in words is not filled in: the argument is None, and the command finds out what the words say.
    """

    def option(name: str, argument: str, type: Any, default: float | str, help: str) -> Option:
        worded = isinstance(default, str)
        return click.option(
            name,
            argument,
            type=type,
            default=None if worded else default,
            show_default=default if worded else True,
            help=help,
        )

    per_second = f"How many writes a second {who} makes (0: no limit)."
    return together(
        option("--kube-api-qps", "qps", float, qps, per_second),
        option("--kube-api-burst", "burst", click.IntRange(min=1), burst, "How many it makes at once."),
    )


def leader_elect_option(help: str, *, default: bool | None = True) -> Option:
    """Return `--leader-elect`; a *default* of None leaves the answer to a file of settings."""
    return click.option("--leader-elect/--no-leader-elect", default=default, help=help)


def metrics_options(command: Command) -> Command:
    """Give *command* `--metrics-port` and `--bind-address`, as the argument `door`: None, or address and port."""

    @wraps(command)
    def call(*, metrics_port: int | None, bind_address: str, **rest: Any) -> Any:
        return command(door=None if metrics_port is None else (bind_address, metrics_port), **rest)

    return together(
        click.option(
            "--metrics-port",
            type=click.IntRange(0, 65535),
            help="Serve /metrics, /healthz, /livez and /readyz on this port (0: any free port).",
        ),
        click.option(
            "--bind-address", default="127.0.0.1", show_default=True, help="The address of the metrics port."
        ),
    )(call)


# ── state ──────────────────────────────────────────────────────────────────────────


def data_dir_option(help: str, *, exists: bool = False) -> Option:
    """Return `--data-dir`."""
    return click.option(
        "--data-dir",
        type=click.Path(path_type=Path, file_okay=False, exists=exists),
        default=Path(".weir"),
        show_default=True,
        help=help,
    )


@dataclass(frozen=True)
class State:
    """Where a server keeps what it knows."""

    data_dir: Path
    store: str
    etcd_ca: Path | None
    etcd_cert: Path | None
    etcd_key: Path | None
    etcd_user: str

    def options(self, *, kubeconfig: Path | None = None, **more: Any) -> Options:
        """Return the options of a server that keeps it there."""
        from weir.apiserver.options import Options

        return Options(**vars(self), kubeconfig=kubeconfig or self.data_dir / "kubeconfig", **more)


def _checked_store(context: click.Context, option: click.Parameter, value: str) -> str:
    if value in ("sqlite", "memory") or value.removeprefix("etcd=") not in ("", value):
        return value
    raise click.BadParameter(f"unknown store {value!r}: write sqlite, memory or etcd=host:port")


_FILE: Final = click.Path(path_type=Path, exists=True)
_STATE: Final = together(
    data_dir_option("Where the store, the certificates and the kubeconfig lie."),
    click.option(
        "--store",
        default="sqlite",
        show_default=True,
        metavar="sqlite|memory|etcd=HOST:PORT,…",
        callback=_checked_store,
        help="What keeps the objects.",
    ),
    click.option("--etcd-cafile", "etcd_ca", type=_FILE, help="Who signs for etcd (TLS)."),
    click.option("--etcd-certfile", "etcd_cert", type=_FILE, help="Certificate shown to etcd."),
    click.option("--etcd-keyfile", "etcd_key", type=_FILE, help="Its key."),
    click.option(
        "--etcd-user", default="", envvar="ETCD_USER", metavar="NAME:PASSWORD", help="Login at etcd."
    ),
)


def state_options(command: Command) -> Command:
    """Give *command* `--data-dir`, `--store` and the `--etcd-…` options, as the argument `state`."""
    names = tuple(State.__dataclass_fields__)

    @wraps(command)
    def call(**given: Any) -> Any:
        state = State(**{name: given.pop(name) for name in names})
        return command(state=state, **given)

    return _STATE(call)


bind_options: Final[Option] = together(
    click.option("--bind-address", default="127.0.0.1", show_default=True, help="Address to listen on."),
    click.option(
        "--hostname",
        "hostnames",
        multiple=True,
        help="Another name or address of the server, for its certificate (repeatable).",
    ),
)

encryption_option: Final[Option] = click.option(
    "--encryption-provider-config",
    "encryption_config",
    type=_FILE,
    help="Which resources are encrypted in the store, and how (EncryptionConfiguration).",
)


def read_seconds(text: str, option: str | None = None) -> float:
    """Return the seconds that a duration such as `90s`, `10m` or `2h` means; one that is none, or not above 0, is a
    mistake in *option*, or in the parameter that is being read."""
    try:
        seconds = parse_duration(text) / NANOSECONDS
    except DurationError:
        seconds = 0.0
    if seconds <= 0:
        raise click.BadParameter(f"{text!r}: write a time like 90s, 10m or 2h", param_hint=option)
    return seconds


def positive_seconds(context: click.Context, option: click.Parameter, text: str) -> float:
    """Return the seconds of an option's duration."""
    return read_seconds(text)


retention_options: Final[Option] = together(
    click.option(
        "--etcd-compaction-interval",
        "compaction_seconds",
        type=click.FloatRange(min=0.0),
        default=300.0,
        show_default=True,
        metavar="SECONDS",
        help="How long the history is kept that watches resume from.",
    ),
    click.option(
        "--event-ttl",
        "event_ttl_seconds",
        default="1h0m0s",
        show_default=True,
        metavar="DURATION",
        callback=positive_seconds,
        help="How long events are kept.",
    ),
)

secure_port_option: Final[Option] = click.option(
    "--secure-port",
    type=click.IntRange(0, 65535),
    default=6443,
    show_default=True,
    help="The port to listen on; 0 picks one.",
)


#: The options of a command that asks about a whole cluster.
asked_cluster: Final = cluster_options(
    "What the cluster holds: a file of `weir snapshot`, a dump of kubectl, manifests, or a directory, "
    "instead of a live cluster."
)


def asked_gates_option() -> Option:
    """Return `--feature-gates` of a command that asks about a cluster, as the argument `given`: gate → on."""

    def read(ctx: click.Context, parameter: click.Parameter, text: str | None) -> Mapping[str, bool]:
        try:
            settings = parse_settings(text or "")
            Gates(settings)
        except GateError as error:
            raise click.BadParameter(str(error), param_hint="--feature-gates") from None
        return settings

    return click.option(
        "--feature-gates",
        "given",
        metavar="A=true,B=false",
        callback=read,
        help="What you know of the cluster's gates, in Kubernetes' form; the others are learned from a live cluster. "
        "[default for files: the features of the four KEPs are on]",
    )
