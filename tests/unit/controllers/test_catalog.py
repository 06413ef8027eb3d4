"""The list of controllers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from weir.controllers.catalog import CATALOG, choose
from weir.controllers.runtime.controller import Controller
from weir.gates import ALL_FEATURES, Gates


@pytest.mark.parametrize("name", CATALOG)
def test_every_name_stands_for_one_controller(name):
    (controller,) = choose([name], Gates())
    assert isinstance(controller, Controller)


@pytest.mark.proves("5055-113")
def test_devices_have_a_taint_eviction_controller_of_their_own():
    nodes, devices = choose(["taint-eviction", "device-taint-eviction"], ALL_FEATURES)
    assert {kind.kind for kind in nodes.kinds} == {"Node", "Pod"}
    assert "DeviceTaintRule" in {kind.kind for kind in devices.kinds}


def test_no_two_names_stand_for_one_class():
    assert len(set(CATALOG.values())) == len(CATALOG)


def test_only_chosen_controllers_are_imported():
    code = (
        "from weir.controllers.catalog import choose; from weir.gates import Gates; import sys;"
        "choose(['taint-eviction'], Gates());"
        "print(*(name for name in sys.modules if name.startswith('weir.controllers.')))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = result.stdout.split()
    assert "weir.controllers.nodes.taint_eviction" in imported
    assert "weir.controllers.workloads.job" not in imported
