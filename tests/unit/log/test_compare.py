"""What two checkpoints of a log prove, and what a broken host leaves undecided until the delay ends."""

from collections.abc import Iterator

import pytest

from aioum.core.canonical import canonical_bytes
from aioum.core.hextext import from_hex
from aioum.core.merkle import verify_consistency
from aioum.log.audit import Level, Remark
from aioum.log.checkpoint import Checkpoint
from aioum.log.compare import Prefix, judge_anchor, judge_growth, judge_peer
from aioum.log.proofs import MAX_SIZE
from aioum.log.tree import EMPTY_ROOT, LogTree, MemoryNodes, leaf_hash, node_hash
from tests.unit.log.samples import ORIGIN

HOUR = 3_600
EMPTY = Checkpoint(ORIGIN, 0, EMPTY_ROOT)


def tree(size: int, forked_at: int | None = None) -> LogTree:
    grown = LogTree(MemoryNodes())
    grown.extend(
        [
            leaf_hash(b"%d%s" % (number, b"" if forked_at is None or number < forked_at else b"other"))
            for number in range(size)
        ]
    )
    return grown


def checkpoint(of: LogTree, size: int | None = None) -> Checkpoint:
    return Checkpoint(ORIGIN, of.size if size is None else size, of.root(size))


def prefix(of: LogTree, size: int) -> Prefix:
    return Prefix(of.root(size), tuple(of.consistency(size)))


def nothing_proven(of: LogTree, size: int) -> Iterator[Prefix | None]:
    """What a host may give that lacks the files, or has altered ones."""
    right, other = prefix(of, size), tree(of.size, forked_at=0)
    yield None
    yield prefix(other, size)
    yield Prefix(other.root(size), right.proof)
    for wrong in ((), right.proof[:-1], (*right.proof, right.proof[0]), right.proof[::-1]):
        yield Prefix(right.root, wrong)


def summary(remark: Remark | None) -> tuple[str, Level] | None:
    return None if remark is None else (remark.code, remark.level)


def require_proven(remark: Remark | None, small: Checkpoint, large: Checkpoint) -> None:
    """Return if what the remark says leads to the larger checkpoint, and not to the smaller one."""
    assert remark is not None
    proof = remark.facts["prefix"]
    assert isinstance(proof, dict)
    assert isinstance(proof["hashes"], list)
    root = from_hex(proof["root"])
    hashes = [from_hex(value) for value in proof["hashes"]]
    verify_consistency(small.size, large.size, root, large.root, hashes, node_hash)
    assert root != small.root


def test_growth_with_a_proof_is_not_remarked_on() -> None:
    for first, second in ((1, 2), (7, 20), (16, 17)):
        log = tree(second)
        assert judge_growth(checkpoint(log, first), checkpoint(log), prefix(log, first), 0, HOUR) is None
    assert judge_growth(checkpoint(tree(20)), checkpoint(tree(20)), None, 0, HOUR) is None


def test_every_log_continues_an_empty_one() -> None:
    assert judge_growth(EMPTY, checkpoint(tree(3)), None, 0, HOUR) is None
    assert judge_anchor(EMPTY, checkpoint(tree(3)), None, 0, HOUR) is None


def test_two_roots_of_one_size_are_a_split_view() -> None:
    one, other = checkpoint(tree(7)), checkpoint(tree(7, forked_at=3))
    for remark in (judge_growth(one, other, None, 0, HOUR), judge_peer(one, other, None, 0, HOUR)):
        assert summary(remark) == ("split-view", Level.ALERT)


@pytest.mark.parametrize("forked_at", [0, 3, 6])
@pytest.mark.parametrize("size", [4, 7, 8])
def test_another_history_is_a_split_view_with_the_proof_of_it(size: int, forked_at: int) -> None:
    forked = tree(12, forked_at)
    if forked_at >= size:
        assert judge_growth(checkpoint(tree(size)), checkpoint(forked), prefix(forked, size), 0, HOUR) is None
        return
    small, large, found = checkpoint(tree(size)), checkpoint(forked), prefix(forked, size)
    for remark in (
        judge_growth(small, large, found, 0, HOUR),
        judge_growth(large, small, found, 0, HOUR),
        judge_peer(small, large, found, 0, HOUR),
        judge_peer(large, small, found, 0, HOUR),
    ):
        assert summary(remark) == ("split-view", Level.ALERT)
        require_proven(remark, small, large)


@pytest.mark.parametrize("forked_at", [None, 3])
def test_growth_that_a_host_does_not_prove_is_undecided_until_the_delay_is_over(
    forked_at: int | None,
) -> None:
    kept, grown = checkpoint(tree(7)), tree(12, forked_at)
    for found in nothing_proven(grown, 7):
        for seconds, level in ((HOUR, Level.PENDING), (HOUR + 1, Level.ALERT)):
            remark = judge_growth(kept, checkpoint(grown), found, seconds, HOUR)
            assert summary(remark) == ("consistency-invalid", level)


