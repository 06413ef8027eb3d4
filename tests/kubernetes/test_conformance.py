"""`weir conformance` on a real control plane, gates on and off: a few quick stories come to what is recorded."""

from __future__ import annotations

import asyncio

import pytest
from docs.conformance import recorded

from tests.kubernetes.conformance import cluster, report

QUICK = (
    "announcement-2-gpu-compute-score",
    "kep-5055-tolerations-in-allocation",
    "kep-5471-effects",
    "kep-5471-first-match",
    "kep-5471-no-seconds-at-all",
    "kep-5471-validation-values",
    "kep-5500-effects",
    "kep-5721-prereleases",
)


@pytest.mark.parametrize("setting", ["kubernetes-gates-on", "kubernetes-gates-off"])
def test_quick_stories_come_to_what_is_recorded(setting, tmp_path):
    async def play():
        async with cluster(setting, tmp_path) as kubeconfig:
            return await asyncio.to_thread(report, kubeconfig, *QUICK)

    found = {row["name"]: (row["verdict"], row["instead"]) for row in asyncio.run(play())["stories"]}
    before = {row["name"]: row["verdict"] for row in recorded()[setting]["stories"]}
    assert {name: verdict for name, (verdict, _) in found.items()} == {
        name: before[name] for name in QUICK
    }, found
