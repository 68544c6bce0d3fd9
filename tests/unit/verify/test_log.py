"""The row `log`: whose log it has to be, what its entry has to say, and each way to be wrong."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aioum.core.evidence import disclose
from aioum.core.types import ZERO_BYTES32, Bytes32
from aioum.log.entry import CapsuleEntry
from aioum.log.monitor import LogIdentity
from aioum.verify.package import verify_package
from aioum.verify.ports import ChainView
from aioum.verify.report import Check, Status
from tests.unit.log.memberships import logged
from tests.unit.log.samples import KEY, ORIGIN, OTHER_KEY, session
from tests.unit.verify.honest import TRUSTED, Honest, edited, judge, read
from tests.unit.verify.logged import entry, in_log, log_member
from tests.unit.verify.test_report import documented_codes

HONEST = in_log()
ENTRY = entry(HONEST)
PACKAGE = HONEST.package(log=log_member(HONEST))
ROOT = Bytes32(b"\x66" * 32)

Edit = Callable[[dict[str, Any]], object]


async def row(package: dict[str, Any], chain: ChainView | None, known: LogIdentity | None = None) -> Check:
    """The row, whose codes must be among the documented ones."""
    report = await verify_package(
        read(package), chain=chain, trusted_payment_managers=TRUSTED, known_log=known
    )
    check = next(check for check in report.checks if check.name == "log")
    column = [Status.FAIL, Status.NOT_APPLICABLE, Status.PASS].index(check.status)
    documented = documented_codes(Path(__file__).parents[3])["log"][column]
    assert set(check.codes) <= documented, check.codes
    return check


def with_log(**changed: Any) -> dict[str, Any]:
    return HONEST.package(log=log_member(HONEST, **changed))


def note(old: str, new: str) -> Edit:
    """Changes the signed checkpoint's text."""

    def edit(package: dict[str, Any]) -> None:
        text = package["log"]["checkpoint"]
        assert text.count(old) == 1
        package["log"]["checkpoint"] = text.replace(old, new)

    return edit


def proof(**members: Any) -> Edit:
    return lambda package: package["log"]["proof"].update(members)


def hashes(change: Callable[[list[str]], list[str]]) -> Edit:
    return lambda package: proof(hashes=change(package["log"]["proof"]["hashes"]))(package)


def replaced(other: dict[str, Any]) -> Edit:
    return lambda package: package.update(log=other)


async def test_a_session_that_the_promised_log_has_as_the_chain_does_is_proven() -> None:
    report = await judge(PACKAGE, HONEST.chain())
    assert report.exit_code == 0
    check = await row(PACKAGE, HONEST.chain())
    assert (check.status, check.codes) == (Status.PASS, ())
    assert check.details["namedBy"] == "card"
    assert (check.details["origin"], check.details["index"], check.details["size"]) == (ORIGIN, 5, 11)


async def test_a_package_without_proof_has_no_row() -> None:
    report = await judge(HONEST.package(), HONEST.chain())
    assert "log" not in [check.name for check in report.checks]


async def test_a_disclosed_package_carries_the_proof() -> None:
    assert (await row(disclose(PACKAGE, [1]), HONEST.chain())).status is Status.PASS


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (hashes(lambda found: found[:-1]), "proof-length-wrong"),
        (hashes(lambda found: [*found, found[0]]), "proof-length-wrong"),
        (hashes(lambda found: found[::-1]), "proof-root-mismatch"),
        (proof(index=4), "proof-root-mismatch"),
        (proof(index=11), "proof-index-out-of-range"),
        (proof(size=11), "log-proof-malformed"),
        # An interior node for a leaf: its 64 bytes are no entry, and its place is one level up.
        (proof(entry="0x" + "ab" * 64), "log-proof-malformed"),
        (lambda package: proof(index=2, hashes=package["log"]["proof"]["hashes"][1:])(package),
         "proof-length-wrong"),
        (lambda package: package["log"]["proof"]["entry"].update(captured="1"), "proof-root-mismatch"),
        (lambda package: package["log"]["proof"]["entry"].update(more=1), "log-entry-malformed"),
        (lambda package: package["log"]["proof"]["entry"].update(type="x"), "log-entry-type-unknown"),
        (lambda package: package["log"]["proof"]["entry"].update(
            paymentManager=package["paymentManager"].upper().replace("X", "x")), "log-entry-not-canonical"),
        (lambda package: package["log"]["proof"]["entry"].update(more="x" * 1_024), "json-too-large"),
        (note("\n11\n", "\n12\n"), "checkpoint-signature-invalid"),
        (note("\n11\n", "\n1_1\n"), "checkpoint-size-malformed"),
        (note("\n11\n", "\n+11\n"), "checkpoint-size-malformed"),
        (note("\n11\n", "\n011\n"), "checkpoint-size-malformed"),
        (note("\n11\n", "\n١١\n"), "checkpoint-size-malformed"),
        (note("=\n\n", "\n\n"), "checkpoint-root-malformed"),
        (note("\n\n", "\nmore\n\n"), "checkpoint-extension-unexpected"),
        (note("— example.com/log", "—  example.com/log"), "checkpoint-signature-malformed"),
        (replaced(logged(ENTRY.to_bytes(), key=OTHER_KEY).to_json()), "checkpoint-key-mismatch"),
        (replaced(logged(ENTRY.to_bytes(), origin="elsewhere").to_json()), "checkpoint-origin-unexpected"),
        (replaced(logged(session(77).to_bytes()).to_json()), "log-session-mismatch"),
        (replaced(logged(CapsuleEntry(ROOT).to_bytes()).to_json()), "log-session-mismatch"),
        (replaced(log_member(HONEST, chain_id=1)), "log-session-mismatch"),
        (replaced(log_member(HONEST, results_root=ROOT)), "log-root-mismatch"),
        (replaced(log_member(HONEST, call_count=7)), "log-root-mismatch"),
        (replaced(log_member(HONEST, captured=1)), "log-entry-contradicts-chain"),
        (replaced(log_member(HONEST, session_id=41)), "log-entry-contradicts-chain"),
    ],
)  # fmt: skip
async def test_each_way_a_log_proof_is_wrong_has_its_own_code(edit: Edit, code: str) -> None:
    check = await row(edited(PACKAGE, edit), HONEST.chain())
    assert (check.status, check.codes) == (Status.FAIL, (code,))


