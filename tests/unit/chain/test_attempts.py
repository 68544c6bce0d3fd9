"""What log entries say of a transaction."""

from aioum.chain.attempts import Attempt
from aioum.chain.journal import SignedTransaction
from aioum.core.types import Address, Bytes32

ONE, TWO = "0x" + "11" * 32, "0x" + "22" * 32


def channels(purpose: str) -> list[str]:
    transaction = SignedTransaction(
        transaction_hash=Bytes32(b"\x01" * 32),
        raw=b"",
        chain_id=31_337,
        account=Address(b"\x02" * 20),
        nonce=7,
        purpose=purpose,
        label="settle",
        anchor_number=0,
        anchor_hash=Bytes32(b"\x03" * 32),
        created_at_ms=0,
    )
    named: list[str] = Attempt([transaction]).facts()["channels"]
    return named


def test_a_transaction_names_the_sessions_that_it_is_for() -> None:
    assert channels(f"settle:{ONE},{TWO}") == [ONE, TWO]
    assert channels(f"answer:{ONE}") == [ONE]
    assert channels("anchor-log") == []
