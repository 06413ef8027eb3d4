"""`weir install`: weir's operator as manifests, as a chart, or applied.

Without `--apply` the manifests go to standard output, for kubectl.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

import weir
from weir.cli._confirm import agreed, check_askable, yes_option
from weir.cli._options import Live, live_options, output_option
from weir.cli.check import show, verdict
from weir.cli.main import CANNOT_SAY, FINDINGS, FINE
from weir.cli.render import say, to_json, to_yaml, write_document
from weir.lowering.names import NAMESPACE

if TYPE_CHECKING:
    from weir.client.api import Client
    from weir.install.manifests import Installation


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
@output_option("yaml", "json", "helm", help="Manifests, or the files of a chart.")
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the chart is written (with -o helm).",
)
@click.option(
    "--apply", "do_apply", is_flag=True, help="Do it, in the safe order, with checks before and after."
)
@live_options
@yes_option
def install(
    namespace: str,
    image: str,
    url: str,
    replicas: int,
    grace_seconds: int | None,
    output: str,
    output_dir: Path | None,
    do_apply: bool,
    live: Live,
    yes: bool,
) -> int:
    """Print what extends a cluster: numeric, SemVer and CEL tolerations on any Kubernetes from 1.30 on.

    \b
    weir install --image registry.example/weir:1 | kubectl apply -f -
    weir install --url https://192.0.2.7:9443 | kubectl apply -f -
    weir install --image registry.example/weir:1 --apply --context production
    weir install -o helm --output-dir chart/
    """
    from weir.install.manifests import Installation, InstallError, documents, written

    if output == "helm":
        if output_dir is None:
            raise click.UsageError("a chart is several files: say where with --output-dir")
        if image or url:
            raise click.UsageError("a chart leaves the image open: give it to helm with --set image=…")
        return _write_chart(output_dir, grace_seconds)
    if output_dir is not None:
        raise click.UsageError("--output-dir is for -o helm; manifests go to standard output")
    installation = Installation(namespace, image, url, replicas, grace_seconds)
    try:
        installation.check()
    except InstallError as error:
        raise click.UsageError(str(error)) from None
    if do_apply:
        if output != "yaml":
            raise click.UsageError("--apply prints no manifests: leave -o out")
        return _apply(installation, live, yes)
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


def _apply(installation: Installation, live: Live, yes: bool) -> int:
    """Check, ask, apply step by step, check again."""
    from weir.clock import RealClock
    from weir.install.apply import install as steps
    from weir.install.health import Health
    from weir.install.manifests import InstallError
    from weir.install.readiness import Readiness

    check_askable(yes)

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
        try:
            async for line in steps(client, clock, installation):
                say(line)
        except InstallError as error:
            say(f"weir: {error}", err=True)
            return CANNOT_SAY
        found = await Health(client, clock, installation.namespace).checks()
        show(found)
        return verdict(found)

    return live.run("weir-install", work)


def _write_chart(folder: Path, grace_seconds: int | None) -> int:
    from weir.install.chart import files

    found = files(weir.__version__, to_yaml, grace_seconds)
    for name, content in found.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
    say(f"{len(found)} files in {folder}")
    say(f"helm install weir {folder} -n {NAMESPACE} --create-namespace --set image=IMAGE", err=True)
    return FINE
