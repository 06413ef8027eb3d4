"""Releases of Kubernetes that the operator was tried on, with the results: kept as data, shown as a page.

`KUBERNETES_BIN=dir python -m tests.stock compatibility [flips]` plays the scenarios and some flips on the programs in
that folder, and writes the row of their release and the page.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from tests.kubernetes.programs import version
from tests.stock.scenarios import SCENARIOS
from tests.upstream.page import section

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
DATA, PAGE = REFERENCE / "compatibility.json", REFERENCE / "compatibility.md"
SITUATIONS = ("idle", "churn", "two controller managers")
HEAD = """\
# Compatibility

## The operator on releases of Kubernetes

What came of `weir operator` on unmodified releases of Kubernetes: the scenarios of
[the specification](../spec/stock.md), each beside the same with native `Gt` where the release has it, with the
largest difference in time; and running pods whose nodes got other values, which must stay (idle, under churn, with two
API servers and two kube-controller-managers that fail over). Built from source by `make kubernetes VERSION=…`; written
by `KUBERNETES_BIN=dir python -m tests.stock compatibility`.

| Kubernetes | native `Gt` | scenarios as expected | largest difference | flips | wrong evictions | missed |
|---|---|---|---|---|---|---|
"""


def row(found: dict[str, Any]) -> str:
    apart = "–" if found["apartMilliseconds"] is None else f"{found['apartMilliseconds']} ms"
    native = "has it, off by default" if found["native"] else "does not have it"
    return (
        f"| {found['version']} | {native} | {found['scenarios']} of {len(SCENARIOS)} | {apart} "
        f"| {found['flips']} | {found['wrong']} | {found['missed']} |"
    )


def page(data: dict[str, Any]) -> str:
    return HEAD + "\n".join(row(data[name]) for name in sorted(data)) + "\n" + section()


def measure(flips: int) -> dict[str, Any]:
    """Return what came of it on the programs in KUBERNETES_BIN."""
    from tests.kubernetes.test_stock import as_expected, difference, play_both
    from tests.stock.flips import play
    from tests.stock.real import has_numeric_gate

    with tempfile.TemporaryDirectory(prefix="weir-stock-") as folder:
        lowered, natively, _, refused = asyncio.run(play_both(Path(folder)))
    assert not refused, refused
    apart = max(difference(lowered, natively, name) for name in lowered)
    found: dict[str, Any] = {
        "version": version(),
        "native": has_numeric_gate(),
        "scenarios": sum(as_expected(each, lowered[each.name]) for each in SCENARIOS),
        "apartMilliseconds": round(apart * 1000) if has_numeric_gate() else None,
        "flips": 0,
        "wrong": 0,
        "missed": 0,
    }
    for situation in SITUATIONS:
        with tempfile.TemporaryDirectory(prefix="weir-stock-") as folder:
            result = asyncio.run(play(Path(folder), situation, flips))
        print(result.line(), flush=True)
        found["flips"] += result.flips
        found["wrong"] += len(result.wrong)
        found["missed"] += len(result.missed)
    return found


def write(found: dict[str, Any]) -> None:
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    data[found["version"]] = found
    DATA.write_text(json.dumps(data, indent=2, sort_keys=True) + "\n")
    PAGE.write_text(page(data))
