"""`weir device`: the group of device commands."""

from __future__ import annotations

import click

from weir.cli._device_drain import drain
from weir.cli._device_faults import break_pool, degrade, repair, republish, unplug
from weir.cli._device_list import list_devices
from weir.cli._device_rules import taint, untaint
from weir.cli._options import Group


@click.group(cls=Group)
def device() -> None:
    """The devices of a cluster: who has them, and what their taints do."""


for command in (list_devices, taint, untaint, drain, degrade, unplug, break_pool, repair, republish):
    device.add_command(command)
