"""`weir ui`: a cluster in the browser: fit matrix, effects of changes, devices.

A loopback page that only the opened browser may read; with `-o` one file with the same screens. Exit 0, 2 for
unreadable input, 3 for an unreachable cluster.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click

from weir.cli._options import asked_cluster, asked_gates_option
from weir.exit_codes import FINE
from weir.inputs.live import ClusterSource, Live
from weir.output import say

_UP_SECONDS = 60.0


@click.command(
    epilog="Exit codes: 0 fine, 2 unreadable input, 3 cannot say (the cluster is out of reach).",
)
@asked_cluster
@click.option(
    "--up", is_flag=True, help="The cluster of `weir up` in .weir; it is started if it does not run."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="The port of the page.  [default: a free one]"
)
@click.option("--read-only", is_flag=True, help="Write nothing to the cluster, whatever the page asks.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write one HTML file instead, frozen.")
@click.option(
    "--what-if",
    "asked",
    default="",
    metavar="TEXT",
    help="With -o: the change that the timeline of the file shows, as `taint -l pool=spot sla=800:NoExecute`.",
)
@asked_gates_option()
def ui(
    where: ClusterSource,
    up: bool,
    port: int,
    read_only: bool,
    no_browser: bool,
    output: Path | None,
    asked: str,
    given: Mapping[str, bool],
) -> int:
    """Look at a cluster in the browser: what fits where, what a change would do, how the devices are.

    \b
    Examples:
      weir ui
      weir ui --context production --read-only
      weir ui --cluster snapshot.yaml
      weir ui --up
      weir ui --cluster snapshot.yaml -o report.html --what-if 'drain node-7'
    """
    from weir.ui.screens import Screens
    from weir.ui.source import open_source

    if asked and output is None:
        raise click.UsageError("--what-if goes with -o: on the page itself any change can be asked about")
    if up and (where.dump or where.live.named):
        raise click.UsageError(
            "--up is a cluster of its own: leave --cluster, --kubeconfig and --context out"
        )
    with _cluster_of_up(up) as kubeconfig:
        if kubeconfig is not None:
            where = replace(where, live=Live(kubeconfig))
        source = open_source(where, given)
        source.start()
        try:
            screens = Screens(source, read_only=read_only)
            if output is not None:
                from weir.ui.report import write_report

                write_report(screens, output, asked)
                say(f"wrote {output} ({output.stat().st_size / 1024:,.0f} KiB)", err=True)
                return FINE
            return _serve(screens, port, no_browser)
        finally:
            source.stop()


def _serve(screens: object, port: int, no_browser: bool) -> int:
    from weir.ui.screens import Screens
    from weir.ui.server import Server

    assert isinstance(screens, Screens)
    try:
        server = Server(screens, port)
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on 127.0.0.1:{port}: {error.strerror}; --port 0 picks a free one"
        ) from None
    server.start()
    say(f"weir ui shows {screens.source.title()}{' (read only)' if screens.read_only else ''}")
    say(f"open {server.door.url}")
    say("the address is good for one visit; Ctrl-C stops it")
    sys.stdout.flush()
    opened = None if no_browser else _open(server.door.url)
    try:
        threading.Event().wait()
    finally:
        if opened is not None:
            opened.unlink(missing_ok=True)
        server.stop()
    return FINE


def _open(url: str) -> Path:
    """Open *url* in the browser by a file that only this user can read: command lines are visible to all users."""
    handle, name = tempfile.mkstemp(prefix="weir-ui-", suffix=".html")
    with os.fdopen(handle, "w") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={url}"><title>weir</title>\n')
    webbrowser.open(Path(name).as_uri())
    return Path(name)


@contextmanager
def _cluster_of_up(wanted: bool) -> Iterator[Path | None]:
    """Give the kubeconfig of `weir up` in .weir, which is started, and stopped afterwards, unless it runs."""
    from weir.cli._data_folder import find_holder

    if not wanted:
        yield None
        return
    folder = Path(".weir")
    if find_holder(folder):
        yield folder / "kubeconfig"
        return
    command = [sys.executable, "-m", "weir", "up", "--secure-port", "0", "--data-dir", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            say(line.rstrip("\n"))
            if "KUBECONFIG=" in line:
                break
        else:
            raise click.ClickException("weir up did not come up; it says why above")
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield folder / "kubeconfig"
    finally:
        process.terminate()
        try:
            process.wait(_UP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
