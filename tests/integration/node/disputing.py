"""A client that keeps every word of the operator, to turn it against him on a chain whose clock it moves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from aioum.chain import calls, dispute_calls
from aioum.chain.calls import ContractCall
from aioum.chain.client import Chain
from aioum.chain.decisions import Case, Decisions
from aioum.chain.model import ChainSession, Mined
from aioum.core.errors import ChainError
from aioum.core.hextext import address_text, to_hex
from aioum.core.lies import (
    Anchored,
    ConflictingReceipts,
    ConflictingStatements,
    OmittedReceipt,
    OmittedStatement,
    Overcharge,
    ProvableLie,
    StatementAgainstRoot,
    challengeable,
    provable_lies,
)
from aioum.core.types import Address, Bytes32, ChannelId
from aioum.core.wire import SignedReceipt, SignedStatement
from aioum_node.app import RunningNode
from tests.integration.conftest import FundedAccount
from tests.integration.node.edge_client import Buyer, Opened, Reply

WINDOW_SECONDS: Final = 604_800
BOND: Final = 5_000
DISPUTE_TERMS: Final[dict[str, Any]] = {
    "dispute_window_seconds": WINDOW_SECONDS,
    "dispute_bond": BOND,
    "dispute_interval_seconds": 0.1,
}
"""Settings of a node whose captured money is held."""

_PATIENCE_SECONDS: Final = 60


async def until(happened: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until something happened, at most a minute."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not await happened():
        assert time.monotonic() < deadline, f"it did not happen in time: {what}"
        await asyncio.sleep(0.05)


@dataclass
class Words:
    """Every word that an operator gave away in one session; the same word may be in it many times."""

    receipts: list[SignedReceipt] = field(default_factory=list)
    statements: list[SignedStatement] = field(default_factory=list)


@dataclass
class Disputant:
    """The payer of sessions, with what he approved for bonds."""

    chain: Chain
    account: FundedAccount
    decisions: Decisions

    @classmethod
    async def of(cls, buyer: Buyer, token: Address) -> Disputant:
        """The buyer, who has approved his bonds."""
        decisions = await Decisions.of(buyer.chain)
        await buyer.account.sender.send(calls.approve(token, decisions.address, 2**255), "approve")
        return cls(buyer.chain, buyer.account, decisions)

    async def send(self, call: ContractCall) -> Mined:
        return await self.account.sender.send(call, call.label)

    async def challenge(self, channel_id: ChannelId, word: SignedReceipt | SignedStatement) -> Case:
        """Challenge a word; returns the case right after that."""
        mined = await self.send(dispute_calls.challenge(self.decisions.address, channel_id, word))
        return await self.decisions.case(channel_id, mined.block_number)

    async def raise_dispute(
        self, channel_id: ChannelId, claim: dispute_calls.Claim = dispute_calls.Claim.QUALITY
    ) -> None:
        call = dispute_calls.raise_dispute(
            self.decisions.address, channel_id, claim, "data:,evidence", Bytes32(b"\x01" * 32)
        )
        await self.send(call)

    async def session(self, channel_id: ChannelId) -> ChainSession:
        session = await self.chain.session(channel_id)
        assert session is not None
        return session

    async def case(self, channel_id: ChannelId) -> Case:
        return await self.decisions.case(channel_id)

    async def answered(self, channel_id: ChannelId) -> None:
        """Wait until no challenge is pending."""

        async def over() -> bool:
            return not (await self.case(channel_id)).is_challenged

        await until(over, "the challenge is answered")

    async def events(self, channel_id: ChannelId, name: str) -> int:
        """How often the DisputeManager emitted this event for a session."""
        head = await self.chain.head()
        found = await self.decisions.events(self.chain.first_block, head.number, channel_id)
        return sum(event.name == name for event in found)

    async def refuted(self, channel_id: ChannelId, call: ContractCall) -> str:
        """What the contract refuses a call with."""
        try:
            await self.chain.rpc.simulate(
                {
                    "from": address_text(self.account.key.address),
                    "to": address_text(self.decisions.address),
                    "data": to_hex(call.data),
                }
            )
        except ChainError as error:
            return str(error.details["error"])
        raise AssertionError(f"the contract takes {call.label} for {to_hex(channel_id)}")


async def anchored_of(disputant: Disputant, channel_id: ChannelId) -> Anchored:
    session = await disputant.session(channel_id)
    return Anchored(session.root, session.call_count, session.settled)


async def serve(
    buyer: Buyer,
    node: RunningNode,
    session: Opened,
    count: int,
    *,
    price: int,
    tool: str = "shout",
    **arguments: str,
) -> Words:
    """Buy calls one after the other, with a statement after each; `arguments` beside the text."""
    kept = Words()
    for index in range(count):
        action = "open" if index == 0 else "voucher"
        asked = {"text": f"call {index}", **arguments}
        reply = await buyer.pay(node, session, (index + 1) * price, tool, asked, action=action)
        keep_receipt(buyer, node, reply, kept)
        await keep_statement(buyer, node, session, kept)
    return kept


def keep_receipt(buyer: Buyer, node: RunningNode, reply: Reply, words: Words) -> None:
    words.receipts.append(buyer.receipt(node, reply))


async def keep_statement(buyer: Buyer, node: RunningNode, session: Opened, words: Words) -> None:
    reply = await buyer.read(node, session, "/statement")
    if reply.status == 200:
        words.statements.append(SignedStatement.from_json(reply.json, session.channel_id))


async def close(buyer: Buyer, node: RunningNode, session: Opened, call_count: int, words: Words) -> None:
    """Close until it is settled; the last statement is a word, too."""
    done = await buyer.close_until_settled(node, session, call_count)
    assert done.status == 200, done.body
    if done.json["statement"] is not None:
        words.statements.append(SignedStatement.from_json(done.json["statement"], session.channel_id))


async def require_no_lie(disputant: Disputant, channel_id: ChannelId, words: Words) -> None:
    """Nothing that the words could prove is there, and the contract refuses every proof that is tried.

    Tried are those that are nearest to a lie: every pair of words about the same call or count, every receipt
    and statement as omitted, every statement against the root, and every cover of what was captured.
    """
    anchored = await anchored_of(disputant, channel_id)
    assert provable_lies(words.receipts, words.statements, anchored) == []
    for call in _accusations(disputant, channel_id, words, anchored):
        refused = await disputant.refuted(channel_id, call)
        assert refused in ("WordsDoNotConflict", "NothingOmitted", "NotOvercharged", "CoverageInvalid"), (
            refused
        )


def _accusations(
    disputant: Disputant, channel_id: ChannelId, words: Words, anchored: Anchored
) -> list[ContractCall]:
    lies: list[ProvableLie] = []
    receipts = {word.receipt.index: word for word in words.receipts}
    statements = {word.statement.call_count: word for word in words.statements}
    lies += [ConflictingReceipts(word, receipts[word.receipt.index]) for word in words.receipts]
    lies += [ConflictingStatements(word, statements[word.statement.call_count]) for word in words.statements]
    lies += [OmittedReceipt(word) for word in receipts.values()]
    for word in statements.values():
        lies += [OmittedStatement(word), StatementAgainstRoot(word)]
    for covered in (0, *statements):
        tail = range(covered, anchored.call_count)
        if len(tail) <= 32 and all(index in receipts for index in tail):
            cover = statements.get(covered)
            lies.append(Overcharge(cover, tuple(receipts[index] for index in tail), 0))
    return [dispute_calls.prove(disputant.decisions.address, channel_id, lie) for lie in lies]


async def challenge_each(disputant: Disputant, channel_id: ChannelId, words: Words) -> int:
    """Challenge every word that can be, each in its turn; returns how many were answered."""
    unique = Words(
        list({word.receipt.index: word for word in words.receipts}.values()),
        list({word.statement.call_count: word for word in words.statements}.values()),
    )
    todo = challengeable(unique.receipts, unique.statements, await anchored_of(disputant, channel_id))
    for word in todo:
        await disputant.challenge(channel_id, word)
        await disputant.answered(channel_id)
    assert await disputant.events(channel_id, "ChallengeAnswered") == len(todo)
    return len(todo)
