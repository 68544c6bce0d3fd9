"""Who is told about settlements, for metrics."""

from __future__ import annotations

from typing import Protocol

import structlog

from aioum.chain.model import ChainSession
from aioum.core.hextext import to_hex
from aioum.core.types import Bytes32

_log = structlog.get_logger(__name__)


class SettleObserver(Protocol):
    """Told about settlements, for metrics."""

    def settled(self, captured: int, gas_used: int | None) -> None:
        """A settlement is final: base units captured; gas used, None where no receipt was read."""
        ...

    def settlement_failed(self, code: str) -> None:
        """An attempt failed, or a person must look; `code` says why. It may be tried again later."""
        ...


class NoObserver:
    """Tells nobody."""

    def settled(self, captured: int, gas_used: int | None) -> None:
        """See `SettleObserver`."""

    def settlement_failed(self, code: str) -> None:
        """See `SettleObserver`."""


def tell_settled(
    observer: SettleObserver, final: ChainSession, transaction_hash: Bytes32 | None, gas_used: int | None
) -> None:
    """Tell of a settlement that is final.

    Args:
        observer: told beside the log.
        final: the channel.
        transaction_hash: where it was settled, or None where that was not found.
        gas_used: its part of the transaction's, or None where no receipt was read.
    """
    observer.settled(final.settled, gas_used)
    _log.info(
        "session-settled",
        channel=to_hex(final.channel_id),
        captured=final.settled,
        calls=final.call_count,
        root=to_hex(final.root),
        transaction=None if transaction_hash is None else to_hex(transaction_hash),
        gas_used=gas_used,
    )
