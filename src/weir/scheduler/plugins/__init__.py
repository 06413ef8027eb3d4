"""One file per plugin of the scheduler; here, which of them look at volumes and devices, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from weir.gates import Gates
from weir.scheduler.volumes import Storage

if TYPE_CHECKING:
    from weir.scheduler.claims import Claims
    from weir.scheduler.profile import PluginOfDevices, PluginOfPods


def volume_plugins(
    storage: Storage, gates: Gates, shape: tuple[tuple[int, int], ...] = ()
) -> tuple[PluginOfPods, ...]:
    """Return the plugins that look at volumes, in the order they are asked; *shape* scores how much they take."""
    from weir.scheduler.plugins.node_volume_limits import NodeVolumeLimits
    from weir.scheduler.plugins.volume_binding import EMPTIEST_FIRST, VolumeBinding
    from weir.scheduler.plugins.volume_restrictions import VolumeRestrictions
    from weir.scheduler.plugins.volume_zone import VolumeZone

    return (
        VolumeRestrictions(storage),
        NodeVolumeLimits(storage, gates),
        VolumeBinding(storage, gates, shape or EMPTIEST_FIRST),
        VolumeZone(storage),
    )


def device_plugins(
    claims: Claims,
    gates: Gates,
    share_id: Callable[[], str],
    *,
    filter_seconds: float = 10.0,
    binding_seconds: float = 600.0,
) -> tuple[PluginOfDevices, ...]:
    """Return the plugins that look at devices: none while claims are not a thing."""
    from weir.scheduler.plugins.dynamic_resources import DynamicResources, Limits

    if not gates.enabled("DynamicResourceAllocation"):
        return ()
    return (DynamicResources(claims, gates, share_id, Limits(filter_seconds, binding_seconds)),)
