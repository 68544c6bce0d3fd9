"""The single checks, where tests/vectors/tampering.json does not reach."""

from dataclasses import replace
from typing import Any

import pytest

from aioum.core.evidence import disclose, receipt_to_json, statement_to_json
from aioum.core.hextext import to_hex
from aioum.core.payment import Voucher
from aioum.core.signing import LocalKey, recover
from aioum.core.transcript import entry_leaf
from aioum.core.types import ZERO_BYTES32, Bytes32
from aioum.verify.report import Check, Report, Status
from tests.unit.verify.honest import (
    CHARGES,
    DEPOSIT,
    DOMAIN,
    OPERATOR,
    PRICE,
    STRANGER,
    Honest,
    edited,
    judge,
)

HONEST = Honest()
CURVE_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def row(report: Report, name: str) -> Check:
    return next(check for check in report.checks if check.name == name)


def high_s(signature: bytes) -> bytes:
    s = CURVE_ORDER - int.from_bytes(signature[32:64], "big")
    return signature[:32] + s.to_bytes(32, "big") + bytes((55 - signature[64],))


async def test_every_applicable_check_of_an_honest_package_passes() -> None:
    report = await judge(HONEST.package(), HONEST.chain())

    assert report.exit_code == 0
    assert report.statuses() == {
        "session": "pass", "transcript": "pass", "claimed-root": "pass", "anchored-root": "pass",
        "vouchers": "pass", "re-execution": "na", "attestations": "na", "quality": "na", "receipts": "pass",
        "statement": "pass",
    }  # fmt: skip
    assert report.block == HONEST.chain().block


async def test_a_package_with_only_the_first_members_is_found_by_its_session_id() -> None:
    package = HONEST.package(channel=None, terms=None, card=None, receipts=(), statement=None)

    report = await judge(package, HONEST.chain())

    assert report.exit_code == 0
    assert "receipts" not in report.statuses()
    assert row(report, "session").details["channelId"] == to_hex(HONEST.channel_id)
    assert row(report, "vouchers").status is Status.PASS


async def test_a_session_that_does_not_exist_fails_and_nothing_depends_on_it() -> None:
    report = await judge(HONEST.package(), replace(HONEST.chain(), sessions={}))

    assert report.failures() == {"session": ["session-not-found"]}
    assert row(report, "anchored-root").codes == ("session-unproven",)
    # The channel's own members still say who signs.
    assert row(report, "vouchers").codes == ("deposit-unknown",)


async def test_a_package_without_channel_id_is_found_by_its_channel_members() -> None:
    report = await judge(edited(HONEST.package(), lambda package: package.pop("channelId")), HONEST.chain())

    assert report.exit_code == 0


async def test_offline_channel_and_terms_fix_who_signs_and_the_report_says_what_was_not_checked() -> None:
    report = await judge(HONEST.package(), None)

    assert report.exit_code == 0
    assert report.block is None
    assert row(report, "session").codes == ("offline",)
    assert row(report, "anchored-root").codes == ("offline",)
    assert row(report, "vouchers").status is Status.PASS
    assert row(report, "vouchers").codes == ("deposit-unknown",)
    assert row(report, "receipts").status is Status.PASS
    assert row(report, "statement").status is Status.PASS


async def test_offline_a_forged_voucher_still_fails() -> None:
    package = HONEST.package(vouchers=[HONEST.voucher(PRICE, STRANGER)])

    assert (await judge(package, None)).failures() == {"vouchers": ["voucher-signer-mismatch"]}


async def test_offline_without_channel_members_signatures_cannot_be_judged() -> None:
    report = await judge(HONEST.package(channel=None, terms=None, card=None), None)

    assert report.exit_code == 0
    assert row(report, "session").codes == ("offline",)
    assert row(report, "vouchers").codes == ("voucher-signer-unknown",)
    assert row(report, "receipts").codes == ("receipt-signer-unknown",)
    assert row(report, "statement").codes == ("statement-signer-unknown",)


async def test_offline_altered_terms_and_channels_are_contradictions() -> None:
    def alter_nonce(package: dict[str, Any]) -> None:
        package["channel"]["nonce"] = "0x" + "01" * 32

    def alter_terms(package: dict[str, Any]) -> None:
        package["terms"]["commitRequired"] = False

    altered_channel = await judge(edited(HONEST.package(), alter_nonce), None)
    altered_terms = await judge(edited(HONEST.package(), alter_terms), None)

    assert altered_channel.failures() == {"session": ["channel-id-mismatch"]}
    assert altered_terms.failures() == {"session": ["terms-hash-mismatch"]}


