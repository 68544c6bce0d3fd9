"""The `submissions` of an evidence package: roster and signed calls (PROTOCOL 5, 7).

An envelope lies beside the call that it asked for, so the request is not repeated. Only an envelope whose
request is not that of the package's call of its index carries it: a signed call without an answer, at the
index behind the last call, or a second call signed for an index that has another.
"""

from __future__ import annotations

from dataclasses import dataclass

from aioum.core.canonical import JsonValue
from aioum.core.errors import InvalidInput
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.framing import MAX_COMMAND_BYTES
from aioum.core.submission.roster import Roster

_CODE = "submission-malformed"
_MEMBERS = frozenset({"index", "seat", "submissionId", "clientTime", "prevHead", "sig"})


@dataclass(frozen=True, slots=True)
class SubmissionEntry:
    """One signed call.

    Attributes:
        index: the call's index, which is the envelope's cursor.
        request: canonical request in UTF-8, where the package has no call that shows it; else None.

    Raises:
        InvalidInput: `submission-malformed`, index and cursor differ.
    """

    index: int
    envelope: Envelope
    request: bytes | None = None

    def __post_init__(self) -> None:
        """One of the two positions is not written down."""
        if self.index != self.envelope.cursor:
            raise InvalidInput(
                f"the envelope of call {self.index} is signed for index {self.envelope.cursor}", code=_CODE
            )

    def to_json(self) -> dict[str, JsonValue]:
        """The members: those of the envelope with `index` for `cursor`, and `request` where there is one."""
        value = self.envelope.to_json()
        value["index"] = value.pop("cursor")
        if self.request is not None:
            value["request"] = self.request.decode()
        return value

    @classmethod
    def from_json(cls, value: JsonValue) -> SubmissionEntry:
        """Read exactly those members.

        Raises:
            InvalidInput: `submission-malformed`.
        """
        if not isinstance(value, dict) or value.keys() - {"request"} != _MEMBERS:
            raise InvalidInput(f"a signed call has exactly {', '.join(sorted(_MEMBERS))}", code=_CODE)
        members = dict(value)
        request = _request(members.pop("request")) if "request" in members else None
        members["cursor"] = members.pop("index")
        envelope = Envelope.from_json(members)
        return cls(envelope.cursor, envelope, request)


@dataclass(frozen=True, slots=True)
class Submissions:
    """Roster and signed calls, ascending by index."""

    roster: Roster
    entries: tuple[SubmissionEntry, ...]

    def to_json(self) -> dict[str, JsonValue]:
        """The package's `submissions` member."""
        return {"roster": self.roster.to_json(), "entries": [entry.to_json() for entry in self.entries]}

    @classmethod
    def from_json(cls, value: JsonValue) -> Submissions:
        """Read the member as a whole; a verifier that names every wrong entry reads them one by one.

        Raises:
            InvalidInput: `submission-malformed`, `roster-invalid`.
        """
        roster, entries = submissions_parts(value)
        return cls(Roster.from_json(roster), tuple(SubmissionEntry.from_json(entry) for entry in entries))


def submissions_parts(value: JsonValue) -> tuple[JsonValue, list[JsonValue]]:
    """Roster and entries, as they came. Raises InvalidInput `submission-malformed`."""
    if not isinstance(value, dict) or value.keys() != {"roster", "entries"}:
        raise InvalidInput("submissions have exactly the members entries, roster", code=_CODE)
    entries = value["entries"]
    if not isinstance(entries, list):
        raise InvalidInput("the entries of submissions are not an array", code=_CODE)
    return value["roster"], entries


def _request(value: JsonValue) -> bytes:
    try:
        if isinstance(value, str):
            request = value.encode()
            if len(request) <= MAX_COMMAND_BYTES:
                return request
    except UnicodeEncodeError:
        pass
    raise InvalidInput(f"a request is text of at most {MAX_COMMAND_BYTES} bytes of UTF-8", code=_CODE)
