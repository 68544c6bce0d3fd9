import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from aioum.core.canonical import canonical_bytes, parse_json
from aioum.core.errors import AioumError
from aioum.run.keys import (
    ALGORITHMS,
    ED25519,
    ML_DSA_44,
    ML_DSA_65,
    Ed25519Key,
    MlDsaKey,
    SigningKey,
    key_id,
    require_signature,
)

SEED = b"\x07" * 32
KEYS: list[SigningKey] = [Ed25519Key(SEED), MlDsaKey(ML_DSA_44, SEED), MlDsaKey(ML_DSA_65, SEED)]
BASE_58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def refusal(alg: str, public_key: bytes, message: bytes, signature: bytes) -> str | None:
    try:
        require_signature(alg, public_key, message, signature)
    except AioumError as error:
        return error.code
    return None


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.alg)
def test_a_signature_fits_its_message_its_key_and_its_algorithm_only(key: SigningKey) -> None:
    signature = key.sign(b"message")
    assert refusal(key.alg, key.public_key, b"message", signature) is None
    assert refusal(key.alg, key.public_key, b"massage", signature) == "signature-invalid"
    assert refusal(key.alg, key.public_key, b"message", signature[:-1]) == "signature-invalid"
    assert refusal(key.alg, key.public_key, b"message", signature + b"\x00") == "signature-invalid"
    for other in set(ALGORITHMS) - {key.alg}:
        assert refusal(other, key.public_key, b"message", signature) == "signature-key-invalid"


@pytest.mark.parametrize(
    ("alg", "key_bytes", "signature_bytes"),
    [(ED25519, 32, 64), (ML_DSA_44, 1_312, 2_420), (ML_DSA_65, 1_952, 3_309)],
)
def test_keys_and_signatures_have_the_lengths_of_their_standards(
    alg: str, key_bytes: int, signature_bytes: int
) -> None:
    key = next(key for key in KEYS if key.alg == alg)
    assert (len(key.public_key), len(key.sign(b""))) == (key_bytes, signature_bytes)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.alg)
def test_no_secret_is_shown(key: SigningKey) -> None:
    assert SEED.hex() not in repr(key)
    assert key_id(key.public_key) in repr(key)


def test_a_seed_of_another_length_and_an_unknown_algorithm_are_refused() -> None:
    for make in (
        lambda: Ed25519Key(b"short"),
        lambda: MlDsaKey(ML_DSA_44, b"short"),
        lambda: MlDsaKey("ML-DSA-87", SEED),
    ):
        with pytest.raises(AioumError) as caught:
            make()
        assert caught.value.code == "run-key-invalid"


@pytest.mark.parametrize("alg", ["ML-DSA-87", "ed25519", "none", ""])
def test_an_unknown_algorithm_fits_nothing(alg: str) -> None:
    assert refusal(alg, KEYS[0].public_key, b"m", KEYS[0].sign(b"m")) == "signature-algorithm-unknown"


def test_a_key_of_small_order_is_refused_although_its_library_takes_its_signature() -> None:
    identity = bytes((1,)) + bytes(31)
    # S = 1 and R = B fit every message under the identity.
    for_every_message = b"\x58" + b"\x66" * 31 + bytes((1,)) + bytes(31)
    Ed25519PublicKey.from_public_bytes(identity).verify(for_every_message, b"whatever")
    assert refusal(ED25519, identity, b"whatever", for_every_message) == "signature-key-invalid"


@pytest.mark.parametrize(("size", "valid", "invalid"), [(44, 75, 105), (65, 77, 133)])
def test_wycheproofs_ml_dsa_signatures_get_their_verdict(
    shared_vectors_dir: Path, size: int, valid: int, invalid: int
) -> None:
    file = json.loads(
        (shared_vectors_dir / "wycheproof" / f"mldsa_{size}_verify_test.json").read_text(encoding="utf-8")
    )
    verdicts: Counter[bool] = Counter()
    for group in file["testGroups"]:
        key = bytes.fromhex(group["publicKey"])
        for test in group["tests"]:
            code = refusal(f"ML-DSA-{size}", key, bytes.fromhex(test["msg"]), bytes.fromhex(test["sig"]))
            # Seals are signed with an empty context; what was signed with another one is not for them.
            expected = test["result"] == "valid" and not test.get("ctx")
            assert (code is None) is expected, test["tcId"]
            verdicts[expected] += 1
    assert verdicts == {True: valid, False: invalid}


def test_a_credential_of_the_w3c_is_canonicalized_hashed_and_verified_end_to_end(
    shared_vectors_dir: Path,
) -> None:
    folder = shared_vectors_dir / "vc-di-eddsa"

    def text(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8").strip()

    document = parse_json(text("signedJCS.json"), max_bytes=10_000)
    assert isinstance(document, dict)
    proof = document.pop("proof")
    assert isinstance(proof, dict)
    value = proof.pop("proofValue")
    assert value == text("sigBTC58JCS.txt")
    assert canonical_bytes(document).decode() == text("canonDocJCS.txt")
    assert canonical_bytes(proof).decode() == text("proofCanonJCS.txt")
    assert proof == parse_json(text("proofConfigJCS.json"), max_bytes=10_000)
    hashes = [hashlib.sha256(canonical_bytes(part)).digest() for part in (proof, document)]
    assert [part.hex() for part in hashes] == [text("proofHashJCS.txt"), text("docHashJCS.txt")]
    message = b"".join(hashes)
    assert message.hex() == text("combinedHashJCS.txt")
    signature = from_base_58(str(value), 64)
    assert signature.hex() == text("sigHexJCS.txt")
    method = str(proof["verificationMethod"])
    multicodec_key = from_base_58(method.partition("#")[2], 34)
    assert multicodec_key[:2] == b"\xed\x01"
    require_signature(ED25519, multicodec_key[2:], message, signature)
    assert refusal(ED25519, multicodec_key[2:], message[::-1], signature) == "signature-invalid"


def from_base_58(multibase: str, size_bytes: int) -> bytes:
    assert multibase.startswith("z")
    number = 0
    for digit in multibase[1:]:
        number = number * 58 + BASE_58.index(digit)
    return number.to_bytes(size_bytes, "big")
