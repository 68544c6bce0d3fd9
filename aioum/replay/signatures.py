"""The signature check: chains, signatures and their coverage, without any product code (SUBMISSIONS 2.2)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from aioum.core.errors import SignatureInvalid
from aioum.core.submission.chain import Periodic, Submission, genesis, head_after
from aioum.core.submission.framing import encode_base64
from aioum.core.submission.keys import VerifyingKey
from aioum.core.submission.roster import Roster, RosterEntry
from aioum.core.types import Bytes32
from aioum.replay.coverage import SeatCoverage
from aioum.replay.facts import SeatReport, SignatureReport, SignatureState, place
from aioum.replay.model import (
    Action,
    Artifact,
    CommitMismatch,
    Integrity,
    Interaction,
    Interest,
    Record,
    Resolution,
    SeatSignature,
)
from aioum.replay.problems import Problem

COMMITMENT_TIER: Final = 1
"""Commitments, reveals and refused reveals carry their own signature."""

INTEREST_TIER: Final = 2
"""So do declarations of interest."""

HEAD_MISSING: Final = "retained-head-missing"


@dataclass(frozen=True, slots=True)
class SignatureRules:
    """What a profile asks beyond the scheme.

    Attributes:
        submissions_needed: a stream without submissions is `unsigned`, whatever its roster says.
        sound_keys: a key of the roster that no signature could be held against is a problem, used or not.
        all_direct: every submission carries its own signature.
    """

    submissions_needed: bool = False
    sound_keys: bool = False
    all_direct: bool = False


class Submitted(NamedTuple):
    """A submission where it stands in the artifact.

    Attributes:
        direct_tier: tier for which it must carry its own signature; 0 where its head may be signed later.
        input_index: position in a resolution, or None for a record of its own.
    """

    seat: str
    level_index: int
    tick: int
    integrity: Integrity | None
    direct_tier: int
    record: Record
    input_index: int | None

    @property
    def where(self) -> str:
        """Its place, for a problem."""
        return place(self.record, self.input_index)


def submissions(artifact: Artifact) -> Iterator[Submitted | SeatSignature]:
    """The submissions and periodic signatures, in the order of the artifact.

    Inputs without a seat or a submission are nobody's and left out; the paid profile refuses them.
    """
    for line in artifact.lines:
        match line:
            case Resolution():
                for index, each in enumerate(line.inputs):
                    if each.seat is not None and each.integrity is not None:
                        tier = COMMITMENT_TIER if each.is_direct else 0
                        yield Submitted(
                            each.seat, line.level_index, line.tick, each.integrity, tier, line, index
                        )
            case Action(input=each):
                if each.seat is not None and each.integrity is not None:
                    tier = COMMITMENT_TIER if each.is_direct else 0
                    yield Submitted(
                        each.seat, line.level_index, line.tick or 0, each.integrity, tier, line, None
                    )
            case SeatSignature():
                yield line
            case CommitMismatch():
                yield _record(line, COMMITMENT_TIER)
            case Interest():
                yield _record(line, INTEREST_TIER)
            case Interaction():
                yield _record(line, 0)
            case _:
                pass


def _record(line: CommitMismatch | Interest | Interaction, tier: int) -> Submitted:
    return Submitted(line.participant_id, line.level_index, line.tick, line.integrity, tier, line, None)


def check_signatures(
    artifact: Artifact,
    *,
    rules: SignatureRules = SignatureRules(),
    retained_heads: Mapping[str, Collection[Bytes32]] | None = None,
) -> SignatureReport:
    """Check every signature and every seat's chain; time and memory are linear in the artifact.

    Args:
        artifact: an artifact whose form is right.
        rules: what the profile asks beyond the scheme.
        retained_heads: heads that a seat kept when it signed, 32 bytes each. One that the seat's chain does
            not pass through means that submissions were left out or changed.
    """
    retained = retained_heads or {}
    roster = artifact.header.roster
    if roster is None:
        missing = [problem for seat in retained for problem in _missing(seat, retained[seat])]
        return SignatureReport(SignatureState.UNSIGNED, tuple(missing))
    walk = _Walk(artifact.header.session_id, roster, rules, retained)
    for item in submissions(artifact):
        walk.take(item)
    return walk.report()


class _Seat:
    """One seat's chain while the artifact is walked through."""

    def __init__(self, entry: RosterEntry, head: Bytes32, retained: Collection[Bytes32]) -> None:
        self.name = entry.id
        self.head = head
        self.coverage = SeatCoverage(entry.id, entry.tier)
        self.submissions = 0
        self.valid_signatures = 0
        self.chain_reproduced = True
        self.policy_satisfied = True
        self.broken = False
        self.missing = set(retained) - {head}
        self.key: VerifyingKey | None = None
        self.key_refusal = ""
        try:
            self.key = VerifyingKey(entry.public_key)
        except SignatureInvalid as error:
            self.key_refusal = str(error)

    def advance(self, head: Bytes32) -> None:
        self.head = head
        if self.missing:
            self.missing.discard(head)

    def refusal(self, message: bytes, signature: bytes) -> str | None:
        """Why a signature does not count, or None."""
        if self.key is None:
            return self.key_refusal
        try:
            self.key.verify(message, signature)
        except SignatureInvalid as error:
            return str(error)
        return None

    def report(self) -> SeatReport:
        return SeatReport(
            self.name,
            self.submissions,
            self.valid_signatures,
            self.chain_reproduced,
            self.policy_satisfied,
            self.head,
        )


