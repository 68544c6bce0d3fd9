import json

import pytest

from aioum.core.errors import AioumError
from aioum.core.types import Address, Bytes32, ChannelId
from aioum.log.entry import MAX_ENTRY_BYTES, CapsuleEntry, SessionEntry, read_entry
from tests.unit.log.samples import session

LARGEST = SessionEntry(
    chain_id=2**53 - 1,
    payment_manager=Address(b"\xff" * 20),
    channel_id=ChannelId(b"\xff" * 32),
    session_id=2**256 - 1,
    call_count=2**53 - 1,
    captured=2**128 - 1,
    results_root=Bytes32(b"\xff" * 32),
)


def refusal(data: bytes) -> str:
    with pytest.raises(AioumError) as caught:
        read_entry(data)
    return caught.value.code


def changed(**members: object) -> bytes:
    return json.dumps(
        json.loads(session(41).to_bytes()) | members, sort_keys=True, separators=(",", ":")
    ).encode()


def test_a_session_is_written_as_the_protocol_shows_it() -> None:
    assert session(41).to_bytes() == (
        b'{"callCount":41,"captured":"41000","chainId":31337,"channelId":"0x' + b"0" * 62 + b"29"
        b'","paymentManager":"0x5FbDB2315678afecb367f032d93F642f64180aa3","resultsRoot":"0x'
        + (41 * 7919).to_bytes(32, "little").hex().encode()
        + b'","sessionId":"42","type":"aioum.session.v1"}'
    )


@pytest.mark.parametrize("entry", [session(0), session(41), LARGEST, CapsuleEntry(Bytes32(b"\x01" * 32))])
def test_an_entry_reads_back_as_it_was_written(entry: SessionEntry | CapsuleEntry) -> None:
    assert read_entry(entry.to_bytes()) == entry
    assert len(entry.to_bytes()) <= MAX_ENTRY_BYTES


@pytest.mark.parametrize(
    "data, code",
    [
        (b"[]", "log-entry-malformed"),
        (b"{}", "log-entry-type-unknown"),
        (changed(type="aioum.session.v2"), "log-entry-type-unknown"),
        (changed(note=""), "log-entry-malformed"),
        (b'{"type":"aioum.session.v1"}', "log-entry-malformed"),
        (changed(chainId=0), "log-entry-malformed"),
        (changed(chainId=True), "log-entry-malformed"),
        (changed(callCount=-1), "log-entry-malformed"),
        (changed(callCount="41"), "log-entry-malformed"),
        (changed(sessionId="0"), "log-entry-malformed"),
        (changed(sessionId="042"), "log-entry-malformed"),
        (changed(sessionId="1_0"), "log-entry-malformed"),
        (changed(sessionId="٤٢"), "log-entry-malformed"),
        (changed(sessionId=str(2**256)), "log-entry-malformed"),
        (changed(captured="+1"), "log-entry-malformed"),
        (changed(captured=str(2**128)), "log-entry-malformed"),
        (changed(channelId="0x00"), "log-entry-malformed"),
        (changed(paymentManager="0x5fbdb2315678afecb367f032d93f642f64180aa3"), "log-entry-not-canonical"),
        (changed(resultsRoot="0x" + "AB" * 32), "log-entry-not-canonical"),
        (session(41).to_bytes() + b"\n", "log-entry-not-canonical"),
        (b'{"root":"0x01","type":"aioum.capsule.v1"}', "log-entry-malformed"),
        (b'{"type":"aioum.capsule.v1"}', "log-entry-malformed"),
        (b'{"type":"aioum.capsule.v1","type":"aioum.session.v1"}', "json-duplicate-key"),
        (b" " * (MAX_ENTRY_BYTES + 1), "json-too-large"),
    ],
)
def test_anything_else_is_refused(data: bytes, code: str) -> None:
    assert refusal(data) == code


def test_entries_with_members_out_of_range_cannot_be_made() -> None:
    for make in (
        lambda: CapsuleEntry(Bytes32(b"")),
        lambda: SessionEntry(1, Address(bytes(20)), ChannelId(bytes(32)), 1, 0, -1, Bytes32(bytes(32))),
        lambda: SessionEntry(1, Address(bytes(19)), ChannelId(bytes(32)), 1, 0, 0, Bytes32(bytes(32))),
    ):
        with pytest.raises(AioumError) as caught:
            make()
        assert caught.value.code == "log-entry-malformed"
