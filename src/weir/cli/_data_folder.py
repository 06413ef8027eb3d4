"""The data folder of a command, and purging it.

`weir status` and `weir down` use --data-dir; else ./.weir, and if nothing runs there the folder of the kubeconfig in
KUBECONFIG. Purging removes only what weir wrote: a folder with other files stays.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import click

from weir.cli._holder import LOCKS, find_holder
from weir.cli._options import Option

DEFAULT: Final = Path(".weir")
LOG: Final = "up.log"  #: what a detached `weir up` says
_OURS: Final = (*LOCKS, LOG, "kubeconfig", "api.sock", "store.db", "store.db-wal", "store.db-shm")
_FOLDERS: Final = ("pki",)


def _find(ctx: click.Context, parameter: click.Parameter, given: Path | None) -> Path:
    if given is not None:
        return given
    if find_holder(DEFAULT) is None:
        for path in os.environ.get("KUBECONFIG", "").split(os.pathsep):
            folder = Path(path).parent
            if path and (folder / LOCKS[0]).exists() and find_holder(folder) is not None:
                return folder
    return DEFAULT


running_data_dir_option: Final[Option] = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_find,
    help="The folder given to weir up.  [default: .weir, else that of the running cluster KUBECONFIG names]",
)


def has_state(data_dir: Path) -> bool:
    """Return whether a cluster has left something in the folder."""
    return any((data_dir / name).exists() for name in (*_OURS, *_FOLDERS))


def purge(data_dir: Path) -> None:
    """Remove what weir wrote into the folder, and the folder when it is empty then."""
    for name in _OURS:
        (data_dir / name).unlink(missing_ok=True)
    for name in _FOLDERS:
        shutil.rmtree(data_dir / name, ignore_errors=True)
    if data_dir.is_dir() and not any(data_dir.iterdir()):
        data_dir.rmdir()
