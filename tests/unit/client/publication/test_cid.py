"""What a CID's text says, and which texts are none."""

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioum.client.publication.cid import DAG_PB, RAW, Cid, parse_cid
from aioum.core.errors import InvalidInput

EMPTY = hashlib.sha256(b"").digest()
RAW_EMPTY = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"


def base32(data: bytes) -> str:
    return "b" + base64.b32encode(data).decode().rstrip("=").lower()


@given(st.binary(min_size=32, max_size=32), st.sampled_from([(0, DAG_PB), (1, DAG_PB), (1, RAW)]))
def test_text_and_cid_are_one_to_one(digest: bytes, form: tuple[int, int]) -> None:
    cid = Cid(*form, digest)
    assert parse_cid(str(cid)) == cid
    assert len(str(cid)) == (46 if form[0] == 0 else 59)


@pytest.mark.parametrize(
    "text, cid",
    [
        (RAW_EMPTY, Cid(1, RAW, EMPTY)),
        (
            "QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH",
            Cid(0, DAG_PB, hashlib.sha256(bytes.fromhex("0a0408021800")).digest()),
        ),
        # Version 1 in base58, as older programs print it.
        (
            "zdj7WbTaiJT1fgatdet9Ei9iDB5hdCxkbVyhyh8YTUnXMiwYi",
            parse_cid("bafybeiczsscdsbs7ffqz55asqdf3smv6klcw3gofszvwlyarci47bgf354"),
        ),
    ],
)
def test_known_texts_are_read(text: str, cid: Cid) -> None:
    assert parse_cid(text) == cid


@pytest.mark.parametrize(
    "text",
    [
        "",
        "b",
        "x" * 129,
        RAW_EMPTY[:-1],
        RAW_EMPTY + "a",
        RAW_EMPTY.replace("f", "F"),
        RAW_EMPTY.replace("k", "1"),
        # The last character's spare bits set: another spelling of the same bytes.
        RAW_EMPTY[:-1] + "v",
        base32(bytes((2, RAW, 0x12, 0x20)) + EMPTY),
        base32(bytes((1, RAW, 0x12, 0x20)) + EMPTY[:-1]),
        base32(bytes((1, RAW, 0x12, 0x20)) + EMPTY + b"\0"),
        "Qm",
        "Qm0FMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH",
        "QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQHH",
        "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvykü",
    ],
)
def test_what_is_no_cid_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_cid(text)
    assert caught.value.code == "cid-invalid"


@pytest.mark.parametrize(
    "text",
    [
        # dag-cbor; SHA-512; BLAKE3; base16; base36.
        base32(bytes((1, 0x71, 0x12, 0x20)) + EMPTY),
        base32(bytes((1, RAW, 0x13, 0x40)) + bytes(64)),
        base32(bytes((1, RAW, 0x1E, 0x20)) + EMPTY),
        f"f{Cid(1, RAW, EMPTY).to_bytes().hex()}",
        "k2jmtxv5nbmlpj0eyvh4bc0wkzfz1kwjzy0",
    ],
)
def test_a_form_that_evidence_is_not_published_in_is_named_as_such(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_cid(text)
    assert caught.value.code == "cid-unsupported"
