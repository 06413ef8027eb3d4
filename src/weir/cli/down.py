"""`weir down`: stops the cluster of a data folder; its state stays unless purged."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import click

from weir.cli._confirm import agreed_here, yes_option
from weir.cli._data_folder import find_holder, find_pid, has_state, running_data_dir_option
from weir.cli._data_folder import purge as purge_folder
from weir.exit_codes import FINDINGS, FINE
from weir.output import say

PATIENCE_SECONDS = 30.0


@click.command()
@running_data_dir_option
@click.option("--purge", is_flag=True, help="Then remove its state, too; asks first.")
@yes_option
def down(data_dir: Path, purge: bool, yes: bool) -> int:
    """Stop what `weir up` (or `weir apiserver`) runs on a data folder."""
    holder = find_holder(data_dir)
    if purge and has_state(data_dir):
        what = f"{'stop' if holder else 'remove'} the cluster in {data_dir.resolve()}"
        if not agreed_here(f"{what} and remove its state" if holder else what, yes):
            say("nothing was changed", err=True)
            return FINDINGS
    if holder is None:
        say(f"nothing runs on {data_dir}")
    else:
        pid = _stop(data_dir, holder)
        say(f"stopped process {pid}" + ("" if purge else f"; its state stays in {data_dir}"))
    if purge:
        purge_folder(data_dir)
        say(f"removed the state in {data_dir}")
    return FINE


def _stop(data_dir: Path, holder: str) -> int:
    """Return the process that ran on the folder, once it has ended."""
    pid = find_pid(holder)
    if not pid:
        raise click.ClickException(f"{data_dir} is in use by {holder}, which cannot be stopped from here")
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
    return pid
