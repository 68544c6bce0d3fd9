import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from aioum.core.canonical import canonical_bytes
from aioum.core.errors import AioumError, InvalidInput
from aioum.core.evidence import Claim, build_package, disclose, package_bytes, receipt_to_json
from aioum.core.evidence_reading import EvidencePackage, parse_package, read_package
from aioum.core.hextext import bytes32, from_hex, to_hex
from aioum.core.merkle import verify_inclusion
from aioum.core.payment import Domain
from aioum.core.transcript import entry_from_json, entry_leaf, node_hash, transcript_root
from tests.unit.verify.honest import DOMAIN, PRICE, Honest, edited

HONEST = Honest()


def minimal(**replaced: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "session_id": 7, "domain": DOMAIN, "claim": "non-delivery", "narrative": "", "entries": [],
        "vouchers": [],
    }  # fmt: skip
    return build_package(**{**facts, **replaced})


def test_a_package_reads_back_as_the_facts_it_was_built_from() -> None:
    package = parse_package(package_bytes(HONEST.package()))

    assert package.format_version == 1
    assert package.session_id == HONEST.session_id
    assert package.domain == DOMAIN
    assert package.claim is Claim.WRONG_RESULT
    assert package.results_root == HONEST.root
    assert package.call_count == len(package.calls) == 6
    assert [entry_from_json(call, index) for index, call in enumerate(package.calls)] == list(HONEST.calls)
    assert package.channel_id == HONEST.channel_id
    assert package.channel == HONEST.channel
    assert package.terms == HONEST.service
    assert package.card == HONEST.card
    assert package.receipts is not None
    assert len(package.receipts) == 6
    assert isinstance(package.statement, dict)
    assert package.statement["callCount"] == 6
    assert (package.submissions, package.log) == (None, None)


def test_a_package_without_the_optional_members_reads_back_without_them() -> None:
    package = parse_package(package_bytes(minimal()))

    assert (package.channel_id, package.channel, package.terms, package.card) == (None, None, None, None)
    assert (package.receipts, package.statement) == (None, None)
    assert package.attestations == ()
    assert package.results_root == bytes(32)


def test_a_package_is_written_as_canonical_json_whatever_order_it_was_read_in() -> None:
    package = HONEST.package()
    shuffled = dict(reversed(package.items()))

    assert (
        package_bytes(package) == package_bytes(shuffled) == canonical_bytes(json.loads(json.dumps(package)))
    )


def test_vouchers_are_listed_ascending_one_per_amount() -> None:
    low, high = HONEST.voucher(PRICE), HONEST.voucher(3 * PRICE)

    package = minimal(vouchers=[high, low, high, (PRICE, b"\x00" * 65)])

    assert package["vouchers"] == [
        {"cumulativeAmount": str(PRICE), "signature": to_hex(low[1])},
        {"cumulativeAmount": str(3 * PRICE), "signature": to_hex(high[1])},
    ]


def test_channel_and_terms_of_a_package_hash_to_those_of_the_vectors(
    load_vectors: Callable[[str], Any],
) -> None:
    vectors = load_vectors("eip712.json")
    manager = vectors["domain"]["verifyingContract"]
    for session in vectors["sessions"]:
        terms = {**session["terms"], "registry": session["registry"]}
        channel = {
            "payer": session["payer"],
            "payee": session["terms"]["payee"],
            "token": session["terms"]["token"],
            "authorizedSigner": session["authorizedSigner"],
            "nonce": session["nonce"],
            "termsHash": session["termsHash"],
            "rosterHash": session["rosterHash"],
        }
        package = read_package({**minimal(), "paymentManager": manager, "terms": terms, "channel": channel})

        assert package.terms is not None
        assert package.channel is not None
        assert package.terms.terms_hash(31337) == bytes32(session["termsHash"])
        assert to_hex(package.channel.channel_id(package.domain)) == session["channelId"]


