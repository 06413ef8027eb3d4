"""Programs of the npm registry that checks and tests use: fetched once, held against their digest, never installed.

A package is one file to read or to run with node; npm itself, and what it would bring, is not needed.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import tarfile
import urllib.request
from pathlib import Path

#: Name → version and the digest that the registry gives for its file.
PINNED = {
    "typescript": (
        "5.9.3",
        "jl1vZzPDinLr9eUt3J/t7V6FgNEw9QjvBPdysz9KfQDD41fQrC2Y4vKQdiaUpFT4bXlb1RHhLpp8wtm6M5TgSw==",
    ),
    "axe-core": (
        "4.14.0",
        "9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ==",
    ),
}
_REGISTRY = os.environ.get("NPM_CONFIG_REGISTRY", "https://registry.npmjs.org").rstrip("/")
_SECONDS = 60.0


def fetched(name: str) -> Path:
    """Return the folder of a package; it is fetched when it is not there yet."""
    version, digest = PINNED[name]
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "weir" / "npm" / f"{name}-{version}"
    if (folder / "package" / "package.json").exists():
        return folder / "package"
    with urllib.request.urlopen(f"{_REGISTRY}/{name}/-/{name}-{version}.tgz", timeout=_SECONDS) as answer:
        content = answer.read()
    if base64.b64encode(hashlib.sha512(content).digest()).decode() != digest:
        raise ValueError(f"{name} {version} is not what it was when it was pinned")
    with tarfile.open(fileobj=io.BytesIO(content)) as packed:
        packed.extractall(folder, filter="data")
    return folder / "package"
