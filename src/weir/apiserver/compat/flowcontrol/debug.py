"""Debug pages under /debug/api_priority_and_fairness/.

Upstream's tables. Idle queues are left out, and request details are always shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from weir.apiserver.compat.flowcontrol.dispatcher import FlowControl
from weir.objects.times import format_micro_time

PREFIX = "/debug/api_priority_and_fairness/"


def _table(*rows: Iterable[object]) -> str:
    """Return rows under each other.

    >>> _table(("Name", "Of"), ("a", 1))
    'Name, Of\\na,    1\\n'
    """
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) + 2 for column in zip(*texts, strict=True)]
    lines = (
        "".join(f"{cell}, ".ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(" ")
        for row in texts
    )
    return "".join(f"{line.removesuffix(',')}\n" for line in lines)


def pages(flow: FlowControl, now: Callable[[], float]) -> dict[str, Callable[[], str]]:
    """Return the pages by their paths; *now* is the wall clock in seconds."""

    def levels() -> str:
        head = (
            "PriorityLevelName",
            "ActiveQueues",
            "IsIdle",
            "IsQuiescing",
            "WaitingRequests",
            "ExecutingRequests",
        )
        rows = []
        for level in flow.levels():
            active = sum(1 for queue in level.queues if queue.requests)
            idle = not level.waiting and not level.executing
            gone = level.name not in flow.configuration.levels
            row = (level.name, active, str(idle).lower(), str(gone).lower(), level.waiting, level.executing)
            rows.append(row)
        return _table(head, *rows)

    def queues() -> str:
        head = ("PriorityLevelName", "Index", "PendingRequests", "SeatsInUse", "NextDispatchR")
        return _table(
            head,
            *(
                (level.name, queue.index, len(queue.requests), queue.seats_in_use, f"{queue.ends:.8f}ss")
                for level in flow.levels()
                if level.described.queues
                for queue in level.queues
            ),
        )

    def requests() -> str:
        head = (
            *("PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue", "FlowDistingsher"),
            *("ArriveTime", "InitialSeats", "UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion"),
            *("Resource", "SubResource"),
        )
        rows = []
        for level in flow.levels():
            for queue in level.queues:
                for number, queued in enumerate(queue.requests):
                    info, flow_of = queued.info, queued.flow
                    arrived = datetime.fromtimestamp(now() - flow.waited(queued), UTC)
                    rows.append((
                        level.name, flow_of.schema, queue.index, number, flow_of.distinguisher,
                        format_micro_time(arrived), queued.width, queued.user, info.verb, info.path, info.namespace,
                        info.name, info.api_version, info.resource, info.subresource,
                    ))  # fmt: skip
        return _table(head, *rows)

    found = {"dump_priority_levels": levels, "dump_queues": queues, "dump_requests": requests}
    return {PREFIX + name: page for name, page in found.items()}
