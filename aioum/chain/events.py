"""What our contracts emit, as values: one class for each event, its members in the event's order.

Amounts are token base units, times unix seconds. Where two contracts emit the same event, it has one class.
`docs/contracts.md` says what each one means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aioum.core.types import Address, Bytes32, ChannelId


class Event:
    """Any of them."""

    __slots__ = ()


# --- PaymentManager ---


@dataclass(frozen=True, slots=True)
class SessionOpened(Event):
    """A session was opened under a service's terms."""

    session_id: int
    channel_id: ChannelId
    payer: Address
    service_id: int
    terms_hash: Bytes32
    payee: Address
    token: Address
    deposit: int
    nonce: Bytes32
    authorized_signer: Address
    roster_hash: Bytes32


@dataclass(frozen=True, slots=True)
class ChannelOpened(Event):
    """A channel without terms was opened."""

    session_id: int
    channel_id: ChannelId
    payer: Address
    payee: Address
    token: Address
    deposit: int
    salt: Bytes32
    authorized_signer: Address


@dataclass(frozen=True, slots=True)
class ToppedUp(Event):
    """A deposit grew by `added` to `deposit`."""

    channel_id: ChannelId
    added: int
    deposit: int


@dataclass(frozen=True, slots=True)
class CloseRequested(Event):
    """The payer leaves; it may withdraw from `closeable_at` on."""

    channel_id: ChannelId
    closeable_at: int


@dataclass(frozen=True, slots=True)
class CloseCancelled(Event):
    """A top-up took the payer's request to close back."""

    channel_id: ChannelId


@dataclass(frozen=True, slots=True)
class ResultsCommitted(Event):
    """A session's history was anchored."""

    channel_id: ChannelId
    session_id: int
    root: Bytes32
    call_count: int


@dataclass(frozen=True, slots=True)
class Settled(Event):
    """`delta` was captured for the payee, `settled` in all."""

    channel_id: ChannelId
    settled: int
    delta: int


@dataclass(frozen=True, slots=True)
class SettlementSkipped(Event):
    """An item of a batch was left out; `reason` is what it reverted with."""

    channel_id: ChannelId
    reason: bytes


@dataclass(frozen=True, slots=True)
class Finalized(Event):
    """A channel is over."""

    channel_id: ChannelId
    session_id: int
    settled: int
    refunded: int


@dataclass(frozen=True, slots=True)
class Released(Event):
    """What was held went to the payee."""

    channel_id: ChannelId
    amount: int


@dataclass(frozen=True, slots=True)
class Resolved(Event):
    """A decision split what was held."""

    channel_id: ChannelId
    to_payer: int
    to_payee: int


@dataclass(frozen=True, slots=True)
class Credited(Event):
    """A transfer to `owner` failed, who can claim the amount now. Also of the DisputeManager."""

    token: Address
    owner: Address
    channel_id: ChannelId
    amount: int


@dataclass(frozen=True, slots=True)
class CreditClaimed(Event):
    """A credit was paid. Also of the DisputeManager."""

    token: Address
    owner: Address
    to: Address
    amount: int


# --- DisputeManager ---


@dataclass(frozen=True, slots=True)
class DisputeRaised(Event):
    """A payer disputes a session. `claim` is a `dispute_calls.Claim` by number."""

    channel_id: ChannelId
    payer: Address
    arbitrator: Address
    claim: int
    evidence_uri: str
    evidence_hash: Bytes32
    rule_by: int
    bond: int


@dataclass(frozen=True, slots=True)
class Responded(Event):
    """The operator told its side."""

    channel_id: ChannelId
    operator: Address
    response_uri: str
    response_hash: Bytes32


@dataclass(frozen=True, slots=True)
class Ruled(Event):
    """The arbitrator gave `award` back to the payer."""

    channel_id: ChannelId
    arbitrator: Address
    award: int