def test_terms_without_their_registry_have_no_hash() -> None:
    assert replace(HONEST.service, registry=None).terms_hash(DOMAIN.chain_id) is None


def test_a_receipt_names_its_leaf_only_where_it_contradicts_the_entries() -> None:
    agreeing, signature = HONEST.receipt(1)
    contradicting, other = HONEST.receipt(1, leaf=b"\x01" * 32)
    beyond = replace(agreeing, index=9)

    assert "leaf" not in receipt_to_json(agreeing, signature, HONEST.calls)
    assert receipt_to_json(contradicting, other, HONEST.calls)["leaf"] == "0x" + "01" * 32
    assert receipt_to_json(beyond, signature, HONEST.calls)["leaf"] == to_hex(agreeing.leaf)


def test_members_that_are_not_known_are_ignored_at_every_place_but_entries() -> None:
    package = HONEST.package()

    def add(members: dict[str, Any]) -> None:
        members["aVersionLater"] = {"x": [1]}
        members["channel"]["more"] = 1
        members["terms"]["more"] = 1

    assert read_package(edited(package, add)) == read_package(package)


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("formatVersion", {"formatVersion": "1"}),
    ("formatVersion", {"formatVersion": True}),
    ("sessionId", {"sessionId": 42}),
    ("sessionId", {"sessionId": "0"}),
    ("sessionId", {"sessionId": "042"}),
    ("sessionId", {"sessionId": str(2**256)}),
    ("chainId", {"chainId": "31337"}),
    ("chainId", {"chainId": 0}),
    ("chainId", {"chainId": 1.0}),
    ("paymentManager", {"paymentManager": "0x12"}),
    ("claim", {"claim": "slow"}),
    ("claim", {"claim": ["quality"]}),
    ("narrative", {"narrative": None}),
    ("calls", {"calls": {}}),
    ("vouchers", {"vouchers": None}),
    ("resultsRoot", {"resultsRoot": "0x" + "00" * 31}),
    ("attestations", {"attestations": "none"}),
    ("channelId", {"channelId": None}),
    ("channel", {"channel": []}),
    ("channel.payer", {"channel": {}}),
    ("terms.serviceId", {"terms": {}}),
    ("card", {"card": None}),
    ("receipts", {"receipts": {}}),
    ("statement", {"statement": []}),
    ("submissions", {"submissions": 1}),
    ("log", {"log": "checkpoint"}),
    ("callCount", {"formatVersion": 2}),
    ("callCount", {"formatVersion": 2, "callCount": 0}),
]


