"""The queueing hints of one engine's plugins, as the scheduler puts them together."""

from weir.gates import ALL_FEATURES
from weir.scheduler.cycle import Engine
from weir.scheduler.queueing_hints import QueueingHints
from weir.scheduler.volumes import Storage


def hints_of(engine: Engine | None = None) -> QueueingHints:
    engine = engine or Engine(ALL_FEATURES, storage=Storage())
    return QueueingHints({engine.profile.arguments.name: engine.profile.registered_events()})
