"""Signatures: malleable, malformed and foreign ones are refused with their own codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioum.core import signing
from aioum.core.errors import AioumError
from aioum.core.hextext import from_hex

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
CLIENT = json.loads((Path(__file__).parents[2] / "vectors" / "eip712.json").read_text(encoding="utf-8"))[
    "client"
]
KEY = signing.LocalKey.from_hex(CLIENT["privateKey"])
DIGEST = bytes(range(32))


def _code(digest: bytes, signature: bytes) -> str:
    with pytest.raises(AioumError) as caught:
        signing.recover(digest, signature)
    return caught.value.code


@given(digest=st.binary(min_size=32, max_size=32))
@settings(max_examples=50)
def test_signatures_are_deterministic_low_s_and_recover(digest: bytes) -> None:
    signature = KEY.sign_digest(digest)
    assert signature == KEY.sign_digest(digest)
    assert int.from_bytes(signature[32:64], "big") <= ORDER // 2
    assert signing.recover(digest, signature) == KEY.address


def test_a_high_s_signature_is_refused() -> None:
    signature = KEY.sign_digest(DIGEST)
    high = ORDER - int.from_bytes(signature[32:64], "big")
    flipped = signature[:32] + high.to_bytes(32, "big") + bytes((27 + 28 - signature[64],))
    assert _code(DIGEST, flipped) == "signature-high-s"


@pytest.mark.parametrize("size", [0, 64, 66])
def test_a_signature_of_another_length_is_refused(size: int) -> None:
    assert _code(DIGEST, bytes(size)) == "signature-malformed"


def test_a_signature_of_a_wallet_that_is_not_deployed_is_told_apart() -> None:
    wrapped = bytes(96) + KEY.sign_digest(DIGEST) + signing.COUNTERFACTUAL_SUFFIX
    assert _code(DIGEST, wrapped) == "signature-counterfactual"


@pytest.mark.parametrize("v", [0, 1, 26, 29])
def test_v_other_than_27_and_28_is_refused(v: int) -> None:
    assert _code(DIGEST, KEY.sign_digest(DIGEST)[:64] + bytes((v,))) == "signature-malformed"


def test_zero_r_or_s_is_refused() -> None:
    signature = KEY.sign_digest(DIGEST)
    assert _code(DIGEST, bytes(32) + signature[32:]) == "signature-invalid"
    assert _code(DIGEST, signature[:32] + bytes(32) + signature[64:]) == "signature-invalid"


def test_another_signer_is_named_as_a_mismatch() -> None:
    with pytest.raises(AioumError) as caught:
        signing.require_signer(DIGEST, KEY.sign_digest(DIGEST), type(KEY.address)(bytes(20)))
    assert caught.value.code == "signer-mismatch"


@pytest.mark.parametrize("text", ["", "0x12", "11" * 32, "0x" + "00" * 32, "0x" + "ff" * 32])
def test_a_bad_private_key_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(AioumError) as caught:
        signing.LocalKey.from_hex(text)
    assert caught.value.code == "key-invalid"
    assert not text or text not in str(caught.value)


def test_repr_never_shows_the_secret() -> None:
    assert CLIENT["privateKey"][2:] not in repr(KEY)
    assert CLIENT["address"] in repr(KEY)
    assert KEY.secret_bytes() == from_hex(CLIENT["privateKey"])
