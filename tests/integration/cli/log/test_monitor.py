"""`aioum log monitor` follows real logs beside a real chain; each thing that a log can do wrong has its code.

Moves time, so the devnet is its own.
"""

import json
import signal
import subprocess
from asyncio import to_thread
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aioum.chain.rpc import Rpc
from aioum.client.logs.auditing import Monitor
from aioum.client.logs.followed import Followed
from aioum.client.logs.looking import Looking
from aioum.client.logs.peers import Peers
from aioum.client.logs.sources import LogTarget, open_source
from aioum.client.logs.state_folder import StateFolder
from aioum.client.logs.web import open_web
from aioum.core.errors import OutcomeUnknown
from aioum.core.hextext import address_text, to_hex
from aioum.core.types import Bytes32
from aioum.devnet.running import RunningDevnet
from aioum.log.audit import Level
from aioum.log.checkpoint import Checkpoint, read_checkpoint, sign_checkpoint
from aioum.log.files import LogFolder
from aioum.log.monitor import WINDOW_BLOCKS, LogIdentity, OperatorState, read_state
from aioum.log.static import show
from tests.integration.cli.conftest import Shell
from tests.integration.cli.log.kept_log import (
    CAPTURED,
    KEY,
    ORIGIN,
    Command,
    KeptLog,
    entry_of,
)
from tests.integration.cli.log.monitored import (
    NOWHERE,
    card_of,
    codes,
    evidence,
    following,
    hanging,
    hosted,
    offer,
    options,
)


async def test_each_look_takes_up_where_the_last_one_ended(
    log: KeptLog, command: Command, tmp_path: Path
) -> None:
    once = options(tmp_path, following(log))
    log.append(await log.settle(2))
    first = await to_thread(command.json, *once)
    (path,) = (tmp_path / "state" / "operators").iterdir()
    before = json.loads(path.read_bytes())
    # Beyond the blocks that are searched twice.
    await log.chain.rpc.request("anvil_mine", hex(2 * WINDOW_BLOCKS))
    log.append(await log.settle())
    await to_thread(command.json, *once)
    second = await to_thread(command.json, *once)
    after = json.loads(path.read_bytes())
    assert (first["ok"], first["matched"]) == (True, 2)
    assert (second["ok"], second["matched"], second["missing"]) == (True, 3, 0)
    assert after["searched"]["number"] > before["searched"]["number"]
    (checkpoint,) = (tmp_path / "state" / "checkpoints").iterdir()
    assert read_checkpoint(checkpoint.read_bytes(), ORIGIN, KEY.public_key).size == 3
    assert second["evidence"] == []


async def test_a_session_that_a_followed_log_leaves_out_is_missing_until_it_is_there(
    devnet: RunningDevnet, log: KeptLog, command: Command, tmp_path: Path
) -> None:
    once = options(tmp_path, {**following(log), "maxDelaySeconds": 0})
    first, omitted, last = await log.settle(3)
    log.append([first, last])
    await devnet.increase_time(1)
    look = await to_thread(command.json, *once, expect=1)
    assert codes(look) == ["session-missing"]
    assert look["remarks"][1]["facts"]["channelId"] == to_hex(omitted.channel_id)
    again = await to_thread(command.json, *once, expect=1)
    assert codes(again) == ["session-missing"]
    log.append([omitted])
    late = await to_thread(command.json, *once)
    assert (late["ok"], late["missing"], late["matched"]) == (True, 0, 3)


async def test_an_entry_that_comes_before_its_sessions_end_is_premature_until_the_end(
    log: KeptLog, command: Command, tmp_path: Path
) -> None:
    once = options(tmp_path, following(log))
    channel_id, root = await log.open(), Bytes32(b"\x05" * 32)
    opened = await entry_of(log.chain, channel_id)
    log.append([replace(opened, call_count=7, captured=CAPTURED, results_root=root)])
    early = await to_thread(command.json, *once, expect=1)
    assert (codes(early), early["early"]) == (["log-entry-premature"], 1)
    await log.close(channel_id, root)
    ended = await to_thread(command.json, *once, expect=1)
    assert (codes(ended), ended["matched"], ended["early"]) == ([], 1, 0)
    assert ended["evidence"] == early["evidence"]


