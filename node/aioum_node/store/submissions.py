"""What seats signed, as the SQLite store keeps it: envelopes beside their calls, and who claims which name.

An envelope claims two names in its seat: its submission id and the head that it continues. Their index has a
page for each session, so it is written in large pieces, as `call_index` is; the names of the calls since
`node.indexed_seq` are in memory, and found again in `submissions` after a start.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from aioum.core.ledger import CallRequest
from aioum.core.seats import SeatHead, Seats
from aioum.core.submission.envelope import Envelope
from aioum.core.types import Bytes32
from aioum_node.store.port import MAX_EQUIVOCATIONS, Equivocation

SUBMISSION_WIDTH: Final = 6
INSERT_SUBMISSIONS: Final = "INSERT INTO submissions VALUES {rows}"
NAME_WIDTH: Final = 2
INSERT_NAMES: Final = "INSERT INTO submission_index VALUES {rows}"

SELECT_CLAIMED_KEY: Final = """
    SELECT key FROM submission_index WHERE name IN (:id_name, :head_name)
    UNION ALL
    SELECT c.key FROM submissions AS s JOIN calls AS c USING (seq)
    WHERE s.seq > (SELECT indexed_seq FROM node) AND c.key >= :first AND c.key < :end
        AND s.seat = :seat AND (s.submission_id = :submission_id OR s.prev_head = :prev_head)
    LIMIT 1
"""
SELECT_EQUIVOCATIONS: Final = """
    SELECT call_index, tool_id, request, seen_at_ms, cursor, seat, submission_id, client_time, prev_head,
        signature
    FROM equivocations WHERE session = ? ORDER BY id
"""
_INSERT_EQUIVOCATION: Final = """
    INSERT INTO equivocations (session, call_index, tool_id, request, seen_at_ms, cursor, seat,
        submission_id, client_time, prev_head, signature)
    SELECT :session, :call_index, :tool_id, :request, :seen_at_ms, :cursor, :seat, :submission_id,
        :client_time, :prev_head, :signature
    WHERE (SELECT count(*) FROM equivocations WHERE session = :session) < :most
    AND NOT EXISTS (
        SELECT 1 FROM equivocations WHERE session = :session AND tool_id = :tool_id AND request = :request
            AND cursor = :cursor AND seat = :seat AND submission_id = :submission_id
            AND client_time = :client_time AND prev_head = :prev_head
    )
"""
_SELECT_UNINDEXED: Final = """
    SELECT c.key, s.seat, s.submission_id, s.prev_head FROM submissions AS s JOIN calls AS c USING (seq)
    WHERE s.seq > ?