async def test_an_entry_that_is_wrong_in_all_says_all() -> None:
    check = await row(with_log(results_root=ROOT, captured=1), HONEST.chain())
    assert check.codes == ("log-root-mismatch", "log-entry-contradicts-chain")


async def test_a_session_that_is_open_cannot_be_in_a_log() -> None:
    check = await row(PACKAGE, HONEST.chain(HONEST.session(finalized_at=0)))
    assert (check.status, check.codes) == (Status.FAIL, ("log-entry-premature",))


async def test_without_the_card_that_the_terms_name_nobody_says_whose_log_it_is() -> None:
    # A key of the accuser's choice must not become the log's.
    swapped = edited(PACKAGE, lambda package: package["card"]["log"].update(origin="elsewhere"))
    without_card = edited(PACKAGE, lambda package: package.pop("card"))
    without_terms = edited(PACKAGE, lambda package: package.pop("terms"))
    for package, chain in (
        (swapped, HONEST.chain()), (swapped, None), (without_card, HONEST.chain()), (without_terms, None),
    ):  # fmt: skip
        check = await row(package, chain)
        assert (check.status, check.codes) == (Status.NOT_APPLICABLE, ("log-key-unknown",))
    # The registry knows the terms as well.
    assert (await row(without_terms, HONEST.chain())).status is Status.PASS


async def test_a_log_that_the_card_does_not_promise_is_not_judged() -> None:
    plain = Honest()
    check = await row(plain.package(log=log_member(plain)), plain.chain())
    assert (check.status, check.codes) == (Status.NOT_APPLICABLE, ("log-not-promised",))


async def test_a_verifier_that_knows_the_log_needs_no_card_and_takes_its_new_key() -> None:
    plain, known = Honest(), LogIdentity(ORIGIN, KEY.public_key)
    check = await row(plain.package(log=log_member(plain), card=None), plain.chain(), known)
    assert (check.status, check.details["namedBy"]) == (Status.PASS, "verifier")
    rotated = HONEST.package(log=logged(ENTRY.to_bytes(), key=OTHER_KEY).to_json())
    assert (await row(rotated, HONEST.chain())).codes == ("checkpoint-key-mismatch",)
    check = await row(rotated, HONEST.chain(), LogIdentity(ORIGIN, OTHER_KEY.public_key))
    assert check.status is Status.PASS


async def test_offline_a_genuine_proof_stays_open_and_a_wrong_one_fails() -> None:
    check = await row(PACKAGE, None)
    assert (check.status, check.codes) == (Status.NOT_APPLICABLE, ("offline",))
    assert (check.details["index"], check.details["size"]) == (5, 11)
    for changed, code in (
        ({"results_root": ROOT}, "log-root-mismatch"),
        ({"channel_id": ROOT}, "log-session-mismatch"),
    ):
        check = await row(with_log(**changed), None)
        assert (check.status, check.codes) == (Status.FAIL, (code,))
    unanchored = await row(with_log(results_root=ZERO_BYTES32, call_count=0), None)
    assert unanchored.codes == ("offline",)


async def test_a_session_that_is_not_on_the_chain_is_not_proven_by_a_log() -> None:
    check = await row(PACKAGE, replace(HONEST.chain(), sessions={}))
    assert (check.status, check.codes) == (Status.NOT_APPLICABLE, ("session-unproven",))


async def test_where_nothing_names_the_channel_the_log_is_not_judged() -> None:
    package = HONEST.package(log=log_member(HONEST), channel=None)
    assert (await row(package, None)).codes == ("log-session-unknown",)


async def test_a_card_of_a_newer_kind_is_not_taken_for_a_promise() -> None:
    odd = Honest(card=HONEST.card | {"log": {"origin": ORIGIN}})
    check = await row(odd.package(log=log_member(odd)), odd.chain())
    assert (check.status, check.codes) == (Status.NOT_APPLICABLE, ("card-invalid",))
