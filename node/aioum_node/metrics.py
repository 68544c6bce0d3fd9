"""Prometheus metrics of one node; served on the admin port only."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS_BUCKETS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0, 300.0)


class NodeMetrics:
    """Counts of one node, in a registry of its own. Labels take values from fixed sets only."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._calls = Counter(
            "aioum_calls", "Recorded calls by tool and outcome", ("tool", "outcome"), registry=self.registry
        )
        self._seconds = Histogram(
            "aioum_tool_seconds",
            "Time that tools took, seconds",
            ("tool",),
            buckets=_SECONDS_BUCKETS,
            registry=self.registry,
        )
        self._refusals = Counter(
            "aioum_refusals", "Requests refused, by reason code", ("code",), registry=self.registry
        )
        self._adopted = Counter("aioum_sessions_adopted", "Sessions taken over", registry=self.registry)
        self._settlements = Counter("aioum_settlements", "Settlements that are final", registry=self.registry)
        self._captured = Counter(
            "aioum_captured_base_units", "Captured by settlements, token base units", registry=self.registry
        )
        self._gas = Counter("aioum_settlement_gas", "Gas that settlements used", registry=self.registry)
        self._settlement_failures = Counter(
            "aioum_settlement_failures",
            "Settlements that failed or need a person, by reason code",
            ("code",),
            registry=self.registry,
        )
        self._signer_failures = Counter(
            "aioum_signer_failures",
            "Signatures that an external signer did not give, by reason code",
            ("code",),
            registry=self.registry,
        )
        self._in_flight = Gauge("aioum_calls_in_flight", "Calls being served", registry=self.registry)
        self._waiting = Gauge(
            "aioum_calls_waiting", "Signed calls that wait for an earlier one", registry=self.registry
        )
        self._queues = Gauge(
            "aioum_waiting", "What waits for its turn, by queue", ("queue",), registry=self.registry
        )
        self._ready = Gauge("aioum_ready", "1 where the node takes calls", registry=self.registry)

    def call_recorded(self, tool_id: str, outcome: str, seconds: float) -> None:
        """See `calls.CallObserver`."""
        self._calls.labels(tool_id, outcome).inc()
        self._seconds.labels(tool_id).observe(seconds)

    def call_broke(self) -> None:
        """See `calls.CallObserver`."""
        self._refusals.labels("call-broke").inc()

    def refused(self, code: str) -> None:
        """A request was refused with a reason code of ours."""
        self._refusals.labels(code).inc()

    def session_adopted(self) -> None:
        """A session was taken over."""
        self._adopted.inc()

    def settled(self, captured: int, gas_used: int | None) -> None:
        """See `settlement.SettleObserver`."""
        self._settlements.inc()
        self._captured.inc(captured)
        self._gas.inc(gas_used or 0)

    def settlement_failed(self, code: str) -> None:
        """See `settlement.SettleObserver`."""
        self._settlement_failures.labels(code).inc()

    def signer_failed(self, code: str) -> None:
        """An external signer gave no receipt or trial signature."""
        self._signer_failures.labels(code).inc()

    def watch(
        self, in_flight: Callable[[], int], waiting: Callable[[], int], ready: Callable[[], bool]
    ) -> None:
        """Read these at each scrape."""
        self._in_flight.set_function(in_flight)
        self._waiting.set_function(waiting)
        self._ready.set_function(lambda: float(ready()))

    def queue(self, name: str, waiting: Callable[[], int]) -> None:
        """A queue; how much waits in it is read at each scrape."""
        self._queues.labels(name).set_function(waiting)

    def gauge(self, name: str, meaning: str, read: Callable[[], float]) -> None:
        """A number that is read at each scrape."""
        Gauge(name, meaning, registry=self.registry).set_function(read)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)
