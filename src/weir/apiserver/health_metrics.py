"""`/metrics/slis`: results of health checks.

As in Kubernetes' servers: the last result of each check and counts per result, updated when `/healthz`, `/livez` or
`/readyz` is requested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

__all__ = ["HealthMetrics"]


class HealthMetrics:
    """The results of checks since the server started."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], bool] = {}
        self._results: Counter[tuple[str, str, str]] = Counter()

    def checked(self, endpoint: str, checks: Iterable[str], failed: Collection[str]) -> None:
        """Count that *checks* were made for an endpoint (`livez`), and which of them failed."""
        for check in checks:
            fine = check not in failed
            self._last[check, endpoint] = fine
            self._results[check, "success" if fine else "error", endpoint] += 1

    def render(self) -> bytes:
        """Return the page.

        >>> metrics = HealthMetrics()
        >>> metrics.checked("livez", ["ping", "etcd"], ["etcd"])
        >>> print(metrics.render().decode(), end="")
        # HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.
        # TYPE kubernetes_healthcheck gauge
        kubernetes_healthcheck{name="etcd",type="livez"} 0
        kubernetes_healthcheck{name="ping",type="livez"} 1
        # HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.
        # TYPE kubernetes_healthchecks_total counter
        kubernetes_healthchecks_total{name="etcd",status="error",type="livez"} 1
        kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1
        """
        lines = [
            "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.",
            "# TYPE kubernetes_healthcheck gauge",
        ]
        for (name, endpoint), fine in sorted(self._last.items()):
            lines.append(f'kubernetes_healthcheck{{name="{name}",type="{endpoint}"}} {int(fine)}')
        lines += [
            "# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.",
            "# TYPE kubernetes_healthchecks_total counter",
        ]
        for (name, status, endpoint), count in sorted(self._results.items()):
            labels = f'name="{name}",status="{status}",type="{endpoint}"'
            lines.append(f"kubernetes_healthchecks_total{{{labels}}} {count}")
        return "\n".join((*lines, "")).encode()
