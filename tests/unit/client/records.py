"""A session's record as the journal keeps it, with values at the edge of what fits."""

from aioum.client.records import SessionFacts, SessionPhase, SessionRecord
from aioum.core.amounts import MAX_AMOUNT
from aioum.core.canonical import canonical_bytes
from aioum.core.evidence import ChannelFacts, ServiceTerms
from aioum.core.payment import Domain, Terms
from aioum.core.purse import PurseState
from aioum.core.types import ZERO_ADDRESS, Address, Bytes32

DOMAIN = Domain(31337, Address(b"\x02" * 20))


def make_record(number: int = 1) -> SessionRecord:
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
        roster_hash=Bytes32(bytes(32)),
    )
    channel_id = channel.channel_id(DOMAIN)
    facts = SessionFacts(
        channel_id=channel_id,
        domain=DOMAIN,
        node_url="http://127.0.0.1:1",
        channel=channel,
        service=ServiceTerms(Address(b"\x0a" * 20), 2**200, terms),
        card_json=canonical_bytes({"name": "card"}),
    )
    purse = PurseState(channel_id, deposit=MAX_AMOUNT, spend_limit=2**100)
    return SessionRecord(facts, SessionPhase.OPENING, purse, opened_at_ms=1_800_000_000_000, call_limit=7)
