"""No drift on a real, unmodified Kubernetes: real kubectl applies lowered manifests in every order."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
from pathlib import Path

import pytest

from tests.kubernetes.programs import binaries
from tests.stock.drift import KINDS, ORDERS, Seen, as_stored, play, shows_more
from tests.stock.real import installed, plane

FORMS = ("plain", "annotated", "operators")
Found = dict[tuple[str, str, str], list[Seen]]


async def every_order(folder: Path) -> Found:
    async with plane(folder) as made, installed(made):
        await made.node("n", ("sla", "950", "NoExecute"))
        await made.node("free")

        def kubectl(*words: str, stdin: str = "") -> tuple[int, str]:
            command = [str(binaries() / "kubectl"), f"--kubeconfig={made.kubeconfigs[0]}", *words]
            done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120)
            return done.returncode, done.stdout + (done.stderr if done.returncode else "")

        keys = list(itertools.product(KINDS, FORMS, ORDERS))
        played = (
            asyncio.to_thread(play, kubectl, kind, form, f"{kind}-{form}-{order}".lower(), ORDERS[order])
            for kind, form, order in keys
        )
        return dict(zip(keys, await asyncio.gather(*played), strict=True))


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> Found:
    return asyncio.run(every_order(tmp_path_factory.mktemp("drift")))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", KINDS)
class TestEveryOrder:
    def test_an_annotation_shows_no_more_than_an_object_without_tolerations(self, found, kind, order):
        """A pod of its own shows differences in any cluster, such as in its status."""
        pairs = zip(found[kind, "annotated", order], found[kind, "plain", order], strict=True)
        assert [shows_more(*pair) for pair in pairs] == [[]] * len(ORDERS[order])

    def test_operators_in_the_list_conflict_with_nobody(self, found, kind, order):
        """Only what a client compares with its own manifest differs: `configured`, and a three-way comparison."""
        pairs = zip(found[kind, "operators", order], found[kind, "plain", order], strict=True)
        shown = [shows_more(as_stored(one), as_stored(other)) for one, other in pairs]
        assert shown == [[]] * len(ORDERS[order])
