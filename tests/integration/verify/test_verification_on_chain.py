"""Packages of a session that was really opened, anchored and settled, checked against the chain."""

import asyncio
import json
import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from aioum.chain import calls
from aioum.chain.calls import Settlement
from aioum.chain.client import Chain
from aioum.core.errors import ChainError
from aioum.core.evidence import package_bytes
from aioum.core.hextext import address_text, to_hex
from aioum.core.payment import Voucher
from aioum.core.types import ZERO_ADDRESS, ZERO_BYTES32, Address, Bytes32
from aioum.devnet.running import RunningDevnet
from aioum.verify.chain_view import BlockView
from tests.integration.conftest import FundAccount, FundedAccount
from tests.unit.verify.honest import COMMAND, DEPOSIT, PRICE, Honest, card_json, judge
from tests.unit.verify.tampering import CASES


@dataclass(frozen=True)
class Opened:
    """A session on the chain, with the accounts that may act on it."""

    honest: Honest
    payer: FundedAccount
    operator: FundedAccount

    async def settle(self, chain: Chain) -> None:
        honest = self.honest
        amount, signature = honest.voucher(honest.settled)
        settlement = Settlement(
            honest.channel_id, amount, honest.settled, len(honest.calls), honest.root, signature
        )
        await self.operator.sender.send(calls.settle_session(chain.payment_manager, settlement), "settle")


Open = Callable[..., Any]


@pytest.fixture
def open_session(devnet: RunningDevnet, chain: Chain, fund_account: FundAccount) -> Open:
    """Registers a service with a card of its own and opens a session on it."""

    async def open_it(*, commit_required: bool = True, authorized_signer: Address = ZERO_ADDRESS) -> Opened:
        payer, operator = await fund_account(), await fund_account()
        card = card_json(
            domain=chain.domain, registry=chain.service_registry, token=devnet.token, operator=operator.key
        )
        honest = Honest(
            card=card,
            nonce=Bytes32(secrets.token_bytes(32)),
            commit_required=commit_required,
            client=payer.key,
            authorized_signer=authorized_signer,
            operator=operator.key,
            domain=chain.domain,
            registry=chain.service_registry,
            token=devnet.token,
        )
        register = calls.register(chain.service_registry, honest.service.terms, "file:card.json")
        (registered,) = (await operator.sender.send(register, "register")).events
        honest = replace(honest, service_id=registered.args["serviceId"])
        opening = calls.open_session(
            chain.payment_manager,
            service_id=honest.service_id,
            terms_hash=honest.terms_hash,
            deposit=DEPOSIT,
            nonce=honest.nonce,
            authorized_signer=authorized_signer,
        )
        events = (await payer.sender.send(opening, "open")).events
        opened = next(event for event in events if event.name == "SessionOpened")
        assert opened.channel_id == honest.channel_id
        return Opened(replace(honest, session_id=opened.args["sessionId"]), payer, operator)

    return open_it


@pytest.fixture
async def settled(open_session: Open, chain: Chain) -> Honest:
    """An honest session, anchored and settled."""
    opened: Opened = await open_session()
    await opened.settle(chain)
    return opened.honest


