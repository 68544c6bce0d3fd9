"""Ratings: reading a service's, and the call that adds one (PROTOCOL 4.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aioum.chain.abi import RATING_REGISTRY, encode_call
from aioum.chain.calls import ContractCall
from aioum.chain.rpc import Rpc
from aioum.core.errors import InvalidInput
from aioum.core.hextext import address
from aioum.core.types import Address, ChannelId

MAX_SCORE: Final = 100
MAX_DETAIL_URI_BYTES: Final = 2_048


@dataclass(frozen=True, slots=True)
class ServiceRatings:
    """What the payers of a service's sessions said.

    Attributes:
        count, score_sum: over all rated sessions.
        amount, weighted_sum: over those in one token: base units captured, and score times amount.
    """

    count: int
    score_sum: int
    amount: int
    weighted_sum: int

    @property
    def mean(self) -> float | None:
        """Mean score, 0 to 100; None where nobody rated."""
        return self.score_sum / self.count if self.count else None

    @property
    def weighted_mean(self) -> float | None:
        """Mean score weighed by what the sessions cost in the token, 0 to 100; None where nobody rated."""
        return self.weighted_sum / self.amount if self.amount else None


def rate(rating_registry: Address, channel_id: ChannelId, score: int, detail_uri: str = "") -> ContractCall:
    """Rate a finalized session that captured something, once. By its payer.

    Raises:
        InvalidInput: `score-out-of-range`, `detail-uri-too-long`.
    """
    if isinstance(score, bool) or not 0 <= score <= MAX_SCORE:
        raise InvalidInput(f"a score is 0 to {MAX_SCORE}, got {score!r:.40}", code="score-out-of-range")
    size_bytes = len(detail_uri.encode())
    if size_bytes > MAX_DETAIL_URI_BYTES:
        raise InvalidInput(
            f"the detail URI has {size_bytes} bytes, at most {MAX_DETAIL_URI_BYTES} are allowed",
            code="detail-uri-too-long",
        )
    data = encode_call(RATING_REGISTRY, "rate", (channel_id, score, detail_uri))
    return ContractCall(rating_registry, data, 300_000 + 24 * size_bytes, "rate")


async def service_ratings(
    rpc: Rpc, rating_registry: Address, service_id: int, token: Address
) -> ServiceRatings:
    """All ratings of a service; the weighted ones of sessions in `token`. Raises ChainError as `Rpc.read`."""
    count, score_sum = await rpc.read(RATING_REGISTRY, rating_registry, "ratingsOf", service_id)
    amount, weighted_sum = await rpc.read(
        RATING_REGISTRY, rating_registry, "weightedRatingsOf", service_id, bytes(token)
    )
    return ServiceRatings(count, score_sum, amount, weighted_sum)


async def is_rated(rpc: Rpc, rating_registry: Address, channel_id: ChannelId) -> bool:
    """Whether a session was rated. Raises ChainError as `Rpc.read`."""
    return bool(await rpc.read(RATING_REGISTRY, rating_registry, "rated", channel_id))


async def rated_payment_manager(rpc: Rpc, rating_registry: Address) -> Address:
    """The PaymentManager whose sessions are rated. Raises ChainError as `Rpc.read`."""
    return address(await rpc.read(RATING_REGISTRY, rating_registry, "paymentManager"))


async def max_detail_uri_bytes(rpc: Rpc, rating_registry: Address) -> int:
    """The longest address of details that the contract takes; equal to `MAX_DETAIL_URI_BYTES`. Raises
    ChainError as `Rpc.read`.
    """
    return int(await rpc.read(RATING_REGISTRY, rating_registry, "MAX_DETAIL_URI_BYTES"))
