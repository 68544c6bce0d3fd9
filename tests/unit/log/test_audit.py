"""What an audit says of sessions and entries, anchors and checkpoints, one reason at a time."""

from dataclasses import replace

import pytest

from aioum.core.errors import InvalidInput
from aioum.core.hextext import to_hex
from aioum.core.types import ZERO_ADDRESS, Address, Bytes32
from aioum.log import audit
from aioum.log.audit import (
    Counts,
    Coverage,
    FinalSession,
    Level,
    LoggedSession,
    Remark,
    Standing,
    WrongEntry,
    judge_missing,
    judge_stranger,
)
from aioum.log.entry import CapsuleEntry, SessionEntry
from tests.unit.log.samples import ORIGIN, session

CHAIN = (session(0).chain_id, session(0).payment_manager)
OPERATOR = Address(b"\x01" * 20)
STRANGER = Address(b"\x02" * 20)
HOUR = 3_600


def final(number: int) -> FinalSession:
    return FinalSession(session(number), 100 + number, HOUR)


def code(remark: Remark | WrongEntry | None) -> str | None:
    said = remark.remark if isinstance(remark, WrongEntry) else remark
    return None if said is None else said.code


def see(coverage: Coverage, index: int, entry: SessionEntry | CapsuleEntry) -> str | None:
    return code(coverage.see(ORIGIN, index, entry.to_bytes(), CHAIN))


def test_a_session_and_its_entry_match_in_whatever_order_they_come() -> None:
    coverage = Coverage()
    assert coverage.expect(final(1)) is None
    assert see(coverage, 0, session(1)) is None
    assert see(coverage, 1, session(2)) is None
    assert list(coverage.strangers) == [(ORIGIN, 1)]
    assert coverage.expect(final(2)) is None
    assert (coverage.missing, coverage.strangers, coverage.counts) == ({}, {}, Counts(matched=2))


def test_what_waits_goes_on_waiting_in_the_next_look() -> None:
    before = Coverage()
    before.expect(final(1))
    see(before, 0, session(2))
    after = Coverage(before.missing.values(), before.strangers.values(), before.counts)
    assert see(after, 1, session(1)) is None
    assert after.expect(final(2)) is None
    assert (after.missing, after.strangers) == ({}, {})


def test_a_session_without_an_entry_is_missing() -> None:
    coverage = Coverage()
    for number in (1, 2, 3):
        coverage.expect(final(number))
    for number in (1, 3):
        see(coverage, number, session(number))
    assert list(coverage.missing) == [session(2).channel_id]


@pytest.mark.parametrize(
    ("member", "wrong"),
    [
        ("sessionId", replace(session(7), session_id=80)),
        ("callCount", replace(session(7), call_count=8)),
        ("captured", replace(session(7), captured=0)),
        ("resultsRoot", replace(session(7), results_root=Bytes32(bytes(32)))),
    ],
)
def test_an_entry_that_differs_from_the_chain_is_named_with_the_member(
    member: str, wrong: SessionEntry
) -> None:
    coverage = Coverage([final(7)])
    found = coverage.see(ORIGIN, 3, wrong.to_bytes(), CHAIN)
    assert found is not None
    assert (found.origin, found.index, found.data) == (ORIGIN, 3, wrong.to_bytes())
    assert (code(found), found.remark.level) == ("log-entry-contradicts-chain", Level.ALERT)
    differing = found.remark.facts["differing"]
    assert isinstance(differing, dict)
    assert list(differing) == [member]

    late = Coverage()
    assert see(late, 3, wrong) is None
    assert late.expect(final(7)) == found


def test_entries_that_are_none_are_named_with_the_rule_that_they_break() -> None:
    coverage = Coverage()
    written = session(1).to_bytes()
    spaced, unknown = written.replace(b":", b": ", 1), b'{"type":"other"}'
    codes = [code(coverage.see(ORIGIN, 0, data, CHAIN)) for data in (spaced, unknown, b"\xff")]
    assert codes == ["log-entry-not-canonical", "log-entry-type-unknown", "json-not-utf8"]


def test_capsules_and_sessions_of_other_contracts_are_counted_and_not_judged() -> None:
    coverage = Coverage()
    assert see(coverage, 0, CapsuleEntry(Bytes32(b"\x01" * 32))) is None
    assert see(coverage, 1, replace(session(1), chain_id=1)) is None
    assert see(coverage, 2, replace(session(1), payment_manager=STRANGER)) is None
    assert coverage.counts == Counts(capsules=1, elsewhere=2)
    assert coverage.strangers == {}


