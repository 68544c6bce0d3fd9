"""Claims about an artifact, each from its own source and with its own fact; none stands in for another."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aioum.core.canonical import JsonValue
from aioum.core.submission.chain import paid_session_id
from aioum.core.types import ChannelId
from aioum.trust.facts import FactState, Reason
from aioum.trust.verification import AttestationResult


class Claim(StrEnum):
    """What can be claimed about an artifact."""

    IDENTITY = "identity"
    TIME = "time"
    PUBLICATION = "publication"
    TAIL_ANCHOR = "tail-anchor"
    MODEL_IDENTITY = "model-identity"
    HIDDEN_TEST = "hidden-test"


CLAIM_FACTS: Final = {
    Claim.IDENTITY: "accountIdentityAttested",
    Claim.TIME: "timeAttested",
    Claim.PUBLICATION: "publicationLogged",
    Claim.TAIL_ANCHOR: "tailAnchored",
    Claim.MODEL_IDENTITY: "modelIdentityAttested",
    Claim.HIDDEN_TEST: "hiddenTestCompliant",
}
"""The public name of each claim's fact (SUBMISSIONS 3.2)."""


class ClaimSource(StrEnum):
    """Where a claim comes from."""

    ATTESTATION = "external-attestation"
    TIMESTAMP = "rfc3161-timestamp"
    LOG_HEAD = "log-head"
    SESSION_ANCHOR = "aioum-session-anchor"


@dataclass(frozen=True, slots=True)
class ClaimFinding:
    """What became of one claim from one source.

    Attributes:
        evidence: what was compared, for a report.
        reasons: why the state is not `verified`.
        observations: what a reader should know although it decides nothing.
    """

    claim: Claim
    source: ClaimSource
    state: FactState
    reasons: tuple[Reason, ...] = ()
    observations: tuple[Reason, ...] = ()
    evidence: tuple[tuple[str, JsonValue], ...] = ()

    def to_json(self) -> dict[str, JsonValue]:
        """The finding, for a report."""
        return {
            "claim": self.claim.value,
            "source": self.source.value,
            "state": self.state.value,
            "reasons": [reason.code for reason in self.reasons],
            "observations": [reason.code for reason in self.observations],
            "evidence": dict(self.evidence),
        }


_UNDECIDED: Final = frozenset(
    {
        "algorithm-not-accepted",
        "algorithm-unsupported",
        "authority-key-unavailable",
        "authority-not-pinned",
        "certificate-path-invalid",
        "pin-without-key-digest",
        "revocation-not-valid",
        "revocation-unknown",
        "schema-not-accepted",
    }
)
"""Reasons that say that the caller's policy and sources do not reach, not that something is wrong."""


def attestation_state(result: AttestationResult) -> FactState:
    """`verified` where accepted, `failed` where something about it is wrong, else `unverified`."""
    if result.policy_accepted:
        return FactState.VERIFIED
    undecided = all(reason.code in _UNDECIDED for reason in result.reasons)
    return FactState.UNVERIFIED if undecided else FactState.FAILED


def attestation_claim(claim: Claim, result: AttestationResult) -> ClaimFinding:
    """The claim that an attestation was judged for; the caller knows which claims its schema can make."""
    return ClaimFinding(
        claim,
        ClaimSource.ATTESTATION,
        attestation_state(result),
        reasons=result.reasons,
        observations=result.observations,
        evidence=(("authority", result.authority.label), ("matchedPin", result.matched_pin)),
    )


@dataclass(frozen=True, slots=True)
class TailAnchor:
    """A history's length and head, fixed somewhere that its keeper cannot change at will.

    Whether it really stands there is for whoever read it: a chain reader, a log client.

    Attributes:
        source: what kind of place.
        subject: which history: a session id, a log's origin.
        length: calls or entries that the head covers.
        head: 32 bytes, the root over them.
        place: where it was read, for a report: chain, contract and block; a log's checkpoint.
    """

    source: ClaimSource
    subject: str
    length: int
    head: bytes
    place: str

    @classmethod
    def of_session(cls, channel_id: ChannelId, *, root: bytes, call_count: int, place: str) -> TailAnchor:
        """The root and callCount that an operator anchored on-chain for a paid session (PROTOCOL 4)."""
        return cls(ClaimSource.SESSION_ANCHOR, paid_session_id(channel_id), call_count, root, place)


def tail_claim(
    anchor: TailAnchor | None,
    *,
    subject: str,
    length: int,
    head: bytes,
    source: ClaimSource = ClaimSource.SESSION_ANCHOR,
) -> ClaimFinding:
    """Whether a history is whole up to its end, by an anchor.

    Args:
        anchor: what was read; None: there is none.
        subject: the history that was shown.
        length: its calls or entries.
        head: the root computed over them.
        source: what was asked, where there is no anchor.
    """

    def finding(state: FactState, code: str = "", message: str = "") -> ClaimFinding:
        return ClaimFinding(
            Claim.TAIL_ANCHOR,
            anchor.source if anchor else source,
            state,
            reasons=(Reason(code, message),) if code else (),
            evidence=(("length", anchor.length), ("place", anchor.place)) if anchor else (),
        )

    if anchor is None:
        return finding(FactState.NOT_OBSERVED, "no-anchor", "nothing fixes where this history ends")
    if anchor.subject != subject:
        return finding(FactState.FAILED, "anchor-of-another", f"the anchor is of {anchor.subject:.100}")
    if anchor.length > length:
        return finding(FactState.FAILED, "tail-missing", f"{anchor.length} are anchored, {length} are shown")
    if anchor.length < length:
        return finding(
            FactState.UNVERIFIED, "tail-not-anchored", f"{anchor.length} are anchored, {length} are shown"
        )
    if anchor.head != head:
        return finding(FactState.FAILED, "anchor-differs", "another history of this length is anchored")
    return finding(FactState.VERIFIED)