class _Walk:
    def __init__(
        self,
        session_id: str,
        roster: Roster,
        rules: SignatureRules,
        retained: Mapping[str, Collection[Bytes32]],
    ) -> None:
        self._session_id = session_id
        self._rules = rules
        self._problems: list[Problem] = []
        self._signatures_seen = 0
        self._stray_heads = [seat for seat in retained if roster.entry(seat) is None]
        self._retained = retained
        self._seats = {
            entry.id: _Seat(entry, genesis(session_id, entry.id, roster.hash), retained.get(entry.id, ()))
            for entry in roster.entries
        }

    def take(self, item: Submitted | SeatSignature) -> None:
        if isinstance(item, SeatSignature):
            self._take_periodic(item)
        else:
            self._take_submission(item)

    def report(self) -> SignatureReport:
        for seat in self._seats.values():
            failure = seat.coverage.failure()
            if failure is not None:
                seat.policy_satisfied = False
                self._problems.append(failure)
            self._problems += _missing(seat.name, seat.missing)
            if self._rules.sound_keys and seat.key is None:
                self._problem("submission-key-invalid", seat.key_refusal, f"seat {seat.name}")
        for name in self._stray_heads:
            self._problems += _missing(name, self._retained[name])
        return SignatureReport(
            self._state(), tuple(self._problems), tuple(seat.report() for seat in self._seats.values())
        )

    def _state(self) -> SignatureState:
        seats = self._seats.values()
        if self._rules.submissions_needed and not any(seat.submissions for seat in seats):
            return SignatureState.UNSIGNED if not self._signatures_seen else SignatureState.PARTIAL
        if not self._signatures_seen:
            # The scheme's own rule: a roster of seats that never submitted counts as signed.
            quiet = not any(seat.submissions for seat in seats)
            return SignatureState.SIGNED if quiet else SignatureState.PARTIAL
        complete = all(seat.chain_reproduced and seat.policy_satisfied for seat in seats)
        all_valid = sum(seat.valid_signatures for seat in seats) == self._signatures_seen
        return SignatureState.SIGNED if complete and all_valid else SignatureState.PARTIAL

    def _take_submission(self, item: Submitted) -> None:
        seat = self._seats.get(item.seat)
        if seat is None:
            self._problem("unknown-seat", f"the seat {item.seat!r:.80} is not in the roster", item.where)
            return
        seat.submissions += 1
        seat.coverage.submitted(item.level_index, item.tick)
        integrity = item.integrity
        signature = None if integrity is None else integrity.signature
        if signature is not None:
            self._signatures_seen += 1
        if integrity is None or integrity.client_time is None or integrity.prev_head is None:
            self._break(seat, "missing-chain-fields", "the submission is not chained", item.where)
            return
        if seat.broken:
            self._break(seat, "chain-broken", "the seat's chain is broken before it", item.where)
            return
        if integrity.prev_head != seat.head:
            message = (
                f"it follows {encode_base64(integrity.prev_head)}, the head is {encode_base64(seat.head)}"
            )
            self._break(seat, "chain-mismatch", message, item.where)
            return
        preimage = Submission(
            self._session_id,
            item.seat,
            integrity.submission_id,
            integrity.cursor,
            item.tick,
            integrity.client_time,
            integrity.command,
            seat.head,
        ).preimage()
        seat.advance(head_after(preimage))
        if signature is None:
            self._require_later_signature(seat, item)
            return
        refusal = seat.refusal(preimage, signature)
        if refusal is None:
            seat.valid_signatures += 1
            seat.coverage.signed(item.level_index, item.tick)
        else:
            seat.policy_satisfied = False
            self._problem("bad-signature", refusal, item.where)

    def _require_later_signature(self, seat: _Seat, item: Submitted) -> None:
        if item.direct_tier:
            message = f"a tier-{item.direct_tier} submission carries its own signature; it has none"
        elif self._rules.all_direct:
            message = "in a paid session every submission carries its own signature; it has none"
        else:
            return
        seat.policy_satisfied = False
        self._problem("direct-signature-required", message, item.where)

    def _take_periodic(self, record: SeatSignature) -> None:
        where = place(record)
        seat = self._seats.get(record.participant_id)
        if seat is None:
            message = f"the seat {record.participant_id!r:.80} is not in the roster"
            self._problem("unknown-seat", message, where)
            return
        if record.signature is not None:
            self._signatures_seen += 1
        if record.head != seat.head:
            seat.chain_reproduced = seat.policy_satisfied = False
            message = f"it does not sign the seat's current head {encode_base64(seat.head)}"
            self._problem("head-mismatch", message, where)
            return
        if record.client_time is None or record.signature is None:
            seat.policy_satisfied = False
            self._problem("periodic-incomplete", "it lacks its time or its signature", where)
            return
        message_bytes = Periodic(
            self._session_id, seat.name, record.tick, record.client_time, seat.head
        ).preimage()
        refusal = seat.refusal(message_bytes, record.signature)
        if refusal is None:
            seat.valid_signatures += 1
            seat.coverage.signed(record.level_index, record.tick)
        else:
            seat.policy_satisfied = False
            self._problem("bad-signature", refusal, where)

    def _break(self, seat: _Seat, code: str, message: str, where: str) -> None:
        seat.broken = True
        seat.chain_reproduced = seat.policy_satisfied = False
        self._problem(code, message, where)

    def _problem(self, code: str, message: str, where: str) -> None:
        self._problems.append(Problem(code, message, where))


def _missing(seat: str, heads: Collection[Bytes32]) -> list[Problem]:
    return [
        Problem(
            HEAD_MISSING,
            f"the seat's chain does not pass through the retained head {encode_base64(head)}",
            f"seat {seat}",
        )
        for head in sorted(heads)
    ]
