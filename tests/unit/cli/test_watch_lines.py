"""What happened on-chain, as lines and as JSON."""

import json
from dataclasses import replace
from typing import Any

import pytest

from aioum.chain.abi import CONTRACTS, DEV_TOKEN, artifact
from aioum.chain.events import EVENTS as EVENT_TYPES
from aioum.chain.model import ChainEvent
from aioum.cli.watch_lines import QUIET, to_json, to_line
from aioum.client.watching import Concern, Sighting
from aioum.core.hashing import keccak256
from aioum.core.hextext import to_hex
from aioum.core.types import Address, Bytes32, ChannelId

CHANNEL = ChannelId(b"\x01" * 32)
PAYER, OTHER = Address(b"\x0a" * 20), Address(b"\x0b" * 20)
_VALUES = {"address": PAYER, "bytes32": CHANNEL, "bytes": b"\x05", "string": "ipfs://x", "bool": True}
# What EIP-712 and EIP-3009 make every such contract declare; none of ours emits it.
_INHERITED = {"EIP712DomainChanged"}
EVENTS = {
    entry["name"]: entry
    for name in CONTRACTS
    if name != DEV_TOKEN
    for entry in artifact(name).abi
    if entry["type"] == "event" and entry["name"] not in _INHERITED
}


def sighting(name: str, **changes: Any) -> Sighting:
    args = {
        parameter["name"]: _VALUES.get(parameter["type"], 2) for parameter in EVENTS[name]["inputs"]
    } | changes
    body = EVENT_TYPES[name](*args.values())
    event = ChainEvent(name, OTHER, CHANNEL, body, args, 7, Bytes32(b"\x02" * 32), Bytes32(b"\x03" * 32), 4)
    return Sighting(event, None, 1_800_000_000)


@pytest.mark.parametrize("name", sorted(EVENTS.keys() - QUIET))
def test_every_event_of_our_contracts_has_words_of_its_own(name: str) -> None:
    line = to_line(sighting(name), 6, "aUSD")
    assert line.startswith("2027-01-15 08:00:00Z  ")
    assert not line.endswith(f"  {name}")
    assert json.loads(json.dumps(to_json(sighting(name))))["event"] == name


def test_amounts_are_told_in_the_token_or_in_base_units_where_it_is_not_known() -> None:
    seen = sighting("Released", amount=1_500_000)
    assert to_line(seen, 6, "aUSD").endswith("1.5 aUSD that was held went to the payee")
    assert to_line(seen, None, "").endswith("1500000 base units that was held went to the payee")


def test_an_item_that_a_batch_left_out_names_the_reason_code() -> None:
    refusal = keccak256(b"RootRequired(bytes32)")[:4] + CHANNEL
    line = to_line(sighting("SettlementSkipped", reason=refusal), 6, "aUSD")
    refused = f"the contract refused: RootRequired(channelId={to_hex(CHANNEL)})"
    assert line.endswith(f"left out of a batch: {refused} [root-required]")


def test_what_a_reorganization_undid_is_said_so() -> None:
    assert "UNDONE by a reorganization" in to_line(replace(sighting("Lapsed"), undone=True), 6, "aUSD")
    assert to_json(replace(sighting("Lapsed"), undone=True))["undone"] is True


def test_json_keeps_amounts_beyond_two_to_the_53_exactly() -> None:
    assert to_json(sighting("Released", amount=2**128 - 1))["args"]["amount"] == str(2**128 - 1)


def test_only_what_names_an_account_or_a_channel_is_of_concern_where_some_are_given() -> None:
    event = sighting("CloseRequested").event
    rated = sighting("Rated", payer=PAYER).event
    assert Concern().includes(event, None)
    assert Concern(channels=frozenset({CHANNEL})).includes(event, None)
    assert not Concern(channels=frozenset({ChannelId(b"\x09" * 32)})).includes(event, None)
    assert Concern(accounts=frozenset({PAYER})).includes(rated, None)
    assert not Concern(accounts=frozenset({OTHER})).includes(rated, None)
    assert not Concern(accounts=frozenset({PAYER})).includes(event, None)
