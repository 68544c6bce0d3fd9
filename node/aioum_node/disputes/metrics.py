"""Metrics of held money."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from aioum_node.disputes.book import Book


class DisputeMetrics:
    """A `DisputeObserver` that counts. Where several processes share a store, the one that sends has values.

    Args:
        registry: where the metrics are registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._answered = Counter(
            "aioum_challenges_answered", "Challenges answered by this process", registry=registry
        )
        self._released = Counter(
            "aioum_released_base_units", "Held money that left for the payee, base units", registry=registry
        )
        self._alerts = Counter(
            "aioum_dispute_alerts",
            "What a person has to know of held money, by reason code",
            ("code",),
            registry=registry,
        )

    def watch(self, book: Book) -> None:
        """Read these at each scrape."""
        gauges = {
            "aioum_held_sessions": ("Sessions whose captured money may be held", lambda: len(book)),
            "aioum_held_base_units": ("Captured money that is held, base units", lambda: book.held),
            "aioum_challenges_pending": ("Challenges that are not answered yet", lambda: book.challenges),
            "aioum_disputes_pending": ("Disputes that are not ruled on yet", lambda: book.disputes),
            "aioum_nearest_answer_seconds": (
                "Seconds until the first challenge is lost; +Inf where none is pending",
                lambda: book.nearest_answer_seconds,
            ),
        }
        for name, (meaning, read) in gauges.items():
            Gauge(name, meaning, registry=self._registry).set_function(read)

    def challenge_answered(self) -> None:
        """See `DisputeObserver`."""
        self._answered.inc()

    def money_released(self, amount: int) -> None:
        """See `DisputeObserver`."""
        self._released.inc(amount)

    def dispute_alert(self, code: str) -> None:
        """See `DisputeObserver`."""
        self._alerts.labels(code).inc()
