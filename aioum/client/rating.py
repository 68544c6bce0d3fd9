"""Rating a session: what the record suggests, and the call that says it (PROTOCOL 4.4)."""

from __future__ import annotations

from aioum.chain import ratings
from aioum.chain.model import Mined
from aioum.client.book import Book
from aioum.client.context import ClientContext
from aioum.client.held_money import Step, StepCost
from aioum.client.recourse import Recourse
from aioum.core.errors import ChainError, ConfigError
from aioum.core.experience import AnsweredCall, Experience, SuggestedScore, suggest_score
from aioum.core.hextext import to_hex
from aioum.core.problem import is_problem
from aioum.core.types import Address


class Rater:
    """Rates one session of the record."""

    def __init__(self, context: ClientContext, book: Book, recourse: Recourse) -> None:
        """Made by `PaidSession`."""
        self._context = context
        self._book = book
        self._recourse = recourse

    async def suggest(self) -> SuggestedScore:
        """What this client's own record says for a score, with the reasons.

        Raises:
            ChainError: `session-not-final`, or as `Chain`.
        """
        return suggest_score(await self.experience())

    async def experience(self) -> Experience:
        """What the session met. Raises ChainError as `suggest`."""
        card = self._book.facts.card
        answered = []
        for call in self._book.made:
            tool = card.tool(call.call.tool_id)
            if call.response is not None and tool is not None:
                timeout_ms = int(tool.timeout_seconds * 1_000)
                answered.append(AnsweredCall(is_problem(call.response), call.elapsed_ms, timeout_ms))
        return Experience(
            answered=answered,
            unanswered=len(self._book.purse.open),
            contradictions=[item.code for item in self._book.record.evidence],
            provable_lies=len(await self._recourse.lies()),
        )

    def registry(self, named: Address | None) -> Address:
        """The RatingRegistry: the one named, else the deployment's.

        Raises:
            ConfigError: `rating-registry-unknown`.
        """
        deployment = self._context.chain.deployment
        found = named or (None if deployment is None else deployment.rating_registry)
        if found is None:
            raise ConfigError(
                "the deployment names no RatingRegistry",
                code="rating-registry-unknown",
                hint="name its address",
            )
        return found

    async def step(self, score: int, detail_uri: str, registry: Address | None) -> Step:
        """The rating as a step.

        Raises:
            InvalidInput: `score-out-of-range`, `detail-uri-too-long`.
            ConfigError: `rating-registry-unknown`.
            ChainError: `session-not-on-chain`, `session-not-final`, `nothing-captured`, `already-rated`.
        """
        channel_id, at = self._book.facts.channel_id, self.registry(registry)
        call = ratings.rate(at, channel_id, score, detail_uri)
        session = await self._context.chain.session(channel_id)
        if session is None:
            raise ChainError("the chain does not know the session", code="session-not-on-chain")
        if not session.is_finalized:
            raise ChainError("a session is rated when it is over", code="session-not-final", hint="close it")
        if not session.settled:
            raise ChainError("a session that cost nothing is not rated", code="nothing-captured")
        if await ratings.is_rated(self._context.chain.rpc, at, channel_id):
            raise ChainError("the session was rated; that is done once", code="already-rated")
        return Step(call, f"rate {to_hex(channel_id)}")

    async def cost(self, step: Step) -> StepCost:
        """What a rating would cost. Raises ChainError as `HeldMoney.cost`."""
        return await self._recourse.held.cost(step)

    async def rate(self, score: int, detail_uri: str, registry: Address | None) -> Mined:
        """Rate the session.

        Args:
            score: 0 to 100.
            detail_uri: where more is said, at most 2,048 bytes; may be empty.
            registry: None: the deployment's RatingRegistry.

        Raises:
            InvalidInput, ConfigError, ChainError: as `step`, or as `Payer.send`.
            OutcomeUnknown: it may have been rated; call it again.
        """
        return await self._recourse.held.make(await self.step(score, detail_uri, registry))
