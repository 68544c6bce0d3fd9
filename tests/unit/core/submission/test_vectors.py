import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from aioum.core.errors import AioumError, SignatureInvalid
from aioum.core.submission.canonical import canonical_json
from aioum.core.submission.chain import Periodic, Submission, genesis, head_after
from aioum.core.submission.framing import decode_base64, encode_base64
from aioum.core.submission.keys import SubmissionKey, VerifyingKey
from aioum.core.submission.roster import Roster
from aioum.core.types import Bytes32


@pytest.fixture
def gaos(shared_vectors_dir: Path) -> Path:
    return shared_vectors_dir / "gaos"


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def accepts(public_key: bytes, message: bytes, signature: bytes) -> bool:
    try:
        VerifyingKey(public_key).verify(message, signature)
    except SignatureInvalid:
        return False
    return True


def hash32(text: str) -> Bytes32:
    return Bytes32(decode_base64(text, 32))


def submission_of(envelope: dict[str, Any]) -> Submission:
    return Submission(
        session_id=envelope["sessionId"],
        seat=envelope["seat"],
        submission_id=envelope["submissionId"],
        cursor=envelope["cursor"],
        tick=envelope["tick"],
        client_time=envelope["clientTime"],
        command=canonical_json(envelope["command"]),
        prev_head=hash32(envelope["prevChainHash"]),
    )


def test_public_submissions_are_framed_signed_and_chained_to_the_byte(gaos: Path) -> None:
    file = read(gaos / "signatures" / "gaos.submission.ed25519.v1.vectors.json")
    roster = Roster.from_json(file["roster"])
    assert encode_base64(roster.hash) == file["rosterHash"]
    heads = {seat: genesis("vector-session", seat, roster.hash) for seat in roster.seats}
    for vector in file["vectors"]:
        submission = submission_of(vector["envelope"])
        assert submission.preimage().hex() == vector["preimageHex"]
        assert submission.prev_head == heads[submission.seat]
        submission.require_signed(
            decode_base64(vector["signature"], 64), VerifyingKey(decode_base64(vector["publicKey"], 32))
        )
        heads[submission.seat] = submission.head()
        assert encode_base64(submission.head()) == vector["chainHash"]
    assert len(file["vectors"]) == 3


def test_public_genesis_and_periodic_vectors_are_reproduced(gaos: Path) -> None:
    file = read(gaos / "generated" / "genesis-periodic.v1.vectors.json")
    roster = Roster.from_json(file["roster"])
    assert encode_base64(roster.hash) == file["rosterHash"]
    for seat, seed in file["seeds"].items():
        entry = roster.entry(seat)
        assert entry is not None
        assert SubmissionKey(bytes.fromhex(seed)).public_key == entry.public_key
        assert bytes.fromhex(seed) == hashlib.sha256(f"gaos-fixture-seat-{seat}".encode()).digest()
    for case in file["genesis"]:
        head = genesis(case["sessionId"], case["seat"], hash32(case["rosterHash"]))
        assert encode_base64(head) == case["genesisHash"]
    for case in file["periodic"]:
        envelope = case["envelope"]
        periodic = Periodic(
            envelope["sessionId"],
            envelope["seat"],
            envelope["tick"],
            envelope["clientTime"],
            hash32(envelope["chainHead"]),
        )
        assert periodic.preimage().hex() == case["preimageHex"]
        signature = SubmissionKey(bytes.fromhex(file["seeds"][envelope["seat"]])).sign(periodic.preimage())
        assert encode_base64(signature) == case["signature"]
    assert file["periodic"]


def test_the_largest_integers_are_framed_to_the_byte(gaos: Path) -> None:
    vector = read(gaos / "generated" / "genesis-periodic.v1.vectors.json")["maxIntegers"]
    submission = submission_of(vector["envelope"])
    assert submission.preimage().hex() == vector["preimageHex"]
    assert encode_base64(head_after(submission.preimage())) == vector["chainHash"]


def test_edge_signatures_get_the_verdict_of_the_strictest_reference(gaos: Path) -> None:
    vectors = read(gaos / "generated" / "ed25519-edge.vectors.json")
    for vector in vectors:
        key, message, signature = (
            bytes.fromhex(vector[name]) for name in ("publicKeyHex", "messageHex", "signatureHex")
        )
        assert accepts(key, message, signature) is vector["gaosPython"], vector["name"]
    assert len(vectors) == 21


def test_wycheproof_signatures_get_their_verdict(shared_vectors_dir: Path) -> None:
    file = read(shared_vectors_dir / "wycheproof" / "ed25519_test.json")
    verdicts: Counter[bool] = Counter()
    for group in file["testGroups"]:
        key = bytes.fromhex(group["publicKey"]["pk"])
        for test in group["tests"]:
            verdict = accepts(key, bytes.fromhex(test["msg"]), bytes.fromhex(test["sig"]))
            assert verdict is (test["result"] == "valid"), test["tcId"]
            verdicts[verdict] += 1
    assert verdicts == {True: 88, False: 63}


def test_of_the_cctv_signatures_only_the_one_without_any_oddity_is_accepted(shared_vectors_dir: Path) -> None:
    vectors = read(shared_vectors_dir / "ed25519-cctv" / "ed25519vectors.json")
    accepted = [
        vector["number"]
        for vector in vectors
        if accepts(bytes.fromhex(vector["key"]), vector["msg"].encode(), bytes.fromhex(vector["sig"]))
    ]
    # Every other vector has a component of small order, or an encoding that is not canonical.
    assert accepted == [vector["number"] for vector in vectors if not vector["flags"]]
    assert (len(accepted), len(vectors)) == (1, 914)


@pytest.mark.parametrize("seed", range(24))
def test_every_honest_key_is_accepted_and_its_torsion_twins_are_not(seed: int) -> None:
    from Crypto.PublicKey import ECC
    from Crypto.Signature import eddsa

    key = SubmissionKey(hashlib.sha256(bytes((seed,))).digest())
    VerifyingKey(key.public_key)
    # A point of order eight; sums with it are of mixed order.
    torsion = eddsa.import_public_key(
        bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a")
    ).pointQ
    point = eddsa.import_public_key(key.public_key).pointQ
    for _ in range(7):
        point = point + torsion
        raw = ECC.construct(curve="Ed25519", point_x=int(point.x), point_y=int(point.y)).export_key(
            format="raw"
        )
        with pytest.raises(AioumError) as caught:
            VerifyingKey(raw)
        assert caught.value.code == "submission-key-invalid"
