"""What is fuzzed: each target reads bytes of strangers, and says what must hold of whatever it accepts.

A target may refuse with the exceptions that its reader documents. Anything else that is raised, also by a
property of what was accepted, is a finding; so are time and memory beyond the engine's limits.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from aioum.core.canonical import canonical_bytes, parse_json
from aioum.core.card import MAX_CARD_BYTES, descriptor_hash, parse_card
from aioum.core.errors import CanonicalError, InvalidInput, Refused
from aioum.core.evidence import package_bytes
from aioum.core.evidence_reading import parse_package
from aioum.core.hashing import keccak256
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.roster import Roster
from aioum.core.transcript import canonical_request
from aioum.core.types import Bytes32, ChannelId
from aioum.core.wire import (
    Challenge,
    Credential,
    SignedReceipt,
    SignedStatement,
    close_request_json,
    encode_token,
    parse_close_request,
    parse_read_access,
    read_access_header,
)
from aioum.kits.archive import read_archive, write_archive
from aioum.replay.problems import ArtifactInvalid
from aioum.replay.reading import read_artifact
from aioum.verify.package import verify_package
from aioum_node.cards import Offer
from aioum_node.planning import PaidRequest, plan_call
from tests.fuzz import seeds

T = TypeVar("T")
MAX_BYTES: Final = 16_384
_CHANNEL: Final = ChannelId(b"\x07" * 32)


@dataclass(frozen=True, slots=True)
class Target:
    """One reader.

    Attributes:
        check: reads bytes; raises where something is wrong with the reader, not with the bytes.
        seeds: what the engine begins with: things that are accepted, and the shapes near them.
        json: the bytes are JSON, so that the engine may also change values instead of bytes.
    """

    name: str
    check: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    json: bool = True


def accepted(read: Callable[[], T], *refusals: type[Exception]) -> T | None:
    """What a reader gives, or None where it refuses as it documents."""
    try:
        return read()
    except refusals:
        return None


def load(data: bytes) -> None:
    """The strict loader: what it takes has one canonical text, which it takes again."""
    value = accepted(lambda: parse_json(data, max_bytes=MAX_BYTES), CanonicalError)
    text = accepted(data.decode, UnicodeDecodeError)
    if text is not None:
        as_text = accepted(lambda: parse_json(text, max_bytes=MAX_BYTES), CanonicalError)
        assert as_text == value, "text and its bytes are read differently"
    if value is None:
        return
    assert json.loads(data, parse_int=_number) == value, "the standard library reads something else"
    canonical = canonical_bytes(value)
    again = parse_json(canonical, max_bytes=8 * MAX_BYTES)
    assert canonical_bytes(again) == canonical, "the canonical text is not its own"


def _number(literal: str) -> int | float:
    return int(literal) if abs(int(literal)) < 2**53 else float(literal)


def read_credential(data: bytes) -> None:
    """An `Authorization` value: raw, or the token of whatever JSON there is."""
    texts = [data.decode("latin-1"), "Payment " + base64.urlsafe_b64encode(data).rstrip(b"=").decode()]
    for text in texts:
        credential = accepted(lambda text=text: Credential.from_header(text), InvalidInput)  # type: ignore[misc]
        if credential is None:
            continue
        assert Credential.from_header(credential.header()) == credential, "the credential reads differently"
        credential.challenge.is_ours(b"\x01" * 32)
        accepted(credential.challenge.request_json, InvalidInput)
        if credential.submission is not None:
            members = credential.submission
            envelope = accepted(lambda members=members: Envelope.from_json(members), InvalidInput)  # type: ignore[misc]
            assert envelope is None or envelope.to_json() == members, "the envelope reads differently"
        if credential.roster is not None:
            entries = credential.roster
            roster = accepted(lambda entries=entries: Roster.from_json(entries, max_seats=64), InvalidInput)  # type: ignore[misc]
            assert roster is None or len(roster.hash) == 32


def read_headers(data: bytes) -> None:
    """The other headers and bodies of the wire."""
    raw = data.decode("latin-1")
    challenge = accepted(lambda: Challenge.from_header(raw), InvalidInput)
    if challenge is not None:
        accepted(challenge.request_json, InvalidInput)
    token = base64.urlsafe_b64encode(data).rstrip(b"=").decode()
    receipt = accepted(lambda: SignedReceipt.from_header(token), InvalidInput)
    assert receipt is None or SignedReceipt.from_header(receipt.header()) == receipt
    access = accepted(lambda: parse_read_access("AioumRead " + token), InvalidInput)
    assert access is None or parse_read_access(read_access_header(*access)) == access
    value = accepted(lambda: parse_json(data, max_bytes=MAX_BYTES), CanonicalError)
    statement = accepted(lambda: SignedStatement.from_json(value, _CHANNEL), InvalidInput)
    assert statement is None or SignedStatement.from_json(statement.to_json(), _CHANNEL) == statement
    close = accepted(lambda: parse_close_request(value, _CHANNEL), InvalidInput)
    assert close is None or parse_close_request(close_request_json(*close), _CHANNEL) == close
    if isinstance(value, dict):
        # What is read from JSON goes on the wire again as a token.
        encode_token(value)


def read_card(data: bytes) -> None:
    """A service card: its prices are integers, and its hash is that of its canonical text."""
    value = accepted(lambda: parse_json(data, max_bytes=MAX_CARD_BYTES), CanonicalError)
    card = accepted(lambda: parse_card(value), InvalidInput)
    if card is None:
        return
    assert all(type(tool.price) is int and tool.price >= 0 for tool in card.tools)
    assert descriptor_hash(value) == keccak256(canonical_bytes(value))


def read_package(data: bytes) -> None:
    """An evidence package, and every check of it that needs no chain."""
    package = accepted(lambda: parse_package(data, max_bytes=MAX_BYTES * 4), InvalidInput)
    if package is None:
        return
    report = driven(verify_package(package, chain=None))
    json.dumps(report.to_json())
    value = parse_json(data, max_bytes=MAX_BYTES * 4)
    assert isinstance(value, dict)
    parse_package(package_bytes(value), max_bytes=MAX_BYTES * 8)


def plan_request(data: bytes) -> None:
    """The body of a paid call, for both kinds of session."""
    for tool_id in ("strict", "any", "none"):
        for envelope in (None, seeds.ENVELOPE):
            paid = PaidRequest(_CHANNEL, tool_id, data, 10, b"v", envelope)
            plan = accepted(
                lambda paid=paid: plan_call(  # type: ignore[misc]
                    paid, _OFFER, max_request_bytes=MAX_BYTES, canonicalize=canonical_request
                ),
                InvalidInput,
                Refused,
            )
            if plan is not None:
                assert parse_json(plan.request.request, max_bytes=MAX_BYTES * 2) is not None
                assert len(plan.request.request) <= MAX_BYTES


def replay(data: bytes) -> None:
    """A replay artifact."""
    accepted(lambda: read_artifact(data), ArtifactInvalid)


def kit(data: bytes) -> None:
    """A verifier kit: only the canonical archive of its files is one."""
    files = accepted(lambda: read_archive(data), InvalidInput)
    assert files is None or write_archive(files) == data


def driven(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits for something")


def _offer() -> Offer:
    canonical = canonical_bytes(seeds.card())
    return Offer.of(Bytes32(keccak256(canonical)), canonical)


_OFFER: Final = _offer()

TARGETS: Final[Mapping[str, Target]] = {
    target.name: target
    for target in (
        Target("loader", load, seeds.texts),
        Target("credential", read_credential, seeds.credentials),
        Target("package", read_package, seeds.packages),
        Target("card", read_card, seeds.cards),
        Target("headers", read_headers, seeds.wire_values),
        Target("request", plan_request, seeds.requests),
        Target("replay", replay, seeds.artifacts, json=False),
        Target("kit", kit, seeds.kits, json=False),
    )
}
