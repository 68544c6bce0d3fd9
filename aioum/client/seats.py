"""Seats of a signed session: who may ask, with which keys, and what each signs next (PROTOCOL 5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from aioum.client.book import Book
from aioum.client.context import ClientContext
from aioum.client.results import CallResult
from aioum.client.service import Offer
from aioum.core.canonical import JsonValue, canonical_bytes
from aioum.core.errors import ConfigError, InvalidInput, PolicyRefused
from aioum.core.purse import Outstanding
from aioum.core.submission.envelope import Envelope, check_seat
from aioum.core.submission.framing import SCHEME
from aioum.core.submission.keys import KEY_SIZE_BYTES, SubmissionKey
from aioum.core.submission.roster import Roster, RosterEntry

CLIENT_SEAT: Final = "client"
"""The seat of whoever opened the session."""

MAX_ROSTER_BYTES: Final = 4_096
"""Most bytes of a roster's JSON: it travels in a header, beside a challenge and a signed call."""

_SUBMISSION_ID_BYTES: Final = 16


def choose_keys(
    context: ClientContext,
    offer: Offer,
    *,
    signed: bool,
    seats: Iterable[str],
    own: Mapping[str, SubmissionKey],
) -> dict[str, SubmissionKey]:
    """The keys of a session to open, by seat: the caller's own, and new ones; none for an unsigned session.

    Args:
        context: the client.
        offer: the service.
        signed: whether to sign calls where the service takes signed ones.
        seats: names beside the client's own seat.
        own: keys that the caller brings along, by seat.

    Raises:
        PolicyRefused: `signed-calls-required`.
        InvalidInput: `seats-unsigned`, seats were named for a session without signatures; `seat-invalid`;
            `roster-too-large`.
    """
    names = dict.fromkeys((CLIENT_SEAT, *seats, *own))
    if not signed or offer.card.submissions != SCHEME:
        if context.policy.require_signed or offer.card.submissions_required:
            raise PolicyRefused(
                f"{'the policy' if context.policy.require_signed else 'the service'} wants signed calls, "
                + (f"the service takes none of {SCHEME}" if signed else "the session was to have none"),
                code="signed-calls-required",
            )
        if len(names) > 1 or own:
            raise InvalidInput(
                "a session without signed calls has no seats",
                code="seats-unsigned",
                hint=None if not signed else "the service takes no signed calls",
            )
        return {}
    for name in names:
        check_seat(name)
    if len(names) > offer.card.limits.max_seats:
        raise InvalidInput(
            f"{len(names)} seats are named, the service takes {offer.card.limits.max_seats}",
            code="roster-too-large",
        )
    keys = {name: own.get(name) or SubmissionKey(context.random_bytes(KEY_SIZE_BYTES)) for name in names}
    size_bytes = len(canonical_bytes(roster_of(keys).to_json()))
    if size_bytes > MAX_ROSTER_BYTES:
        raise InvalidInput(
            f"a roster of {len(keys)} seats has {size_bytes} of at most {MAX_ROSTER_BYTES} bytes",
            code="roster-too-large",
            hint="open another session for the other seats",
        )
    return keys


def roster_of(keys: Mapping[str, SubmissionKey]) -> Roster:
    """The roster of a paid session: every seat signs each of its calls."""
    return Roster(tuple(RosterEntry(seat, key.public_key) for seat, key in keys.items()))


@dataclass(frozen=True, slots=True)
class SeatKeys:
    """The secret keys of a session, as far as this client can use them.

    Attributes:
        by_seat: those that it can.
        unusable: why it may not use the file of those that it made, or None.
    """

    by_seat: Mapping[str, SubmissionKey]
    unusable: ConfigError | None = None


async def load_keys(context: ClientContext, book: Book, own: Mapping[str, SubmissionKey]) -> SeatKeys:
    """The keys of a kept session: the caller's own, and those that this client made.

    What is missing or unusable shows when the seat is to sign: a session can be closed without any.

    Raises:
        InvalidInput: `seat-unknown`, `seat-key-mismatch`; a key of the caller's fits no seat.
    """
    for seat, key in own.items():
        if require_seat(book, seat).public_key != key.public_key:
            raise InvalidInput(
                f"the key is not the one that seat {seat} has in this session", code="seat-key-mismatch"
            )
    if book.facts.roster is None:
        return SeatKeys({})
    try:
        made = await context.seat_keys.load(book.facts.channel_id)
    except ConfigError as error:
        return SeatKeys(own, error)
    return SeatKeys({**made, **own})


def require_seat(book: Book, seat: str) -> RosterEntry:
    """The seat of the session's roster. Raises InvalidInput `seat-unknown`."""
    roster = book.facts.roster
    entry = None if roster is None else roster.entry(seat)
    if entry is None:
        known = "none, its calls are not signed" if roster is None else ", ".join(roster.seats)
        raise InvalidInput(
            f"the session has no seat {seat!r:.150}",
            code="seat-unknown",
            hint=f"it has: {known:.500}; seats are named when a session is opened",
        )
    return entry


Ask = Callable[[str, str, dict[str, JsonValue]], Awaitable[CallResult]]
"""Seat, tool id and arguments to the answer."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A seat of an open session, as a sub-agent holds it: its calls are signed with its own key.

    Attributes:
        public_key: 32 bytes, as the roster has it.
    """

    name: str
    public_key: bytes
    _ask: Ask = field(repr=False)

    async def call(
        self, tool_id: str, arguments: Mapping[str, JsonValue] | None = None, /, **more: JsonValue
    ) -> CallResult:
        """Buy one call as this seat; see `PaidSession.call`."""
        return await self._ask(self.name, tool_id, {**(arguments or {}), **more})


class SeatSigner:
    """Signs the calls of one session. Heads are the book's; one task at a time signs and keeps."""

    def __init__(self, context: ClientContext, book: Book, keys: SeatKeys) -> None:
        """Args: keys: none in an unsigned session."""
        self._context = context
        self._book = book
        self._keys = keys

    def sign(self, seat: str, call: Outstanding) -> Envelope | None:
        """The envelope of a seat's next call; None in an unsigned session. Keep it before it is sent.

        Raises:
            InvalidInput: `seat-unknown`.
            PolicyRefused: `seat-key-lost`.
            ConfigError: `seat-keys-exposed`, `seat-keys-damaged`.
        """
        if self._book.facts.roster is None:
            return None
        key, head = self._key(seat), self._book.seats.head(seat)
        if head is None:
            raise AssertionError("every seat of the roster has a head")
        return Envelope.sign(
            key,
            self._book.facts.channel_id,
            call.request,
            seat=seat,
            submission_id=self._context.random_bytes(_SUBMISSION_ID_BYTES).hex(),
            cursor=call.index,
            client_time=self._context.now_ms(),
            prev_head=head,
        )

    def _key(self, seat: str) -> SubmissionKey:
        entry = require_seat(self._book, seat)
        key = self._keys.by_seat.get(seat)
        if key is None and self._keys.unusable is not None:
            raise self._keys.unusable
        if key is None or key.public_key != entry.public_key:
            raise PolicyRefused(
                f"the secret key of seat {seat} is not in the data directory, and the roster names no other",
                code="seat-key-lost",
                hint="resume with seat_keys if you hold it; else close() the session and open another",
            )
        return key
