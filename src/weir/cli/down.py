"""`weir down`: stop the cluster that runs on a data folder; its state stays."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import click

from weir.cli._holder import find_holder, find_pid
from weir.cli._options import data_dir_option

PATIENCE_SECONDS = 30.0


@click.command()
@data_dir_option("The folder given to weir up.")
def down(data_dir: Path) -> None:
    """Stop what `weir up` (or `weir apiserver`) runs on a data folder."""
    holder = find_holder(data_dir)
    if holder is None:
        click.echo(f"nothing runs on {data_dir}")
        return
    pid = find_pid(holder)
    if not pid:
        raise click.ClickException(
            f"{data_dir} is in use by {holder}, which cannot be told to stop from here"
        )
    try:
        os.kill(pid, signal.SIGTERM)
    except PermissionError:
        raise click.ClickException(
            f"{data_dir} is in use by {holder}, which belongs to another user"
        ) from None
    except ProcessLookupError:
        raise click.ClickException(
            f"{data_dir} is in use by {holder}, which runs on another machine"
        ) from None
    deadline = time.monotonic() + PATIENCE_SECONDS
    while find_holder(data_dir) is not None:
        if time.monotonic() > deadline:
            raise click.ClickException(f"process {pid} did not stop within {PATIENCE_SECONDS:.0f} seconds")
        time.sleep(0.05)
    click.echo(f"stopped process {pid}; its state stays in {data_dir}")
