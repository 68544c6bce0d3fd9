"""`aioum log audit` against real logs and a real chain.

Moves time, so the devnet is its own.
"""

import json
from asyncio import to_thread
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.core.errors import ChainError
from aioum.core.hextext import to_hex
from aioum.core.submission.framing import encode_base64
from aioum.core.types import Bytes32, ChannelId
from aioum.devnet.running import RunningDevnet
from aioum.log.entry import CapsuleEntry, SessionEntry
from aioum.log.membership import read_membership
from tests.integration.cli.log.kept_log import KEY, ORIGIN, Command, KeptLog, entry_of
from tests.integration.conftest import FundedAccount, RegisteredService

HOUR = 3_600


async def test_a_whole_log_passes_and_says_what_was_compared(
    devnet: RunningDevnet, log: KeptLog, command: Command
) -> None:
    log.append([*await log.settle(2), CapsuleEntry(Bytes32(b"\x01" * 32)).to_bytes()])
    await log.anchor()
    log.append(await log.settle())
    report = await to_thread(command.json, "audit", *log.named())
    assert report["ok"] is True
    assert (report["matched"], report["missing"], report["capsules"], report["remarks"]) == (3, 0, 1, [])
    (shown,) = report["logs"]
    assert (shown["origin"], shown["size"], shown["anchoredSize"]) == (ORIGIN, 4, 3)
    lines = await to_thread(command.lines, "audit", *log.named())
    assert [line[0] for line in lines] == ["✓", " ", " "]


async def test_an_operator_that_omits_a_settled_session_is_named(
    devnet: RunningDevnet, log: KeptLog, command: Command
) -> None:
    first, omitted, last = await log.settle(3)
    log.append([first, last])

    await devnet.increase_time(HOUR)
    early = await to_thread(command.json, "audit", *log.named(), "--max-delay-seconds", str(HOUR + 60))
    assert early["ok"] is True
    assert [(item["code"], item["level"]) for item in early["remarks"]] == [
        ("anchor-absent", "note"), ("pending", "pending"),
    ]  # fmt: skip

    await devnet.increase_time(120)
    late = await to_thread(command.json, "audit", *log.named(), "--max-delay-seconds", str(HOUR), expect=1)
    (missing,) = [item for item in late["remarks"] if item["level"] == "alert"]
    assert missing["code"] == "session-missing"
    assert missing["facts"]["channelId"] == to_hex(omitted.channel_id)
    assert missing["facts"]["sessionId"] == str(omitted.session_id)
    assert late["operator"] == log.operator
    lines = await to_thread(command.lines, "audit", *log.named(), expect=1)
    assert lines[0] == f"✗ {log.operator}"
    assert any(f"session {omitted.session_id} " in line and "[session-missing]" in line for line in lines)


async def test_a_session_counts_from_its_finality_depth_on(log: KeptLog, command: Command) -> None:
    await log.settle()
    log.append([CapsuleEntry(Bytes32(b"\x01" * 32)).to_bytes()])
    deep = await to_thread(command.json, "audit", *log.named(), "--confirmations", "1000")
    assert (deep["missing"], deep["remarks"][1:]) == (0, [])
    log.append(log.sessions)
    logged_early = await to_thread(command.json, "audit", *log.named(), "--confirmations", "1000")
    assert (logged_early["ok"], logged_early["early"]) == (True, 1)


async def test_entries_that_the_chain_does_not_bear_out_are_named_one_by_one(
    chain: Chain, log: KeptLog, command: Command
) -> None:
    sessions = await log.settle(4)
    altered = [
        replace(sessions[0], captured=sessions[0].captured - 1),
        replace(sessions[1], results_root=Bytes32(bytes(32))),
        replace(sessions[2], call_count=6),
    ]
    invented = replace(sessions[3], channel_id=ChannelId(b"\x09" * 32))
    elsewhere = replace(sessions[3], chain_id=1)
    log.append([*altered, sessions[3], sessions[3], invented, elsewhere, b'{"type":"other"}'])
    report = await to_thread(command.json, "audit", *log.named(), expect=1)
    assert [(item["code"], item["facts"].get("index")) for item in report["remarks"]] == [
        ("anchor-absent", None),
        ("log-entry-contradicts-chain", 0),
        ("log-entry-contradicts-chain", 1),
        ("log-entry-contradicts-chain", 2),
        ("log-entry-type-unknown", 7),
        ("log-entry-duplicate", 4),
        ("log-entry-unknown", 5),
    ]
    assert (report["matched"], report["elsewhere"], report["missing"]) == (1, 1, 0)


async def test_sessions_of_others_and_open_ones_have_no_place_in_a_log(
    chain: Chain,
    log: KeptLog,
    command: Command,
    fund_account: Callable[[], Any],
    devnet: RunningDevnet,
) -> None:
    channel_id = await log.open()
    stranger = replace(log, service=await other_service(chain, log, await fund_account()), sessions=[])
    (foreign,) = await stranger.settle()
    log.append([await entry_of(chain, channel_id), foreign])
    codes = await to_thread(command.codes, "audit", *log.named(), expect=1)
    assert codes == ["anchor-absent", "log-entry-premature", "log-entry-foreign"]


