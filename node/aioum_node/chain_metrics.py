"""Metrics of what runs beside the edge: loops, transactions on their way, and the chain's endpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from aioum.chain.endpoints import EndpointState


class LoopMetrics:
    """Rounds and failures of each loop, and when each last came to the end of a round.

    Args:
        registry: where they are registered.
        now_seconds: unix seconds.
    """

    def __init__(self, registry: CollectorRegistry, now_seconds: Callable[[], float]) -> None:
        self._now_seconds = now_seconds
        self._rounds = Counter(
            "aioum_loop_rounds", "Rounds that came to their end, by loop", ("loop",), registry=registry
        )
        self._failures = Counter(
            "aioum_loop_failures",
            "Rounds that were given up, by loop and reason code",
            ("loop", "code"),
            registry=registry,
        )
        self._last = Gauge(
            "aioum_loop_last_round_timestamp_seconds",
            "When a loop last came to the end of a round, unix seconds; 0 before that",
            ("loop",),
            registry=registry,
        )
        self._reorganizations = Counter(
            "aioum_reorganizations",
            "Looks at the chain that did not find any more what an earlier one had found",
            registry=registry,
        )

    def of(self, loop: str) -> OneLoopMetrics:
        """The observer of one loop; its series exist from now on."""
        return OneLoopMetrics(
            self._rounds.labels(loop), self._failures, self._last.labels(loop), loop, self._now_seconds
        )

    def watch(self) -> WatchMetrics:
        """The observer of the loop that watches the chain."""
        return WatchMetrics(self.of("watch"), self._reorganizations)


class OneLoopMetrics:
    """A `LoopObserver` that counts."""

    def __init__(
        self, rounds: Counter, failures: Counter, last: Gauge, loop: str, now_seconds: Callable[[], float]
    ) -> None:
        self._rounds = rounds
        self._failures = failures
        self._last = last
        self._loop = loop
        self._now_seconds = now_seconds

    def round_done(self) -> None:
        """See `LoopObserver`."""
        self._rounds.inc()
        self._last.set(self._now_seconds())

    def round_failed(self, code: str) -> None:
        """See `LoopObserver`."""
        self._failures.labels(self._loop, code).inc()


class WatchMetrics:
    """A `WatchObserver` that counts."""

    def __init__(self, rounds: OneLoopMetrics, reorganizations: Counter) -> None:
        self.round_done = rounds.round_done
        self.round_failed = rounds.round_failed
        self._reorganizations = reorganizations

    def reorganized(self) -> None:
        """See `WatchObserver`."""
        self._reorganizations.inc()


class TransactionMetrics:
    """A `SendObserver` that counts.

    Args:
        registry: where the metrics are registered.
        in_flight: how many transactions have no outcome yet; read at each scrape.
        nearest_exit_seconds: until the first leaving client may withdraw; read at each scrape.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        in_flight: Callable[[], int],
        nearest_exit_seconds: Callable[[], float],
    ) -> None:
        self._replaced = Counter(
            "aioum_transactions_replaced", "Stuck transactions replaced by dearer ones", registry=registry
        )
        self._alerts = Counter(
            "aioum_transaction_alerts",
            "Transactions that a person may have to look at, by reason code",
            ("code",),
            registry=registry,
        )
        Gauge(
            "aioum_transactions_in_flight", "Transactions without an outcome yet", registry=registry
        ).set_function(in_flight)
        Gauge(
            "aioum_nearest_exit_seconds",
            "Seconds until the first leaving client may withdraw; +Inf where nobody leaves",
            registry=registry,
        ).set_function(nearest_exit_seconds)

    def transaction_replaced(self) -> None:
        """See `SendObserver`."""
        self._replaced.inc()

    def transaction_alert(self, code: str) -> None:
        """See `SendObserver`."""
        self._alerts.labels(code).inc()


class EndpointMetrics(Collector):
    """What is known of each endpoint of the chain, read at each scrape.

    Args:
        states: of `Rpc.endpoints`; their URLs hold nothing secret.
    """

    def __init__(self, states: Callable[[], Sequence[EndpointState]]) -> None:
        self._states = states

    def collect(self) -> Iterator[Metric]:
        """See `Collector`."""
        in_use = GaugeMetricFamily(
            "aioum_endpoint_in_use", "1 where the endpoint answered last", labels=["endpoint"]
        )
        head = GaugeMetricFamily(
            "aioum_endpoint_head_block", "Newest block that the endpoint told of", labels=["endpoint"]
        )
        resting = GaugeMetricFamily(
            "aioum_endpoint_resting_seconds", "How long the endpoint is not asked", labels=["endpoint"]
        )
        failures = CounterMetricFamily(
            "aioum_endpoint_failures",
            "Requests that the endpoint failed, by reason code",
            labels=["endpoint", "code"],
        )
        for state in self._states():
            in_use.add_metric([state.url], float(state.is_in_use))
            resting.add_metric([state.url], state.resting_seconds)
            if state.head is not None:
                head.add_metric([state.url], state.head)
            for code, count in sorted(state.failures.items()):
                failures.add_metric([state.url, code], count)
        yield from (in_use, head, resting, failures)
