"""1,200 distinct taints on 300 nodes of a real Kubernetes: no pod is refused, nobody leaves or stays wrongly."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.stock.many_values import measure

#: What a list of 800 entries takes, with room for the rest of a pod.
MOST_POD_BYTES = 150_000


def test_pods_tolerate_more_values_than_their_lists_hold(tmp_path: Path):
    figures = asyncio.run(measure(tmp_path, 300, 60))
    print(figures.line())
    assert figures.values == 1_200 and figures.wrong == []
    assert figures.labelled == 300 and figures.largest_pod < MOST_POD_BYTES
