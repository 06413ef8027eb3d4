"""Who holds the data: alive, dead, or long gone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from weir.cli._data_folder import find_holder, hold, living_holder
from weir.store.backend import Locked

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def lease(pid, host, age=1):
    renewed = (NOW - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    identity = f"process {pid} (weir) on {host} since then" if pid else ""
    return {"spec": {"holderIdentity": identity, "renewTime": renewed, "leaseDurationSeconds": 15}}


@pytest.fixture(scope="module")
def dead():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


HERE = socket.gethostname()


def test_a_process_that_lives_or_may_live_elsewhere_holds_its_lease(dead):
    alive = lease(os.getpid(), HERE), lease(dead, "another-machine")
    assert [bool(living_holder(each, NOW)) for each in alive] == [True, True]


def test_a_dead_one_an_old_one_and_nobody_do_not(dead):
    free = lease(dead, HERE), lease(os.getpid(), HERE, age=16), lease(0, HERE), None, {"spec": {}}
    assert [living_holder(each, NOW) for each in free] == [""] * 5


def test_a_folder_is_held_by_one_and_free_again_after(tmp_path):
    lock = hold(tmp_path / "new" / "data")
    with pytest.raises(Locked, match=f"new/data is in use by process {os.getpid()}"):
        hold(tmp_path / "new" / "data")
    told = find_holder(tmp_path / "new" / "data")
    lock.release()
    assert (f"process {os.getpid()}" in (told or ""), find_holder(tmp_path / "new" / "data")) == (True, None)
