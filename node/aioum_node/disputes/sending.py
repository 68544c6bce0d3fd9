"""Transactions over held money: each is in the journal before it can reach the chain, and is never repeated
while an earlier one of the same purpose may still happen.
"""

from __future__ import annotations

from typing import Final

from aioum.chain import calls, dispute_calls
from aioum.chain.calls import ContractCall
from aioum.chain.client import Chain
from aioum.chain.decisions import Decisions
from aioum.chain.model import Mined
from aioum.chain.sender import Sender
from aioum.core.errors import OutcomeUnknown
from aioum.core.hextext import to_hex
from aioum.core.types import Address, Bytes32, ChannelId
from aioum_node.disputes.answers import Answer

ANSWER: Final = "answer"
"""Begins the purpose of an answer in the transaction journal; the channel id in hex follows."""
LAPSE: Final = "lapse"
RELEASE: Final = "release"
RESPOND: Final = "respond"
CREDIT: Final = "claim-credit"


class HeldMoneySender:
    """Sends for one account. Every method raises as `Sender.send`; OutcomeUnknown also where an earlier one
    of the same purpose has no outcome yet: then nothing is sent.

    Args:
        chain: where to.
        decisions: its DisputeManager.
        sender: of the operator.
    """

    def __init__(self, chain: Chain, decisions: Decisions, sender: Sender) -> None:
        self._chain = chain
        self._decisions = decisions
        self._sender = sender

    async def answer(self, channel_id: ChannelId, answer: Answer) -> Mined:
        """Answer the pending challenge."""
        return await self._send(ANSWER, channel_id, answer.call(self._decisions.address, channel_id))

    async def lapse(self, channel_id: ChannelId) -> Mined:
        """End a dispute that nobody ruled on in time."""
        return await self._send(LAPSE, channel_id, dispute_calls.lapse(self._decisions.address, channel_id))

    async def release(self, channel_id: ChannelId) -> Mined:
        """Have the payee paid after the window."""
        return await self._send(RELEASE, channel_id, calls.release(self._chain.payment_manager, channel_id))

    async def respond(self, channel_id: ChannelId, uri: str, response_hash: Bytes32) -> Mined:
        """Add the operator's side to a pending dispute."""
        call = dispute_calls.respond(self._decisions.address, channel_id, uri, response_hash)
        return await self._send(RESPOND, channel_id, call)

    async def claim_credits(self, token: Address, to: Address) -> list[tuple[str, int, Mined]]:
        """Pull what both contracts could not pay to the account.

        Returns:
            of each contract that owed something its name, the amount in base units, and the transaction.
        """
        account = self._sender.signer.address
        claimed = []
        owed = await self._chain.credit(token, account)
        if owed:
            call = calls.claim_credit(self._chain.payment_manager, token, to)
            claimed.append(("PaymentManager", owed, await self._send(CREDIT, None, call)))
        owed = await self._decisions.credit(token, account)
        if owed:
            call = dispute_calls.claim_bond_credit(self._decisions.address, token, to)
            claimed.append(("DisputeManager", owed, await self._send(CREDIT, None, call)))
        return claimed

    async def _send(self, kind: str, channel_id: ChannelId | None, call: ContractCall) -> Mined:
        purpose = kind if channel_id is None else f"{kind}:{to_hex(channel_id)}"
        if any(transaction.purpose == purpose for transaction in await self._sender.unresolved()):
            raise OutcomeUnknown(
                f"an earlier transaction has no outcome yet: {purpose}",
                hint="it is looked up again",
                details={"purpose": purpose},
            )
        return await self._sender.send(call, purpose, is_independent=True)
