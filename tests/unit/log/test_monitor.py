"""What a monitor concludes from what an operator names, and what it remembers."""

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
from aioum.log.compare import judge_identity
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


def log_state(size: int = 5, **changes: Any) -> LogState:
    frontier = Frontier()
    for leaf in leaves(size):
        frontier = frontier.append(leaf, node_hash)
    note = sign_checkpoint(checkpoint(tree(size)), KEY)
    return replace(LogState(IDENTITY, "https://node.example/log", note, frontier), **changes)


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


def test_growth_ends_being_behind_and_keeps_what_others_saw_and_what_was_promised() -> None:
    seen = (Unexplained(b"note", 1),)
    before = log_state(behind_since=7, unexplained=seen, max_delay_seconds=60)
    grown = before.grown(IDENTITY, "./log", b"", Frontier())
    assert (grown.behind_since, grown.unexplained, grown.max_delay_seconds) == (None, seen, 60)


def full_state() -> OperatorState:
    theirs = sign_checkpoint(checkpoint(tree(9)), KEY)
    return OperatorState(
        chain_id=31_337,
        payment_manager=session(0).payment_manager,
        operator=OPERATOR,
        searched=(42, Bytes32(b"\x07" * 32)),
        recent={ChannelId(b"\x05" * 32): 40},
        missing=(FinalSession(session(1), 41, HOUR),),
        strangers=(LoggedSession(ORIGIN, 3, session(2)),),
        counts=Counts(4, 3, 2),
        logs={
            ORIGIN: log_state(
                unexplained=(Unexplained(theirs, 1_700_000_000),),
                behind_since=1_700_000_001,
                former_keys=(OTHER_KEY.public_key,),
                max_delay_seconds=60,
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
        _wrong("logs.0.maxDelaySeconds", -1),
        _wrong("missing.0.maxDelaySeconds", None),
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