@dataclass(frozen=True, slots=True)
class Lapsed(Event):
    """Nobody ruled in time."""

    channel_id: ChannelId


@dataclass(frozen=True, slots=True)
class LieProven(Event):
    """A lie of the operator was proven; `lie` is 0 to 3 for L1 to L4 (PROTOCOL 4.3)."""

    channel_id: ChannelId
    lie: int
    prover: Address
    amount: int


@dataclass(frozen=True, slots=True)
class ReceiptChallenged(Event):
    """The operator has to prove the receipt of a call part of what it anchored."""

    channel_id: ChannelId
    index: int
    leaf: Bytes32
    answer_by: int
    bond: int


@dataclass(frozen=True, slots=True)
class StatementChallenged(Event):
    """The operator has to prove a statement a beginning of what it anchored."""

    channel_id: ChannelId
    call_count: int
    root: Bytes32
    answer_by: int
    bond: int


@dataclass(frozen=True, slots=True)
class ChallengeAnswered(Event):
    """The proof was given."""

    channel_id: ChannelId
    answerer: Address


@dataclass(frozen=True, slots=True)
class BondPaid(Event):
    """A bond left the contract."""

    channel_id: ChannelId
    to: Address
    amount: int


@dataclass(frozen=True, slots=True)
class Dispute(Event):
    """ERC-1497: what `DisputeRaised` says."""

    arbitrator: Address
    dispute_id: int
    meta_evidence_id: int
    evidence_group_id: int


@dataclass(frozen=True, slots=True)
class Evidence(Event):
    """ERC-1497: evidence of either party."""

    arbitrator: Address
    evidence_group_id: int
    party: Address
    evidence: str


@dataclass(frozen=True, slots=True)
class MetaEvidence(Event):
    """ERC-1497: what a dispute is about."""

    meta_evidence_id: int
    evidence: str


# --- RatingRegistry, LogAnchor, ServiceRegistry ---


@dataclass(frozen=True, slots=True)
class Rated(Event):
    """A payer rated a session that captured `amount`."""

    channel_id: ChannelId
    service_id: int
    payer: Address
    score: int
    token: Address
    amount: int
    detail_uri: str


@dataclass(frozen=True, slots=True)
class Anchored(Event):
    """An operator anchored a checkpoint of its log."""

    operator: Address
    origin_hash: Bytes32
    size: int
    root: Bytes32


@dataclass(frozen=True, slots=True)
class ServiceRegistered(Event):
    """A service was registered."""

    service_id: int
    terms_hash: Bytes32
    operator: Address
    descriptor_hash: Bytes32
    descriptor_uri: str


@dataclass(frozen=True, slots=True)
class ServiceUpdated(Event):
    """A service is offered under other terms."""

    service_id: int
    terms_hash: Bytes32
    operator: Address
    previous_terms_hash: Bytes32
    descriptor_hash: Bytes32
    descriptor_uri: str


@dataclass(frozen=True, slots=True)
class ServiceRetired(Event):
    """A service takes no new sessions any more."""

    service_id: int
    terms_hash: Bytes32
    operator: Address


# --- DevToken ---


@dataclass(frozen=True, slots=True)
class Transfer(Event):
    """ERC-20: tokens moved; from the zero address: were created."""

    from_: Address
    to: Address
    value: int


@dataclass(frozen=True, slots=True)
class Approval(Event):
    """ERC-20: `spender` may pull up to `value`."""

    owner: Address
    spender: Address
    value: int


@dataclass(frozen=True, slots=True)
class AuthorizationUsed(Event):
    """EIP-3009: an authorization did its work."""

    authorizer: Address
    nonce: Bytes32


@dataclass(frozen=True, slots=True)
class EIP712DomainChanged(Event):
    """ERC-5267: declared also by the PaymentManager; neither emits it."""


EVENTS: Final[Mapping[str, type[Event]]] = {kind.__name__: kind for kind in Event.__subclasses__()}
"""The class of each event, by Solidity name."""
