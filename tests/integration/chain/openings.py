"""Sessions that tests of the chain open."""

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.chain.model import Mined
from aioum.core.types import Bytes32, ChannelId
from tests.integration.conftest import FundedAccount, RegisteredService

DEPOSIT = 5_000_000


async def open_session(
    chain: Chain, payer: FundedAccount, registered: RegisteredService, nonce: Bytes32
) -> tuple[ChannelId, Mined]:
    """Open a session under the service's terms, with DEPOSIT."""
    service = registered.service
    mined = await payer.sender.send(
        calls.open_session(
            chain.payment_manager,
            service_id=service.service_id,
            terms_hash=service.terms_hash,
            deposit=DEPOSIT,
            nonce=nonce,
        ),
        "open",
    )
    (opened,) = mined.events
    assert opened.channel_id is not None
    return opened.channel_id, mined