async def run(*arguments: object) -> tuple[int, dict[str, Any]]:
    """Runs `verify-evidence --json`: exit code and report."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import sys; from aioum.cli.verify_evidence import main; sys.exit(main())",
        *(str(argument) for argument in arguments), "--json",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, complaint = await process.communicate()
    assert process.returncode is not None
    return process.returncode, json.loads(output) if output else {"complaint": complaint.decode()}


def row(report: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(check for check in report["checks"] if check["name"] == name)
    return found


async def test_a_settled_session_passes_every_applicable_check_by_the_command(
    settled: Honest, devnet: RunningDevnet, chain: Chain, tmp_path: Path
) -> None:
    evidence = tmp_path / "evidence.json"
    evidence.write_bytes(package_bytes(settled.package()))
    program, flag, text = COMMAND

    code, report = await run(
        evidence, "--deployment", devnet.deployment_file, "--exec", f'{program} {flag} "{text}"'
    )

    assert code == 0
    assert {check["name"]: check["status"] for check in report["checks"]} == {
        "session": "pass", "transcript": "pass", "claimed-root": "pass", "anchored-root": "pass",
        "vouchers": "pass", "re-execution": "pass", "attestations": "na", "quality": "na",
        "receipts": "pass", "statement": "pass",
    }  # fmt: skip
    facts = row(report, "session")["details"]
    assert facts["client"] == address_text(settled.client.address)
    assert facts["operator"] == address_text(settled.operator.address)
    assert (facts["deposit"], facts["settled"]) == (str(DEPOSIT), str(settled.settled))
    block = await chain.block(report["block"]["number"])
    assert block is not None
    assert report["block"] == {
        "number": block.number, "hash": to_hex(block.hash), "timestamp": block.timestamp,
    }  # fmt: skip


async def test_the_command_asks_a_named_endpoint_and_only_contracts_that_are_known(
    settled: Honest, devnet: RunningDevnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOUM_DEVNET_DIR", str(tmp_path / "none"))
    evidence = tmp_path / "evidence.json"
    evidence.write_bytes(package_bytes(settled.package()))
    manager = address_text(settled.domain.payment_manager)

    known = await run(evidence, "--rpc", devnet.rpc_url, "--payment-manager", manager)
    unknown = await run(evidence, "--rpc", devnet.rpc_url)
    another = await run(
        evidence, "--rpc", devnet.rpc_url, "--payment-manager", address_text(settled.client.address)
    )
    added = await run(evidence, "--deployment", devnet.deployment_file, "--payment-manager", "0x" + "99" * 20)

    assert (known[0], row(known[1], "anchored-root")["status"]) == (0, "pass")
    for code, report in (unknown, another):
        assert (code, row(report, "session")["codes"]) == (1, ["payment-manager-untrusted"])
        assert report["block"] is not None
    assert added[0] == 0


async def test_a_known_contract_that_is_no_payment_manager_is_an_error_of_the_caller(
    settled: Honest, devnet: RunningDevnet, tmp_path: Path
) -> None:
    evidence = tmp_path / "evidence.json"
    token = address_text(devnet.token)
    evidence.write_bytes(package_bytes({**settled.package(), "paymentManager": token}))

    code, report = await run(evidence, "--deployment", devnet.deployment_file, "--payment-manager", token)

    assert code == 2
    assert "error: " in report["complaint"]


IN_THE_PACKAGE = [name for name in CASES if not CASES[name](Honest()).on_chain]


async def test_tampering_with_a_real_session_gives_the_written_checks_and_codes(
    settled: Honest, chain: Chain, load_vectors: Callable[[str], Any]
) -> None:
    vectors = load_vectors("tampering.json")["packages"]
    view = await BlockView.at_head(chain)

    for name in IN_THE_PACKAGE:
        tampered = CASES[name](settled)
        report = await judge(
            tampered.package,
            view,
            trusted=frozenset({chain.payment_manager}) if tampered.trusted is None else tampered.trusted,
            re_executor=tampered.re_executor,
        )
        assert (name, report.failures()) == (name, vectors[name]["fail"])
    await view.require_unchanged()


async def test_a_session_without_a_root_fails_only_where_its_terms_require_one(
    open_session: Open, chain: Chain
) -> None:
    required: Opened = await open_session()
    optional: Opened = await open_session(commit_required=False)
    view = await BlockView.at_head(chain)
    known = frozenset({chain.payment_manager})

    failed = await judge(required.honest.package(), view, trusted=known)
    not_judged = await judge(optional.honest.package(), view, trusted=known)

    assert failed.failures() == {"anchored-root": ["root-absent"]}
    assert not_judged.statuses()["anchored-root"] == "na"


async def test_another_sessions_root_and_a_different_call_count_are_noticed(
    open_session: Open, chain: Chain
) -> None:
    wrong_root: Opened = await open_session()
    wrong_count: Opened = await open_session()
    for opened, root, count in (
        (wrong_root, Bytes32(b"\x42" * 32), 6),
        (wrong_count, wrong_count.honest.root, 7),
    ):
        commit = calls.commit_results(chain.payment_manager, opened.honest.channel_id, root, count)
        await opened.operator.sender.send(commit, "commit")
    view = await BlockView.at_head(chain)
    known = frozenset({chain.payment_manager})

    by_root = await judge(wrong_root.honest.package(), view, trusted=known)
    by_count = await judge(wrong_count.honest.package(), view, trusted=known)

    assert by_root.failures() == {
        "anchored-root": ["anchored-root-mismatch"], "statement": ["statement-contradicts-anchor"],
    }  # fmt: skip
    assert by_count.failures() == {"anchored-root": ["call-count-mismatch"]}


def wallet_code(digest: bytes) -> bytes:
    """Code of an ERC-1271 wallet that accepts this one digest, whatever the signature."""
    # (calldata[4:36] == digest) * 0x1626ba7e << 224, returned as one word.
    return bytes.fromhex(f"7f{digest.hex()}6004351463" + "1626ba7e" + "0260e01b5f5260205ff3")


async def test_a_wallet_contract_is_asked_and_may_say_yes_or_no(
    open_session: Open, devnet: RunningDevnet, chain: Chain
) -> None:
    wallet = Address(secrets.token_bytes(20))
    opened: Opened = await open_session(authorized_signer=wallet)
    honest = opened.honest
    await devnet.set_code(wallet, wallet_code(Voucher(honest.channel_id, PRICE).digest(chain.domain)))
    known = frozenset({chain.payment_manager})
    view = await BlockView.at_head(chain)

    accepted = await judge(honest.package(vouchers=[(PRICE, b"by the wallet's rules")]), view, trusted=known)
    refused = await judge(honest.package(vouchers=[(PRICE + 1, b"")]), view, trusted=known)

    assert accepted.statuses()["vouchers"] == "pass"
    assert refused.failures()["vouchers"] == ["voucher-signature-rejected"]


async def test_the_view_stays_at_its_block_while_the_chain_goes_on(open_session: Open, chain: Chain) -> None:
    opened: Opened = await open_session()
    before = await BlockView.at_head(chain)
    await opened.settle(chain)
    after = await BlockView.at_head(chain)

    earlier = await before.session(opened.honest.channel_id)
    later = await after.session_by_id(opened.honest.session_id)

    assert earlier is not None
    assert later is not None
    assert (earlier.settled, earlier.root) == (0, ZERO_BYTES32)
    assert (later.settled, later.root) == (opened.honest.settled, opened.honest.root)
    terms = await after.terms(opened.honest.terms_hash)
    assert terms is not None
    assert terms.terms == opened.honest.service.terms
    assert await after.has_code(chain.payment_manager)
    assert not await after.has_code(opened.honest.client.address)


async def test_a_reorganization_during_verification_is_noticed(chain: Chain) -> None:
    view = await BlockView.at_head(chain)
    elsewhere = replace(view, block=replace(view.block, hash=Bytes32(b"\x01" * 32)))

    await view.require_unchanged()
    with pytest.raises(ChainError) as error:
        await elsewhere.require_unchanged()

    assert error.value.code == "block-reorganized"