async def test_offline_a_payment_manager_is_judged_only_where_some_are_known() -> None:
    without_opinion = await judge(HONEST.package(), None, trusted=frozenset())
    with_another = await judge(HONEST.package(), None, trusted=frozenset({STRANGER.address}))

    assert without_opinion.exit_code == 0
    assert with_another.failures() == {"session": ["payment-manager-untrusted"]}


async def test_online_a_verifier_that_knows_no_payment_manager_trusts_none() -> None:
    report = await judge(HONEST.package(), HONEST.chain(), trusted=frozenset())

    assert report.failures() == {"session": ["payment-manager-untrusted"]}


async def test_terms_without_their_registry_are_recomputed_with_the_one_that_the_card_names() -> None:
    package = edited(HONEST.package(), lambda package: package["terms"].pop("registry"))

    report = await judge(package, None)

    assert row(report, "receipts").status is Status.PASS


async def test_terms_that_cannot_be_recomputed_are_held_against_the_registered_ones() -> None:
    def strip(package: dict[str, Any]) -> None:
        del package["terms"]["registry"], package["card"]

    stripped = edited(HONEST.package(), strip)
    altered = edited(stripped, lambda package: package["terms"].update(serviceId="2"))

    assert (await judge(stripped, HONEST.chain())).exit_code == 0
    assert (await judge(altered, HONEST.chain())).failures() == {"session": ["terms-contradict-chain"]}
    assert row(await judge(stripped, None), "receipts").codes == ("receipt-signer-unknown",)


@pytest.mark.parametrize("contracts", [None, {}, {"serviceRegistry": "nowhere"}])
async def test_a_card_that_names_no_registry_leaves_the_terms_unproven(contracts: Any) -> None:
    def strip(package: dict[str, Any]) -> None:
        del package["terms"]["registry"]
        package["card"]["contracts"] = contracts

    report = await judge(edited(HONEST.package(), strip), None)

    assert row(report, "re-execution").codes == ("card-unproven",)


async def test_a_session_that_needs_no_root_and_has_none_is_not_judged_by_it() -> None:
    honest = Honest(commit_required=False)
    chain = honest.chain(honest.session(root=ZERO_BYTES32, call_count=0))

    report = await judge(honest.package(), chain)

    assert report.exit_code == 0
    assert row(report, "anchored-root").codes == ("root-not-anchored",)


async def test_a_missing_root_is_said_together_with_what_was_settled() -> None:
    chain = HONEST.chain(HONEST.session(root=ZERO_BYTES32, call_count=0, settled=0, refunded=DEPOSIT))

    anchored = row(await judge(HONEST.package(), chain), "anchored-root")

    assert anchored.codes == ("root-absent",)
    assert anchored.details["settled"] == "0"


async def test_a_package_without_calls_has_the_zero_root_and_no_vouchers_to_judge() -> None:
    package = HONEST.package(entries=[], vouchers=[], receipts=(), statement=None)

    report = await judge(package, None)

    assert report.exit_code == 0
    assert row(report, "claimed-root").status is Status.PASS
    assert row(report, "vouchers").codes == ("vouchers-absent",)


MALFORMED_VOUCHERS: list[Any] = [
    "voucher",
    {"cumulativeAmount": "1000"},
    {"cumulativeAmount": 1000, "signature": "0x"},
    {"cumulativeAmount": "01000", "signature": "0x"},
    {"cumulativeAmount": str(2**128), "signature": "0x"},
    {"cumulativeAmount": "1000", "signature": "abc"},
]


@pytest.mark.parametrize("voucher", MALFORMED_VOUCHERS)
async def test_a_malformed_voucher_fails_and_the_others_are_judged(voucher: Any) -> None:
    package = edited(HONEST.package(), lambda package: package["vouchers"].insert(0, voucher))

    report = await judge(package, HONEST.chain())

    assert report.failures() == {"vouchers": ["voucher-malformed"]}
    assert row(report, "vouchers").details["highest"] == str(sum(CHARGES))


@pytest.mark.parametrize(
    "signature, code",
    [
        (b"\x01" * 64, "voucher-signature-malformed"),
        (HONEST.voucher(PRICE)[1][:64] + b"\x01", "voucher-signature-malformed"),
        (high_s(HONEST.voucher(PRICE)[1]), "voucher-signature-high-s"),
        (bytes(64) + b"\x1b", "voucher-signature-invalid"),
        (HONEST.voucher(PRICE, OPERATOR)[1], "voucher-signer-mismatch"),
    ],
)
async def test_each_way_a_voucher_signature_is_wrong_has_its_own_code(signature: bytes, code: str) -> None:
    report = await judge(HONEST.package(vouchers=[(PRICE, signature)]), HONEST.chain())

    assert report.failures() == {"vouchers": [code]}


