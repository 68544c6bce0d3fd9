"""Consistency proofs of another implementation, judged by LogAnchor on a real chain."""

import base64
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import pytest

from aioum.chain.anchors import anchor, origin_hash
from aioum.chain.rpc import Rpc
from aioum.core.errors import ChainError
from aioum.core.hashing import keccak256
from aioum.core.hextext import address_text, to_hex
from aioum.core.types import Address, Bytes32
from aioum.devnet.running import RunningDevnet

ACCEPTED: Final = "accepted"
ORIGIN: Final = "vectors.example/log"

NOTHING_TO_JUDGE: Final = frozenset(
    {
        # A first anchor continues nothing, so there is nothing that it could be inconsistent with.
        "additional/size1-is-zero-and-does-not-equal-size2.json",
        "additional/size1-is-zero-and-size2-is-not-zero.json",
        # What is anchored already changes nothing, whatever the proof.
        "additional/sizes-match-but-proof-is-not-empty-and-sizes-are-one.json",
    }
)
"""Cases that must fail as proofs, but that the contract takes without looking at one."""


@dataclass(frozen=True, slots=True)
class Case:
    """One vector. Values that are no hashes are filled up with zeros: the contract's words have 32 bytes."""

    first: int
    second: int
    first_root: Bytes32
    second_root: Bytes32
    proof: tuple[Bytes32, ...]
    must_fail: bool

    @classmethod
    def load(cls, path: Path) -> Self:
        data: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            first=data.get("size1", 0),
            second=data.get("size2", 0),
            first_root=_word(data.get("root1")),
            second_root=_word(data.get("root2")),
            proof=tuple(_word(item) for item in data.get("proof") or ()),
            must_fail=data.get("wantErr", False),
        )

    def expected(self) -> str:
        """How the contract answers, by what the case says of itself."""
        if not self.must_fail:
            return ACCEPTED
        if self.second == 0:
            return "InvalidAnchor"
        if self.second <= self.first:
            return "SizeNotGrowing"
        return "InconsistentLog" if self.first else "FirstAnchorTakesNoProof"


@pytest.fixture(scope="module")
def cases(shared_vectors_dir: Path) -> dict[str, Case]:
    """All consistency vectors by path."""
    folder = shared_vectors_dir / "merkle" / "consistency"
    if not folder.is_dir():
        pytest.skip(f"the shared vectors have no folder {folder.relative_to(shared_vectors_dir)}")
    return {path.relative_to(folder).as_posix(): Case.load(path) for path in sorted(folder.rglob("*.json"))}


async def test_the_contract_judges_every_proof_as_the_other_implementation_does(
    devnet: RunningDevnet, cases: dict[str, Case]
) -> None:
    log_anchor = devnet.deployment.log_anchor
    assert log_anchor is not None
    async with Rpc(devnet.rpc_url) as rpc:
        verdicts = {name: await _verdict(rpc, log_anchor, case) for name, case in cases.items()}

    assert verdicts == {
        name: ACCEPTED if name in NOTHING_TO_JUDGE else case.expected() for name, case in cases.items()
    }
    assert verdicts.keys() >= NOTHING_TO_JUDGE
    assert list(verdicts.values()).count("InconsistentLog") >= 60


async def _verdict(rpc: Rpc, log_anchor: Address, case: Case) -> str:
    """The name of the error that anchoring the second tree after the first one ends with, or `accepted`."""
    # A fresh operator's log, put to where it has the first tree anchored.
    operator = Address(secrets.token_bytes(20))
    if case.first:
        slot = int.from_bytes(
            keccak256(origin_hash(ORIGIN) + keccak256(operator.rjust(32, b"\0") + bytes(32)))
        )
        for offset, word in enumerate((case.first.to_bytes(32), case.first_root)):
            await rpc.request(
                "anvil_setStorageAt", to_hex(log_anchor), to_hex((slot + offset).to_bytes(32)), to_hex(word)
            )
    call = anchor(log_anchor, ORIGIN, case.second, case.second_root, case.proof)
    transaction = {"from": address_text(operator), "to": address_text(log_anchor), "data": to_hex(call.data)}
    try:
        await rpc.simulate(transaction)
    except ChainError as error:
        return str(error.details.get("error", error.code))
    return ACCEPTED


def _word(text: str | None) -> Bytes32:
    return Bytes32(base64.b64decode(text or "", validate=True).ljust(32, b"\0"))
