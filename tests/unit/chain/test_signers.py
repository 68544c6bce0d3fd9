"""A signer in memory signs messages and transactions for its own account, and never shows its key."""

from eth_account import Account

from aioum.chain.signers import LocalSigner
from aioum.core.hextext import address_text
from aioum.core.payment import Domain, Voucher
from aioum.core.signing import LocalKey, recover
from aioum.core.types import Address, ChannelId

KEY = LocalKey(b"\5" * 32)
DOMAIN = Domain(31337, Address(b"\1" * 20))


async def test_a_message_is_signed_by_the_account() -> None:
    voucher = Voucher(ChannelId(b"\2" * 32), 7)
    signature = await LocalSigner(KEY).sign(voucher, DOMAIN)
    assert recover(voucher.digest(DOMAIN), signature) == KEY.address


async def test_a_transaction_is_signed_by_the_account() -> None:
    fields = {
        "type": 2,
        "chainId": 31337,
        "nonce": 3,
        "to": bytes(DOMAIN.payment_manager),
        "data": b"\1\2",
        "value": 0,
        "gas": 50_000,
        "maxFeePerGas": 10,
        "maxPriorityFeePerGas": 1,
    }
    raw = await LocalSigner(KEY).sign_transaction(fields)
    assert Account.recover_transaction(raw) == address_text(KEY.address)
    created = await LocalSigner(KEY).sign_transaction(fields | {"to": b""})
    assert Account.recover_transaction(created) == address_text(KEY.address)


def test_a_signer_does_not_show_its_key() -> None:
    assert KEY.secret_bytes().hex() not in repr(LocalSigner(KEY))