async def test_a_voucher_of_the_payer_fails_where_another_signer_is_authorized() -> None:
    honest = Honest(authorized_signer=STRANGER.address)

    by_payer = honest.package(vouchers=[honest.voucher(PRICE)])
    by_signer = honest.package(vouchers=[honest.voucher(PRICE, STRANGER)])

    assert (await judge(by_payer, honest.chain())).failures() == {"vouchers": ["voucher-signer-mismatch"]}
    assert (await judge(by_signer, honest.chain())).exit_code == 0


async def test_a_client_that_is_a_contract_is_asked_about_the_signature() -> None:
    owner = STRANGER

    def accepts(digest: bytes, signature: bytes) -> bool:
        return recover(digest, signature) == owner.address

    chain = HONEST.chain(wallets={HONEST.client.address: accepts})
    by_owner = HONEST.package(vouchers=[HONEST.voucher(PRICE, owner)])
    by_another = HONEST.package(vouchers=[HONEST.voucher(PRICE, LocalKey(b"\x44" * 32))])
    by_own_key = HONEST.package(vouchers=[HONEST.voucher(PRICE)])

    assert (await judge(by_owner, chain)).exit_code == 0
    assert (await judge(by_another, chain)).failures() == {"vouchers": ["voucher-signature-rejected"]}
    # An account with delegated code may still sign with its own key: ECDSA is tried first.
    assert (await judge(by_own_key, chain)).exit_code == 0


async def test_a_contract_may_accept_signatures_of_any_length() -> None:
    chain = HONEST.chain(wallets={HONEST.client.address: lambda digest, signature: signature == b"yes"})

    assert (await judge(HONEST.package(vouchers=[(PRICE, b"yes")]), chain)).exit_code == 0


async def test_vouchers_of_another_session_do_not_pass() -> None:
    other = Honest(nonce=Bytes32(b"\x07" * 32))

    report = await judge(HONEST.package(vouchers=[other.voucher(PRICE)]), HONEST.chain())

    assert report.failures() == {"vouchers": ["voucher-signer-mismatch"]}


def with_receipts(*receipts: Any, honest: Honest = HONEST) -> dict[str, Any]:
    return edited(honest.package(), lambda package: package.update(receipts=list(receipts)))


def signed_receipt(index: int, **facts: Any) -> dict[str, Any]:
    receipt, signature = HONEST.receipt(index, **facts)
    return receipt_to_json(receipt, signature, HONEST.calls)


@pytest.mark.parametrize(
    "receipt",
    [
        7, {"index": 0, "charge": "1000"}, {"index": "0", "charge": "1000", "signature": "0x"},
        {"index": -1, "charge": "1000", "signature": "0x"}, {"index": 0, "charge": 1000, "signature": "0x"},
        {"index": 0, "charge": "1000", "signature": "?"},
        {"index": 0, "charge": "1000", "signature": "0x", "leaf": "0x00"},
        {"index": 2**64, "charge": "1000", "signature": "0x", "leaf": "0x" + "00" * 32},
    ],
)  # fmt: skip
async def test_a_malformed_receipt_fails(receipt: Any) -> None:
    report = await judge(with_receipts(receipt), HONEST.chain())

    assert report.failures() == {"receipts": ["receipt-malformed"]}


@pytest.mark.parametrize(
    "forge, code",
    [
        (lambda signature: signature[:64], "receipt-signature-malformed"),
        (high_s, "receipt-signature-high-s"),
        (lambda signature: bytes(64) + b"\x1c", "receipt-signature-invalid"),
    ],
)
async def test_each_way_a_receipt_signature_is_wrong_has_its_own_code(forge: Any, code: str) -> None:
    receipt, signature = HONEST.receipt(0)
    forged = receipt_to_json(receipt, forge(signature), HONEST.calls)

    assert (await judge(with_receipts(forged), HONEST.chain())).failures() == {"receipts": [code]}


async def test_a_receipt_of_a_stranger_fails() -> None:
    report = await judge(with_receipts(signed_receipt(0, key=STRANGER)), HONEST.chain())

    assert report.failures() == {"receipts": ["receipt-signer-mismatch"]}


