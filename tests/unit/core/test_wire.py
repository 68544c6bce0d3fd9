"""HTTP wire forms: what one side writes, the other reads; what is malformed is refused with its code."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace

import pytest

from aioum.core import wire
from aioum.core.errors import AioumError
from aioum.core.payment import CallReceipt, CloseRequest, ReadAccess, Statement
from aioum.core.types import Address, Bytes32, ChannelId
from tests.pens import ROSTER

SECRET = b"s" * 32
CHANNEL = ChannelId(b"\x22" * 32)
SIGNATURE = b"\x01" * 65
REQUEST = wire.payment_request(
    price=5,
    token=Address(b"\x01" * 20),
    payee=Address(b"\x02" * 20),
    chain_id=31337,
    payment_manager=Address(b"\x03" * 20),
    suggested_deposit=100,
)
CHALLENGE = wire.Challenge.issue(SECRET, "node.example", REQUEST, "2026-04-01T12:05:00Z")
VOUCHER = wire.Credential(CHALLENGE, "voucher", CHANNEL, 5, SIGNATURE, source="did:pkh:eip155:1:0xab")


def _code(function: Callable[[], object]) -> str:
    with pytest.raises(AioumError) as caught:
        function()
    return caught.value.code


def test_a_challenge_survives_its_header_and_is_recognized() -> None:
    read = wire.Challenge.from_header(CHALLENGE.header())
    assert read == CHALLENGE
    assert read.is_ours(SECRET)
    assert read.request_json() == REQUEST


@pytest.mark.parametrize(
    "change", [{"realm": "other"}, {"request": "e30"}, {"expires": None}, {"intent": "charge"}, {"id": "x"}]
)
def test_an_altered_challenge_is_not_ours(change: dict[str, str | None]) -> None:
    assert not replace(CHALLENGE, **change).is_ours(SECRET)  # type: ignore[arg-type]
    assert not CHALLENGE.is_ours(b"t" * 32)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic realm=x",
        'Payment id="a"',
        "Payment " + "a" * 8_100,
        "Payment " + "a-" * 4_000,
        "Payment " + "a" * 9_000,
    ],
)
def test_a_header_that_is_no_challenge_is_refused(header: str) -> None:
    assert _code(lambda: wire.Challenge.from_header(header)) == "challenge-malformed"


def test_credentials_survive_their_header() -> None:
    opening = replace(VOUCHER, action="open", transaction=Bytes32(b"\x05" * 32), source=None)
    top_up = wire.Credential(CHALLENGE, "topUp", CHANNEL, transaction=Bytes32(b"\x06" * 32))
    signed = replace(VOUCHER, submission={"seat": "main", "cursor": 3})
    shown = replace(opening, roster=ROSTER.to_json())
    both = replace(shown, submission={"seat": "main", "cursor": 3})
    for credential in (VOUCHER, opening, top_up, signed, shown, both):
        assert wire.Credential.from_header(credential.header()) == credential


def test_a_roster_comes_with_an_opening_alone() -> None:
    shown = replace(VOUCHER, roster=ROSTER.to_json())
    read = wire.Credential.from_header(shown.header())
    # A seat's envelope has exactly its members, so whoever reads it as one refuses it.
    assert (read.roster, read.submission) == (None, {"roster": ROSTER.to_json()})


def _credential(change: Callable[[dict[str, object]], object]) -> str:
    value = wire.decode_token(VOUCHER.header().split(" ")[1], max_bytes=9_999, code="x")
    change(value)  # type: ignore[arg-type]
    return "Payment " + wire.encode_token(value)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda v: v.pop("payload"), "credential-malformed"),
        (lambda v: v.pop("challenge"), "challenge-malformed"),
        (lambda v: v.update(source=1), "credential-malformed"),
        (lambda v: v["payload"].update(channelId="0x00"), "credential-malformed"),
        (lambda v: v["payload"].update(cumulativeAmount="01"), "credential-malformed"),
        (lambda v: v["payload"].update(signature="zz"), "credential-malformed"),
        (lambda v: v["payload"].update(aioum=[]), "credential-malformed"),
        (
            lambda v: v["payload"].update(
                action="open", type="hash", hash="0x" + "05" * 32, aioum={"roster": {}}
            ),
            "credential-malformed",
        ),
        (
            lambda v: v["payload"].update(action="topUp", type="hash", hash="0x" + "05" * 32, aioum={}),
            "credential-malformed",
        ),
        (lambda v: v["payload"].update(action="close"), "action-unsupported"),
        (lambda v: v["payload"].update(action="open", type="permit2"), "action-unsupported"),
        (lambda v: v["payload"].update(action="open", type="hash", hash="0x"), "credential-malformed"),
    ],
)
def test_a_malformed_credential_is_refused(change: Callable[[dict[str, object]], object], code: str) -> None:
    header = _credential(change)
    assert _code(lambda: wire.Credential.from_header(header)) == code


@pytest.mark.parametrize(
    "token",
    ["", "a=b", "!!", base64.urlsafe_b64encode(b'{"a":1,"a":2}').decode().rstrip("="), "e" * 30_000, "WzFd"],
)
def test_a_token_that_is_not_strict_base64url_json_is_refused(token: str) -> None:
    assert _code(lambda: wire.Credential.from_header("Payment " + token)) == "credential-malformed"


def test_another_authorization_scheme_is_no_credential() -> None:
    assert _code(lambda: wire.Credential.from_header("Bearer abc")) == "credential-malformed"


def test_receipts_statements_reads_and_closes_survive_their_forms() -> None:
    receipt = wire.SignedReceipt(CallReceipt(CHANNEL, 7, Bytes32(b"\x07" * 32), 5), SIGNATURE)
    assert wire.SignedReceipt.from_header(receipt.header()) == receipt
    statement = wire.SignedStatement(Statement(CHANNEL, 7, Bytes32(b"\x08" * 32), 35), SIGNATURE)
    assert wire.SignedStatement.from_json(statement.to_json(), CHANNEL) == statement
    access = ReadAccess(CHANNEL, 1_800_000_000)
    assert wire.parse_read_access(wire.read_access_header(access, SIGNATURE)) == (access, SIGNATURE)
    close = CloseRequest(CHANNEL, 7)
    assert wire.parse_close_request(wire.close_request_json(close, SIGNATURE), CHANNEL) == (close, SIGNATURE)


@pytest.mark.parametrize(
    ("read", "code"),
    [
        (lambda: wire.SignedReceipt.from_header("e30"), "receipt-malformed"),
        (lambda: wire.SignedReceipt.from_header("?"), "receipt-malformed"),
        (lambda: wire.SignedStatement.from_json([], CHANNEL), "statement-malformed"),
        (lambda: wire.SignedStatement.from_json({"callCount": True}, CHANNEL), "statement-malformed"),
        (
            lambda: wire.SignedStatement.from_json({"callCount": 1, "root": "0x"}, CHANNEL),
            "statement-malformed",
        ),
        (lambda: wire.parse_read_access("AioumRead e30"), "read-access-malformed"),
        (lambda: wire.parse_read_access("Payment e30"), "read-access-malformed"),
        (lambda: wire.parse_close_request([], CHANNEL), "close-request-malformed"),
        (lambda: wire.parse_close_request({"callCount": -1}, CHANNEL), "close-request-malformed"),
    ],
)
def test_malformed_words_and_requests_are_refused(read: Callable[[], object], code: str) -> None:
    assert _code(read) == code
