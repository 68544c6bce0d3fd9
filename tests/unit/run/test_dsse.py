import json
from typing import Any

import pytest

from aioum.core.canonical import canonical_bytes, parse_json
from aioum.core.errors import AioumError
from aioum.run.dsse import Envelope, pre_authentication_encoding, sign_envelope
from aioum.run.keys import SigningKey, require_signature
from tests.unit.run.samples import OWNER, OWNER_ML_DSA, STRANGER

TYPE = "application/vnd.example+json"
ENVELOPE = sign_envelope(TYPE, b'{"a":1}', [OWNER, OWNER_ML_DSA])


def refused(change: dict[str, Any]) -> str:
    with pytest.raises(AioumError) as caught:
        Envelope.from_json({**ENVELOPE.to_json(), **change})
    return caught.value.code


def with_signature(**change: Any) -> dict[str, Any]:
    signatures: Any = ENVELOPE.to_json()["signatures"]
    return {"signatures": [{**signatures[0], **change}]}


def test_what_is_signed_is_the_specifications_example() -> None:
    signed = pre_authentication_encoding("http://example.com/HelloWorld", b"hello world")
    assert signed == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_an_envelope_reads_back_as_it_was_written_and_its_signatures_fit() -> None:
    read = Envelope.from_json(parse_json(canonical_bytes(ENVELOPE.to_json()), max_bytes=10_000))
    assert read == ENVELOPE
    keys: tuple[SigningKey, ...] = (OWNER, OWNER_ML_DSA)
    for key, signature in zip(keys, read.signatures, strict=True):
        require_signature(key.alg, key.public_key, read.signed_bytes(), signature.signature)


def test_lengths_keep_the_type_and_the_payload_apart() -> None:
    assert pre_authentication_encoding("a", b"b c") != pre_authentication_encoding("a b", b"c")


@pytest.mark.parametrize(
    "payload",
    [
        "eyJhIjoxfR==",  # ends in bits that mean nothing
        "eyJhIjoxfQ",
        "eyJhIjoxfQ=",
        "eyJhIjoxfQ===",
        "eyJhIjoxfQ==\n",
        " eyJhIjoxfQ==",
        "eyJhIjox\nfQ==",
        "--__",
        "e\u0443Jh",
    ],
)
def test_a_payload_in_another_spelling_of_base64_is_refused(payload: str) -> None:
    assert refused({"payload": payload}) == "dsse-base64-invalid"


def test_a_signature_in_another_spelling_of_base64_is_refused() -> None:
    text: str = with_signature()["signatures"][0]["sig"]
    # 64 bytes leave four bits over.
    assert text.endswith("g==") or text.endswith("A==") or text.endswith("w==") or text.endswith("Q==")
    tail = chr(ord(text[-3]) + 1)
    assert refused(with_signature(sig=text[:-3] + tail + "==")) == "dsse-base64-invalid"
    assert refused(with_signature(sig=text.rstrip("="))) == "dsse-base64-invalid"


@pytest.mark.parametrize(
    "change",
    [
        {"payloadType": ""},
        {"payloadType": 1},
        {"payloadType": "é"},
        {"payloadType": "a\nb"},
        {"payloadType": "a" * 256},
        {"payload": ""},
        {"payload": 5},
        {"payload": "A" * 90_000},
        {"signatures": {}},
        {"signatures": ["sig"]},
        {"signatures": [{"sig": "AAAA"}]},
        with_signature(cert="x"),
        with_signature(keyid=""),
        with_signature(keyid="AB" * 32),
        with_signature(keyid=None),
        with_signature(sig=""),
        with_signature(sig=None),
        with_signature(sig="A" * 4_420),
        {"signatures": with_signature()["signatures"] * 17},
        {"note": "unknown"},
    ],
)
def test_an_envelope_with_a_wrong_member_is_malformed(change: dict[str, Any]) -> None:
    assert refused(change) == "dsse-malformed"


def test_an_envelope_without_a_member_is_malformed() -> None:
    for member in ENVELOPE.to_json():
        value = ENVELOPE.to_json()
        del value[member]
        with pytest.raises(AioumError) as caught:
            Envelope.from_json(value)
        assert caught.value.code == "dsse-malformed"


def test_two_signatures_under_one_key_id_are_refused() -> None:
    twice = with_signature()["signatures"] * 2
    assert refused({"signatures": twice}) == "dsse-signature-duplicate"


@pytest.mark.parametrize("repeated", ["payload", "payloadType", "signatures", "payloa\\u0064"])
def test_a_member_that_occurs_twice_is_refused(repeated: str) -> None:
    other = json.dumps(sign_envelope(TYPE, b"{}", [STRANGER]).to_json()["payload"])
    text = json.dumps(ENVELOPE.to_json())[:-1] + f', "{repeated}": {other}}}'
    with pytest.raises(AioumError) as caught:
        parse_json(text, max_bytes=100_000)
    assert caught.value.code == "json-duplicate-key"
