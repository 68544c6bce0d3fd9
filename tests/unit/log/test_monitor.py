"""What a monitor concludes from two checkpoints, and what it remembers."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from aioum.core.errors import InvalidInput
from aioum.core.merkle import Frontier
from aioum.core.types import Address, Bytes32, ChannelId
from aioum.log.audit import Counts, FinalSession, Level, LoggedSession, Remark
from aioum.log.checkpoint import Checkpoint, sign_checkpoint
from aioum.log.compare import judge_growth, judge_identity, judge_peer
from aioum.log.errors import CheckpointInvalid
from aioum.log.monitor import (
    MAX_FORMER_KEYS,
    LogIdentity,
    LogState,
    OperatorState,
    Unexplained,
    read_state,
)
from aioum.log.tree import LogTree, MemoryNodes, leaf_hash, node_hash
from tests.unit.log.samples import KEY, ORIGIN, OTHER_KEY, session

OPERATOR = Address(b"\x01" * 20)
IDENTITY = LogIdentity(ORIGIN, KEY.public_key)
HOUR = 3_600


def leaves(size: int, forked_at: int | None = None) -> list[bytes]:
    return [
        leaf_hash(b"%d%s" % (number, b"" if forked_at is None or number < forked_at else b"other"))
        for number in range(size)
    ]


def tree(size: int, forked_at: int | None = None) -> LogTree:
    grown = LogTree(MemoryNodes())
    grown.extend(leaves(size, forked_at))
    return grown


def checkpoint(of: LogTree, size: int | None = None) -> Checkpoint:
    return Checkpoint(ORIGIN, of.size if size is None else size, of.root(size))


def summary(remark: Remark | None) -> tuple[str, Level] | None:
    return None if remark is None else (remark.code, remark.level)


def growth(kept: Checkpoint, shown: Checkpoint, proof: list[bytes] | None) -> Remark | None:
    return judge_growth(kept, shown, proof, 0, HOUR)


def log_state(size: int = 5, **changes: Any) -> LogState:
    frontier = Frontier()
    for leaf in leaves(size):
        frontier = frontier.append(leaf, node_hash)
    note = sign_checkpoint(checkpoint(tree(size)), KEY)
    return replace(LogState(IDENTITY, "https://node.example/log", note, frontier), **changes)


def test_growth_with_a_proof_is_not_remarked_on() -> None:
    log = tree(20)
    for first, second in ((1, 2), (7, 20), (16, 17), (20, 20)):
        assert growth(checkpoint(log, first), checkpoint(log, second), log.consistency(first, second)) is None


def test_every_log_continues_an_empty_one() -> None:
    empty = LogTree(MemoryNodes())
    assert growth(checkpoint(empty), checkpoint(tree(3)), None) is None


def test_two_roots_of_one_size_are_a_split_view() -> None:
    remark = growth(checkpoint(tree(7)), checkpoint(tree(7, forked_at=3)), [])
    assert summary(remark) == ("split-view", Level.ALERT)


@pytest.mark.parametrize("forked_at", [0, 3, 6])
def test_a_rewritten_history_has_no_valid_proof(forked_at: int) -> None:
    kept, shown = tree(7), tree(12, forked_at)
    for proof in (shown.consistency(7), tree(12).consistency(7), [], None):
        remark = growth(checkpoint(kept), checkpoint(shown), proof)
        assert summary(remark) == ("consistency-invalid", Level.ALERT)
        assert remark is not None
        assert [item["size"] for item in remark.facts["checkpoints"]] == [7, 12]  # type: ignore[index, union-attr, call-overload]


def test_a_log_may_show_an_older_state_for_as_long_as_the_delay_and_is_rewound_after() -> None:
    log = tree(12)
    for seconds, level in ((0, Level.PENDING), (HOUR, Level.PENDING), (HOUR + 1, Level.ALERT)):
        remark = judge_growth(checkpoint(log), checkpoint(log, 7), log.consistency(7), seconds, HOUR)
        assert summary(remark) == ("checkpoint-behind", level)


def test_a_smaller_log_of_another_history_is_inconsistent_at_once() -> None:
    log = tree(12)
    other = growth(checkpoint(log), checkpoint(tree(7, forked_at=2)), log.consistency(7))
    assert summary(other) == ("consistency-invalid", Level.ALERT)
    gone = growth(checkpoint(log), checkpoint(log, 7), None)
    assert summary(gone) == ("consistency-invalid", Level.ALERT)


def test_what_others_saw_of_the_same_history_is_not_remarked_on() -> None:
    log = tree(12)
    for ours, theirs in ((12, 12), (12, 5), (5, 12)):
        proof = log.consistency(*sorted((ours, theirs)))
        assert judge_peer(checkpoint(log, ours), checkpoint(log, theirs), proof, 0, HOUR) is None


def test_two_monitors_that_were_shown_two_histories_see_the_split() -> None:
    ours, theirs = tree(9), tree(9, forked_at=4)
    assert summary(judge_peer(checkpoint(ours), checkpoint(theirs), [], 0, HOUR)) == (
        "split-view",
        Level.ALERT,
    )
    smaller = judge_peer(checkpoint(ours), checkpoint(theirs, 6), ours.consistency(6), 0, HOUR)
    assert summary(smaller) == ("split-view", Level.ALERT)
    larger = judge_peer(checkpoint(ours, 6), checkpoint(theirs), theirs.consistency(6), 0, HOUR)
    assert summary(larger) == ("split-view", Level.ALERT)
    unproven = judge_peer(checkpoint(ours), checkpoint(theirs, 6), None, 0, HOUR)
    assert summary(unproven) == ("split-view", Level.ALERT)


def test_what_others_saw_first_has_to_be_shown_to_us_within_the_delay() -> None:
    log = tree(12)
    ours, theirs = checkpoint(log, 5), checkpoint(log)
    assert summary(judge_peer(ours, theirs, None, HOUR, HOUR)) == ("peer-ahead", Level.PENDING)
    assert summary(judge_peer(ours, theirs, None, HOUR + 1, HOUR)) == ("split-view", Level.ALERT)


def test_a_followed_log_that_is_named_no_more_has_changed_its_origin() -> None:
    kept = {ORIGIN: log_state()}
    other = LogIdentity("other.example/log", KEY.public_key)
    (remark,) = judge_identity(OPERATOR, kept, [other])
    assert summary(remark) == ("origin-changed", Level.ALERT)
    assert judge_identity(OPERATOR, kept, [other, IDENTITY]) == []
    assert judge_identity(OPERATOR, {}, [other]) == []


def test_a_new_key_under_the_same_name_is_noted() -> None:
    (remark,) = judge_identity(OPERATOR, {ORIGIN: log_state()}, [LogIdentity(ORIGIN, OTHER_KEY.public_key)])
    assert summary(remark) == ("log-key-changed", Level.NOTE)


def test_what_a_log_signed_with_a_former_key_still_counts_against_it() -> None:
    before = log_state()
    new = LogIdentity(ORIGIN, OTHER_KEY.public_key)
    note = sign_checkpoint(checkpoint(tree(5)), OTHER_KEY)
    after = before.grown(new, before.where, note, before.frontier)
    assert after.former_keys == (KEY.public_key,)
    assert (after.read_signed(before.note), after.read_signed(note)) == (checkpoint(tree(5)),) * 2
    with pytest.raises(CheckpointInvalid) as caught:
        before.read_signed(note)
    assert caught.value.code == "checkpoint-key-mismatch"
    again = after.grown(IDENTITY, before.where, before.note, before.frontier)
    assert (again.identity, again.former_keys) == (IDENTITY, (OTHER_KEY.public_key,))
    many = log_state(former_keys=tuple(bytes([number]) * 32 for number in range(MAX_FORMER_KEYS)))
    assert len(many.grown(new, before.where, note, before.frontier).former_keys) == MAX_FORMER_KEYS


def test_growth_ends_being_behind_and_keeps_what_others_saw() -> None:
    seen = (Unexplained(b"note", 1),)
    grown = log_state(behind_since=7, unexplained=seen).grown(IDENTITY, "./log", b"", Frontier())
    assert (grown.behind_since, grown.unexplained) == (None, seen)


def full_state() -> OperatorState:
    theirs = sign_checkpoint(checkpoint(tree(9)), KEY)
    return OperatorState(
        chain_id=31_337,
        payment_manager=session(0).payment_manager,
        operator=OPERATOR,
        searched=(42, Bytes32(b"\x07" * 32)),
        recent={ChannelId(b"\x05" * 32): 40},
        missing=(FinalSession(session(1), 41),),
        strangers=(LoggedSession(ORIGIN, 3, session(2)),),
        counts=Counts(4, 3, 2),
        logs={
            ORIGIN: log_state(
                unexplained=(Unexplained(theirs, 1_700_000_000),),
                behind_since=1_700_000_001,
                former_keys=(OTHER_KEY.public_key,),
            )
        },
    )


def test_a_state_is_read_as_it_was_written() -> None:
    for state in (full_state(), OperatorState(1, session(0).payment_manager, OPERATOR)):
        assert read_state(state.to_bytes()) == state
        assert read_state(state.to_bytes()).to_bytes() == state.to_bytes()


def _without(name: str) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        del value[name]

    return change


def _forged(value: Any) -> None:
    value["logs"][0]["checkpoint"] = value["logs"][0]["checkpoint"].replace("\n5\n", "\n6\n")


def _other_frontier(value: Any) -> None:
    value["logs"][0]["frontier"] = "0x" + log_state(4).frontier.to_bytes().hex()


def _wrong(path: str, wrong: Any) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        *steps, last = path.split(".")
        for step in steps:
            value = value[int(step)] if step.isdigit() else value[step]
        value[last] = wrong

    return change


@pytest.mark.parametrize(
    "damage",
    [
        *(_without(name) for name in ("type", "chainId", "searched", "logs", "missing")),
        _forged,
        _other_frontier,
        _wrong("type", "aioum.log-monitor.v0"),
        _wrong("logs.0.publicKey", "AAAA"),
        _wrong("logs.0.unexplained.0.seenAt", -1),
        _wrong("logs.0.behindSince", "soon"),
        _wrong("logs.0.formerKeys", ["AAAA"]),
        _wrong("missing.0.entry", '{"type":"aioum.capsule.v1","root":"0x"}'),
        _wrong("strangers.0.index", "3"),
        _wrong("counts", [1, 2, 3, 4]),
        _wrong("recent", []),
        _wrong("operator", None),
    ],
)
def test_a_damaged_state_is_refused(damage: Callable[[Any], None]) -> None:
    value = json.loads(full_state().to_bytes())
    damage(value)
    with pytest.raises(InvalidInput) as caught:
        read_state(json.dumps(value).encode())
    assert caught.value.code == "monitor-state-malformed"


def test_a_state_that_was_torn_is_refused() -> None:
    with pytest.raises(InvalidInput) as caught:
        read_state(full_state().to_bytes()[:-1])
    assert caught.value.code == "monitor-state-malformed"
