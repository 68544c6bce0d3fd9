"""Sessions put straight into a store, as if the chain had shown their opening."""

from __future__ import annotations

from typing import Final

from aioum.core.hashing import keccak256
from aioum.core.ledger import SessionState
from aioum.core.payment import Domain
from aioum.core.types import Address, Bytes32, ChannelId
from aioum_node.store.port import SessionFacts

DEPOSIT: Final = 10**30
"""Base units; no run spends that much."""

NO_ADDRESS: Final = Address(bytes(20))
NO_HASH: Final = Bytes32(bytes(32))


def session_facts(
    number: int, domain: Domain, *, payer: Address, payee: Address, token: Address, descriptor_hash: Bytes32
) -> SessionFacts:
    """What the chain would have fixed for session `number`; its channel id is made up."""
    return SessionFacts(
        channel_id=ChannelId(keccak256(b"benchmark session" + number.to_bytes(8, "big") + payer)),
        session_id=number + 1,
        chain_id=domain.chain_id,
        payment_manager=domain.payment_manager,
        payer=payer,
        payee=payee,
        token=token,
        authorized_signer=NO_ADDRESS,
        service_id=1,
        terms_hash=NO_HASH,
        nonce=NO_HASH,
        roster_hash=NO_HASH,
        descriptor_hash=descriptor_hash,
        commit_required=True,
    )


def funded(channel_id: ChannelId) -> SessionState:
    """The accounting of a session that was just opened."""
    return SessionState(channel_id, DEPOSIT)
