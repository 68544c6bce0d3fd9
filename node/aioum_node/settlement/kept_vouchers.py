"""The vouchers that a session's calls came with: an earlier one counts where the highest is not covered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aioum.core.types import ChannelId
from aioum_node.store.port import SessionReader

_CALLS_PER_READ: Final = 32


@dataclass(frozen=True, slots=True)
class KeptVoucher:
    """A client's voucher as it was accepted: cumulative base units, and its signature."""

    amount: int
    signature: bytes


async def best_covered(store: SessionReader, channel_id: ChannelId, deposit: int) -> KeptVoucher | None:
    """The highest voucher of a session that a deposit covers, or None.

    Every call has the voucher that it came with, and each was verified before it was kept.

    Args:
        store: where the calls are.
        channel_id: the session.
        deposit: base units.

    Raises:
        AioumError: `store-failed`.
    """
    best: KeptVoucher | None = None
    first = 0
    while calls := await store.calls(channel_id, first, _CALLS_PER_READ):
        for call in calls:
            if call.amount <= deposit and (best is None or call.amount > best.amount):
                best = KeptVoucher(call.amount, call.signature)
        first = calls[-1].index + 1
    return best