async def test_a_signed_receipt_over_another_leaf_than_the_anchored_is_proof_of_double_signing() -> None:
    report = await judge(with_receipts(signed_receipt(1, leaf=b"\x05" * 32)), HONEST.chain())

    assert report.failures() == {"receipts": ["receipt-leaf-mismatch"]}
    assert "double signing" in row(report, "receipts").summary


async def test_a_signed_receipt_over_another_leaf_offline_is_no_proof_against_the_operator() -> None:
    report = await judge(with_receipts(signed_receipt(1, leaf=b"\x05" * 32)), None)

    assert report.failures() == {"receipts": ["receipt-leaf-mismatch"]}
    assert "double signing" not in row(report, "receipts").summary


async def test_two_signed_receipts_of_one_call_that_differ_are_proof_of_double_signing() -> None:
    report = await judge(with_receipts(signed_receipt(1), signed_receipt(1, charge=5)), HONEST.chain())

    assert report.failures()["receipts"] == ["receipt-contradiction"]


async def test_the_same_receipt_twice_is_no_contradiction() -> None:
    package = with_receipts(signed_receipt(1), signed_receipt(1))

    assert "receipts" not in (await judge(package, HONEST.chain())).failures()


async def test_a_signed_receipt_beyond_the_anchored_calls_is_proof_of_omission() -> None:
    shorter = Honest(calls=HONEST.calls[:5])
    receipts = [*(signed_receipt(index) for index in range(5)), signed_receipt(5)]
    receipts[5]["leaf"] = to_hex(entry_leaf(HONEST.calls[5]))
    package = edited(shorter.package(statement=None), lambda package: package.update(receipts=receipts))

    online = await judge(package, shorter.chain())
    offline = await judge(package, None)

    assert online.failures() == {"receipts": ["receipt-beyond-anchored"]}
    assert offline.failures() == {"receipts": ["receipt-call-unknown"]}


async def test_an_empty_list_of_receipts_proves_nothing() -> None:
    assert row(await judge(with_receipts(), HONEST.chain()), "receipts").codes == ("receipts-absent",)


async def test_receipts_of_hidden_calls_are_counted_as_such() -> None:
    package = edited(
        disclose(HONEST.package(), [1]), lambda package: package["receipts"].append(signed_receipt(4))
    )

    receipts = row(await judge(package, HONEST.chain()), "receipts")

    assert (receipts.status, receipts.codes) == (Status.PASS, ("receipt-call-hidden",))


def with_statement(statement: Any) -> dict[str, Any]:
    return edited(HONEST.package(), lambda package: package.update(statement=statement))


def signed_statement(*args: Any, **facts: Any) -> dict[str, Any]:
    return statement_to_json(*HONEST.statement(*args, **facts))


@pytest.mark.parametrize(
    "statement",
    [
        {}, {**signed_statement(), "callCount": "6"}, {**signed_statement(), "root": "0x"},
        {**signed_statement(), "spent": 1}, {**signed_statement(), "callCount": 2**64},
        {**signed_statement(), "signature": None},
    ],
)  # fmt: skip
async def test_a_malformed_statement_fails(statement: Any) -> None:
    report = await judge(with_statement(statement), HONEST.chain())

    assert report.failures() == {"statement": ["statement-malformed"]}


@pytest.mark.parametrize(
    "forge, code",
    [
        (lambda signature: signature + b"\x00", "statement-signature-malformed"),
        (high_s, "statement-signature-high-s"),
        (lambda signature: bytes(64) + b"\x1c", "statement-signature-invalid"),
    ],
)
async def test_each_way_a_statement_signature_is_wrong_has_its_own_code(forge: Any, code: str) -> None:
    statement, signature = HONEST.statement()
    package = with_statement(statement_to_json(statement, forge(signature)))

    assert (await judge(package, HONEST.chain())).failures() == {"statement": [code]}


@pytest.mark.parametrize("call_count", [0, 1, 4, 6])
async def test_a_statement_over_any_prefix_of_the_calls_passes(call_count: int) -> None:
    report = await judge(with_statement(signed_statement(call_count)), HONEST.chain())

    assert row(report, "statement").status is Status.PASS


async def test_a_statement_whose_root_is_not_that_of_the_prefix_fails() -> None:
    report = await judge(with_statement(signed_statement(4, root=b"\x04" * 32)), HONEST.chain())

    assert report.failures() == {"statement": ["statement-root-mismatch"]}


async def test_a_statement_that_contradicts_the_anchor_is_proof_of_double_signing() -> None:
    report = await judge(with_statement(signed_statement(6, root=b"\x04" * 32)), HONEST.chain())

    assert report.failures() == {"statement": ["statement-contradicts-anchor", "statement-root-mismatch"]}


