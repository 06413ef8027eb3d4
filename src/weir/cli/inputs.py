"""Which files did the user mean? Files, folders and standard input, read whole.

`-` is standard input; a folder means the manifests below it, in the order of their names. A name that was given
must be readable; in a folder only `.yaml`, `.yml` and `.json` are looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import click

from weir.objects.manifest import Document, read_manifest, read_values

SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


def read_files(names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file that *names* mean."""
    for name in names:
        if name == "-":
            yield "<stdin>", sys.stdin.buffer.read()
            continue
        path = Path(name)
        if not path.is_dir():
            yield name, path.read_bytes()
            continue
        found = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
        if not found:
            raise click.UsageError(f"{name}: no .yaml, .yml or .json file in this folder")
        for file in found:
            yield str(file), file.read_bytes()


def read_documents(names: Iterable[str]) -> list[Document]:
    """Return the documents of all files that *names* mean, with their places."""
    return [document for name, content in read_files(names) for document in read_manifest(content, name)]


def read_dump(names: Iterable[str]) -> list[Any]:
    """Return the documents of all files that *names* mean as plain values, for large dumps."""
    return [value for name, content in read_files(names) for value in read_values(content, name)]
