"""What fuzzing begins with: things that are accepted, made as the project makes them, and its own vectors."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final

from aioum.core.canonical import canonical_bytes
from aioum.core.evidence import disclose
from aioum.core.payment import CallReceipt, CloseRequest, ReadAccess, Statement
from aioum.core.types import Bytes32, ChannelId
from aioum.core.wire import (
    Challenge,
    Credential,
    SignedReceipt,
    SignedStatement,
    close_request_json,
    payment_request,
)
from tests.pens import ROSTER, Pen
from tests.unit.kits.samples import make_artifact, make_kit
from tests.unit.replay.samples import artifact, every_kind, header, signed_header
from tests.unit.verify.honest import DOMAIN, OPERATOR, TOKEN, Honest, card_json

VECTORS: Final = Path(__file__).resolve().parent.parent / "vectors"
CHANNEL: Final = ChannelId(b"\x07" * 32)
ENVELOPE: Final = Pen(CHANNEL).draft(b"{}", 0)
_SIGNATURE: Final = b"\x1b" * 65


def texts() -> list[bytes]:
    """JSON texts, canonical, other, and refused."""
    vectors = json.loads((VECTORS / "canonical-json.json").read_text(encoding="utf-8"))
    found = [case.encode("utf-8", "surrogatepass") for case in _strings(vectors)]
    return [text for text in found if text] or [b"{}"]


def card() -> dict[str, Any]:
    """A card with a tool that takes anything, and one that is strict."""
    value = card_json()
    tool = dict(value["tools"][0])
    strict = {
        "type": "object",
        "required": ["text"],
        "additionalProperties": False,
        "properties": {"text": {"type": "string", "maxLength": 9}, "n": {"type": "integer"}},
    }
    value["tools"] = [
        {**tool, "id": "any", "inputSchema": {"type": "object"}},
        {**tool, "id": "strict", "inputSchema": strict},
    ]
    return value


def cards() -> list[bytes]:
    """Cards of both kinds."""
    return [canonical_bytes(value) for value in (card(), card_json(), card_json(deterministic=False))]


def packages() -> list[bytes]:
    """Whole and disclosed, unsigned and signed."""
    unsigned, signed = Honest(), Honest(seats=("client", "helper"))
    whole = [unsigned.package(), signed.package()]
    return [canonical_bytes(value) for value in (*whole, *(disclose(item, [1, 4]) for item in whole))]


def credentials() -> list[bytes]:
    """The JSON inside credentials, and one whole header."""
    request = payment_request(
        price=1, token=TOKEN, payee=OPERATOR.address, chain_id=DOMAIN.chain_id,
        payment_manager=DOMAIN.payment_manager, suggested_deposit=100,
    )  # fmt: skip
    challenge = Challenge.issue(b"\x01" * 32, "aioum", request, "2030-01-01T00:00:00Z")
    hashed = Bytes32(b"\x02" * 32)
    found = [
        Credential(challenge, "voucher", CHANNEL, 10, _SIGNATURE),
        Credential(challenge, "voucher", CHANNEL, 10, _SIGNATURE, submission=ENVELOPE.to_json()),
        Credential(challenge, "topUp", CHANNEL, transaction=hashed),
        Credential(challenge, "open", CHANNEL, 0, _SIGNATURE, transaction=hashed, roster=ROSTER.to_json()),
        Credential(
            challenge, "open", CHANNEL, 7, _SIGNATURE, hashed, "did:pkh:x", ENVELOPE.to_json(),
            ROSTER.to_json(),
        ),
    ]  # fmt: skip
    headers = [credential.header() for credential in found]
    return [_token(header.partition(" ")[2]) for header in headers] + [headers[0].encode()]


def wire_values() -> list[bytes]:
    """Challenges, and what is inside receipts, reads, closes and statements."""
    receipt = SignedReceipt(CallReceipt(CHANNEL, 3, Bytes32(b"\x03" * 32), 7), _SIGNATURE)
    read = ReadAccess(CHANNEL, 1_800_000_000)
    statement = SignedStatement(Statement(CHANNEL, 3, Bytes32(b"\x04" * 32), 7), _SIGNATURE)
    return [
        Challenge.issue(b"\x01" * 32, "aioum", {"amount": "1"}, None).header().encode(),
        _token(receipt.header()),
        canonical_bytes(
            {"channelId": "0x" + "07" * 32, "expiresAt": read.expires_at, "signature": "0x" + "1b" * 65}
        ),
        canonical_bytes(close_request_json(CloseRequest(CHANNEL, 3), _SIGNATURE)),
        canonical_bytes(statement.to_json()),
    ]


def requests() -> list[bytes]:
    """Arguments."""
    return [
        b"",
        b"{}",
        b'{"text":"hey"}',
        b'{"n":1,"text":"x"}',
        b'{"a":[1.5,null,true,{"\\ud83d\\ude00":""}]}',
    ]


def artifacts() -> list[bytes]:
    """Artifacts of the replay format."""
    return [make_artifact(), artifact(header()), artifact(signed_header(), *every_kind())]


def kits() -> list[bytes]:
    """Archives."""
    return [make_kit().archive, make_kit("node-esm").archive]


def _token(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for member in members for text in _strings(member)]