async def test_a_statement_over_more_calls_than_are_anchored_is_proof_of_omission() -> None:
    report = await judge(with_statement(signed_statement(8, spent=5_000)), HONEST.chain())

    assert report.failures() == {"statement": ["statement-beyond-anchored", "statement-count-mismatch"]}


async def test_a_statement_whose_spent_is_not_the_sum_of_the_receipts_fails() -> None:
    report = await judge(with_statement(signed_statement(spent=6_000)), HONEST.chain())

    assert report.failures() == {"statement": ["statement-spent-mismatch"]}


async def test_a_settlement_above_the_signed_word_is_proof_of_overcharging() -> None:
    chain = HONEST.chain(HONEST.session(settled=6_000))

    at_the_end = await judge(HONEST.package(), chain)
    from_the_middle = await judge(with_statement(signed_statement(3)), chain)
    without_receipts = await judge(
        edited(with_statement(signed_statement(3)), lambda package: package.pop("receipts")), chain
    )

    assert at_the_end.failures() == {"statement": ["settlement-above-signed"]}
    assert from_the_middle.failures() == {"statement": ["settlement-above-signed"]}
    assert without_receipts.exit_code == 0


async def test_a_statement_over_calls_that_are_hidden_is_signed_and_not_compared() -> None:
    package = edited(
        disclose(HONEST.package(), [1]), lambda package: package.update(statement=signed_statement(4))
    )

    statement = row(await judge(package, HONEST.chain()), "statement")

    assert (statement.status, statement.codes) == (Status.PASS, ("statement-prefix-hidden",))


@pytest.mark.parametrize(
    "proof, code",
    [
        ("none", "proof-malformed"),
        (["0x0"], "proof-malformed"),
        (["0x00", "0x00", "0x00"], "proof-hash-size-wrong"),
        ([], "proof-length-wrong"),
    ],
)
async def test_each_way_a_proof_is_wrong_has_its_own_code(proof: Any, code: str) -> None:
    package = edited(disclose(HONEST.package(), [1]), lambda package: package["calls"][0].update(proof=proof))

    assert (await judge(package, HONEST.chain())).failures() == {
        "claimed-root": [code],
        "anchored-root": [code],
    }


async def test_a_disclosed_call_beyond_the_call_count_is_not_in_the_tree() -> None:
    package = edited(
        disclose(HONEST.package(receipts=()), [5]), lambda package: package["calls"][0].update(index=6)
    )

    assert (await judge(package, HONEST.chain())).failures() == {
        "claimed-root": ["proof-index-out-of-range"],
        "anchored-root": ["proof-index-out-of-range"],
    }


async def test_a_disclosed_call_without_proof_or_index_fails() -> None:
    without_proof = edited(disclose(HONEST.package(), [1]), lambda package: package["calls"][0].pop("proof"))
    without_index = edited(
        disclose(HONEST.package(receipts=()), [1]), lambda package: package["calls"][0].update(index="1")
    )

    assert (await judge(without_proof, None)).failures() == {
        "transcript": ["entry-members-wrong"],
        "claimed-root": ["proof-malformed"],
    }
    assert (await judge(without_index, None)).failures() == {
        "transcript": ["entry-members-wrong"],
        "claimed-root": ["root-incomputable"],
    }


async def test_a_disclosed_package_that_shows_nothing_fails() -> None:
    package = edited(disclose(HONEST.package(receipts=()), [1]), lambda package: package.update(calls=[]))

    assert (await judge(package, HONEST.chain())).failures() == {
        "transcript": ["disclosure-empty"],
        "claimed-root": ["disclosure-empty"],
        "anchored-root": ["disclosure-empty"],
    }


async def test_a_channel_without_terms_has_no_receipt_signer_and_needs_no_root() -> None:
    session = HONEST.session(
        terms_hash=ZERO_BYTES32, service_id=0, operator=bytes(20), commit_required=False, root=ZERO_BYTES32,
        call_count=0,
    )  # fmt: skip
    package = HONEST.package(channel=None, terms=None, card=None)
    package["channelId"] = to_hex(HONEST.channel_id)

    report = await judge(package, HONEST.chain(session))

    assert report.exit_code == 0
    assert row(report, "receipts").codes == ("receipt-signer-unknown",)


def test_a_voucher_digest_depends_on_the_domain_it_is_judged_under() -> None:
    voucher = Voucher(HONEST.channel_id, PRICE)

    assert voucher.digest(DOMAIN) != voucher.digest(replace(DOMAIN, chain_id=1))
