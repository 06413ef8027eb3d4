"""Records what `weir conformance` finds in weir and in real Kubernetes, for docs/reference/conformance.md.

`python -m tests.kubernetes.conformance SETTING [STORY…]` starts the control plane of a setting, plays the stories
there and writes `docs/conformance/SETTING.json`; with stories named, only their rows are written anew.
KUBERNETES_BIN names the real programs. `PYTHONPATH=. python -m docs.generate` then writes the page.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.stock.real import NUMERIC, installed, plane

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "conformance"
DEVICES = ("DRADeviceTaints", "DRADeviceTaintRules")
#: What a taint of a node takes to be noticed is up to the cluster; these are the defaults.
GRACE = "50s"


def gates(on: bool, *names: str) -> str:
    return ",".join(f"{name}={str(on).lower()}" for name in names)


@dataclass(frozen=True)
class Setting:
    """One cluster to compare."""

    title: str
    gates: str = ""
    operator: bool = False
    more: tuple[str, ...] = ()


SETTINGS: Mapping[str, Setting] = {
    "weir": Setting("weir up"),
    "kubernetes-gates-off": Setting(
        "Kubernetes 1.37, gates off", gates(False, NUMERIC, "DRADeviceTaintRules", "DRADeviceTaints")
    ),
    "kubernetes-gates-on": Setting("Kubernetes 1.37, gates on", gates(True, NUMERIC, *DEVICES)),
    "kubernetes-operator": Setting(
        "Kubernetes 1.37 with weir's operator", gates(False, NUMERIC), operator=True
    ),
    "kubernetes-1.35": Setting(
        "Kubernetes 1.35, gates on",
        gates(True, NUMERIC, *DEVICES),
        more=("--runtime-config=resource.k8s.io/v1alpha3=true",),
    ),
}


@asynccontextmanager
async def cluster(name: str, folder: Path) -> AsyncIterator[Path]:
    """Give the kubeconfig of a running cluster of a setting."""
    setting = SETTINGS[name]
    if name == "weir":
        from tests.e2e.test_up import up

        with up(folder, "--nodes", "0", "--store", "memory"):
            yield folder / "data" / "kubeconfig"
        return
    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(
            plane(folder, settings=setting.gates, grace=GRACE, more=setting.more)
        )
        if setting.operator:
            await stack.enter_async_context(installed(made))
        yield made.kubeconfigs[0]


def report(kubeconfig: Path, *words: str) -> dict[str, Any]:
    """Return what `weir conformance` says; what it tells meanwhile goes to standard error."""
    command = [sys.executable, "-m", "weir.cli.main", "conformance", "--kubeconfig", str(kubeconfig), "--yes"]
    ran = subprocess.run([*command, *words, "-o", "json"], stdout=subprocess.PIPE, check=False)
    assert ran.returncode in (0, 1), f"weir conformance ended with {ran.returncode}"
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


async def record(name: str, stories: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="weir-conformance-") as folder:
        async with cluster(name, Path(folder)) as kubeconfig:
            found = await asyncio.to_thread(report, kubeconfig, *stories)
    path = FOLDER / f"{name}.json"
    rows = {each["name"]: each for each in found["stories"]}
    offers = {each["need"]: each for each in found["offers"]}
    if stories and path.exists():
        before = json.loads(path.read_text())
        rows = {**{each["name"]: each for each in before["stories"]}, **rows}
        offers = {**{each["need"]: each for each in before["offers"]}, **offers}
    for each in rows.values():
        each.pop("seconds", None)  # nobody's business, and another each time
    document = {
        "title": SETTINGS[name].title,
        "version": found["version"],
        "gates": SETTINGS[name].gates,
        "offers": list(offers.values()),
        "stories": [rows[each] for each in sorted(rows)],
    }
    FOLDER.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def main(words: list[str]) -> int:
    if not words or words[0] not in SETTINGS:
        print(f"which setting? {', '.join(SETTINGS)}", file=sys.stderr)
        return 2
    asyncio.run(record(words[0], words[1:]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
