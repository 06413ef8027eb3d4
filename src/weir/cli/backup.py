"""`weir backup`: copies a cluster's state to a file while it runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from weir.cli._options import State, state_options
from weir.output import say
from weir.store import StoreError
from weir.store.backup import copy, save_snapshot
from weir.store.etcd_wire import EtcdConnection, EtcdOptions


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@state_options
def backup(file: Path, state: State) -> None:
    """Copy the store to FILE; the cluster may run meanwhile.

    Of SQLite a checked copy, of etcd a snapshot; `weir restore` puts either back. Secrets are as readable in it as in
    the store. Certificates (DATA_DIR/pki) and encryption keys are not in it.

    \b
    weir backup monday.db
    weir backup monday.snapshot --store etcd=127.0.0.1:2379
    """
    try:
        if state.store.startswith("etcd="):
            size = asyncio.run(_snapshot(state, file))
            say(f"{file}: a snapshot of etcd, {size} bytes; weir restore makes new members of it")
            return
        if state.store == "memory":
            raise click.UsageError("a store in memory cannot be copied from outside its process")
        done = copy(state.data_dir / "store.db", file)
    except StoreError as error:
        raise click.ClickException(str(error)) from None
    say(f"{file}: {done.objects} objects at revision {done.revision}, {done.bytes} bytes")


async def _snapshot(state: State, file: Path) -> int:
    name, _, password = state.etcd_user.partition(":")
    endpoints = state.store.removeprefix("etcd=").split(",")
    options = EtcdOptions(endpoints, state.etcd_ca, state.etcd_cert, state.etcd_key, "", name, password)
    connection = EtcdConnection(options)
    try:
        return await save_snapshot(connection.snapshot(), file)
    finally:
        await connection.close()
