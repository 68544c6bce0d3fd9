"""A session's record as the journal keeps it, with values at the edge of what fits."""

from aioum.client.records import CallRecord, SessionFacts, SessionPhase, SessionRecord
from aioum.client.seats import roster_of
from aioum.core.amounts import MAX_AMOUNT
from aioum.core.canonical import canonical_bytes
from aioum.core.evidence import ChannelFacts, ServiceTerms
from aioum.core.payment import Domain, Terms
from aioum.core.purse import Outstanding, PurseState
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.keys import SubmissionKey
from aioum.core.submission.roster import Roster
from aioum.core.types import ZERO_ADDRESS, ZERO_BYTES32, Address, Bytes32, ChannelId

DOMAIN = Domain(31337, Address(b"\x02" * 20))


KEYS = {"client": SubmissionKey(b"\x21" * 32), "researcher": SubmissionKey(b"\x22" * 32)}
ROSTER = roster_of(KEYS)


def make_record(number: int = 1, roster: Roster | None = None) -> SessionRecord:
    operator, payee, token, signer = (Address(bytes([byte]) * 20) for byte in (3, 4, 5, 6))
    terms = Terms(
        operator, payee, token, signer, ZERO_ADDRESS, Bytes32(b"\x07" * 32), True, 0, 0, MAX_AMOUNT,
    )  # fmt: skip
    channel = ChannelFacts(
        payer=Address(b"\x08" * 20),
        payee=terms.payee,
        token=terms.token,
        authorized_signer=ZERO_ADDRESS,
        nonce=Bytes32(bytes([number]) * 32),
        terms_hash=Bytes32(b"\x09" * 32),
        roster_hash=ZERO_BYTES32 if roster is None else roster.hash,
    )
    channel_id = channel.channel_id(DOMAIN)
    facts = SessionFacts(
        channel_id=channel_id,
        domain=DOMAIN,
        node_url="http://127.0.0.1:1",
        channel=channel,
        service=ServiceTerms(Address(b"\x0a" * 20), 2**200, terms),
        card_json=canonical_bytes({"name": "card"}),
        roster=roster,
    )
    purse = PurseState(channel_id, deposit=MAX_AMOUNT, signed=roster is not None, spend_limit=2**100)
    return SessionRecord(facts, SessionPhase.OPENING, purse, opened_at_ms=1_800_000_000_000, call_limit=7)


def signed_call(
    channel_id: ChannelId, call: Outstanding, prev_head: Bytes32, seat: str = "client", name: str = "one"
) -> CallRecord:
    envelope = Envelope.sign(
        KEYS[seat],
        channel_id,
        call.request,
        seat=seat,
        submission_id=name,
        cursor=call.index,
        client_time=2**53 - 1,
        prev_head=prev_head,
    )
    return CallRecord(call, b"\x0c" * 65, envelope=envelope)