def test_more_than_the_limit_may_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_OUTSTANDING", 2)
    coverage = Coverage([final(1), final(2)])
    with pytest.raises(InvalidInput) as caught:
        coverage.expect(final(3))
    assert caught.value.code == "audit-too-large"


@pytest.mark.parametrize(
    ("expected", "repeated", "newest"),
    [
        ("log-entry-unknown", False, None),
        ("log-entry-foreign", False, Standing(STRANGER, session(5), is_final=True)),
        ("log-entry-foreign", False, Standing(ZERO_ADDRESS, session(5), is_final=True)),
        ("log-entry-premature", False, Standing(OPERATOR, session(5), is_final=False)),
        ("log-entry-duplicate", True, Standing(OPERATOR, session(5), is_final=True)),
        ("log-entry-contradicts-chain", False, Standing(OPERATOR, session(6), is_final=True)),
        (None, False, Standing(OPERATOR, session(5), is_final=True)),
    ],
)
def test_an_entry_without_a_waiting_session_is_what_the_chain_says(
    expected: str | None, newest: Standing | None, *, repeated: bool
) -> None:
    logged = LoggedSession(ORIGIN, 4, session(5))
    remark = judge_stranger(logged, OPERATOR, newest, repeated=repeated)
    assert code(remark) == expected
    if remark is not None:
        assert remark.level is Level.ALERT
        assert (remark.facts["origin"], remark.facts["index"]) == (ORIGIN, 4)


def test_an_entry_whose_session_another_log_had_counts_as_one_that_matches() -> None:
    coverage = Coverage()
    see(coverage, 0, session(1))
    coverage.accept(coverage.strangers[ORIGIN, 0])
    assert (coverage.strangers, coverage.counts) == ({}, Counts(matched=1))


def test_of_two_entries_of_a_session_one_is_left_to_be_judged() -> None:
    for order in ("session first", "entries first"):
        coverage = Coverage()
        if order == "session first":
            coverage.expect(final(1))
        see(coverage, 0, session(1))
        see(coverage, 1, session(1))
        if order == "entries first":
            coverage.expect(final(1))
        assert list(coverage.strangers) == [(ORIGIN, 1)], order
        coverage.drop(coverage.strangers[ORIGIN, 1])
        assert (coverage.strangers, coverage.missing) == ({}, {})


def test_a_dropped_entry_does_not_count_for_the_session_later() -> None:
    coverage = Coverage()
    see(coverage, 0, session(1))
    coverage.drop(coverage.strangers[ORIGIN, 0])
    coverage.expect(final(1))
    assert list(coverage.missing) == [session(1).channel_id]


def test_a_missing_session_is_pending_until_the_delay_is_over_and_missing_after() -> None:
    at = {101: 1_000}
    for now, expected, level in (
        (1_000, "pending", Level.PENDING),
        (1_000 + HOUR, "pending", Level.PENDING),
        (1_001 + HOUR, "session-missing", Level.ALERT),
    ):
        (remark,) = judge_missing([final(1)], at, now, HOUR)
        assert (remark.code, remark.level) == (expected, level)
        assert remark.facts["channelId"] == to_hex(session(1).channel_id)
        assert remark.facts["dueAt"] == 1_000 + HOUR


def test_a_session_is_due_by_what_was_promised_when_it_was_first_seen() -> None:
    before, after = final(1), replace(final(2), max_delay_seconds=10 * HOUR)
    remarks = judge_missing([before, after], {101: 0, 102: 0}, HOUR + 1)
    assert [remark.code for remark in remarks] == ["session-missing", "pending"]


def test_of_a_log_that_could_not_be_read_whole_no_more_is_said_than_was_read() -> None:
    (read,) = judge_missing([final(1)], {101: 0}, 2 * HOUR, HOUR)
    (unread,) = judge_missing([final(1)], {101: 0}, 2 * HOUR, HOUR, read_whole=False)
    assert (read.code, unread.code) == ("session-missing", "session-missing")
    assert "not in the log" in read.text
    assert "not in what could be read of the log" in unread.text


def test_missing_sessions_are_named_in_the_order_of_the_chain() -> None:
    at = {101: 0, 102: 10, 103: 20}
    remarks = judge_missing([final(3), final(1), final(2)], at, 15 + HOUR, HOUR)
    assert [(remark.code, remark.facts["sessionId"]) for remark in remarks] == [
        ("session-missing", "2"), ("session-missing", "3"), ("pending", "4"),
    ]  # fmt: skip