@pytest.mark.parametrize("member, members", REFUSED)
def test_a_malformed_frame_is_refused_and_names_the_member(member: str, members: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_package({**minimal(), **members})

    assert refusal.value.code == "package-malformed"
    assert refusal.value.details["member"] == member


@pytest.mark.parametrize(
    "name, value",
    [
        ("commitRequired", 1), ("disputeWindow", -1), ("rulingPeriod", 2**32), ("disputeBond", 0),
        ("registry", "0x"), ("descriptorHash", 5), ("receiptSigner", None),
    ],
)  # fmt: skip
def test_malformed_terms_are_refused_by_the_path_of_the_member(name: str, value: Any) -> None:
    package = HONEST.package()
    terms = package["terms"]
    assert isinstance(terms, dict)
    terms[name] = value

    with pytest.raises(InvalidInput) as refusal:
        read_package(package)

    assert refusal.value.details["member"] == f"terms.{name}"


@pytest.mark.parametrize("missing", sorted(minimal().keys() - {"narrative", "attestations"}))
def test_a_package_without_a_required_member_is_refused(missing: str) -> None:
    package = minimal()
    del package[missing]

    with pytest.raises(InvalidInput) as refusal:
        read_package(package)

    assert (refusal.value.code, refusal.value.details["member"]) == ("package-malformed", missing)


def test_narrative_and_attestations_may_be_left_out() -> None:
    package = minimal()
    del package["narrative"], package["attestations"]

    assert read_package(package).narrative == ""


@pytest.mark.parametrize("version", [0, 3])
def test_an_unknown_format_version_is_refused_as_such(version: int) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_package({**minimal(), "formatVersion": version})

    assert refusal.value.code == "package-version-unknown"


def test_a_package_above_the_size_limit_is_refused() -> None:
    data = package_bytes(minimal())

    with pytest.raises(InvalidInput) as refusal:
        parse_package(data, max_bytes=len(data) - 1)

    assert refusal.value.code == "json-too-large"
    assert isinstance(parse_package(data, max_bytes=len(data)), EvidencePackage)


@pytest.mark.parametrize(
    "facts, code",
    [
        ({"claim": "slow"}, "claim-unknown"),
        ({"session_id": 0}, "session-id-invalid"),
        ({"vouchers": [(-1, b"")]}, "amount-invalid"),
        ({"entries": [HONEST.calls[1]]}, "entry-index-gap"),
    ],
)
def test_facts_that_make_no_package_are_refused(facts: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        minimal(**facts)

    assert refusal.value.code == code


@pytest.mark.parametrize("chosen", [[0], [5], [1, 4], [0, 1, 2, 3, 4, 5]])
def test_disclosed_calls_carry_proofs_that_lead_to_the_root_of_all(chosen: list[int]) -> None:
    package = read_package(disclose(HONEST.package(), reversed(chosen)))

    assert package.disclosed
    assert package.call_count == 6
    assert package.results_root == transcript_root(HONEST.calls)
    for index, call in zip(chosen, package.calls, strict=True):
        assert isinstance(call, dict)
        assert isinstance(call["proof"], list)
        siblings = [from_hex(sibling) for sibling in call["proof"]]
        assert call["index"] == index
        verify_inclusion(entry_leaf(HONEST.calls[index]), index, 6, siblings, HONEST.root, node_hash)


def test_disclosing_hides_the_other_calls_with_their_receipts_and_attestations() -> None:
    attestations: list[dict[str, Any]] = [
        {"type": "zkml", "format": "f", "payload": "", "coverage": [1]},
        {"type": "zkml", "format": "f", "payload": "", "coverage": [1, 2]},
        {"type": "zkml", "format": "f", "payload": ""},
    ]
    whole = HONEST.package(attestations=attestations)

    package: dict[str, Any] = disclose(whole, [1, 4])

    text = package_bytes(package).decode()
    assert "WORD ZERO" not in text
    assert "WORD FOUR" in text
    assert package["attestations"] == attestations[:1]
    assert package["receipts"] == [whole["receipts"][1], whole["receipts"][4]]
    assert whole["formatVersion"] == 1


@pytest.mark.parametrize(
    "chosen, code",
    [([], "disclosure-empty"), ([6], "disclosure-out-of-range"), ([-1, 2], "disclosure-out-of-range")],
)
def test_a_choice_outside_the_calls_cannot_be_disclosed(chosen: list[int], code: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        disclose(HONEST.package(), chosen)

    assert refusal.value.code == code


def test_a_disclosed_package_cannot_be_disclosed_again() -> None:
    with pytest.raises(AioumError) as refusal:
        disclose(disclose(HONEST.package(), [1]), [1])

    assert refusal.value.code == "package-not-whole"


def test_the_voucher_signer_is_the_authorized_signer_where_one_is_set() -> None:
    delegated = replace(HONEST.channel, authorized_signer=HONEST.channel.payee)

    assert HONEST.channel.voucher_signer == HONEST.channel.payer
    assert delegated.voucher_signer == HONEST.channel.payee


def test_a_channel_id_depends_on_chain_and_contract() -> None:
    elsewhere = Domain(DOMAIN.chain_id + 1, DOMAIN.payment_manager)

    assert HONEST.channel.channel_id(elsewhere) != HONEST.channel_id
