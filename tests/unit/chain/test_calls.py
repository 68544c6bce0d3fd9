"""Calls are encoded as the contracts' ABI says, within their ranges."""

from typing import Any

import pytest
from eth_abi.abi import decode

from aioum.chain import anchors, authorized_calls, calls, dispute_calls, ratings, tokens
from aioum.chain.abi import CONTRACTS, artifact, canonical_type, encode_creation
from aioum.chain.dispute_calls import Claim
from aioum.core.errors import AioumError
from aioum.core.hashing import keccak256
from aioum.core.lies import (
    ConflictingReceipts,
    ConflictingStatements,
    OmittedReceipt,
    OmittedStatement,
    Overcharge,
    StatementAgainstRoot,
)
from aioum.core.payment import CallReceipt, Statement, Terms
from aioum.core.types import Address, Bytes32, ChannelId
from aioum.core.wire import SignedReceipt, SignedStatement

A, B, C = (Address(bytes([n]) * 20) for n in (0xA, 0xB, 0xC))
CHANNEL, ROOT = ChannelId(b"\1" * 32), Bytes32(b"\2" * 32)
TERMS = Terms(A, B, C, A, B, ROOT, True, 0, 86_400, 2**128 - 1)
AUTHORIZATION = authorized_calls.Authorization(1, 2, b"s" * 65)
RECEIPT = SignedReceipt(CallReceipt(CHANNEL, 4, ROOT, 6), b"r" * 65)
RECEIPT_WORDS = (4, ROOT, 6, b"r" * 65)
STATEMENT = SignedStatement(Statement(CHANNEL, 5, ROOT, 12), b"t" * 65)
STATEMENT_WORDS = (5, ROOT, 12, b"t" * 65)
SETTLEMENT = calls.Settlement(CHANNEL, 9, 8, 7, ROOT, b"s" * 65)

CALLS = {
    "openSession": calls.open_session(
        A,
        service_id=3,
        terms_hash=ROOT,
        deposit=2**128 - 1,
        nonce=ROOT,
        authorized_signer=B,
        roster_hash=ROOT,
    ),
    "open": calls.open_plain(A, payee=B, token=C, deposit=1, salt=ROOT),
    "topUp": calls.top_up(A, CHANNEL, 5),
    "requestClose": calls.request_close(A, CHANNEL),
    "withdraw": calls.withdraw(A, CHANNEL),
    "commitResults": calls.commit_results(A, CHANNEL, ROOT, 4),
    "settle": calls.settle(A, CHANNEL, 6, b"s" * 65),
    "close": calls.close(A, CHANNEL, 6),
    "settleSession": calls.settle_session(A, SETTLEMENT),
    "settleSessions": calls.settle_sessions(A, [SETTLEMENT, SETTLEMENT]),
    "release": calls.release(A, CHANNEL),
    "resolve": calls.resolve(A, CHANNEL, 5),
    "claimCredit": calls.claim_credit(A, C, B),
    "openSessionWithAuthorization": authorized_calls.open_session_with_authorization(
        A, payer=B, service_id=3, terms_hash=ROOT, deposit=9, nonce=ROOT, authorization=AUTHORIZATION
    ),
    "topUpWithAuthorization": authorized_calls.top_up_with_authorization(A, CHANNEL, 5, ROOT, AUTHORIZATION),
    "raiseDispute": dispute_calls.raise_dispute(A, CHANNEL, Claim.QUALITY, "ipfs://é", ROOT),
    "respond": dispute_calls.respond(A, CHANNEL, "ipfs://é", ROOT),
    "rule": dispute_calls.rule(A, CHANNEL, 7),
    "lapse": dispute_calls.lapse(A, CHANNEL),
    "proveConflictingReceipts": dispute_calls.prove(A, CHANNEL, ConflictingReceipts(RECEIPT, RECEIPT)),
    "proveConflictingStatements": dispute_calls.prove(
        A, CHANNEL, ConflictingStatements(STATEMENT, STATEMENT)
    ),
    "proveStatementAgainstRoot": dispute_calls.prove(A, CHANNEL, StatementAgainstRoot(STATEMENT)),
    "proveOmittedReceipt": dispute_calls.prove(A, CHANNEL, OmittedReceipt(RECEIPT)),
    "proveOmittedStatement": dispute_calls.prove(A, CHANNEL, OmittedStatement(STATEMENT)),
    "proveOvercharge": dispute_calls.prove(A, CHANNEL, Overcharge(None, (RECEIPT, RECEIPT), 12)),
    "challengeReceipt": dispute_calls.challenge(A, CHANNEL, RECEIPT),
    "challengeStatement": dispute_calls.challenge(A, CHANNEL, STATEMENT),
    "answerReceipt": dispute_calls.answer_receipt(A, CHANNEL, 4, ROOT, [ROOT]),
    "answerStatement": dispute_calls.answer_statement(A, CHANNEL, 4, ROOT, [ROOT, ROOT]),
    "claimUnanswered": dispute_calls.claim_unanswered(A, CHANNEL),
    "rate": ratings.rate(A, CHANNEL, 100, "https://why.test"),
    "anchor": anchors.anchor(A, "log.test", 8, ROOT, [ROOT]),
    "register": calls.register(A, TERMS, "https://card.test/é"),
    "update": calls.update(A, 3, TERMS, ""),
    "retire": calls.retire(A, 3),
    "approve": calls.approve(A, B, 2**256 - 1),
    "mint": calls.mint(A, B, 10),
    "transfer": tokens.transfer(A, B, 10),
    "transferFrom": tokens.transfer_from(A, B, C, 10),
}


def text(value: Address) -> str:
    return "0x" + value.hex()


