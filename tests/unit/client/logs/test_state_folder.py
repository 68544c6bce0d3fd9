"""What a monitor keeps survives the loss of power at every step, and has one owner."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from aioum.chain.client import Chain
from aioum.chain.model import BlockRef
from aioum.chain.rpc import Rpc
from aioum.client.logs.look import Found, Look
from aioum.client.logs.state_folder import MAX_EVIDENCE_FILES, StateFolder, checkpoint_name
from aioum.core.errors import AioumError
from aioum.core.merkle import Frontier
from aioum.core.types import Address, Bytes32
from aioum.log.audit import Counts, Level, Remark
from aioum.log.checkpoint import Checkpoint, read_checkpoint, sign_checkpoint
from aioum.log.compare import judge_growth
from aioum.log.membership import Membership, read_membership
from aioum.log.monitor import LogIdentity, LogState, OperatorState
from aioum.log.proofs import MAX_SIZE
from aioum.log.tree import node_hash
from tests.unit.log.losing_disk import (
    LosingDisk,
    PowerLost,
    Survival,
    chance,
    everything_survives,
    nothing_survives,
)
from tests.unit.log.samples import KEY, ORIGIN, session

OPERATOR = Address(b"\x01" * 20)
CHAIN = Chain(Rpc("http://127.0.0.1:9"), 31_337, session(0).payment_manager, Address(b"\x02" * 20))
EMPTY = OperatorState(CHAIN.chain_id, CHAIN.payment_manager, OPERATOR)


def log_state(leaf: bytes) -> LogState:
    frontier = Frontier().append(leaf, node_hash)
    note = sign_checkpoint(Checkpoint(ORIGIN, 1, leaf), KEY)
    return LogState(LogIdentity(ORIGIN, KEY.public_key), "./log", note, frontier)


ONE, OTHER = log_state(b"\x01" * 32), log_state(b"\x02" * 32)


def look(state: OperatorState, *found: Found) -> Look:
    return Look(state, BlockRef(7, Bytes32(b"\x03" * 32), 1_700_000_000), 3_600, found=list(found))


def split() -> Found:
    remark = judge_growth(ONE.checkpoint(), OTHER.checkpoint(), None, 0, 0)
    assert remark is not None
    return Found(remark, (ONE.note, OTHER.note))


def wrong_entry(index: int, data: bytes) -> Found:
    remark = Remark("log-entry-unknown", Level.ALERT, "wrong", {"origin": ORIGIN, "index": index})
    return Found(remark, (ONE.note,), Membership(ONE.note, data, index, ()))


def after(state: OperatorState, **changes: object) -> OperatorState:
    return replace(state, **changes)  # type: ignore[arg-type]


FIRST = after(EMPTY, logs={ORIGIN: ONE}, counts=Counts(matched=1))
SECOND = after(FIRST, counts=Counts(matched=2))


@pytest.mark.parametrize("survives", [nothing_survives, everything_survives, *map(chance, range(5))])
def test_the_state_is_of_before_or_after_and_never_runs_ahead_of_its_evidence(
    tmp_path: Path, survives: Survival
) -> None:
    step = lost = 0
    while True:
        root = tmp_path / str(step)
        root.mkdir()
        disk = LosingDisk(root)
        with StateFolder.open(root / "state", disk=disk) as folder:
            folder.keep(look(FIRST))
            disk.lose_at(step)
            try:
                folder.keep(look(SECOND, split()))
            except PowerLost:
                lost += 1
            else:
                break
        disk.lose(survives)
        with StateFolder.open(root / "state", disk=disk) as folder:
            state = folder.load(CHAIN, OPERATOR)
            assert state in (FIRST, SECOND)
            if state == SECOND:
                assert len(folder.evidence()) == 1
            for path in folder.evidence():
                assert json.loads(path.read_bytes())["code"] == "split-view"
            folder.keep(look(SECOND, split()))
            assert folder.load(CHAIN, OPERATOR) == SECOND
            assert len(folder.evidence()) == 1
        step += 1
    assert lost > 8


def test_a_checkpoint_of_a_size_that_no_log_has_is_evidence_too(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path) as folder:
        for size in (MAX_SIZE - 1, MAX_SIZE):
            huge = Checkpoint(ORIGIN, size, b"\x02" * 32)
            remark = judge_growth(ONE.checkpoint(), huge, None, 1, 0)
            assert remark is not None
            folder.keep(look(FIRST, Found(remark, (ONE.note, sign_checkpoint(huge, KEY)))))
        (path,) = folder.evidence()
        assert json.loads(path.read_bytes())["facts"]["checkpoints"][1]["size"] == str(MAX_SIZE - 1)
        assert folder.load(CHAIN, OPERATOR) == FIRST


def test_evidence_holds_both_signed_checkpoints_and_is_kept_once(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path) as folder:
        folder.keep(look(FIRST, split()))
        (path,) = folder.evidence()
        before = path.read_bytes()
        later = look(SECOND, split())
        later.head = BlockRef(8, Bytes32(b"\x04" * 32), 1_700_000_012)
        folder.keep(later)
        assert folder.evidence() == [path]
        assert path.read_bytes() == before
    evidence = json.loads(before)
    roots = {read_checkpoint(note.encode(), ORIGIN, KEY.public_key).root for note in evidence["checkpoints"]}
    assert roots == {ONE.checkpoint().root, OTHER.checkpoint().root}
    assert path.name.startswith("split-view-")


def test_what_is_found_anew_by_each_look_leaves_no_evidence(tmp_path: Path) -> None:
    remarks = [
        Remark("session-missing", Level.ALERT, "session 1"),
        Remark("log-unreachable", Level.ALERT, "gone"),
        Remark("log-files-altered", Level.ALERT, "other files"),
        Remark("checkpoint-behind", Level.ALERT, "older"),
        Remark("pending", Level.PENDING, "session 2"),
        Remark("anchor-absent", Level.NOTE, "never anchored"),
    ]
    with StateFolder.open(tmp_path) as folder:
        folder.keep(look(FIRST, *map(Found, remarks)))
        assert folder.evidence() == []


def test_evidence_is_bounded(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path) as folder:
        flood = [wrong_entry(number, b"{}") for number in range(MAX_EVIDENCE_FILES + 1)]
        folder.keep(look(FIRST, *flood))
        assert len(folder.evidence()) == MAX_EVIDENCE_FILES
        # What is of another kind, or of another operator, has room of its own.
        folder.keep(look(FIRST, split()))
        assert len(folder.evidence(OPERATOR)) == MAX_EVIDENCE_FILES + 1
        folder.keep(look(after(FIRST, operator=Address(b"\x02" * 20)), wrong_entry(0, b"{}")))
        assert len(folder.evidence()) == MAX_EVIDENCE_FILES + 2


@pytest.mark.parametrize("entry", [b"\xff\x00", b"{", b'{"type": "spaced"}', b"7"])
def test_the_bytes_of_an_entry_that_is_none_are_kept_as_they_were_signed(
    tmp_path: Path, entry: bytes
) -> None:
    with StateFolder.open(tmp_path) as folder:
        folder.keep(look(FIRST, wrong_entry(3, entry)))
        (path,) = folder.evidence()
    proof = json.loads(path.read_bytes())["log"]["proof"]
    assert base64.b64decode(proof["entryBase64"]) == entry
    assert proof["index"] == 3


def test_evidence_of_an_entry_names_the_keys_and_reads_as_a_proof(tmp_path: Path) -> None:
    state = after(FIRST, logs={ORIGIN: replace(ONE, former_keys=(b"\x05" * 32,))})
    found = wrong_entry(3, session(1).to_bytes())
    with StateFolder.open(tmp_path) as folder:
        folder.keep(look(state, found))
        (path,) = folder.evidence()
    evidence = json.loads(path.read_bytes())
    assert read_membership(evidence["log"]) == found.membership
    assert [base64.b64decode(key) for key in evidence["publicKeys"]] == [KEY.public_key, b"\x05" * 32]


def test_peers_find_the_last_verified_checkpoint_under_the_same_name(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path) as folder:
        folder.keep(look(FIRST))
    assert (tmp_path / "checkpoints" / checkpoint_name(FIRST, ORIGIN)).read_bytes() == ONE.note


def test_a_second_monitor_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path), pytest.raises(AioumError) as caught, StateFolder.open(tmp_path):
        pytest.fail("the folder was opened twice")
    assert caught.value.code == "monitor-locked"
    with StateFolder.open(tmp_path) as folder:
        assert folder.load(CHAIN, OPERATOR) == EMPTY


def _of_another_contract(path: Path) -> None:
    path.write_bytes(after(FIRST, payment_manager=OPERATOR).to_bytes())


def _torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


def _another_version(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"log-monitor.v1", b"log-monitor.v2"))


def _lost(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (_of_another_contract, "monitor-state-stale"),
        (_torn, "monitor-state-malformed"),
        (_emptied, "monitor-state-malformed"),
        (_another_version, "monitor-state-malformed"),
        (_lost, "monitor-state-missing"),
    ],
)
def test_a_state_that_cannot_be_this_ones_is_an_error_and_never_a_new_beginning(
    tmp_path: Path, damage: Callable[[Path], None], code: str
) -> None:
    with StateFolder.open(tmp_path) as folder:
        folder.keep(look(FIRST))
        (path,) = (tmp_path / "operators").iterdir()
        damage(path)
        with pytest.raises(AioumError) as caught:
            folder.load(CHAIN, OPERATOR)
    assert caught.value.code == code
