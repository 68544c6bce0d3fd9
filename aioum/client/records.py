"""What a client keeps about a session: everything it needs to go on, to get its money back, and to prove its
case.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from aioum.core.canonical import JsonValue, parse_json
from aioum.core.card import MAX_CARD_BYTES, Card, parse_card
from aioum.core.errors import InvalidInput
from aioum.core.evidence import ChannelFacts, ServiceTerms
from aioum.core.payment import Domain
from aioum.core.purse import Outstanding, PurseState
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.roster import Roster
from aioum.core.transcript import Entry
from aioum.core.types import Address, Bytes32, ChannelId
from aioum.core.wire import JsonObject, SignedReceipt, SignedStatement
from aioum.log.membership import Membership


class SessionPhase(StrEnum):
    """How far a session is. Each phase is durable before the step it names begins.

    Attributes:
        OPENING: its transaction may be on its way, or not sent yet.
        VOID: it was refused before anything was deposited.
        CLOSING, EXITING: nothing is paid any more; the end was asked for, of the operator or of the contract.
        CLOSED: final on-chain, and held against our record.
    """

    OPENING = "opening"
    VOID = "void"
    OPEN = "open"
    CLOSING = "closing"
    EXITING = "exiting"
    CLOSED = "closed"


class CallPhase(StrEnum):
    """An outstanding call is answered or abandoned; an abandoned one may turn out to be answered."""

    OUTSTANDING = "outstanding"
    ANSWERED = "answered"
    ABANDONED = "abandoned"


@dataclass(frozen=True)
class SessionFacts:
    """What is fixed when a session is opened.

    Attributes:
        node_url: base URL of the operator's node.
        channel: what the channel id is the hash of.
        service: the terms the session was opened under.
        card_json: canonical bytes of the card under those terms: its prices hold for this session.
        roster: the seats whose keys sign the calls, or None in an unsigned session.
    """

    channel_id: ChannelId
    domain: Domain
    node_url: str
    channel: ChannelFacts
    service: ServiceTerms
    card_json: bytes
    roster: Roster | None = None

    @property
    def voucher_signer(self) -> Address:
        """Who signs vouchers, read permissions and close requests."""
        return self.channel.voucher_signer

    @property
    def receipt_signer(self) -> Address:
        """Whose word on calls counts."""
        return self.service.terms.receipt_signer

    @cached_property
    def card_value(self) -> JsonValue:
        """The card's JSON."""
        return parse_json(self.card_json, max_bytes=MAX_CARD_BYTES)

    @cached_property
    def card(self) -> Card:
        """The card."""
        return parse_card(self.card_value)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A contradiction that ended paying, with what proves it.

    Attributes:
        at_ms: when it was noticed, unix milliseconds.
        detail: JSON facts beside the receipts, such as a contradicting statement.
        receipts: signed receipts that contradict each other or our record.
    """

    code: str
    message: str
    at_ms: int
    detail: JsonObject = field(default_factory=dict)
    receipts: tuple[SignedReceipt, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session as the journal has it.

    Attributes:
        version: counts the writes; whoever writes an older one lost a race against another program.
        adopted: the node has answered a call of it, so it knows the opening.
        opening_transaction: hash, once known.
        session_id: the chain's label, once known; 0 before.
        call_limit: most that one call may cost, base units, or None.
        statement: the latest statement that agreed with our record.
        evidence: why paying was stopped, where the operator contradicted itself or us.
        logged: the verified proof that the session is in its operator's transparency log, once it was
            fetched.
    """

    facts: SessionFacts
    phase: SessionPhase
    purse: PurseState
    opened_at_ms: int
    version: int = 0
    adopted: bool = False
    opening_transaction: Bytes32 | None = None
    session_id: int = 0
    call_limit: int | None = None
    statement: SignedStatement | None = None
    evidence: tuple[Evidence, ...] = ()
    logged: Membership | None = None

    @property
    def channel_id(self) -> ChannelId:
        """The session's key."""
        return self.facts.channel_id


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One signed call. `response` and `receipt` are set together when it is answered.

    Attributes:
        signature: of the voucher over `call.amount`.
        status: HTTP status of the answer; 0 before.
        elapsed_ms: from when it was sent to its answer, retries included; None where nobody measured it.
        envelope: the submission of a signed session; it never changes.
    """

    call: Outstanding
    signature: bytes
    phase: CallPhase = CallPhase.OUTSTANDING
    status: int = 0
    response: bytes | None = None
    receipt: SignedReceipt | None = None
    envelope: Envelope | None = None
    elapsed_ms: int | None = None

    @property
    def number(self) -> int:
        """What names the call in its session: a submission's index, or the amount of a voucher alone."""
        return self.call.amount if self.envelope is None else self.envelope.cursor

    def entry(self) -> Entry:
        """The transcript's entry of an answered call. Raises InvalidInput `call-not-answered`."""
        if self.response is None:
            raise InvalidInput(f"call {self.call.index} has no answer", code="call-not-answered")
        return Entry(self.call.index, self.call.tool_id, self.call.request.decode(), self.response.decode())
