"""Programs of the field are built once (tests/ecosystem/build); every module of tests has a cluster of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.ecosystem.cluster import Cluster, running_cluster

HERE = Path(__file__).parent
NO_GO = 3


class Built(NamedTuple):
    """Where a program of the field lies, and the files of its module."""

    programs: Path
    source: Path


@cache
def built(name: str) -> Built:
    """Return a program that tests/ecosystem/versions names, building it first."""
    done = subprocess.run([HERE / "build", name], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == NO_GO:
        pytest.skip("this machine has no Go")
    assert done.returncode == 0, f"{name} cannot be built"
    programs, source = done.stdout.split()
    return Built(Path(programs), Path(source))


@pytest.fixture(scope="module")
def nodes() -> int:
    """How many simulated nodes the module's cluster has; a module with its own fixture of this name says otherwise."""
    return 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, nodes: int) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), "--nodes", str(nodes)) as running:
        yield running
