"""EIP-712 messages, channel ids and terms against the project's vectors and against eth-account."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from hypothesis import given
from hypothesis import strategies as st

from aioum.core import hextext, payment, signing
from aioum.core.errors import AioumError
from aioum.core.types import Bytes32, ChannelId

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "eip712.json").read_text(encoding="utf-8")
)
DOMAIN = payment.Domain(VECTORS["domain"]["chainId"], hextext.address(VECTORS["domain"]["verifyingContract"]))


def _message(kind: str, case: dict[str, str]) -> payment.SignedMessage:
    channel = hextext.channel_id(case["channelId"])
    if kind == "vouchers":
        return payment.Voucher(channel, int(case["cumulativeAmount"]))
    if kind == "receipts":
        return payment.CallReceipt(
            channel, int(case["index"]), hextext.bytes32(case["leaf"]), int(case["charge"])
        )
    if kind == "statements":
        return payment.Statement(
            channel, int(case["callCount"]), hextext.bytes32(case["root"]), int(case["spent"])
        )
    if kind == "reads":
        return payment.ReadAccess(channel, int(case["expiresAt"]))
    return payment.CloseRequest(channel, int(case["callCount"]))


MESSAGES = [
    pytest.param(kind, case, id=f"{kind}-{number}")
    for kind in ("vouchers", "receipts", "statements", "reads", "closes")
    for number, case in enumerate(VECTORS[kind])
]


def test_domain_separator_equals_the_vector() -> None:
    assert hextext.to_hex(DOMAIN.separator) == VECTORS["domainSeparator"]


@pytest.mark.parametrize(("kind", "case"), MESSAGES)
def test_digest_and_signature_equal_the_vector_and_recover_to_the_signer(
    kind: str, case: dict[str, str]
) -> None:
    message = _message(kind, case)
    party = "operator" if kind in ("receipts", "statements") else "client"
    key = signing.LocalKey.from_hex(VECTORS[party]["privateKey"])
    assert hextext.to_hex(message.digest(DOMAIN)) == case["digest"]
    assert hextext.to_hex(key.sign_digest(message.digest(DOMAIN))) == case["signature"]
    signature = hextext.from_hex(case["signature"])
    assert signing.recover(message.digest(DOMAIN), signature) == hextext.address(VECTORS[party]["address"])


@pytest.mark.parametrize(("kind", "case"), MESSAGES)
def test_eth_account_computes_the_same_digest(kind: str, case: dict[str, str]) -> None:
    type_name = type(_message(kind, case)).__name__
    members = [member["name"] for member in VECTORS["types"][type_name]]
    wide = {"channelId", "leaf", "root"}
    values = {name: case[name] if name in wide else int(case[name]) for name in members}
    signable = encode_typed_data(VECTORS["domain"], {type_name: VECTORS["types"][type_name]}, values)
    signer = Account.recover_message(signable, signature=case["signature"])
    party = "operator" if kind in ("receipts", "statements") else "client"
    assert signer == VECTORS[party]["address"]


@pytest.mark.parametrize("case", VECTORS["channels"])
def test_channel_id_equals_the_vector(case: dict[str, Any]) -> None:
    domain = payment.Domain(case["chainId"], hextext.address(case["escrow"]))
    channel = payment.compute_channel_id(
        hextext.address(case["payer"]),
        hextext.address(case["payee"]),
        hextext.address(case["token"]),
        hextext.bytes32(case["salt"]),
        hextext.address(case["authorizedSigner"]),
        domain,
    )
    assert hextext.to_hex(channel) == case["channelId"]


@pytest.mark.parametrize("case", VECTORS["sessions"])
def test_terms_hash_salt_and_channel_id_of_a_session_equal_the_vector(case: dict[str, Any]) -> None:
    raw = case["terms"]
    terms = payment.Terms(
        operator=hextext.address(raw["operator"]),
        payee=hextext.address(raw["payee"]),
        token=hextext.address(raw["token"]),
        receipt_signer=hextext.address(raw["receiptSigner"]),
        arbitrator=hextext.address(raw["arbitrator"]),
        descriptor_hash=hextext.bytes32(raw["descriptorHash"]),
        commit_required=raw["commitRequired"],
        dispute_window_seconds=raw["disputeWindow"],
        ruling_period_seconds=raw["rulingPeriod"],
        dispute_bond=int(raw["disputeBond"]),
    )
    terms_hash = payment.terms_hash(
        DOMAIN.chain_id, hextext.address(case["registry"]), int(raw["serviceId"]), terms
    )
    assert hextext.to_hex(terms_hash) == case["termsHash"]
    salt = payment.session_salt(
        hextext.bytes32(case["nonce"]), terms_hash, hextext.bytes32(case["rosterHash"])
    )
    assert hextext.to_hex(salt) == case["salt"]
    channel = payment.compute_channel_id(
        hextext.address(case["payer"]),
        terms.payee,
        terms.token,
        salt,
        hextext.address(case["authorizedSigner"]),
        DOMAIN,
    )
    assert hextext.to_hex(channel) == case["channelId"]


@given(amount=st.one_of(st.integers(max_value=-1), st.integers(min_value=2**128)))
def test_a_voucher_outside_uint128_is_refused(amount: int) -> None:
    with pytest.raises(AioumError) as caught:
        payment.Voucher(ChannelId(bytes(32)), amount).digest(DOMAIN)
    assert caught.value.code == "amount-invalid"


@given(index=st.one_of(st.integers(max_value=-1), st.integers(min_value=2**64)))
def test_a_receipt_index_outside_uint64_is_refused(index: int) -> None:
    with pytest.raises(AioumError) as caught:
        payment.CallReceipt(ChannelId(bytes(32)), index, Bytes32(bytes(32)), 0).digest(DOMAIN)
    assert caught.value.code == "integer-out-of-range"


def test_the_digest_differs_for_another_chain_and_another_contract() -> None:
    voucher = payment.Voucher(ChannelId(bytes(32)), 1)
    other_chain = payment.Domain(1, DOMAIN.payment_manager)
    other_contract = payment.Domain(DOMAIN.chain_id, hextext.address("0x" + "11" * 20))
    assert len({voucher.digest(d) for d in (DOMAIN, other_chain, other_contract)}) == 3