async def other_service(chain: Chain, log: KeptLog, account: FundedAccount) -> RegisteredService:
    address = account.key.address
    terms = replace(log.service.service.terms, operator=address, payee=address, receipt_signer=address)
    mined = await account.sender.send(calls.register(chain.service_registry, terms, ""), "register")
    service = await chain.service(mined.events[0].args["serviceId"])
    assert service is not None
    return RegisteredService(account, service)


async def test_a_log_that_was_rewritten_behind_its_anchor_does_not_match_it(
    log: KeptLog, command: Command
) -> None:
    sessions = await log.settle(3)
    log.append(sessions)
    await log.anchor()

    log.rewrite(sessions[:2])
    # Fewer entries may be a host's that lags: nothing is said before the delay is over.
    assert await to_thread(command.codes, "audit", *log.named(), expect=0) == ["checkpoint-behind", "pending"]
    log.rewrite(sessions[::-1])
    assert await to_thread(command.codes, "audit", *log.named(), expect=1) == ["anchor-mismatch"]
    log.rewrite([*sessions[::-1], *await log.settle()])
    assert await to_thread(command.codes, "audit", *log.named(), expect=1) == ["anchor-mismatch"]


async def test_an_anchor_advances_with_a_proof_of_the_same_log_alone(log: KeptLog) -> None:
    entries = [CapsuleEntry(Bytes32(bytes([number]) * 32)).to_bytes() for number in range(6)]

    async def reverted(size: int | None = None, proof: list[bytes] | None = None) -> str:
        with pytest.raises(ChainError) as caught:
            await log.anchor(size, proof)
        return str(caught.value)

    log.append(entries[:3])
    await log.anchor()
    assert "SizeNotGrowing" in await reverted(2)
    log.append(entries[3:])
    assert "InconsistentLog" in await reverted(proof=[bytes(32)])
    log.rewrite(entries[::-1])
    assert "SizeNotGrowing" in await reverted(3)
    assert "InconsistentLog" in await reverted()
    log.rewrite(entries)
    await log.anchor()


async def test_a_log_without_a_proof_for_its_anchor_is_inconsistent(log: KeptLog, command: Command) -> None:
    log.append(await log.settle(3))
    await log.anchor()
    log.append(await log.settle(2))
    tile = log.folder / "public" / "tile" / "0" / "000.p" / "5"
    tile.unlink()
    codes = await to_thread(command.codes, "audit", *log.named(), expect=1)
    assert codes == ["consistency-invalid", "log-unreachable"]


async def test_entries_that_are_not_those_that_were_signed_are_not_believed(
    log: KeptLog, command: Command
) -> None:
    sessions = await log.settle(2)
    log.append([replace(sessions[0], captured=0), sessions[1]])
    bundle = log.folder / "public" / "tile" / "entries" / "000.p" / "2"
    data = bundle.read_bytes()
    bundle.write_bytes(data.replace(b'"captured":"0"', b'"captured":"1"'))
    codes = await to_thread(command.codes, "audit", *log.named(), expect=1)
    assert codes == ["anchor-absent", "log-files-altered"]


async def test_a_checkpoint_of_another_log_or_key_is_named(log: KeptLog, command: Command) -> None:
    log.append(await log.settle())
    named = log.named()
    renamed = [item.replace(ORIGIN, "other.example/log") for item in named]
    assert await to_thread(command.codes, "audit", *renamed, expect=1) == ["origin-changed"]
    note = log.folder / "public" / "checkpoint"
    note.write_bytes(note.read_bytes().replace(b"\n1\n", b"\n2\n"))
    assert await to_thread(command.codes, "audit", *named, expect=1) == ["checkpoint-signature-invalid"]


async def test_without_a_card_a_person_has_to_say_whose_log_it_is(log: KeptLog, command: Command) -> None:
    log.append(await log.settle())

    whose = ("audit", "--operator", log.operator)
    codes = await to_thread(command.codes, *whose, expect=1)
    assert codes == ["card-unreachable", "log-not-promised"]
    assert await to_thread(command.error, *whose, "--log", str(log.folder)) == "log-key-unknown"
    nowhere = (*log.named()[:-1], str(log.folder / "none"))
    assert await to_thread(command.error, "audit", *nowhere) == "log-missing"
    assert await to_thread(command.error, *whose, "--origin", ORIGIN, expect=2) == "usage"


async def test_the_evidence_of_a_wrong_entry_is_a_proof_under_the_signed_checkpoint(
    log: KeptLog, command: Command, tmp_path: Path
) -> None:
    (session,) = await log.settle()
    wrong = replace(session, captured=1)
    log.append([wrong])
    config = tmp_path / "monitor.json"
    config.write_text(json.dumps({"operators": [followed(log)]}))
    seen = await to_thread(command.json, "monitor", "--config", str(config), "--once", expect=1)
    (path,) = seen["evidence"]
    evidence = json.loads(Path(path).read_bytes())
    assert evidence["code"] == "log-entry-contradicts-chain"
    checkpoint, entry = read_membership(evidence["log"]).verify(ORIGIN, KEY.public_key)
    assert (checkpoint.size, entry) == (1, wrong)
    assert isinstance(entry, SessionEntry)


def followed(log: KeptLog) -> dict[str, str]:
    return {
        "operator": log.operator, "log": str(log.folder), "origin": ORIGIN,
        "publicKey": encode_base64(KEY.public_key),
    }  # fmt: skip
