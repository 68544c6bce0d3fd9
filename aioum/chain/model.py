"""What the chain says, as values: blocks, sessions, terms, services, openings, events.

Amounts are token base units, times unix seconds, hashes and addresses bytes. Nothing here reads the chain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aioum.chain.events import Event
from aioum.core.payment import Terms
from aioum.core.types import Address, Bytes32, ChannelId


@dataclass(frozen=True, slots=True)
class BlockRef:
    """One block. `timestamp` is the clock that contract deadlines are judged by (PROTOCOL 3.2), in unix
    seconds.
    """

    number: int
    hash: Bytes32
    timestamp: int


@dataclass(frozen=True, slots=True)
class ChainSession:
    """A channel as the PaymentManager stores it (PROTOCOL 4.2).

    Attributes:
        session_id: a label that a reorg can exchange; show it for openings at finality depth only (PROTOCOL
            0).
        authorized_signer: signs vouchers instead of the payer; zero where the payer signs.
        operator, service_id, terms_hash: zero for plain channels.
        settled: base units captured for the payee: paid, credited or held.
        refunded: base units never captured, that went back to the payer, paid or credited.
        opened_at, close_requested_at, finalized_at: unix seconds; the last two are 0 where it did not happen.
        root, call_count: what is anchored; both zero where nothing is.
        commit_required, dispute_window_seconds: from the terms that the session was opened under.
        held: base units of `settled` that are held now.
        awarded: base units of `settled` that a decision gave back to the payer.
    """

    session_id: int
    channel_id: ChannelId
    payer: Address
    payee: Address
    token: Address
    authorized_signer: Address
    operator: Address
    service_id: int
    terms_hash: Bytes32
    deposit: int
    settled: int
    refunded: int
    opened_at: int
    close_requested_at: int
    finalized_at: int
    root: Bytes32
    call_count: int
    commit_required: bool
    dispute_window_seconds: int
    held: int = 0
    awarded: int = 0

    @property
    def voucher_signer(self) -> Address:
        """Who signs vouchers: the authorized signer where one is set, else the payer."""
        return self.authorized_signer if any(self.authorized_signer) else self.payer

    @property
    def is_finalized(self) -> bool:
        """Whether the channel is over; that is never undone."""
        return self.finalized_at != 0

    @property
    def is_closing(self) -> bool:
        """Whether the payer's request to close is pending."""
        return self.close_requested_at != 0 and self.finalized_at == 0

    @property
    def has_root(self) -> bool:
        """Whether a history is anchored."""
        return any(self.root)


@dataclass(frozen=True, slots=True)
class RegisteredTerms:
    """Terms as registered for one service; readable under their hash for ever."""

    terms_hash: Bytes32
    service_id: int
    terms: Terms


@dataclass(frozen=True, slots=True)
class Service:
    """A service that takes new sessions, with the terms it is offered under now.

    Attributes:
        descriptor_uri: where the operator says the card lies; the card is identified by
            `terms.descriptor_hash`.
    """

    service_id: int
    terms_hash: Bytes32
    terms: Terms
    descriptor_uri: str


@dataclass(frozen=True, slots=True)
class Opening:
    """The opening of a session under terms, from its event.

    Attributes:
        nonce, roster_hash: what the channel's salt was made of, beside `terms_hash` (PROTOCOL 3).
        block: the block that it is in; it can still be reorganized away.
    """

    session_id: int
    channel_id: ChannelId
    payer: Address
    payee: Address
    token: Address
    authorized_signer: Address
    service_id: int
    terms_hash: Bytes32
    deposit: int
    nonce: Bytes32
    roster_hash: Bytes32
    block: BlockRef
    transaction_hash: Bytes32


@dataclass(frozen=True, slots=True)
class ChainEvent:
    """One decoded event. (block_hash, transaction_hash, log_index) identifies it across re-reads.

    Attributes:
        contract: the address that emitted it.
        channel_id: the channel it is about, or None.
        body: the event itself, by its own type.
        args: the same by Solidity name; bytes for hashes, addresses and bytes, int, bool and str else.
    """

    name: str
    contract: Address
    channel_id: ChannelId | None
    body: Event
    args: Mapping[str, Any]
    block_number: int
    block_hash: Bytes32
    transaction_hash: Bytes32
    log_index: int


@dataclass(frozen=True, slots=True)
class Mined:
    """A transaction that succeeded and has as many confirmations as its sender was told to wait for.

    Attributes:
        purpose: what the sender's caller said it is for.
        events: what our contracts emitted in it, in order.
        gas_price: what was paid per unit of gas, in wei.
        contract_address: the contract that it created, or None.
    """

    transaction_hash: Bytes32
    block_number: int
    gas_used: int
    events: tuple[ChainEvent, ...]
    purpose: str = ""
    gas_price: int = 0
    contract_address: Address | None = None
