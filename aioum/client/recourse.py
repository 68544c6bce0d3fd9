"""What a client does about answers that it paid for: disputes, proofs, challenges (PROTOCOL 4.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aioum.chain import dispute_calls
from aioum.chain.dispute_calls import Claim
from aioum.chain.events import ChallengeAnswered, LieProven, ReceiptChallenged, StatementChallenged
from aioum.chain.model import Mined
from aioum.chain.scan import first_block_since
from aioum.client.book import Book
from aioum.client.context import ClientContext
from aioum.client.dispute import Dispute, find_raised
from aioum.client.held_money import HeldMoney, Standing, Step, bonded
from aioum.client.packaging import package_of
from aioum.client.publication.published import Published, Publisher, publish_evidence
from aioum.client.words import OperatorWords
from aioum.core import evidence
from aioum.core.canonical import JsonValue
from aioum.core.errors import ChainError, InvalidInput, PolicyRefused
from aioum.core.evidence import package_bytes
from aioum.core.hashing import keccak256
from aioum.core.lies import Anchored, ProvableLie, challengeable, provable_lies
from aioum.core.types import Bytes32
from aioum.core.wire import SignedReceipt, SignedStatement


@dataclass(frozen=True, slots=True)
class Proven:
    """A lie that the contract decided on.

    Attributes:
        awarded: base units that went back to the payer: all that was held.
    """

    lie: ProvableLie
    awarded: int
    mined: Mined


@dataclass(frozen=True, slots=True)
class Challenged:
    """A word that the operator has to prove part of what it anchored.

    Attributes:
        answer_by: unix seconds of the chain's clock; unanswered until then, `claim_unanswered` gives
            everything that is held back.
    """

    word: SignedReceipt | SignedStatement
    answer_by: int
    mined: Mined


class Recourse:
    """Disputes, proofs and challenges over one session of the record."""

    def __init__(self, context: ClientContext, book: Book, held: HeldMoney) -> None:
        """Made by `PaidSession`."""
        self._context = context
        self._book = book
        self.held = held

    async def standing(self) -> Standing:
        """What is held for the session. Raises ChainError as `HeldMoney.standing`."""
        return await self.held.standing(self._book.facts.channel_id)

    async def words(self) -> OperatorWords:
        """Everything of this session that its operator signed and this client holds, each checked when it
        came.
        """
        kept = await self._context.words.kept(self._book.facts.channel_id)
        accusing = self._book.record.evidence
        receipts = [call.receipt for call in self._book.made if call.receipt is not None]
        receipts += [receipt for item in accusing for receipt in item.receipts]
        statements = [] if self._book.record.statement is None else [self._book.record.statement]
        # Records of earlier versions have their contradicting statements there alone.
        shown = [item.detail["statement"] for item in accusing if "statement" in item.detail]
        statements += [SignedStatement.from_json(value, self._book.facts.channel_id) for value in shown]
        return OperatorWords((*receipts, *kept.receipts), (*statements, *kept.statements))

    async def lies(self, standing: Standing | None = None) -> list[ProvableLie]:
        """What the operator's own words prove against it, the cheapest proof first.

        Raises:
            ChainError: `session-not-final`, or as `standing`.
        """
        anchored = _anchored(standing or await self.standing())
        words = await self.words()
        return provable_lies(words.receipts, words.statements, anchored)

    async def proof(self, standing: Standing) -> tuple[ProvableLie, Step]:
        """The proof that is sent first.

        Raises:
            ChainError: as `Standing.require_window`.
            PolicyRefused: `nothing-provable`.
        """
        standing.require_window()
        found = await self.lies(standing)
        if not found:
            raise PolicyRefused(
                "the operator's words contradict neither each other nor what it anchored",
                code="nothing-provable",
                hint=_what_else(self._differs(standing)),
            )
        channel_id = self._book.facts.channel_id
        call = dispute_calls.prove((await self.held.decisions()).address, channel_id, found[0])
        return found[0], Step(call, f"{call.label} 0x{channel_id.hex()}")

    async def challenge_of(
        self, standing: Standing, word: SignedReceipt | SignedStatement | None = None
    ) -> tuple[SignedReceipt | SignedStatement, Step]:
        """The challenge of a word; None: the one that covers most of what was not answered already.

        Raises:
            ChainError: as `Standing.require_window`; `challenge-pending`.
            PolicyRefused: `challenge-pointless`, what is anchored is our own record, or may be once the calls
                without an answer are known; `nothing-challengeable`, we hold no word about what is anchored.
        """
        standing.require_window()
        if standing.case.is_challenged:
            raise ChainError(
                f"a challenge is pending until {standing.case.answer_by}",
                code="challenge-pending",
                hint="wait for its answer, or claim it unanswered then",
            )
        if word is None:
            self._require_difference(standing)
            words = await self.words()
            calls, receipts = await self._answered(standing)
            found = challengeable(
                words.receipts,
                words.statements,
                _anchored(standing),
                answered_calls=calls,
                answered_receipts=receipts,
            )
            if not found:
                raise PolicyRefused(
                    "the operator signed nothing about the calls that it anchored, or proved it already",
                    code="nothing-challengeable",
                    hint="an arbitrator can judge it: dispute the session",
                )
            word = found[0]
        at = (await self.held.decisions()).address
        return word, bonded(
            standing, dispute_calls.challenge(at, standing.session.channel_id, word), "challenge"
        )

    async def _answered(self, standing: Standing) -> tuple[int, frozenset[int]]:
        """What was challenged and proven part of what is anchored: calls of the longest statement, and the
        indexes of receipts.
        """
        decisions = await self.held.decisions()
        chain, session = decisions.chain, standing.session
        head = (await chain.head()).number
        first = await first_block_since(chain.rpc, session.finalized_at, chain.first_block, head)
        calls, receipts = 0, set[int]()
        challenged: ReceiptChallenged | StatementChallenged | None = None
        for event in await decisions.events(first, head, session.channel_id):
            match event.body:
                case ReceiptChallenged() | StatementChallenged() as challenged:
                    pass
                case ChallengeAnswered() if isinstance(challenged, StatementChallenged):
                    calls = max(calls, challenged.call_count)
                case ChallengeAnswered() if isinstance(challenged, ReceiptChallenged):
                    receipts.add(challenged.index)
        return calls, frozenset(receipts)

    async def word(
        self, *, call_index: int | None = None, call_count: int | None = None
    ) -> SignedReceipt | SignedStatement:
        """The receipt of a call, or the statement over so many.

        Raises:
            InvalidInput: `word-unknown`, this client holds none.
        """
        words = await self.words()
        for receipt in words.receipts:
            if call_index is not None and receipt.receipt.index == call_index:
                return receipt
        for statement in words.statements:
            if call_count is not None and statement.statement.call_count == call_count:
                return statement
        what = f"receipt of call {call_index}" if call_count is None else f"statement over {call_count} calls"
        raise InvalidInput(f"this record has no {what}", code="word-unknown")

    async def prove(self) -> Proven:
        """Show the contract a lie that the operator's own words prove (L1 to L3): all that is held comes back
        at once.

        Raises:
            PolicyRefused: `nothing-provable`.
            ChainError: `session-not-final`, `nothing-held`, `dispute-window-closed`, or as `Payer.send`.
            OutcomeUnknown: as `Payer.send`; look at the session again.
        """
        lie, step = await self.proof(await self.standing())
        return await self.proven(lie, await self.held.make(step))

    async def proven(self, lie: ProvableLie, mined: Mined) -> Proven:
        """What a mined proof gave back. Raises ChainError as `Chain`."""
        return Proven(lie, (await self.held.event(mined, LieProven)).amount, mined)

    async def challenge(self, word: SignedReceipt | SignedStatement | None = None) -> Challenged:
        """Make the operator prove that a word of it is part of what it anchored (L4).

        Unanswered, everything held comes back with `claim_unanswered`. Answered, the bond is lost:
        so without a `word`, what is anchored has to differ from our own record.

        Args:
            word: None: of those that the operator has not proven yet, the one that covers most calls: the
                last statement, else a receipt.

        Raises:
            PolicyRefused: `challenge-pointless`, `nothing-challengeable`, `balance-too-low`.
            ChainError: as `prove`; `challenge-pending`.
            OutcomeUnknown: as `prove`.
        """
        chosen, step = await self.challenge_of(await self.standing(), word)
        return await self.challenged(chosen, await self.held.make(step))

    async def challenged(self, word: SignedReceipt | SignedStatement, mined: Mined) -> Challenged:
        """Until when a mined challenge has to be answered. Raises ChainError as `Chain`."""
        kind: type[ReceiptChallenged | StatementChallenged] = StatementChallenged
        if isinstance(word, SignedReceipt):
            kind = ReceiptChallenged
        return Challenged(word, (await self.held.event(mined, kind)).answer_by, mined)

    async def hold_to_account(self) -> Proven | Challenged:
        """Prove a lie where one is provable at once; else challenge what covers most.

        Raises:
            ChainError, PolicyRefused, OutcomeUnknown: as `prove` and `challenge`.
        """
        try:
            return await self.prove()
        except PolicyRefused as error:
            if error.code != "nothing-provable":
                raise
        return await self.challenge()

    async def claim_unanswered(self) -> Mined:
        """Take back everything held, where the operator did not answer a challenge in time."""
        return await self.held.make(await self.held.claim_unanswered(self._book.facts.channel_id))

    async def package(
        self,
        claim: evidence.Claim | str,
        narrative: str,
        disclose: Iterable[int] | None,
        attestations: Sequence[dict[str, JsonValue]],
    ) -> bytes:
        """The evidence package of a dispute, as it is published. Raises InvalidInput as `build_package`."""
        return package_bytes(
            package_of(self._book, claim, narrative, disclose_only=disclose, attestations=attestations)
        )

    async def dispute(
        self,
        claim: evidence.Claim | str,
        narrative: str,
        publisher: Publisher,
        *,
        disclose: Iterable[int] | None = None,
        attestations: Sequence[dict[str, JsonValue]] = (),
    ) -> Dispute:
        """Put what the session captured before its arbitrator (PROTOCOL 4.3): build the evidence package,
        publish it, approve the bond, raise.

        Called again with the same words, as a restarted program does, it returns the dispute that was raised:
        a session is disputed once, and its bond is paid once.

        Args:
            claim: `non-delivery`, `wrong-result` or `quality`.
            narrative: free text.
            publisher: where the package goes.
            disclose: as in `evidence_package`.
            attestations: likewise.

        Raises:
            ChainError: `session-not-final`, `nothing-held`, `dispute-window-closed`, `arbitrator-missing`,
                `already-disputed`, or as `Payer.send`.
            PolicyRefused: `balance-too-low`.
            InvalidInput: as `evidence_package`.
            PublishFailed: as the publisher. Nothing was raised.
            OutcomeUnknown: it may have been raised; call it again.
        """
        chosen = Claim.of(claim)
        standing = await self.standing()
        if not standing.case.raised_at:
            # What the contract would refuse is refused before anything is published.
            await self.held.dispute(standing, chosen, "-", Bytes32(keccak256(b"")))
        data = await self.package(claim, narrative, disclose, attestations)
        published = await publish_evidence(data, publisher)
        return await self.raise_published(chosen, published)

    async def raise_published(self, claim: Claim, published: Published) -> Dispute:
        """Raise a dispute over evidence that is published, unless this very one is raised already.

        Raises:
            ChainError: as `HeldMoney.dispute`; `already-disputed` where another one was raised.
            PolicyRefused, OutcomeUnknown: as `HeldMoney.make`.
        """
        found = await self.raised()
        if found is not None and (found.raised.claim, found.raised.evidence_hash) == (
            claim, published.evidence_hash,
        ):  # fmt: skip
            # An earlier process raised it, and ended before it learned of that.
            return found
        standing = await self.standing()
        step = await self.held.dispute(standing, claim, published.uri, published.evidence_hash)
        await self.held.make(step)
        raised = await self.raised()
        if raised is None:
            raise ChainError(
                "the chain does not show the dispute that was raised",
                code="dispute-not-shown",
                hint="look again a little later",
            )
        return raised

    async def raised(self) -> Dispute | None:
        """The session's dispute as the chain has it, whoever raised it; None where there is none."""
        decisions = await self.held.decisions()
        raised = await find_raised(decisions, self._book.facts.channel_id)
        return None if raised is None else Dispute(decisions, raised, self._context.settings)

    def _differs(self, standing: Standing) -> bool:
        session = standing.session
        return (session.root, session.call_count) != (self._book.purse.root, self._book.purse.next_index)

    def _require_difference(self, standing: Standing) -> None:
        purse, count = self._book.purse, standing.session.call_count
        if not self._differs(standing):
            raise PolicyRefused(
                "what is anchored is our own record: the operator could answer, and the bond would be lost",
                code="challenge-pointless",
            )
        if purse.next_index < count <= purse.made:
            raise PolicyRefused(
                f"{count} calls are anchored, and we lack answers of some of them: they may be ours",
                code="challenge-pointless",
                hint="close() fetches what is missing; name a word to challenge it all the same",
            )


def _anchored(standing: Standing) -> Anchored:
    session = standing.session
    if not session.is_finalized:
        raise ChainError(
            "the session is not finalized", code="session-not-final", hint="close it, or exit it"
        )
    return Anchored(session.root, session.call_count, session.settled)


def _what_else(differs: bool) -> str:
    if differs:
        return "what is anchored differs from your record all the same: challenge it"
    return "what is anchored is your own record; an arbitrator judges answers: dispute the session"