"""
_ROW_ID_BYTES: Final = 8
_HEAD_BYTES: Final = 32


def id_name(row_id: int, seat: str, submission_id: str) -> bytes:
    """The name that a submission id is; seats and ids hold no zero character."""
    return _prefix(row_id) + b"\0" + seat.encode() + b"\0" + submission_id.encode()


def head_name(row_id: int, seat: str, prev_head: bytes) -> bytes:
    """The name that the continued head is."""
    return _prefix(row_id) + b"\1" + seat.encode() + b"\0" + prev_head


def name_range(row_id: int) -> tuple[bytes, bytes]:
    """The names of one session: from the first on, below the second."""
    return _prefix(row_id), _prefix(row_id + 1)


class SubmissionSteps:
    """The envelopes' part of `SessionSteps`: same connection, same thread, same transactions.

    Attributes:
        rows: of INSERT_SUBMISSIONS, to be written with the calls.
    """

    def __init__(self, connection: sqlite3.Connection, call_bits: int) -> None:
        """Args: call_bits: a call's key is its session's row id, shifted by this, and its index."""
        self._connection = connection
        self._call_bits = call_bits
        self._names: dict[bytes, int] = {}
        self.rows: list[tuple[Any, ...]] = []

    def load(self, indexed_seq: int) -> None:
        """Read the names that the file has no index of."""
        for key, seat, submission_id, prev_head in self._connection.execute(
            _SELECT_UNINDEXED, (indexed_seq,)
        ):
            self._claim(key, seat, submission_id, prev_head)

    def add(self, seq: int, key: int, envelope: Envelope) -> None:
        """Keep the envelope of a call that was admitted."""
        self.rows.append(
            (seq, envelope.seat, envelope.submission_id, envelope.client_time, envelope.prev_head,
             envelope.signature)
        )  # fmt: skip
        self._claim(key, envelope.seat, envelope.submission_id, envelope.prev_head)

    def claimed(self, row_id: int, envelope: Envelope, seats: Seats) -> int | None:
        """The index of the session's call that claims a name of the envelope, or None."""
        seat, prev_head = envelope.seat, envelope.prev_head
        key = self._key_of(id_name(row_id, seat, envelope.submission_id))
        # A head that is still its seat's was continued by no call.
        if key is None and prev_head != seats.head(seat):
            key = self._key_of(head_name(row_id, seat, prev_head))
        return None if key is None else key & ((1 << self._call_bits) - 1)

    def keep_equivocation(self, row_id: int, index: int, request: CallRequest, now_ms: int) -> None:
        """Keep a refused request whose envelope contradicts the call at `index`: once, and not too many."""
        envelope = request.envelope
        if envelope is None:
            return
        self._connection.execute(
            _INSERT_EQUIVOCATION,
            {
                "session": row_id,
                "call_index": index,
                "tool_id": request.tool_id,
                "request": request.request,
                "seen_at_ms": now_ms,
                "cursor": envelope.cursor,
                "seat": envelope.seat,
                "submission_id": envelope.submission_id,
                "client_time": envelope.client_time,
                "prev_head": envelope.prev_head,
                "signature": envelope.signature,
                "most": MAX_EQUIVOCATIONS,
            },
        )

    def take_names(self) -> list[tuple[bytes, int]]:
        """Rows of INSERT_NAMES: the names that were in memory alone, and are not any more."""
        names = sorted(self._names.items())
        self._names.clear()
        return names

    def delete(self, row_id: int) -> None:
        """Remove what is kept of a session beside its calls; its names are indexed."""
        self._connection.execute(
            "DELETE FROM submission_index WHERE name >= ? AND name < ?",
            name_range(row_id),
        )
        self._connection.execute("DELETE FROM equivocations WHERE session = ?", (row_id,))
        self._connection.execute("DELETE FROM rosters WHERE id = ?", (row_id,))

    def clear(self) -> None:
        """The transaction is undone."""
        self._names.clear()
        self.rows.clear()

    def _claim(self, key: int, seat: str, submission_id: str, prev_head: bytes) -> None:
        row_id = key >> self._call_bits
        self._names[id_name(row_id, seat, submission_id)] = key
        self._names[head_name(row_id, seat, prev_head)] = key

    def _key_of(self, name: bytes) -> int | None:
        key = self._names.get(name)
        if key is None:
            query = "SELECT key FROM submission_index WHERE name = ?"
            row = self._connection.execute(query, (name,)).fetchone()
            key = None if row is None else row[0]
        return key


def read_envelope(columns: Sequence[Any], cursor: int) -> Envelope:
    """The columns of `submissions` after seq."""
    seat, submission_id, client_time, prev_head, signature = columns
    return Envelope(seat, submission_id, cursor, client_time, Bytes32(prev_head), signature)


def read_equivocation(row: Sequence[Any]) -> Equivocation:
    """A row of SELECT_EQUIVOCATIONS."""
    call_index, tool_id, request, seen_at_ms, cursor, *columns = row
    return Equivocation(call_index, read_envelope(columns, cursor), tool_id, request, seen_at_ms)


def seats_to_bytes(seats: Seats) -> bytes:
    """Seats as they lie in an account's row: for each a length, the name, the head."""
    parts = []
    for item in seats.heads:
        name = item.seat.encode()
        parts.append(bytes((len(name),)) + name + item.head)
    return b"".join(parts)


def seats_from_bytes(data: bytes) -> Seats:
    """The reverse of `seats_to_bytes`."""
    heads = []
    start = 0
    while start < len(data):
        end = start + 1 + data[start]
        heads.append(SeatHead(data[start + 1 : end].decode(), Bytes32(data[end : end + _HEAD_BYTES])))
        start = end + _HEAD_BYTES
    return Seats(tuple(heads))


def _prefix(row_id: int) -> bytes:
    return row_id.to_bytes(_ROW_ID_BYTES, "big")
