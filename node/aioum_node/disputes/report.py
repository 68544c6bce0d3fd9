"""What is pending over the held money of a node's sessions, for people and programs."""

from __future__ import annotations

from dataclasses import dataclass

from aioum.chain.client import Chain
from aioum.chain.decisions import Case, Decisions, DisputeState
from aioum.chain.dispute_calls import Claim
from aioum.chain.model import ChainEvent, ChainSession
from aioum.chain.scan import first_block_since
from aioum.core.hextext import to_hex
from aioum.core.wire import JsonObject
from aioum_node.store.port import StoredSession


@dataclass(frozen=True, slots=True)
class Complaint:
    """A dispute as its payer raised it: claim, and where its evidence lies."""

    claim: Claim
    evidence_uri: str
    evidence_hash: bytes


@dataclass(frozen=True, slots=True)
class HeldReport:
    """One session whose captured money is, or was, held.

    Attributes:
        chain_session: at the newest block.
        complaint: None where it is not disputed.
        responses: URI and hash of what the operator answered, in order; only where they were asked for.
    """

    stored: StoredSession
    chain_session: ChainSession
    case: Case
    complaint: Complaint | None
    responses: tuple[tuple[str, bytes], ...] = ()

    @property
    def state(self) -> str:
        """`challenged`, `disputed`, `lie-proven`, `ruled`, `lapsed`, `held`, or `over`."""
        case = self.case
        if case.is_challenged:
            return "challenged"
        if case.dispute is DisputeState.PENDING:
            return "disputed"
        if case.dispute is DisputeState.RULED:
            return "ruled"
        if case.awarded:
            return "lie-proven"
        if case.dispute is DisputeState.LAPSED:
            return "lapsed"
        return "held" if self.chain_session.held else "over"

    @property
    def held_until(self) -> int:
        """Unix seconds: the window ends then."""
        return self.chain_session.finalized_at + self.chain_session.dispute_window_seconds

    def to_json(self) -> JsonObject:
        """As `aioum-node disputes` prints it; amounts are base units as text, times unix seconds or null."""
        facts, case, complaint = self.stored.facts, self.case, self.complaint
        bond = 0 if facts.terms is None else facts.terms.dispute_bond
        return {
            "sessionId": str(facts.session_id),
            "channelId": to_hex(facts.channel_id),
            "state": self.state,
            "claim": None if complaint is None else complaint.claim.text,
            "evidenceURI": None if complaint is None else complaint.evidence_uri,
            "evidenceHash": None if complaint is None else to_hex(complaint.evidence_hash),
            "responses": [{"uri": uri, "hash": to_hex(hashed)} for uri, hashed in self.responses],
            "bond": str(bond),
            "raisedAt": case.raised_at or None,
            "ruleBy": case.rule_by or None,
            "answerBy": case.answer_by or None,
            "heldUntil": self.held_until,
            "captured": str(self.chain_session.settled),
            "held": str(self.chain_session.held),
            "awarded": str(case.awarded),
        }


async def report_on(
    chain: Chain, decisions: Decisions, stored: StoredSession, *, with_responses: bool = False
) -> HeldReport | None:
    """Read one session's side of the chain; None where it is not final there, or never had a window.

    Raises:
        ChainError: as `Chain`.
    """
    channel_id = stored.facts.channel_id
    head = (await chain.head()).number
    session = await chain.session(channel_id, head)
    if session is None or not session.is_finalized or not session.dispute_window_seconds:
        return None
    case = await decisions.case(channel_id, head)
    if not case.raised_at:
        return HeldReport(stored, session, case, None)
    first = await first_block_since(chain.rpc, case.raised_at, chain.first_block, head)
    last = head
    if not with_responses:
        last = max(first, await first_block_since(chain.rpc, case.raised_at + 1, first, head) - 1)
    events = await decisions.events(first, last, channel_id)
    return HeldReport(
        stored,
        session,
        case,
        next((_complaint(event) for event in events if event.name == "DisputeRaised"), None),
        tuple(
            (event.args["responseURI"], event.args["responseHash"])
            for event in events
            if event.name == "Responded"
        ),
    )


def _complaint(event: ChainEvent) -> Complaint:
    args = event.args
    return Complaint(Claim(args["claim"]), args["evidenceURI"], args["evidenceHash"])
