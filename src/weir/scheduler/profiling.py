"""Time spent in each plugin of the scheduler, by extension point: `weir scheduler --profiling`, page /debug/plugins.

Every call is timed and observed in scheduler_plugin_execution_duration_seconds, without the calls of other plugins that
it makes in turn. The resource plugins are not evaluated in one step meanwhile, so that each one's own work shows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from weir.observe.endpoint import Page
    from weir.observe.metrics import Family, HistogramChild
    from weir.scheduler.framework import Extensions

#: Methods of a plugin for one pod class, and the extension points they are.
_POINTS: Final = {
    "pre_filter": {"start_cycle": "PreFilter", "pre_filter": "PreFilter"},
    "filter": {"codes": "Filter"},
    "post_filter": {"post_filter": "PostFilter"},
    "score": {"score": "Score"},
    "cluster_score": {"normalized_scores": "Score"},
    "reserve": {"reserve": "Reserve"},
}


class PluginProfiler:
    """Times the plugins that are given to it."""

    def __init__(self, durations: Family[HistogramChild]) -> None:
        self._durations = durations
        self._nested = [0.0]  #: seconds spent in calls made by each call that is under way

    def time(self, plugin: str, extensions: Extensions) -> None:
        """Time every call of *plugin* at its *extensions*."""
        for field, methods in _POINTS.items():
            extension = getattr(extensions, field)
            for method, point in methods.items() if extension is not None else ():
                call = getattr(extension, method)
                if not hasattr(call, "__wrapped__"):
                    setattr(extension, method, self.timed(plugin, point, call))

    def timed(self, plugin: str, point: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return *call*, timed as *plugin* at the extension point *point*."""
        observe = self._durations.child(plugin, point, "Success").observe

        @wraps(call)
        def timed(*arguments: Any) -> Any:
            self._nested.append(0.0)
            began = perf_counter()
            try:
                return call(*arguments)
            finally:
                took = perf_counter() - began
                observe(took - self._nested.pop())
                self._nested[-1] += took

        return timed

    def page(self) -> Page:
        """Return a table of the plugins, the one that took most time first."""
        from weir.observe.endpoint import Page  # a server needs POSIX, which the scheduler's decisions do not

        rows = sorted(
            (
                (child.sum, child.count, plugin, point)
                for (plugin, point, _), child in self._durations.items()
            ),
            reverse=True,
        )
        total = sum(seconds for seconds, *_ in rows) or 1.0
        lines = [f"{'PLUGIN':<32}{'POINT':<12}{'CALLS':>10}{'TOTAL':>14}{'MEAN':>12}{'SHARE':>8}"]
        for seconds, calls, plugin, point in rows:
            mean = f"{seconds / calls * 1e6:.1f} µs"
            lines.append(
                f"{plugin:<32}{point:<12}{calls:>10}{f'{seconds * 1e3:.1f} ms':>14}{mean:>12}{seconds / total:>8.1%}"
            )
        return Page(200, "text/plain; charset=utf-8", ("\n".join(lines) + "\n").encode())
