"""Monitors of one log compare what they were shown, and see it where it was not the same."""

import shutil
from asyncio import to_thread
from pathlib import Path

from aioum.core.submission.framing import encode_base64
from aioum.log.checkpoint import Checkpoint, sign_checkpoint
from aioum.log.files import LogFolder
from tests.integration.cli.log.kept_log import KEY, ORIGIN, Command, KeptLog
from tests.integration.cli.log.monitored import NEW_KEY, NOWHERE, codes, evidence, following, hosted, options


async def test_monitors_that_were_shown_two_histories_see_it_when_they_compare(
    log: KeptLog, command: Command, tmp_path: Path
) -> None:
    sessions, other = await log.settle(3), tmp_path / "other-log"
    ours = log.append(sessions)
    theirs = log.append([sessions[0], sessions[2], sessions[1]], other)
    elsewhere = options(tmp_path, following(log, other), state="elsewhere")
    assert codes(await to_thread(command.json, *elsewhere)) == []
    once = options(tmp_path, following(log))
    assert codes(await to_thread(command.json, *once)) == []
    for peer in (tmp_path / "elsewhere", tmp_path / "elsewhere" / "checkpoints"):
        look = await to_thread(command.json, *once, "--peer", str(peer), expect=1)
        assert codes(look) == ["split-view"]
    async with hosted(tmp_path / "elsewhere" / "checkpoints") as url:
        look = await to_thread(command.json, *once, "--peer", f"{url}/", "--peer", f"{url}/none/", expect=1)
    assert codes(look) == ["split-view"]
    found = evidence(look)
    assert found["checkpoints"] == [ours.decode(), theirs.decode()]
    assert found["publicKeys"] == [encode_base64(KEY.public_key)]
    # Peers that cannot be asked, or have what the log did not sign, are said to be so and decide nothing.
    forged = tmp_path / "forged"
    forged.write_bytes(sign_checkpoint(Checkpoint(ORIGIN, 3, bytes(32)), NEW_KEY))
    shutil.rmtree(tmp_path / "state")
    absent = await to_thread(
        command.json, *once, "--peer", str(tmp_path / "none"), "--peer", f"{url}/", "--peer", str(forged)
    )
    assert codes(absent, "note")[-3:] == ["peer-unreachable", "peer-unreachable", "peer-invalid"]


async def test_a_fork_that_was_signed_before_the_key_changed_still_counts(
    log: KeptLog, command: Command, tmp_path: Path
) -> None:
    sessions = await log.settle(2)
    log.append(sessions)
    assert codes(await to_thread(command.json, *options(tmp_path, following(log)))) == []
    fork = tmp_path / "fork"
    fork.write_bytes(log.append(sessions[::-1], tmp_path / "other-log"))
    with LogFolder.open(log.folder, ORIGIN) as folder:
        note = sign_checkpoint(Checkpoint(ORIGIN, 2, folder.tree.root()), NEW_KEY)
    (log.folder / "public" / "checkpoint").write_bytes(note)
    once = options(tmp_path, following(log, key=NEW_KEY))
    look = await to_thread(command.json, *once, "--peer", str(fork), expect=1)
    assert codes(look) == ["split-view"]
    assert len(evidence(look)["publicKeys"]) == 2


async def test_what_a_peer_saw_first_is_remembered_until_the_log_has_grown_to_it(
    log: KeptLog, command: Command, tmp_path: Path
) -> None:
    once = options(tmp_path, following(log))
    sessions, ahead = await log.settle(2), tmp_path / "ahead"
    log.append(sessions[:1])
    ahead.write_bytes(log.append(sessions, tmp_path / "other-log"))
    first = await to_thread(command.json, *once, "--peer", str(ahead))
    assert codes(first, "pending") == ["pending", "peer-ahead"]
    still = await to_thread(command.json, *once)
    assert "peer-ahead" in codes(still, "pending")
    log.append(sessions[1:])
    assert codes(await to_thread(command.json, *once), "pending") == []


async def test_what_a_peer_saw_while_the_log_was_gone_is_not_forgotten(
    log: KeptLog, command: Command, tmp_path: Path
) -> None:
    sessions, fork = await log.settle(2), tmp_path / "fork"
    log.append(sessions[:1])
    fork.write_bytes(log.append(sessions[::-1], tmp_path / "other-log"))
    await to_thread(command.json, *options(tmp_path, following(log)))
    gone = options(tmp_path, following(log, NOWHERE))
    assert codes(await to_thread(command.json, *gone, "--peer", str(fork), expect=1)) == ["log-unreachable"]
    log.append(sessions[1:])
    back = await to_thread(command.json, *options(tmp_path, following(log)), expect=1)
    assert codes(back) == ["split-view"]
