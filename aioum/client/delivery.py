"""Bringing one session's payments to its node: challenges, the opening, credentials. Answers are judged
elsewhere.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Final

from aioum.client.book import Book
from aioum.client.context import ClientContext
from aioum.client.http import HttpAnswer
from aioum.client.node import challenge_of, refusal_of
from aioum.client.records import CallRecord
from aioum.client.service import require_tool
from aioum.core.errors import OutcomeUnknown, Refused
from aioum.core.hextext import address_text
from aioum.core.payment import Voucher
from aioum.core.purse import Outstanding
from aioum.core.types import Bytes32
from aioum.core.wire import Challenge, Credential

CHALLENGE_CODES: Final = frozenset(
    {
        "payment-required", "challenge-invalid", "challenge-malformed", "challenge-expired",
        "invalid-challenge", "payment-expired",
    }
)  # fmt: skip
"""Refusals that a fresh challenge cures."""

_UNKNOWN_CODES: Final = frozenset({"channel-not-found", "roster-required"})
_EXPIRY_MARGIN_SECONDS: Final = 5.0


class Delivery:
    """Sends what a session's book says. Only the challenge differs from one attempt to the next."""

    def __init__(self, context: ClientContext, book: Book) -> None:
        self._context = context
        self._book = book
        self._node = context.node(book.facts.node_url)
        self._challenges: dict[str, Challenge] = {}

    async def send(self, record: CallRecord) -> HttpAnswer:
        """Send a kept call; show the opening first where the node does not know the session.

        Raises:
            Refused: not even a challenge is to be had for the tool.
            OutcomeUnknown: as `Transport.request`.
        """
        opening = not self._book.record.adopted
        answer = await self._send_once(record, opening=opening)
        refusal = None if answer.status < 400 else refusal_of(answer)
        if refusal is None:
            return answer
        if answer.status == 402:
            fresh = challenge_of(answer)
            if fresh is not None:
                self._challenges[record.call.tool_id] = fresh
            if refusal.code in CHALLENGE_CODES:
                return await self._send_once(record, opening=opening)
        if refusal.code in _UNKNOWN_CODES and not opening:
            # The node lost the session, or never kept it: show it opening and roster again.
            return await self._send_once(record, opening=True)
        return answer

    async def introduce(self) -> None:
        """Show the node the opening without buying anything.

        Raises:
            Refused, OutcomeUnknown: the node did not take it over.
        """
        # A voucher of nothing: it gives nothing away.
        nothing = Voucher(self._book.facts.channel_id, 0)
        challenge = await self._fresh(self._any_tool)
        credential = replace(
            self._credential(challenge, "open", self._book.record.opening_transaction),
            signature=await self._context.signer.sign(nothing, self._book.facts.domain),
        )
        await self._buy_nothing(credential)

    async def announce_top_up(self, transaction: Bytes32) -> None:
        """Tell the node of a top-up, so that it need not wait until it notices by itself.

        Raises:
            Refused, OutcomeUnknown: the node did not take it over.
        """
        challenge = await self._fresh(self._any_tool)
        await self._buy_nothing(self._credential(challenge, "topUp", transaction))

    @property
    def _any_tool(self) -> str:
        return self._book.facts.card.tools[0].id

    async def _buy_nothing(self, credential: Credential) -> None:
        answer = await self._node.call(
            self._any_tool, b"{}", credential.header(), max_bytes=1, timeout_seconds=0
        )
        refusal = refusal_of(answer)
        if refusal is None:
            raise OutcomeUnknown(f"status {answer.status} to a payment of nothing", code="node-failed")
        # What nothing was bought with is answered by asking for payment, with the session's own numbers.
        taken_over = refusal.details.keys() & {"acceptedCumulative", "deposit"}
        if refusal.code != "payment-required" or not taken_over:
            raise refusal.error()

    async def _send_once(self, record: CallRecord, *, opening: bool) -> HttpAnswer:
        facts, call = self._book.facts, record.call
        tool = require_tool(facts.card, call.tool_id)
        transaction = self._book.record.opening_transaction if opening else None
        challenge = await self._challenge(call.tool_id)
        credential = replace(
            self._credential(challenge, "voucher" if transaction is None else "open", transaction),
            amount=call.amount,
            signature=record.signature,
            submission=None if record.envelope is None else record.envelope.to_json(),
        )
        return await self._node.call(
            call.tool_id,
            _arguments(call),
            credential.header(),
            max_bytes=min(facts.card.limits.max_response_bytes, self._context.settings.max_answer_bytes),
            timeout_seconds=tool.timeout_seconds,
            newest=self._book.newest_receipt,
        )

    def _credential(self, challenge: Challenge, action: str, transaction: Bytes32 | None) -> Credential:
        facts = self._book.facts
        payer = address_text(facts.channel.payer)
        return Credential(
            challenge=challenge,
            action=action,
            channel_id=facts.channel_id,
            transaction=transaction,
            source=f"did:pkh:eip155:{facts.domain.chain_id}:{payer}",
            roster=None if action != "open" or facts.roster is None else facts.roster.to_json(),
        )

    async def _challenge(self, tool_id: str) -> Challenge:
        known = self._challenges.get(tool_id)
        if known is None or self._expired(known):
            known = await self._fresh(tool_id)
            self._challenges[tool_id] = known
        return known

    async def _fresh(self, tool_id: str) -> Challenge:
        try:
            return await self._node.challenge(tool_id)
        except Refused as error:
            if error.code != "tool-unknown":
                raise
            # Today's card may lack a tool that ours still offers; a challenge proves who issued it, not for
            # what.
            for tool in self._book.facts.card.tools:
                if tool.id != tool_id:
                    try:
                        return await self._node.challenge(tool.id)
                    except Refused:
                        continue
            raise

    def _expired(self, challenge: Challenge) -> bool:
        if challenge.expires is None:
            return False
        try:
            expires = datetime.datetime.fromisoformat(challenge.expires)
        except ValueError:
            return True
        if expires.tzinfo is None:
            return True
        return expires.timestamp() - _EXPIRY_MARGIN_SECONDS <= self._context.clock()


def _arguments(call: Outstanding) -> bytes:
    """The request's body: canonical text has its two members in this order, and tool ids need no escapes."""
    return call.request[len(b'{"arguments":') : -len(f',"tool":"{call.tool_id}"}}')]
