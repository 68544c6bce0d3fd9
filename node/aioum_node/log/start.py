"""The log loop of a node, told apart from the rest of it by what it reports to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog
from prometheus_client import CollectorRegistry

from aioum.chain.sender import Sender
from aioum.log.files import published_note
from aioum.log.publish import FileRegister
from aioum_node.chain_metrics import LoopMetrics
from aioum_node.log.anchoring import Anchoring
from aioum_node.log.identity import LogIdentity
from aioum_node.log.loop import LogLoop
from aioum_node.log.metrics import LogMetrics
from aioum_node.log.reader import LogReader
from aioum_node.readiness import Readiness
from aioum_node.settings import Settings
from aioum_node.storage import NodeStore, Sending

LOG: Final = "log"
"""Names the readiness condition that all that became final within the promised time is visible in the log."""

_START_SECONDS: Final = 60.0
_ANCHOR_LOOKS_PER_INTERVAL: Final = 10
_MOST_ANCHOR_PAUSE_SECONDS: Final = 60.0

_log = structlog.get_logger(__name__)


def log_reader(settings: Settings) -> LogReader:
    """What is public of the log that the settings name."""
    return LogReader(settings.path(settings.transparency_log_folder))


def make_log_loop(
    settings: Settings,
    identity: LogIdentity | None,
    *,
    store: NodeStore,
    sending: Sending,
    sender: Sender,
    monotonic: Callable[[], float],
    readiness: Readiness,
    registry: CollectorRegistry,
    rounds: LoopMetrics,
) -> LogLoop | None:
    """The loop, with its metrics and its readiness condition; None where the node keeps no log.

    A node whose log stands still for as long as its card promises takes no more calls: the next session would
    be one more that is promised and not kept. A log that was kept before the start has a minute to go on.
    """
    if identity is None:
        return None
    max_delay_seconds = settings.max_log_delay_seconds

    def note_visible() -> None:
        readiness.met(LOG, for_seconds=max_delay_seconds)

    path = settings.path(settings.transparency_log_folder)
    readiness.met(LOG, for_seconds=max_delay_seconds if published_note(path) is None else _START_SECONDS)
    chain = sender.chain
    metrics = LogMetrics(registry)
    anchoring = None
    log_anchor = None if chain.deployment is None else chain.deployment.log_anchor
    if settings.anchor_interval_seconds and log_anchor is not None:
        anchoring = Anchoring(
            identity,
            path,
            log_anchor,
            sender,
            interval_seconds=settings.anchor_interval_seconds,
            may_send=sending.is_held,
            monotonic=monotonic,
            observer=metrics,
            pause_seconds=min(
                _MOST_ANCHOR_PAUSE_SECONDS, settings.anchor_interval_seconds / _ANCHOR_LOOKS_PER_INTERVAL
            ),
            rounds=rounds.of("anchor"),
        )
    elif log_anchor is None:
        _log.warning("log-anchor-unknown", hint="the deployment has no LogAnchor: nothing is anchored")
    own = FileRegister(settings.path(settings.transparency_log_register_file))
    shared = store.shared_log(identity.origin, sending.lease, own)
    loop = LogLoop(
        path=path,
        identity=identity,
        register=own if shared is None else shared,
        shared=shared,
        chain=chain,
        operator=sender.signer.address,
        confirmations=settings.confirmations,
        interval_seconds=settings.transparency_log_interval_seconds,
        max_delay_seconds=max_delay_seconds,
        anchoring=anchoring,
        may_write=sending.is_held,
        monotonic=monotonic,
        on_visible=note_visible,
        observer=metrics,
        rounds=rounds.of("log"),
    )
    metrics.watch(loop)
    return loop
