"""Files, folders, standard input and addresses that a command reads.

`-` is standard input, an https address is fetched; a folder means the manifests below it, by name, with the suffixes
`.yaml`, `.yml` and `.json`, each also with `.gz`, without the files of Kustomize and Helm that say how to make them.
A named file must be readable.
"""

from __future__ import annotations

import gzip
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Final, TextIO

import click

from weir.exit_codes import CANNOT_SAY
from weir.objects.manifest import Document, ManifestError, Place, read_manifest, read_values

_FETCH_SECONDS: Final = 30.0


_MOST_FETCHED: Final = 64 << 20


#: A snapshot is some thirty times as large as its compressed form, a bomb a thousand times.
_MOST_EXPANSION: Final = 250


_LEAST_UNPACKED: Final = 16 << 20


SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


GZIP: Final = b"\x1f\x8b"


def read_files(names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file that *names* mean."""
    for name in names:
        if is_address(name):
            yield name, unpacked(fetch(name), name)
            continue
        for file, path in find_files([name]):
            yield file, content_of(file, path, given=file == name)


def content_of(file: str, path: Path | None, *, given: bool) -> bytes:
    """Return what a file, or standard input, holds; raises ManifestError for an empty one that was *given* by name."""
    content = _read_stdin() if path is None else path.read_bytes()
    if not content.strip() and (path is None or given):  # the command that should have written it failed
        what = "input" if path is None else "file"
        raise ManifestError(Place(file, 1, 1), f"nothing was read: the {what} is empty")
    return unpacked(content, file)


_drained: TextIO | None = None


def _read_stdin() -> bytes:
    """Return what standard input holds; raises UsageError for one that is closed or was read before."""
    global _drained
    if sys.stdin is None:
        raise click.UsageError("stdin (-) is closed")
    if sys.stdin is _drained:
        raise click.UsageError("stdin (-) can be read only once")
    _drained = sys.stdin
    return sys.stdin.buffer.read()


def unpacked(content: bytes, name: str) -> bytes:
    """Return what a file holds, decompressed if it is gzip; raises UsageError for one that is damaged or a bomb."""
    if not content.startswith(GZIP):
        return content

    room = max(_LEAST_UNPACKED, _MOST_EXPANSION * len(content))
    try:
        with gzip.open(BytesIO(content)) as file:
            found = file.read(room + 1)
    except EOFError:
        raise click.UsageError(f"{name}: cannot be decompressed: it ends too early") from None
    except (OSError, zlib.error) as error:
        raise click.UsageError(f"{name}: cannot be decompressed: {error}") from None
    if len(found) > room:
        raise click.UsageError(
            f"{name}: more than {_MOST_EXPANSION} times its compressed size; decompress it and give the file"
        )
    return found


def _is_manifest(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(tuple(SUFFIXES))


def _renders_others(path: Path) -> bool:
    """Return whether a file says how Kustomize or Helm make manifests, and is none itself."""
    if path.name == "values.yaml":
        return path.with_name("Chart.yaml").is_file()
    return path.name in ("kustomization.yaml", "kustomization.yml", "Chart.yaml")


def is_address(name: str) -> bool:
    """Return whether *name* is fetched instead of read.

    >>> is_address("https://example.com/pod.yaml"), is_address("pod.yaml")
    (True, False)
    """
    return name.startswith(("https://", "http://"))


def fetch(url: str) -> bytes:
    """Return what stands at an address, as `kubectl apply -f URL` reads it."""
    from http.client import HTTPException
    from urllib.request import urlopen

    outcome: list[bytes | Exception] = []

    def read() -> None:
        try:
            with urlopen(url, timeout=_FETCH_SECONDS) as answer:
                outcome.append(answer.read(_MOST_FETCHED + 1))
        except (OSError, HTTPException, ValueError) as error:
            outcome.append(error)

    # the timeout of urlopen is one of each read: a thread bounds the whole, and is left behind when it is over
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(_FETCH_SECONDS)
    content = outcome[0] if outcome else TimeoutError(f"no answer within {_FETCH_SECONDS:g} seconds")
    if isinstance(content, Exception):
        reason = getattr(content, "reason", None) or content
        reason = getattr(reason, "strerror", None) or reason
        raise click.UsageError(f"{url}: cannot be fetched: {reason}")
    if len(content) > _MOST_FETCHED:
        raise click.UsageError(f"{url}: more than {_MOST_FETCHED >> 20} MiB; fetch it and give the file")
    return content


def find_files(names: Iterable[str]) -> Iterator[tuple[str, Path | None]]:
    """Yield name and path of every file that *names* mean; no path for standard input."""
    for name in names:
        if not name:
            raise click.UsageError("the name of a file is empty: is the variable set that it comes from?")
        if (scheme := name.partition("://")[0]) != name:
            raise click.UsageError(f"{name}: {scheme} is not read; give a file, or an http or https address")
        path = Path(name)
        if name == "-":
            yield "<stdin>", None
        elif not path.is_dir():
            yield name, path
        else:
            files = sorted(p for p in path.rglob("*") if _is_manifest(p) and p.is_file())
            found = [file for file in files if not _renders_others(file)]
            if files and not found:
                raise click.UsageError(
                    f"{name}: only {files[0].name}: render it first, as kustomize build does"
                )
            if not found:
                raise click.UsageError(f"{name}: no .yaml, .yml or .json file in this folder")
            yield from ((str(file), file) for file in found)


def read_documents(names: Iterable[str]) -> list[Document]:
    """Return the documents of all files that *names* mean, with their places."""
    return [document for name, content in read_files(names) for document in read_manifest(content, name)]


def refuse_long_tolerations(pod_spec: Any, name: str, most: int) -> None:
    """Raise a UsageError for a pod with more than *most* tolerations, each of which would be tried with all others."""
    tolerations = pod_spec.get("tolerations") if isinstance(pod_spec, dict) else None
    if isinstance(tolerations, list) and len(tolerations) > most:
        raise click.UsageError(f"{name} has {len(tolerations)} tolerations; this is asked of at most {most}")


def read_dump(names: Iterable[str]) -> list[Any]:
    """Return the documents of all files that *names* mean as plain values, for large dumps."""
    return [value for name, content in read_files(names) for value in read_values(content, name)]


class CannotSay(click.ClickException):
    """The question cannot be answered: what could not be read, and what follows from that."""

    exit_code = CANNOT_SAY
