"""What never changes about a session, kept in memory: its facts, its domain, the card it was opened under."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from aioum.core.errors import Refused
from aioum.core.payment import Domain
from aioum.core.submission.keys import VerifyingKey
from aioum.core.types import Address, ChannelId
from aioum_node.cards import Cards, Offer
from aioum_node.rosters import accepted_keys
from aioum_node.store.port import SessionFacts, SessionReader


@dataclass(frozen=True, slots=True)
class SessionContext:
    """A session's unchanging side. Its accounting is the store's alone.

    Attributes:
        keys: of the seats of a signed session whose roster is known, accepted.
    """

    facts: SessionFacts
    domain: Domain
    offer: Offer
    keys: Mapping[str, VerifyingKey] = field(default_factory=dict)

    @property
    def receipt_signer(self) -> Address:
        """Whose receipts count. A plain channel has no terms; its client goes by the card."""
        terms = self.facts.terms
        return self.offer.card.receipt_signer if terms is None else terms.receipt_signer

    @property
    def clients(self) -> tuple[Address, ...]:
        """Who may read and close: the voucher signer, and the payer, whose money it is."""
        signer, payer = self.facts.voucher_signer, self.facts.payer
        return (signer,) if signer == payer else (signer, payer)


class Sessions:
    """Contexts by channel id; the least recently loaded one goes first when there are too many."""

    def __init__(
        self,
        reader: SessionReader,
        cards: Cards,
        domain: Domain,
        receipt_signers: Collection[Address],
        max_cached: int,
    ) -> None:
        """Args: domain, receipt_signers: the contracts that this node works with now, and who signs here."""
        self._reader = reader
        self._cards = cards
        self._domain = domain
        self._receipt_signers = frozenset(receipt_signers)
        self._max_cached = max_cached
        self._cached: dict[ChannelId, SessionContext] = {}

    async def context(self, channel_id: ChannelId) -> SessionContext:
        """The session's context.

        Raises:
            Refused: `channel-not-found`; `session-elsewhere`, of another chain or PaymentManager,
                whose deposit this node cannot see; `terms-not-ours`, its terms name a receipt signer whose
                key this node does not have, so no word of this node would count.
        """
        cached = self._cached.get(channel_id)
        # A roster may be shown to another process, where several share the store.
        if cached is not None and (cached.keys or not cached.facts.signed):
            return cached
        stored = await self._reader.session(channel_id)
        if stored is None:
            raise Refused("the node knows no session of this channel id", code="channel-not-found")
        return await self.remember(stored.facts)

    async def remember(self, facts: SessionFacts) -> SessionContext:
        """Keep the context of a session that was just adopted or loaded, or whose roster was shown.

        Raises:
            Refused: as `context`.
            SignatureInvalid: `submission-key-invalid`; rosters with such keys are not stored.
        """
        domain = Domain(facts.chain_id, facts.payment_manager)
        if domain != self._domain:
            raise Refused("the session was opened in another deployment", code="session-elsewhere")
        if facts.terms is not None and facts.terms.receipt_signer not in self._receipt_signers:
            raise Refused("the session's terms name another receipt signer", code="terms-not-ours")
        offer = await self._cards.offer(facts.descriptor_hash)
        keys = {} if facts.roster is None else await asyncio.to_thread(accepted_keys, facts.roster)
        known = self._cached.get(facts.channel_id)
        if known is not None and known.keys and not keys:
            # The roster was shown since these facts were read.
            return known
        if known is None and len(self._cached) >= self._max_cached:
            del self._cached[next(iter(self._cached))]
        context = self._cached[facts.channel_id] = SessionContext(facts, self._domain, offer, keys)
        return context

    def forget(self, channel_id: ChannelId) -> None:
        """Drop a session that was deleted."""
        self._cached.pop(channel_id, None)
