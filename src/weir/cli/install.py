"""`weir install`: weir's operator as manifests, as a chart, or applied.

Without `--apply` the manifests go to standard output, for kubectl.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

import weir
from weir.cli._confirm import agreed, check_askable, yes_option
from weir.cli._options import live_options, output_option
from weir.cli.check import show, verdict
from weir.client.api import Client
from weir.clock import RealClock
from weir.exit_codes import CANNOT_SAY, FINDINGS, FINE
from weir.inputs.live import Live
from weir.install.apply import install as steps
from weir.install.apply import rotate_path, undo
from weir.install.chart import files
from weir.install.health import Health
from weir.install.manifests import Installation, InstallError, documents, written
from weir.install.readiness import Readiness
from weir.lowering.names import NAMESPACE
from weir.output import say, to_json, to_yaml, write_document


@click.command()
@click.option(
    "-n", "--namespace", default=NAMESPACE, show_default=True, help="The namespace of the operator."
)
@click.option(
    "--image", default="", metavar="IMAGE", help="The image of weir: the operator runs in the cluster."
)
@click.option(
    "--url",
    default="",
    metavar="https://HOST:PORT",
    help="The operator runs elsewhere (`weir operator --url …`) and the API server reaches it here.",
)
@click.option(
    "--replicas", type=click.IntRange(1, 10), default=2, show_default=True, help="How many operators answer."
)
@click.option(
    "--grace-seconds",
    type=click.IntRange(0, 3600),
    metavar="SECONDS",
    help="As of `weir operator`, for the operator in the cluster  [default: as it decides]",
)
@click.option(
    "--client-ca-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Authorities of the API servers' client certificates: callers without one are refused.",
)
@click.option(
    "--client-name",
    "client_names",
    multiple=True,
    metavar="NAME",
    help="Only certificates for this name; may be repeated  [default: any]",
)
@click.option(
    "--api-server-cidr",
    "api_servers",
    multiple=True,
    metavar="CIDR",
    help="Where API servers call from: the NetworkPolicy lets only these reach the webhooks; may be repeated.",
)
@click.option(
    "--rotate-path",
    is_flag=True,
    help="Only make a new secret for the path of the webhooks, in the installation that is there.",
)
@output_option("yaml", "json", "helm", help="Manifests, or the files of a chart.")
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the chart is written (with -o helm).",
)
@click.option(
    "--apply", "do_apply", is_flag=True, help="Do it, in the safe order, with checks before and after."
)
@click.option(
    "--timeout",
    type=click.IntRange(1, 3600),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="With --apply, how long each step may take before what was created is taken back.",
)
@live_options
@yes_option
def install(
    namespace: str,
    image: str,
    url: str,
    replicas: int,
    grace_seconds: int | None,
    client_ca_file: Path | None,
    client_names: tuple[str, ...],
    api_servers: tuple[str, ...],
    rotate_path: bool,
    output: str,
    output_dir: Path | None,
    do_apply: bool,
    timeout: int,
    live: Live,
    yes: bool,
) -> int:
    """Print what extends a cluster: numeric, SemVer and CEL tolerations on any Kubernetes from 1.30 on.

    \b
    weir install --image registry.example/weir:1 | kubectl apply -f -
    weir install --url https://192.0.2.7:9443 | kubectl apply -f -
    weir install --image registry.example/weir:1 --apply --context production
    weir install -o helm --output-dir chart/
    weir install --rotate-path --context production
    """
    if rotate_path:
        if image or url or do_apply or output != "yaml":
            raise click.UsageError(
                "--rotate-path changes the installation that is there: say only which cluster"
            )
        return _rotate(namespace, live, yes)
    authorities = client_ca_file.read_text() if client_ca_file is not None else ""
    installation = Installation(
        namespace, image, url, replicas, grace_seconds, authorities, client_names, api_servers
    )
    if output == "helm":
        if output_dir is None:
            raise click.UsageError("a chart is several files: say where with --output-dir")
        if image or url:
            raise click.UsageError("a chart leaves the image open: give it to helm with --set image=…")
        _check(replace(installation, image="given to helm"))
        return _write_chart(output_dir, installation)
    if output_dir is not None:
        raise click.UsageError("--output-dir is for -o helm; manifests go to standard output")
    _check(installation)
    if do_apply:
        if output != "yaml":
            raise click.UsageError("--apply prints no manifests: leave -o out")
        return _apply(installation, timeout, live, yes)
    if live.named or yes:
        raise click.UsageError(
            "--kubeconfig, --context and --yes are for --apply; manifests are for any cluster"
        )
    found = documents(installation)
    if output == "json":
        write_document(to_json({"apiVersion": "v1", "kind": "List", "items": found}))
    else:
        write_document("---\n".join(f"{written(each, to_yaml)}\n" for each in found), nl=False)
    return FINE


def _check(installation: Installation) -> None:
    try:
        installation.check()
    except InstallError as error:
        raise click.UsageError(str(error)) from None


def _apply(installation: Installation, timeout: int, live: Live, yes: bool) -> int:
    """Check, ask, apply step by step, check again; take back what was created where it does not come about."""
    check_askable(yes)

    async def take_back(client: Client, created: list[dict[str, Any]]) -> None:
        if created:
            say("taking back what was created", err=True)
        async for line in undo(client, created):
            say(line)

    async def work(client: Client) -> int:
        clock = RealClock()
        ready = await Readiness(client, installation.namespace, installation.grace_seconds).checks()
        show(ready)
        if verdict(ready) == FINDINGS:
            say("nothing was changed: first do what is asked above", err=True)
            return FINDINGS
        if not agreed(f"install weir's operator into {installation.namespace}", live, yes):
            say("nothing was changed", err=True)
            return FINDINGS
        created: list[dict[str, Any]] = []
        try:
            start = " ".join((installation.command(), *live.words())) if installation.url else ""
            async for line in steps(client, clock, installation, timeout, start=start, created=created):
                say(line)
        except InstallError as error:
            say(f"weir: {error}", err=True)
            await take_back(client, created)
            return CANNOT_SAY
        except BaseException:  # interrupted, or the API server refuses a step
            await take_back(client, created)
            raise
        found = await Health(client, clock, installation.namespace).checks()
        show(found)
        return verdict(found)

    return live.run("weir-install", work)


def _rotate(namespace: str, live: Live, yes: bool) -> int:
    """Make a new path secret; the operator brings it into the webhook configurations."""
    check_askable(yes)

    async def work(client: Client) -> int:
        if not agreed(f"make a new path secret for the webhooks of {namespace}", live, yes):
            say("nothing was changed", err=True)
            return FINDINGS
        try:
            say(await rotate_path(client, RealClock(), namespace))
        except InstallError as error:
            say(f"weir: {error}", err=True)
            return CANNOT_SAY
        return FINE

    return live.run("weir-install", work)


def _write_chart(folder: Path, installation: Installation) -> int:
    found = files(weir.__version__, to_yaml, installation)
    for name, content in found.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
    say(f"{len(found)} files in {folder}")
    say(f"helm install weir {folder} -n {NAMESPACE} --create-namespace --set image=IMAGE", err=True)
    return FINE
