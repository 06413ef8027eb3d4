"""`weir restore`: put a copy that `weir backup` made in place of a cluster's state."""

from __future__ import annotations

from pathlib import Path

import click

from weir.cli._confirm import agreed_here, yes_option
from weir.cli._options import data_dir_option
from weir.cli.main import FINDINGS, FINE
from weir.cli.render import say


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@data_dir_option("The cluster's folder; nothing may run on it.")
@yes_option
def restore(file: Path, data_dir: Path, yes: bool) -> int:
    """Put the copy FILE in place of the store in a data folder; asks first when there is one.

    Revisions go on far ahead of all that clients can have seen: their watches end with "410 Gone", and they list
    again. A snapshot of etcd is restored by etcdutl, which makes new members of it.

    \b
    weir down && weir restore monday.db && weir up
    """
    from weir.store import StoreError
    from weir.store.backup import check, restore

    store = data_dir / "store.db"
    try:
        held = check(file) if file.is_file() else None
        if held is not None and store.exists():
            question = f"replace the state in {data_dir.resolve()} by {held.objects} objects of {file}"
            if not agreed_here(question, yes):
                say("nothing was changed", err=True)
                return FINDINGS
        done = restore(file, store)
    except StoreError as error:
        raise click.ClickException(str(error)) from None
    say(f"{store}: {done.objects} objects, from revision {done.revision} on")
    return FINE
