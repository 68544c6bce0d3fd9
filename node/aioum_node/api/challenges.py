"""Payment challenges: what a call costs and where to pay, bound to this node by an HMAC."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from aioum.core.card import Card
from aioum.core.errors import Refused
from aioum.core.hextext import to_hex
from aioum.core.types import Address, ChannelId
from aioum.core.wire import Challenge, payment_request

CHALLENGE_LIFETIME_SECONDS = 3_600
SECRET_SIZE_BYTES = 32


class Challenges:
    """Issues and recognizes challenges without keeping any.

    Args:
        secret: 32 bytes that outlive a restart, so that a client may repeat a credential after one.
        suggested_calls: calls that the suggested deposit pays for.
        now_seconds: unix seconds.
    """

    def __init__(
        self,
        *,
        secret: bytes,
        realm: str,
        payee: Address,
        suggested_calls: int,
        now_seconds: Callable[[], float],
    ) -> None:
        self._secret = secret
        self._realm = realm
        self._payee = payee
        self._suggested_calls = suggested_calls
        self._now_seconds = now_seconds

    def issue(self, card: Card, price: int, channel_id: ChannelId | None = None) -> Challenge:
        """A challenge for one call at `price`; `channel_id` names the session that the client has."""
        request = payment_request(
            price=price,
            token=card.token.address,
            payee=self._payee,
            chain_id=card.contracts.chain_id,
            payment_manager=card.contracts.payment_manager,
            suggested_deposit=max(card.min_deposit, price * self._suggested_calls),
        )
        details = request["methodDetails"]
        if channel_id is not None and isinstance(details, dict):
            details["channelId"] = to_hex(channel_id)
        expires = datetime.fromtimestamp(int(self._now_seconds()) + CHALLENGE_LIFETIME_SECONDS, UTC)
        text = expires.strftime("%Y-%m-%dT%H:%M:%SZ")
        return Challenge.issue(self._secret, self._realm, request, text)

    def require_ours(self, challenge: Challenge, *, fresh: bool) -> None:
        """Check an echoed challenge.

        Args:
            challenge: as a credential echoes it.
            fresh: also refuse an expired one. Vouchers are not held to it: a call that was paid must find its
                answer however late it is repeated.

        Raises:
            Refused: `challenge-invalid` or `challenge-expired`.
        """
        if not challenge.is_ours(self._secret):
            raise Refused("this node did not issue that challenge", code="challenge-invalid")
        if fresh and challenge.expires is not None:
            # Our own text, by the HMAC: it has exactly this form.
            expires = datetime.strptime(challenge.expires, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
            if expires.timestamp() < self._now_seconds():
                raise Refused("the challenge has expired", code="challenge-expired")
