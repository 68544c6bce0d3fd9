"""Commitments and reveals, scheme `gaos.commit.sha256.v1` (SUBMISSIONS 1.5, 2.4)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from aioum.core.canonical import JsonValue
from aioum.core.errors import InvalidInput
from aioum.core.submission.canonical import canonical_json
from aioum.core.submission.framing import MAX_COMMAND_BYTES, frame, text, u64
from aioum.core.types import Bytes32
from aioum.replay.facts import place
from aioum.replay.model import (
    COMMITMENT_SCHEME,
    Action,
    Artifact,
    CommitMismatch,
    Input,
    Resolution,
    Reveal,
)
from aioum.replay.problems import Problem

MAX_SESSION_ID_BYTES: Final = 128
MAX_SEAT_BYTES: Final = 64
MAX_COMMITMENT_ID: Final = 2**32 - 1
MIN_SALT_BYTES: Final = 16
MAX_SALT_BYTES: Final = 64
MAX_PAYLOAD_BYTES: Final = MAX_COMMAND_BYTES

_SCHEME_FRAME: Final = frame(COMMITMENT_SCHEME.encode())
_CODE: Final = "commitment-invalid"


@dataclass(frozen=True, slots=True)
class CommitmentBinding:
    """What a commitment belongs to.

    Attributes:
        session_id: 1 to 128 bytes of UTF-8.
        seat: 1 to 64 bytes of UTF-8.
        commitment_id: u32; counts from 0 for each seat and level.
        window_ref: tick of the step that carried the commitment; the revealer does not choose it.
    """

    session_id: str
    seat: str
    commitment_id: int
    window_ref: int

    def preimage(self, salt: bytes, payload: JsonValue) -> bytes:
        """The bytes that are hashed.

        Args:
            salt: 16 to 64 bytes.
            payload: its canonical JSON has at most 65,536 bytes.

        Raises:
            InvalidInput: `commitment-invalid`, or as `canonical_json`.
        """
        return b"".join(
            (
                _SCHEME_FRAME,
                frame(_text(self.session_id, "sessionId", MAX_SESSION_ID_BYTES)),
                frame(_text(self.seat, "seat", MAX_SEAT_BYTES)),
                u64(_within(self.commitment_id, 0, MAX_COMMITMENT_ID, "commitmentId"), "commitmentId"),
                u64(self.window_ref, "windowRef"),
                frame(_sized(salt, MIN_SALT_BYTES, MAX_SALT_BYTES, "a salt")),
                frame(_sized(canonical_json(payload), 0, MAX_PAYLOAD_BYTES, "a payload")),
            )
        )

    def hash(self, salt: bytes, payload: JsonValue) -> Bytes32:
        """The commitment. Raises as `preimage`."""
        return Bytes32(hashlib.sha256(self.preimage(salt, payload)).digest())


@dataclass(frozen=True, slots=True)
class CommitmentFindings:
    """What is wrong with commitments, and what is worth knowing about them."""

    problems: tuple[Problem, ...]
    diagnostics: tuple[Problem, ...]


def check_commitments(artifact: Artifact, *, refuse_repeated: bool) -> CommitmentFindings:
    """Check that commitments are numbered, and that each reveal opens one of its own seat, once.

    A refused reveal (`commit-mismatch`) has to refer to an open commitment, and must not open it.

    Args:
        artifact: an artifact whose form is right.
        refuse_repeated: also refuse a commitment whose hash the session has seen before. The level is not in
            the hash, so what was revealed in one level opens the same commitment in the next.
    """
    check = _Check(artifact.header.session_id, refuse_repeated=refuse_repeated)
    for line in artifact.lines:
        match line:
            case Resolution():
                for index, each in enumerate(line.inputs):
                    if each.is_direct:
                        check.take(each, line.level_index, line.tick, place(line, index))
                check.resolved(line.level_index, line.tick)
            case Action(input=each):
                if each.is_direct:
                    check.take(each, line.level_index, line.tick or 0, place(line))
                check.resolved(line.level_index, line.tick or 0)
            case CommitMismatch():
                check.take_mismatch(line)
            case _:
                pass
    return CommitmentFindings(tuple(check.problems), tuple(check.diagnostics))


@dataclass(slots=True)
class _Commitment:
    binding: CommitmentBinding
    hash: Bytes32
    is_revealed: bool = False

    def opens(self, reveal: Reveal) -> bool:
        return self.binding.hash(reveal.salt, reveal.payload) == self.hash


class _Check:
    def __init__(self, session_id: str, *, refuse_repeated: bool) -> None:
        self.problems: list[Problem] = []
        self.diagnostics: list[Problem] = []
        self._session_id = session_id
        self._refuse_repeated = refuse_repeated
        self._seen_hashes: dict[Bytes32, str] = {}
        self._seen_salts: dict[bytes, tuple[tuple[int, str, int], str]] = {}
        self._level_index = 0
        self._last_tick: int | None = None
        self._next_ids: dict[str, int] = {}
        self._open: dict[tuple[str, int], _Commitment] = {}

    def take(self, given: Input, level_index: int, tick: int, where: str) -> None:
        self._enter(level_index)
        if given.seat is None:
            self._problem("commitment-seat-missing", "a commitment or reveal belongs to a seat", where)
        elif given.commit is not None:
            self._take_commit(given.seat, given.commit.commitment_id, given.commit.hash, tick, where)
        elif given.reveal is not None:
            self._take_reveal(given.seat, given.reveal, where)

    def resolved(self, level_index: int, tick: int) -> None:
        self._enter(level_index)
        self._last_tick = tick

    def take_mismatch(self, record: CommitMismatch) -> None:
        self._enter(record.level_index)
        where = place(record)
        if self._last_tick is not None and record.tick != self._last_tick + 1:
            message = f"tick {record.tick}, the open tick is {self._last_tick + 1}"
            self._problem("mismatch-tick", message, where)
        commitment = self._find(record.participant_id, record.commitment_id, where)
        if commitment is None:
            return
        reveal = record.attempted_reveal
        if reveal is None:
            self._diagnostic("mismatch-not-recheckable", "the refused reveal is left out", where)
            return
        self._note_salt(record.participant_id, reveal, where)
        try:
            matches = commitment.opens(reveal)
        except InvalidInput as error:
            self._problem(_CODE, str(error), where)
            return
        if matches:
            self._problem(
                "mismatch-actually-matches", "the reveal that was refused opens the commitment", where
            )
        else:
            self._diagnostic("mismatch-verified", "the refused reveal does not open the commitment", where)

    def _enter(self, level_index: int) -> None:
        if level_index != self._level_index:
            self._level_index = level_index
            self._last_tick = None
            self._next_ids.clear()
            self._open.clear()

    def _take_commit(self, seat: str, commitment_id: int, hash_: Bytes32, tick: int, where: str) -> None:
        expected = self._next_ids.get(seat, 0)
        if commitment_id != expected:
            message = f"commitmentId {commitment_id} of seat {seat!r:.80}, expected {expected}"
            self._problem("commitment-order", message, where)
            return
        if self._refuse_repeated and hash_ in self._seen_hashes:
            message = f"the same commitment was made at {self._seen_hashes[hash_]}"
            self._problem("commitment-repeated", message, where)
        self._seen_hashes.setdefault(hash_, where)
        self._next_ids[seat] = expected + 1
        binding = CommitmentBinding(self._session_id, seat, commitment_id, tick)
        self._open[seat, commitment_id] = _Commitment(binding, hash_)

    def _take_reveal(self, seat: str, reveal: Reveal, where: str) -> None:
        self._note_salt(seat, reveal, where)
        commitment = self._find(seat, reveal.commitment_id, where)
        if commitment is None:
            return
        try:
            opens = commitment.opens(reveal)
        except InvalidInput as error:
            self._problem(_CODE, str(error), where)
            return
        if opens:
            commitment.is_revealed = True
        else:
            self._problem("commitment-mismatch", "salt and payload do not open the commitment", where)

    def _find(self, seat: str, commitment_id: int, where: str) -> _Commitment | None:
        commitment = self._open.get((seat, commitment_id))
        name = f"commitment {commitment_id} of seat {seat!r:.80}"
        if commitment is None:
            self._problem("commitment-unknown", f"the level has no {name}", where)
        elif commitment.is_revealed:
            self._problem("commitment-reused", f"{name} was revealed before", where)
            return None
        return commitment

    def _note_salt(self, seat: str, reveal: Reveal, where: str) -> None:
        identity = (self._level_index, seat, reveal.commitment_id)
        first, place = self._seen_salts.setdefault(reveal.salt, (identity, where))
        if first != identity:
            self._diagnostic("salt-reused", f"the salt was used before, at {place}", where)

    def _problem(self, code: str, message: str, where: str) -> None:
        self.problems.append(Problem(code, message, where))

    def _diagnostic(self, code: str, message: str, where: str) -> None:
        self.diagnostics.append(Problem(code, message, where))


def _text(value: str, name: str, max_bytes: int) -> bytes:
    return _sized(text(value, name), 1, max_bytes, name)


def _sized(data: bytes, least: int, most: int, name: str) -> bytes:
    _within(len(data), least, most, f"the size of {name} in bytes")
    return data


def _within(value: int, least: int, most: int, name: str) -> int:
    if not least <= value <= most:
        raise InvalidInput(f"{name} must be from {least} to {most}, got {value}", code=_CODE)
    return value
