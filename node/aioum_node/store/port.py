"""The store port: everything a node must not lose. One conformance suite, every adapter passes it.

Durability: each method that writes returns only after its transaction is durable (power loss included). One
method is one transaction; decisions inside it are the pure functions of `aioum.core.ledger`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from aioum.core.ledger import Admitted, Answer, Call, CallRequest, Phase, Recorded, Repeat, SessionState
from aioum.core.payment import Terms
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.roster import Roster
from aioum.core.types import Address, Bytes32, ChannelId

MAX_CALLS: Final = 1 << 24
"""Calls that one session can hold."""

MAX_EQUIVOCATIONS: Final = 8
"""Contradicting envelopes that are kept of one session; one is proof enough."""


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What the chain fixed at opening and never changes. `session_id` is a label only (PROTOCOL 0).

    Attributes:
        terms: what `terms_hash` names, so that evidence can be assembled without the chain; None for a plain
            channel.
        roster: what `roster_hash` names; None for an unsigned session, and until somebody shows it.
    """

    channel_id: ChannelId
    session_id: int
    chain_id: int
    payment_manager: Address
    payer: Address
    payee: Address
    token: Address
    authorized_signer: Address
    service_id: int
    terms_hash: Bytes32
    nonce: Bytes32
    roster_hash: Bytes32
    descriptor_hash: Bytes32
    commit_required: bool
    terms: Terms | None = None
    roster: Roster | None = None

    @property
    def signed(self) -> bool:
        """Whether the session was opened with a roster: its seats sign every call (PROTOCOL 5)."""
        return any(self.roster_hash)

    @property
    def voucher_signer(self) -> Address:
        """Who signs vouchers: the authorized signer where one is set, else the payer."""
        return self.authorized_signer if any(self.authorized_signer) else self.payer

    @property
    def has_dispute_window(self) -> bool:
        """Whether what the session captures is held on-chain for a while (PROTOCOL 4.2)."""
        return self.terms is not None and self.terms.dispute_window_seconds > 0


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session with its accounting.

    Attributes:
        opened_at_ms, active_at_ms: unix milliseconds of adoption and of the last admitted or recorded call.
        finalized_at_ms: when the chain was seen to have finalized it, or None; retention counts from here.
        transaction_hash: the transaction that finalized it, where known.
    """

    facts: SessionFacts
    state: SessionState
    opened_at_ms: int
    active_at_ms: int
    finalized_at_ms: int | None = None
    transaction_hash: Bytes32 | None = None


@dataclass(frozen=True, slots=True)
class Equivocation:
    """A validly signed envelope that was refused: its seat had signed other bytes under the same name.

    Attributes:
        index: the recorded call that has the same submission id or continues the same head.
        envelope: the refused one, `tool_id` and `request` (canonical bytes) are what it asked.
        seen_at_ms: unix milliseconds.
    """

    index: int
    envelope: Envelope
    tool_id: str
    request: bytes
    seen_at_ms: int


class SessionWriter(Protocol):
    """The steps of a session's life."""

    async def open(self, facts: SessionFacts, state: SessionState, now_ms: int) -> StoredSession:
        """Adopt a session. Opening a known channel again returns the stored one.

        Only a roster that it lacked is taken over then, `facts.roster` together with `state.seats`.
        """
        ...

    async def admit(self, channel_id: ChannelId, request: CallRequest, now_ms: int) -> Admitted | Repeat:
        """Run `ledger.admit`; intent, voucher and envelope are durable.

        Raises:
            Refused: `channel-not-found`, `too-many-calls`, and those of `ledger.admit`; with
                `submission-conflict` the refused envelope is kept, once, and MAX_EQUIVOCATIONS of a session.
        """
        ...

    async def record(self, channel_id: ChannelId, index: int, answer: Answer, now_ms: int) -> Recorded:
        """Run `ledger.record` by compare-and-set: who comes second gets the stored call.

        Raises:
            Refused: `channel-not-found` or `call-not-found`.
        """
        ...

    async def update(
        self,
        channel_id: ChannelId,
        change: Callable[[SessionState], SessionState],
        now_ms: int,
        *,
        transaction_hash: Bytes32 | None = None,
    ) -> StoredSession:
        """Apply a pure state change (seal, observe_chain, finalize).

        `change` may be run more than once and on another thread. What it raises reaches the caller, and
        nothing is written then. A session that becomes final gets `now_ms` as its `finalized_at_ms`, and
        `transaction_hash` where one is given; the first of each stays.

        Raises:
            Refused: `channel-not-found`.
        """
        ...

    async def delete(self, channel_id: ChannelId) -> None:
        """Remove a finalized session and its calls (retention); an unknown one is no error.

        Raises:
            Refused: `session-not-final`; `session-held`, see `HeldSessions`.
        """
        ...


