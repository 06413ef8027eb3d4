"""`weir restore`: replaces a cluster's state by a copy of `weir backup`."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import click

from weir.cli._confirm import agreed_here, yes_option
from weir.cli._options import data_dir_option
from weir.exit_codes import FINDINGS, FINE
from weir.output import say
from weir.store import StoreError
from weir.store.backup import AHEAD, check, is_snapshot
from weir.store.backup import restore as restore_store


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@data_dir_option("The cluster's folder; nothing may run on it.")
@click.option(
    "--etcd-data-dir",
    "member",
    type=click.Path(path_type=Path, file_okay=False),
    help="Of a snapshot of etcd: the new folder of a member that is made of it.",
)
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENTS OF ETCDUTL]")
@yes_option
def restore(file: Path, data_dir: Path, member: Path | None, arguments: tuple[str, ...], yes: bool) -> int:
    """Put the copy FILE in place of the store in a data folder; asks first when there is one.

    Revisions go on far ahead of all that clients can have seen: their watches end with "410 Gone", and they list
    again. Of a snapshot of etcd a new member is made, by etcd's own etcdutl, which has to be installed; what follows --
    goes to it (the member's name and its peers).

    \b
    weir down && weir restore monday.db && weir up
    weir restore monday.snapshot --etcd-data-dir m1 -- --name m1 --initial-cluster m1=http://10.0.0.1:2380
    """
    store = data_dir / "store.db"
    try:
        if is_snapshot(file):
            return _restore_member(file, member, arguments)
        if member is not None or arguments:
            raise click.UsageError(f"--etcd-data-dir is for snapshots of etcd, and {file} is none")
        held = check(file) if file.is_file() else None
        if held is not None and store.exists():
            question = f"replace the state in {data_dir.resolve()} by {held.objects} objects of {file}"
            if not agreed_here(question, yes):
                say("nothing was changed", err=True)
                return FINDINGS
        done = restore_store(file, store)
    except StoreError as error:
        raise click.ClickException(str(error)) from None
    say(f"{store}: {done.objects} objects, from revision {done.revision} on")
    return FINE


def _restore_member(file: Path, member: Path | None, arguments: tuple[str, ...]) -> int:
    """Have etcd's own program make a new member of a snapshot."""
    if member is None:
        raise click.UsageError(
            f"{file} is a snapshot of etcd: name a new member's folder with --etcd-data-dir"
        )
    if member.exists():
        raise click.UsageError(f"{member} exists already: etcdutl makes a new folder")
    program = shutil.which("etcdutl")
    command = ["etcdutl", "snapshot", "restore", str(file), "--data-dir", str(member)]
    command += ["--bump-revision", str(AHEAD), "--mark-compacted", *arguments]
    if program is None:
        raise click.ClickException(
            f"etcdutl is not installed; it comes with etcd 3.6 (3.5 lacks its flags). Then: {shlex.join(command)}"
        )
    done = subprocess.run([program, *command[1:]], capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise click.ClickException(f"etcdutl failed: {said[-1]}")
    say(f"{member}: a new member of etcd, from revisions {AHEAD} ahead of the snapshot's on")
    return FINE
