"""The comparison of latency with and without the operator, on a few nodes of a real Kubernetes: nobody is evicted."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.stock import latency


def test_the_same_work_on_both_sides_evicts_nobody(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(latency, "BLOCKS", 2)
    monkeypatch.setattr(latency, "WRITES", 10)
    sides = asyncio.run(latency.measure(tmp_path, 20))
    for side in sides:
        print(*side.lines(), sep="\n")
        assert len(side.creates) == 2 * latency.BLOCK and len(side.writes) == 10 and side.wrong == []
    assert "operator" in sides[0].write_cpu and "operator" not in sides[1].write_cpu