async def test_an_entry_of_a_session_that_the_endpoint_does_not_know_yet_waits_for_it(
    log: KeptLog, command: Command, tmp_path: Path
) -> None:
    once = options(tmp_path, following(log))
    (sold,) = await log.settle()
    nonce, root = Bytes32(b"\x06" * 32), Bytes32(b"\x05" * 32)
    coming = replace(
        sold, channel_id=log.channel_of(nonce), session_id=sold.session_id + 1, results_root=root
    )
    log.append([sold, coming])
    early = await to_thread(command.json, *once, expect=1)
    assert (codes(early), early["early"]) == (["log-entry-unknown"], 1)
    await log.close(await log.open(nonce), root)
    known = await to_thread(command.json, *once, expect=1)
    assert (codes(known), known["matched"], known["missing"]) == ([], 2, 0)


async def test_a_session_whose_event_an_endpoint_gives_late_had_no_entry_before(
    log: KeptLog, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = options(tmp_path, following(log))
    log.append(await log.settle())

    async def none(*_: object) -> list[object]:
        return []

    with monkeypatch.context() as patched:
        patched.setattr(Rpc, "logs", none)
        early = await to_thread(command.json, *once)
    assert (early["ok"], early["early"]) == (True, 1)
    known = await to_thread(command.json, *once)
    assert (known["ok"], known["matched"], known["missing"]) == (True, 1, 0)


async def test_a_history_that_is_rewritten_between_two_looks_is_a_split_view_with_its_proof(
    log: KeptLog, command: Command, tmp_path: Path
) -> None:
    once = options(tmp_path, following(log))
    sessions = await log.settle(3)
    seen = log.append(sessions[:2])
    assert codes(await to_thread(command.json, *once)) == []
    shown = log.rewrite([sessions[1], sessions[0], sessions[2]])
    look = await to_thread(command.json, *once, expect=1)
    assert codes(look) == ["split-view"]
    assert evidence(look)["checkpoints"] == [seen.decode(), shown.decode()]
    assert evidence(look)["facts"]["prefix"]["root"] != evidence(look)["facts"]["checkpoints"][0]["root"]
    # It stays so, and is kept once; the checkpoint that peers are shown is the one that was verified.
    again = await to_thread(command.json, *once, expect=1)
    assert (codes(again), again["evidence"]) == (["split-view"], look["evidence"])
    (checkpoint,) = (tmp_path / "state" / "checkpoints").iterdir()
    assert checkpoint.read_bytes() == seen
    # The right history is followed again, and what was found is not forgotten.
    log.rewrite(sessions)
    back = await to_thread(command.json, *once, expect=1)
    assert (codes(back), back["matched"], back["evidence"]) == ([], 3, look["evidence"])


async def test_two_roots_of_one_size_are_a_split_view(log: KeptLog, command: Command, tmp_path: Path) -> None:
    once = options(tmp_path, following(log))
    sessions = await log.settle(2)
    log.append(sessions)
    assert codes(await to_thread(command.json, *once)) == []
    log.rewrite(sessions[::-1])
    look = await to_thread(command.json, *once, expect=1)
    assert (codes(look), evidence(look)["code"]) == (["split-view"], "split-view")


@pytest.mark.parametrize("reorganized", [False, True])
async def test_a_log_that_shows_less_than_before_is_late_at_first_and_rewound_after_the_delay(
    devnet: RunningDevnet, log: KeptLog, command: Command, tmp_path: Path, *, reorganized: bool
) -> None:
    once = options(tmp_path, {**following(log), "maxDelaySeconds": 60})
    sessions = await log.settle(3)
    older = log.append(sessions[:2])
    log.append(sessions[2:])
    await log.anchor(2)
    assert (await to_thread(command.json, *once))["remarks"] == []
    (log.folder / "public" / "checkpoint").write_bytes(older)
    if reorganized:
        forget_the_block(tmp_path)
    behind = await to_thread(command.json, *once)
    assert codes(behind, "pending") == ["checkpoint-behind"]
    await devnet.increase_time(61)
    assert codes(await to_thread(command.json, *once, expect=1)) == ["checkpoint-behind"]


async def test_a_host_that_lags_behind_an_anchor_accuses_nobody_before_the_delay_is_over(
    devnet: RunningDevnet, log: KeptLog, command: Command, tmp_path: Path
) -> None:
    once = options(tmp_path, {**following(log), "maxDelaySeconds": 60})
    sessions = await log.settle(3)
    older = log.append(sessions[:2])
    log.append(sessions[2:])
    await log.anchor()
    assert (await to_thread(command.json, *once))["remarks"] == []
    (log.folder / "public" / "checkpoint").write_bytes(older)
    behind = await to_thread(command.json, *once)
    assert codes(behind, "pending") == ["checkpoint-behind", "checkpoint-behind"]
    # Another host of the same log, which has no files yet of what was shown before.
    log.rewrite(sessions[:2])
    assert codes(await to_thread(command.json, *once), "pending") == ["checkpoint-behind"] * 2
    await devnet.increase_time(61)
    late = await to_thread(command.json, *once, expect=1)
    assert codes(late) == ["checkpoint-behind", "consistency-invalid"]


async def test_sessions_are_judged_all_the_same_where_the_host_withholds_a_file(
    devnet: RunningDevnet, log: KeptLog, command: Command, tmp_path: Path
) -> None:
    once = options(tmp_path, {**following(log), "maxDelaySeconds": 60})
    first, omitted, last = await log.settle(3)
    log.append([first])
    await to_thread(command.json, *once)
    log.append([last])
    bundle = log.folder / "public" / "tile" / "entries" / "000.p" / "2"
    kept = bundle.read_bytes()
    bundle.unlink()
    early = await to_thread(command.json, *once, expect=1)
    assert (codes(early), codes(early, "pending")) == (["log-unreachable"], ["pending"] * 2)
    await devnet.increase_time(61)
    late = await to_thread(command.json, *once, expect=1)
    assert codes(late) == ["log-unreachable", "session-missing", "session-missing"]
    assert late["evidence"] == []
    bundle.write_bytes(kept)
    back = await to_thread(command.json, *once, expect=1)
    assert (codes(back), back["matched"]) == (["session-missing"], 2)
    assert back["remarks"][-1]["facts"]["channelId"] == to_hex(omitted.channel_id)


async def test_an_operator_that_moves_may_write_in_the_new_log_what_the_old_one_has(
    log: KeptLog, tmp_path: Path
) -> None:
    sessions, moved = await log.settle(2), tmp_path / "moved"
    log.append(sessions)
    with LogFolder.open(moved, "moved.example/log") as folder:
        folder.append([entry.to_bytes() for entry in (sessions[0], sessions[1], sessions[1])])
        note = sign_checkpoint(Checkpoint(folder.origin, 3, folder.tree.root()), KEY)
        show(folder, 3, note)
    async with open_web() as web:
        targets = [
            LogTarget(LogIdentity(origin, KEY.public_key), open_source(str(place), web.named))
            for origin, place in ((ORIGIN, log.folder), ("moved.example/log", moved))
        ]
        operator = log.service.operator.key.address
        state = OperatorState(log.chain.chain_id, log.chain.payment_manager, operator)
        look = await Looking(log.chain, state, targets, confirmations=1).look()
    wrong = [found.remark for found in look.found if found.remark.level is Level.ALERT]
    assert [(remark.code, remark.facts["index"]) for remark in wrong] == [("log-entry-duplicate", 2)]
    assert look.state.counts.matched == 4


async def test_a_log_of_another_name_in_its_place_has_changed_its_origin(
    log: KeptLog, command: Command, tmp_path: Path
) -> None:
    once = options(tmp_path, following(log))
    log.append(await log.settle())
    assert codes(await to_thread(command.json, *once)) == []
    note = sign_checkpoint(Checkpoint("other.example/log", 1, bytes(32)), KEY)
    (log.folder / "public" / "checkpoint").write_bytes(note)
    look = await to_thread(command.json, *once, expect=1)
    assert (codes(look), evidence(look)["checkpoints"]) == (["origin-changed"], [note.decode()])


async def test_a_card_says_where_the_log_is_and_a_new_card_may_not_name_another(
    log: KeptLog, command: Command, tmp_path: Path
) -> None:
    log.append(await log.settle())
    card: dict[str, Any] = card_of(log)
    async with hosted(log.folder / "public", card) as url:
        await offer(log, card, url)
        named = ["--operator", log.operator, "--allow-private-addresses"]
        audited = await to_thread(command.json, "audit", *named)
        assert (audited["ok"], audited["matched"], audited["maxDelaySeconds"]) == (True, 1, 60)
        assert [item["where"] for item in audited["logs"]] == [f"{url}/log"]
        # What the registry names is not fetched from the own network, unless a person allows it.
        refused = await to_thread(command.json, "audit", "--operator", log.operator, expect=1)
        assert refused["remarks"][0]["facts"]["reason"] == "log-address-refused"
        once = ["monitor", "--once", "--state", str(tmp_path / "state"), *named]
        assert codes(await to_thread(command.json, *once)) == []
        card["log"]["origin"] = "new.example/log"
        # Until it is registered, it is not the card whose hash is on-chain.
        unregistered = await to_thread(command.json, "audit", *named, expect=1)
        assert unregistered["remarks"][0]["facts"]["reason"] == "card-mismatch"
        await offer(log, card, url)
        look = await to_thread(command.json, *once, expect=1)
        assert codes(look).count("origin-changed") == 2  # by the card, and by what lies there
        assert look["matched"] == 1


async def test_who_cannot_be_reached_or_read_holds_up_no_other(
    log: KeptLog, command: Command, tmp_path: Path
) -> None:
    log.append(await log.settle())
    gone = {**following(log, NOWHERE), "operator": address_text(log.payer.key.address)}
    lines = await to_thread(command.lines, *options(tmp_path, gone, following(log)), "--json", expect=1)
    looks = {look["operator"]: look for look in map(json.loads, lines)}
    assert codes(looks[gone["operator"]]) == ["log-unreachable"]
    assert looks[log.operator]["ok"] is True
    # A state that is damaged is an error, and no new beginning.
    path = next((tmp_path / "state" / "operators").glob(f"*{log.operator}*"))
    path.write_bytes(path.read_bytes()[:-1])
    out, err = await to_thread(command.run, *options(tmp_path, gone, following(log)), expect=1)
    assert f"✗ {gone['operator']}" in out
    assert log.operator not in out
    assert "[monitor-state-malformed]" in err


async def test_a_look_that_takes_too_long_is_given_up(log: KeptLog, tmp_path: Path) -> None:
    log.append(await log.settle())
    identity = LogIdentity(ORIGIN, KEY.public_key)
    async with hanging() as url, open_web() as web:
        with StateFolder.open(tmp_path / "state") as folder:
            hasty = Monitor(log.chain, folder, web, Peers((), web.named), 1, timeout_seconds=0.3)
            patient = Monitor(log.chain, folder, web, Peers((), web.named), 1, timeout_seconds=60)
            operator = log.service.operator.key.address
            with pytest.raises(OutcomeUnknown) as caught:
                await hasty.look(Followed(operator, (f"{url}/log",), identity))
            assert caught.value.code == "look-timeout"
            seen = await patient.look(Followed(operator, (str(log.folder),), identity))
            assert (seen.ok, seen.state.counts.matched) == (True, 1)


async def test_after_a_reorganization_every_entry_is_compared_anew(
    log: KeptLog, command: Command, tmp_path: Path
) -> None:
    once = options(tmp_path, following(log))
    log.append(await log.settle(2))
    await to_thread(command.json, *once)
    path = forget_the_block(tmp_path)
    before = path.read_bytes()
    await to_thread(command.json, *options(tmp_path, following(log, NOWHERE)), expect=1)
    assert read_state(path.read_bytes()) == read_state(before)
    look = await to_thread(command.json, *options(tmp_path, following(log)))
    assert codes(look, "note") == ["chain-reorganized", "anchor-absent"]
    assert (look["ok"], look["matched"], look["missing"], look["early"]) == (True, 2, 0, 0)


async def test_it_goes_on_until_it_is_stopped_and_says_what_changes(
    log: KeptLog, shell: Shell, devnet: RunningDevnet, tmp_path: Path
) -> None:
    first, second = await log.settle(2)
    log.append([first])
    arguments = [item for item in options(tmp_path, following(log)) if item != "--once"]
    deployment = ("--deployment", str(devnet.deployment_file))
    process = shell.start(
        "aioum", "log", *arguments, *deployment, "--json", "--interval", "1", stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        looks = [json.loads(await to_thread(process.stdout.readline))]
        log.append([second])
        looks.append(json.loads(await to_thread(process.stdout.readline)))
        process.send_signal(signal.SIGINT)
        assert await to_thread(process.wait, 30) == 130
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    assert [look["matched"] for look in looks] == [1, 2]


def forget_the_block(tmp_path: Path) -> Path:
    """As if the chain had another block now than the one that was searched last; the state's file."""
    (path,) = (tmp_path / "state" / "operators").iterdir()
    state = json.loads(path.read_bytes())
    state["searched"]["hash"] = "0x" + "11" * 32
    path.write_text(json.dumps(state))
    return path