def test_a_log_may_show_an_older_state_for_as_long_as_the_delay_and_is_rewound_after() -> None:
    log = tree(12)
    for seconds, level in ((0, Level.PENDING), (HOUR, Level.PENDING), (HOUR + 1, Level.ALERT)):
        remark = judge_growth(checkpoint(log), checkpoint(log, 7), prefix(log, 7), seconds, HOUR)
        assert summary(remark) == ("checkpoint-behind", level)


def test_an_older_state_of_a_host_without_the_newer_files_is_no_other_history_before_the_delay() -> None:
    log = tree(12)
    for found in nothing_proven(log, 7):
        behind = judge_growth(checkpoint(log), checkpoint(log, 7), found, HOUR, HOUR)
        assert summary(behind) == ("checkpoint-behind", Level.PENDING)
        late = judge_growth(checkpoint(log), checkpoint(log, 7), found, HOUR + 1, HOUR)
        assert summary(late) == ("consistency-invalid", Level.ALERT)


def test_what_others_saw_of_the_same_history_is_not_remarked_on() -> None:
    log = tree(12)
    whole, part = checkpoint(log), checkpoint(log, 5)
    assert judge_peer(whole, whole, None, 0, HOUR) is None
    for ours, theirs in ((whole, part), (part, whole)):
        assert judge_peer(ours, theirs, prefix(log, 5), 0, HOUR) is None


def test_a_host_that_proves_nothing_makes_no_split_view_of_what_others_saw() -> None:
    log = tree(12)
    whole, part = checkpoint(log), checkpoint(log, 5)
    for found in nothing_proven(log, 5):
        for ours, theirs, code in ((whole, part, "consistency-invalid"), (part, whole, "peer-ahead")):
            pending = judge_peer(ours, theirs, found, HOUR, HOUR)
            assert summary(pending) == (code, Level.PENDING)
            late = judge_peer(ours, theirs, found, HOUR + 1, HOUR)
            assert summary(late) == ("consistency-invalid", Level.ALERT)


def test_a_log_that_continues_what_is_anchored_is_not_remarked_on() -> None:
    log = tree(11)
    for size in (1, 7):
        assert judge_anchor(checkpoint(log, size), checkpoint(log), prefix(log, size), 0, HOUR) is None
    assert judge_anchor(checkpoint(log), checkpoint(log), None, 0, HOUR) is None


def test_a_log_without_an_anchor_is_noted() -> None:
    assert summary(judge_anchor(None, checkpoint(tree(3)), None, 0, HOUR)) == ("anchor-absent", Level.NOTE)


def test_a_log_that_is_proven_to_be_another_one_does_not_match_its_anchor() -> None:
    log, other = tree(11), tree(11, forked_at=2)
    forked = judge_anchor(checkpoint(other, 7), checkpoint(log), prefix(log, 7), 0, HOUR)
    shorter = judge_anchor(checkpoint(log), checkpoint(other, 7), prefix(log, 7), 0, HOUR)
    same_size = judge_anchor(checkpoint(other), checkpoint(log), None, 0, HOUR)
    for remark in (forked, shorter, same_size):
        assert summary(remark) == ("anchor-mismatch", Level.ALERT)
    require_proven(forked, checkpoint(other, 7), checkpoint(log))


def test_a_log_may_show_less_than_is_anchored_for_as_long_as_the_delay() -> None:
    log = tree(11)
    for found in (prefix(log, 10), *nothing_proven(log, 10)):
        for seconds, level in ((HOUR, Level.PENDING), (HOUR + 1, Level.ALERT)):
            remark = judge_anchor(checkpoint(log), checkpoint(log, 10), found, seconds, HOUR)
            assert summary(remark) == ("checkpoint-behind", level)


def test_a_log_that_does_not_prove_its_anchor_is_inconsistent_after_the_delay() -> None:
    log = tree(11)
    for found in nothing_proven(log, 7):
        for seconds, level in ((HOUR, Level.PENDING), (HOUR + 1, Level.ALERT)):
            remark = judge_anchor(checkpoint(log, 7), checkpoint(log), found, seconds, HOUR)
            assert summary(remark) == ("consistency-invalid", level)


def test_sizes_beyond_the_integers_of_json_can_be_written_as_facts() -> None:
    log = tree(3)
    remark = judge_anchor(Checkpoint(ORIGIN, MAX_SIZE, log.root()), checkpoint(log), None, 0, HOUR)
    assert remark is not None
    assert b'"anchoredSize":"4611686018427387903"' in canonical_bytes(dict(remark.facts))
