"""`weir up --apiservers`: several processes answer at one address, and one that is killed is started again.

This runs what docs/howto/run-on-many-cores.md shows.
"""

from __future__ import annotations

import os
import signal
import urllib.request
from pathlib import Path

import pytest

from tests.contract.etcd_server import running_etcd
from tests.e2e.test_processes import Story
from tests.e2e.test_up import family, until, up
from tests.e2e.test_up_options import weir
from weir.objects.kinds import by_kind

CREATED = 'verb="POST",dry_run="",group="",version="v1",resource="pods",subresource="",'
LEASES = by_kind("coordination.k8s.io/v1", "Lease")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes by what Linux tells")
def test_every_server_answers_and_a_killed_one_is_started_again(tmp_path):
    story = Story(tmp_path)

    async def identities(client):
        found = (await client.list(LEASES, "kube-system")).documents()
        return {
            each["metadata"]["name"] for each in found if each["metadata"]["name"].startswith("apiserver-")
        }

    with (
        running_etcd() as etcd,
        up(
            tmp_path,
            "--apiservers",
            "3",
            "--store",
            f"etcd={etcd.endpoint}",
            "--metrics-port",
            "0",
            cold=True,
        ) as process,
    ):
        said = (tmp_path / "up.log").read_text()
        page = next(line for line in said.splitlines() if line.startswith("metrics of")).rpartition(" ")[2]
        assert "API servers: 3 at this address" in said
        until(lambda: len(story.does(identities)) == 3)

        def servers_that_served():
            story.does(story.places)  # each time over a new connection
            text = urllib.request.urlopen(page).read().decode()
            writes = [
                line
                for line in text.splitlines()
                if line.startswith("apiserver_request_total{") and CREATED in line
            ]
            return {line.partition('instance="')[2].partition('"')[0] for line in writes}

        until(lambda: servers_that_served() == {"", "2", "3"})

        def further():
            return {pid for pid, name in family(process.pid).items() if name.startswith("weir-apiserver")}

        before = further()
        assert len(before) == 2
        os.kill(killed := before.pop(), signal.SIGKILL)
        for _ in range(8):
            story.does(story.places)
        until(lambda: len(further()) == 2 and killed not in further())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--store etcd=HOST:PORT"),
        (("--store", "memory"), "--store etcd=HOST:PORT"),
        (("--store", "etcd=127.0.0.1:1", "--in-one-process"), "leave --in-one-process out"),
        (("--apiservers", "0"), "0 is not in the range"),
    ],
)
def test_what_cannot_be_shared_is_refused_in_one_line(tmp_path, options, said):
    code, printed, error = weir("up", "--data-dir", str(tmp_path / "data"), "--apiservers", "2", *options)
    assert (code, printed, error.count("\n")) == (2, "", 1) and said in error
