import pytest
from eth_account import Account

from aioum.core.payment import (
    CallReceipt,
    CloseRequest,
    Domain,
    ReadAccess,
    SignedMessage,
    Statement,
    Voucher,
)
from aioum.core.signing import LocalKey, recover
from aioum.core.transcript import canonical_request
from aioum.core.types import Address, Bytes32, ChannelId
from benchmarks.canonical_json import values
from benchmarks.naive.edge import canonical_request_with_rfc8785
from benchmarks.naive.signatures import recover_with_eth_account, sign_with_eth_account

DOMAIN = Domain(31_337, Address(bytes(range(20))))
CHANNEL = ChannelId(bytes(range(32)))
ROOT = Bytes32(bytes(range(1, 33)))
SECRET = bytes(31) + b"\x07"
MESSAGES = [
    Voucher(CHANNEL, 5),
    ReadAccess(CHANNEL, 1_700_000_000),
    CloseRequest(CHANNEL, 3),
    CallReceipt(CHANNEL, 2, ROOT, 7),
    Statement(CHANNEL, 3, ROOT, 21),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_naive_signatures_are_ours_and_ours_are_theirs(message: SignedMessage) -> None:
    key = LocalKey(SECRET)
    signature = sign_with_eth_account(message, DOMAIN, Account.from_key(SECRET))
    assert signature == key.sign_digest(message.digest(DOMAIN))
    assert recover(message.digest(DOMAIN), signature) == key.address
    assert recover_with_eth_account(message, DOMAIN, signature) == key.address


def test_naive_requests_are_ours() -> None:
    for value in values().values():
        assert canonical_request_with_rfc8785("tool", value) == canonical_request("tool", value)