EXPECTED: dict[str, tuple[Any, ...]] = {
    "openSession": (3, ROOT, 2**128 - 1, ROOT, text(B), ROOT),
    "open": (text(B), text(C), 1, ROOT, text(Address(bytes(20)))),
    "topUp": (CHANNEL, 5),
    "requestClose": (CHANNEL,),
    "withdraw": (CHANNEL,),
    "commitResults": (CHANNEL, ROOT, 4),
    "settle": (CHANNEL, 6, b"s" * 65),
    "close": (CHANNEL, 6, b""),
    "settleSession": ((CHANNEL, 9, 8, 7, ROOT, b"s" * 65),),
    "settleSessions": (((CHANNEL, 9, 8, 7, ROOT, b"s" * 65),) * 2,),
    "release": (CHANNEL,),
    "resolve": (CHANNEL, 5),
    "claimCredit": (text(C), text(B)),
    "openSessionWithAuthorization": (
        *(text(B), 3, ROOT, 9, ROOT, text(Address(bytes(20))), bytes(32), (1, 2, b"s" * 65)),
    ),
    "topUpWithAuthorization": (CHANNEL, 5, ROOT, (1, 2, b"s" * 65)),
    "raiseDispute": (CHANNEL, 2, "ipfs://é", ROOT),
    "respond": (CHANNEL, "ipfs://é", ROOT),
    "rule": (CHANNEL, 7),
    "lapse": (CHANNEL,),
    "proveConflictingReceipts": (CHANNEL, RECEIPT_WORDS, RECEIPT_WORDS),
    "proveConflictingStatements": (CHANNEL, STATEMENT_WORDS, STATEMENT_WORDS),
    "proveStatementAgainstRoot": (CHANNEL, STATEMENT_WORDS),
    "proveOmittedReceipt": (CHANNEL, RECEIPT_WORDS),
    "proveOmittedStatement": (CHANNEL, STATEMENT_WORDS),
    "proveOvercharge": (CHANNEL, (0, bytes(32), 0, b""), (RECEIPT_WORDS, RECEIPT_WORDS)),
    "challengeReceipt": (CHANNEL, RECEIPT_WORDS),
    "challengeStatement": (CHANNEL, STATEMENT_WORDS),
    "answerReceipt": (CHANNEL, 4, ROOT, (ROOT,)),
    "answerStatement": (CHANNEL, 4, ROOT, (ROOT, ROOT)),
    "claimUnanswered": (CHANNEL,),
    "rate": (CHANNEL, 100, "https://why.test"),
    "anchor": (keccak256(b"log.test"), 8, ROOT, (ROOT,)),
    "register": (
        (text(A), text(B), text(C), text(A), text(B), ROOT, True, 0, 86_400, 2**128 - 1),
        "https://card.test/é",
    ),
    "update": (3, (text(A), text(B), text(C), text(A), text(B), ROOT, True, 0, 86_400, 2**128 - 1), ""),
    "retire": (3,),
    "approve": (text(B), 2**256 - 1),
    "mint": (text(B), 10),
    "transfer": (text(B), 10),
    "transferFrom": (text(B), text(C), 10),
}


@pytest.mark.parametrize("function", CALLS)
def test_a_call_carries_the_functions_selector_and_arguments(function: str) -> None:
    call = CALLS[function]
    # Two contracts may have a function in common.
    entry = next(
        e
        for name in CONTRACTS
        for e in artifact(name).abi
        if e["type"] == "function" and e["name"] == function
    )
    types = [canonical_type(parameter) for parameter in entry["inputs"]]
    assert call.data[:4] == keccak256(f"{function}({','.join(types)})".encode())[:4]
    assert decode(types, call.data[4:]) == EXPECTED[function]
    assert (call.to, call.value, call.label) == (A, 0, function)
    assert 21_000 < call.gas_limit <= calls.MAX_TRANSACTION_GAS


def test_a_batch_never_asks_for_more_gas_than_a_transaction_may_have() -> None:
    assert calls.settle_sessions(A, [SETTLEMENT] * 300).gas_limit == calls.MAX_TRANSACTION_GAS


def test_values_out_of_range_are_refused_before_anything_is_encoded() -> None:
    refusals = {
        "amount-invalid": [
            lambda: calls.top_up(A, CHANNEL, 2**128),
            lambda: calls.settle(A, CHANNEL, -1, b""),
            lambda: calls.approve(A, B, 2**256),
            lambda: calls.mint(A, B, -1),
            lambda: calls.settle_session(A, calls.Settlement(CHANNEL, 1, 2**128, 1, ROOT, b"")),
        ],
        "integer-out-of-range": [lambda: calls.commit_results(A, CHANNEL, ROOT, 2**64)],
        "claim-unknown": [lambda: dispute_calls.raise_dispute(A, CHANNEL, Claim.of("rudeness"), "u", ROOT)],
        "score-out-of-range": [lambda: ratings.rate(A, CHANNEL, 101), lambda: ratings.rate(A, CHANNEL, -1)],
        "detail-uri-too-long": [lambda: ratings.rate(A, CHANNEL, 1, "é" * 1_025)],
        "settlements-empty": [lambda: calls.settle_sessions(A, [])],
    }
    for code, attempts in refusals.items():
        for attempt in attempts:
            with pytest.raises(AioumError) as caught:
                attempt()
            assert caught.value.code == code


def test_a_creation_is_the_bytecode_with_its_arguments_behind_it() -> None:
    data = encode_creation("PaymentManager", ("address", "uint64"), (bytes(A), 900))
    assert data.startswith(artifact("PaymentManager").bytecode)
    assert data[-64:] == A.rjust(32, b"\0") + (900).to_bytes(32, "big")
