"""What is fixed about the session before calls, vouchers and signatures are judged."""

from __future__ import annotations

from dataclasses import dataclass

from aioum.chain.model import ChainSession
from aioum.core.canonical import JsonValue
from aioum.core.payment import Domain, Terms
from aioum.core.types import Address, Bytes32, ChannelId


@dataclass(frozen=True, slots=True)
class Grounds:
    """Facts that the chain states or that hash to the channel id; None where neither fixes them.

    Attributes:
        offline: no chain was asked.
        session: the session as the chain has it.
        voucher_signer: who authorizes vouchers.
        terms: those that the session was opened under.
        card: JSON of the card that the terms name.
        roster_hash: that of the roster which the session was opened with; zero where it was opened without.
    """

    domain: Domain
    offline: bool
    channel_id: ChannelId | None = None
    session: ChainSession | None = None
    voucher_signer: Address | None = None
    terms: Terms | None = None
    card: dict[str, JsonValue] | None = None
    roster_hash: Bytes32 | None = None

    @property
    def deposit(self) -> int | None:
        """Base units in escrow, or None where the chain does not say."""
        return None if self.session is None else self.session.deposit

    @property
    def anchor(self) -> tuple[Bytes32, int] | None:
        """The anchored root and call count, or None where nothing is known to be anchored."""
        if self.session is None or not self.session.has_root:
            return None
        return self.session.root, self.session.call_count

    @property
    def missing_session(self) -> tuple[str, str]:
        """Code and reason why a check that needs the session's chain facts does not apply."""
        if self.offline:
            return "offline", "no chain was asked"
        return "session-unproven", "the session is not proven to exist on this chain"
