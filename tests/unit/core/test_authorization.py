"""EIP-3009 digests, held against eth-account's reading of the same typed data."""

from eth_account.messages import encode_typed_data
from hypothesis import given
from hypothesis import strategies as st

from aioum.core.authorization import ReceiveWithAuthorization, TokenDomain
from aioum.core.hashing import keccak256
from aioum.core.hextext import address_text
from aioum.core.types import Address, Bytes32

addresses = st.binary(min_size=20, max_size=20).map(Address)
words = st.binary(min_size=32, max_size=32).map(Bytes32)
times = st.integers(0, 2**64 - 1)
FIELDS = (
    ("from", "address"), ("to", "address"), ("value", "uint256"), ("validAfter", "uint256"),
    ("validBefore", "uint256"), ("nonce", "bytes32"),
)  # fmt: skip


@given(
    st.builds(TokenDomain, st.text(max_size=20), st.text(max_size=4), st.integers(1, 2**32), addresses),
    st.builds(
        ReceiveWithAuthorization, addresses, addresses, st.integers(0, 2**128 - 1), times, times, words
    ),
)
def test_the_digest_is_that_of_the_typed_data(domain: TokenDomain, message: ReceiveWithAuthorization) -> None:
    signable = encode_typed_data(
        domain_data={
            "name": domain.name,
            "version": domain.version,
            "chainId": domain.chain_id,
            "verifyingContract": address_text(domain.token),
        },
        message_types={"ReceiveWithAuthorization": [{"name": name, "type": kind} for name, kind in FIELDS]},
        message_data={
            "from": address_text(message.payer),
            "to": address_text(message.receiver),
            "value": message.value,
            "validAfter": message.valid_after,
            "validBefore": message.valid_before,
            "nonce": message.nonce,
        },
    )
    assert bytes(signable.header) == domain.separator
    assert keccak256(b"\x19\x01" + bytes(signable.header) + bytes(signable.body)) == message.digest(domain)
