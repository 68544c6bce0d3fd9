"""Metrics of the transparency log."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from aioum_node.log.loop import LogLoop


class LogMetrics:
    """A `LogObserver` that counts.

    Args:
        registry: where the metrics are registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._logged = Counter(
            "aioum_logged_sessions", "Sessions that this process appended to its log", registry=registry
        )
        self._anchors = Counter("aioum_log_anchors", "Anchors that this process sent", registry=registry)
        self._gas = Counter("aioum_log_anchor_gas", "Gas that anchors used", registry=registry)
        self._alerts = Counter(
            "aioum_log_alerts",
            "What keeps the log from growing, by reason code",
            ("code",),
            registry=registry,
        )

    def watch(self, loop: LogLoop) -> None:
        """Read these at each scrape."""
        gauges = {
            "aioum_log_entries": ("Entries of the log", lambda: loop.entries),
            "aioum_log_published_entries": (
                "Entries under the newest checkpoint",
                lambda: loop.published_entries,
            ),
            "aioum_log_anchored_entries": (
                "Entries under the last anchor, as far as this process looked",
                lambda: loop.anchored_entries,
            ),
            "aioum_log_lag_seconds": (
                "Seconds since all that is final was visible in the log",
                lambda: loop.lag_seconds,
            ),
        }
        for name, (meaning, read) in gauges.items():
            Gauge(name, meaning, registry=self._registry).set_function(read)

    def sessions_logged(self, count: int) -> None:
        """See `LogObserver`."""
        self._logged.inc(count)

    def anchored(self, size: int, gas_used: int) -> None:
        """See `LogObserver`."""
        self._anchors.inc()
        self._gas.inc(gas_used)

    def log_alert(self, code: str) -> None:
        """See `LogObserver`."""
        self._alerts.labels(code).inc()
