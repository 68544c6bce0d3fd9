"""Sessions, calls and answers as the tests of stores use them."""

from aioum.core.ledger import Answer, CallRequest, SessionState
from aioum.core.payment import Terms
from aioum.core.seats import NO_SEATS, Seats
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.roster import Roster
from aioum.core.types import ZERO_ADDRESS, ZERO_BYTES32, Address, Bytes32, ChannelId
from aioum_node.store.port import SessionFacts
from tests.pens import ROSTER

PRICE = 10
DEPOSIT = 2**100
NOW_MS = 1_800_000_000_000
TERMS = Terms(
    operator=Address(b"\x01" * 20),
    payee=Address(b"\x02" * 20),
    token=Address(b"\x03" * 20),
    receipt_signer=Address(b"\x04" * 20),
    arbitrator=ZERO_ADDRESS,
    descriptor_hash=Bytes32(b"\x05" * 32),
    commit_required=True,
    dispute_window_seconds=86_400,
    ruling_period_seconds=172_800,
    dispute_bond=2**127,
)


def channel(number: int) -> ChannelId:
    return ChannelId(number.to_bytes(32, "big"))


def facts(
    number: int,
    *,
    session_id: int | None = None,
    terms: Terms | None = TERMS,
    signed: bool = False,
    roster: Roster | None = None,
) -> SessionFacts:
    """Args: signed: opened with the hash of ROSTER."""
    return SessionFacts(
        channel_id=channel(number),
        session_id=number if session_id is None else session_id,
        chain_id=31_337,
        payment_manager=Address(b"\x11" * 20),
        payer=Address(b"\x12" * 20),
        payee=Address(b"\x13" * 20),
        token=Address(b"\x14" * 20),
        authorized_signer=Address(b"\x15" * 20),
        service_id=2**255 + 7,
        terms_hash=Bytes32(b"\x16" * 32),
        nonce=Bytes32(b"\x17" * 32),
        roster_hash=ROSTER.hash if signed else ZERO_BYTES32,
        descriptor_hash=Bytes32(b"\x19" * 32),
        commit_required=True,
        terms=terms,
        roster=roster,
    )


def signed_facts(number: int) -> SessionFacts:
    return facts(number, signed=True, roster=ROSTER)


def opened(number: int, *, deposit: int = DEPOSIT, signed: bool = False) -> SessionState:
    seats = Seats.at_genesis(channel(number), ROSTER) if signed else NO_SEATS
    return SessionState(channel(number), deposit=deposit, signed=signed, seats=seats)


def request(
    amount: int,
    *,
    text: str = "{}",
    price: int = PRICE,
    envelope: Envelope | None = None,
    tool_id: str = "echo",
) -> CallRequest:
    return CallRequest(tool_id, text.encode(), price, amount, amount.to_bytes(65, "big"), envelope)


def answer(text: str = "ok", *, failed: bool = False) -> Answer:
    return Answer(text.encode(), 500 if failed else 200, "text/plain", failed)