class SessionReader(Protocol):
    """Reads never see an uncommitted step."""

    async def session(self, channel_id: ChannelId) -> StoredSession | None:
        """The session, or None."""
        ...

    async def sessions(
        self,
        phases: Sequence[Phase],
        *,
        idle_since_ms: int | None = None,
        finalized_before_ms: int | None = None,
        limit: int | None = None,
    ) -> list[StoredSession]:
        """Sessions in one of these phases, oldest first.

        Args:
            phases: which ones.
            idle_since_ms: of the open ones, only those that had no call after this time (unix milliseconds),
                or whose client wants out.
            finalized_before_ms: only those finalized before this time (unix milliseconds), of whose money
                nothing is held any more.
            limit: at most so many.
        """
        ...

    async def calls(self, channel_id: ChannelId, first: int, limit: int) -> list[Call]:
        """Calls from index `first`, ascending, at most `limit`; admitted ones without an answer included."""
        ...

    async def unrecorded(self) -> list[tuple[ChannelId, Call]]:
        """Admitted calls without an answer that no living process runs: these were interrupted.

        A store of one process does not know what that one runs: it is asked before anything is.

        Those of sessions that are not trusted are left out: a newer store may have answered them.
        """
        ...

    async def find(self, session_id: int) -> list[StoredSession]:
        """Sessions with this label (a reset devnet can repeat it)."""
        ...


class HeldSessions(Protocol):
    """Sessions whose captured money may still be held on-chain, so that their calls are needed as proofs.

    A session with a dispute window is one of them from the step on that makes it final.
    """

    async def held(self) -> list[ChannelId]:
        """All of them, oldest first."""
        ...

    async def released(self, channel_id: ChannelId) -> None:
        """The chain holds nothing of it any more, for good; one that is none of them is no error."""
        ...


class CallOwners(Protocol):
    """Who runs a call, where several processes share a store."""

    async def answered(self, channel_id: ChannelId, index: int, timeout_seconds: float) -> Call | None:
        """Wait for the answer of an admitted call that another living process runs.

        Returns:
            the call, recorded; None where no other process runs it, or none any more, or it takes longer.
        """
        ...


class SubmissionReader(Protocol):
    """Reads of what the seats of a session signed; the envelopes of calls come with the calls."""

    async def claimed(self, channel_id: ChannelId, envelope: Envelope) -> Call | None:
        """The call whose envelope has this one's seat and submission id, or continues the same head."""
        ...

    async def equivocations(self, channel_id: ChannelId) -> list[Equivocation]:
        """What contradicts the session's calls, oldest first."""
        ...


class CardStore(Protocol):
    """Cards that open sessions were opened under stay served by hash; scan positions survive a restart."""

    async def put_card(self, descriptor_hash: Bytes32, card: bytes) -> None:
        """Keep the canonical bytes of a card."""
        ...

    async def card(self, descriptor_hash: Bytes32) -> bytes | None:
        """The card's canonical bytes, or None."""
        ...

    async def put_position(self, name: str, block_number: int, block_hash: bytes) -> None:
        """Remember how far a chain scan came."""
        ...

    async def position(self, name: str) -> tuple[int, bytes] | None:
        """The remembered position, or None."""
        ...


class Store(SessionWriter, SessionReader, HeldSessions, CallOwners, SubmissionReader, CardStore, Protocol):
    """The whole port."""

    async def close(self) -> None:
        """Finish queued writes and close."""
        ...
