"""Cards and problem documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aioum.core import card, problem
from aioum.core.errors import AioumError
from aioum.core.hashing import keccak256

ADDRESS = "0x" + "11" * 20
LOG = {"origin": "example.com/log", "publicKey": "A" * 43 + "="}


def _card() -> dict[str, Any]:
    return {
        "name": "Text tools",
        "operator": ADDRESS,
        "contracts": {"chainId": 31337, "serviceRegistry": ADDRESS, "paymentManager": ADDRESS},
        "token": {"address": ADDRESS, "symbol": "aUSD", "decimals": 6},
        "tools": [
            {"id": "wordcount", "price": "1000", "inputSchema": {"type": "object"}},
            {"id": "poem", "price": "2000", "deterministic": False},
        ],
        "receiptSigner": ADDRESS,
        "somethingLater": {"kept": True},
    }


def test_a_card_is_read_with_its_defaults_and_unknown_members_are_left_to_the_json() -> None:
    read = card.parse_card(_card())
    tool = read.tool("wordcount")
    assert tool is not None
    assert (tool.price, tool.timeout_seconds, read.retention_ms) == (1000, 30, 604_800_000)
    assert read.tool("absent") is None


def test_a_card_names_the_log_and_its_key() -> None:
    assert card.parse_card(_card()).log is None
    read = card.parse_card(_card() | {"log": LOG, "maxLogDelaySeconds": 60})
    assert read.log is not None
    assert (read.log.origin, read.log.public_key) == ("example.com/log", bytes(32))
    assert read.max_log_delay_seconds == 60


def test_only_tools_of_a_deterministic_service_that_are_not_exempted_are_reexecutable() -> None:
    plain = card.parse_card(_card())
    assert not plain.reexecutable("wordcount")
    declared = card.parse_card(_card() | {"deterministic": {"kind": "command", "entry": "wc"}})
    assert declared.reexecutable("wordcount")
    assert not declared.reexecutable("poem")
    assert not declared.reexecutable("absent")


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.pop("tools"),
        lambda c: c.update(tools=[]),
        lambda c: c.update(operator="0x12"),
        lambda c: c["tools"][0].update(price=5),
        lambda c: c["tools"][0].update(price="-5"),
        lambda c: c["tools"][0].update(id="a b"),
        lambda c: c["tools"][0].update(timeoutSeconds=301),
        lambda c: c["tools"][1].update(id="wordcount"),
        lambda c: c.update(deterministic={"kind": "magic"}),
        lambda c: c["token"].update(decimals="6"),
        # A log goes with the delay that is promised for it.
        lambda c: c.update(log=LOG),
        lambda c: c.update(maxLogDelaySeconds=3_600),
        lambda c: c.update(log=LOG, maxLogDelaySeconds=0),
        lambda c: c.update(log=LOG | {"origin": ""}, maxLogDelaySeconds=3_600),
        lambda c: c.update(log=LOG | {"publicKey": "A" * 43}, maxLogDelaySeconds=3_600),
        lambda c: c.update(log=LOG | {"publicKey": 7}, maxLogDelaySeconds=3_600),
        # The same 32 bytes, spelled with a stray bit.
        lambda c: c.update(log=LOG | {"publicKey": LOG["publicKey"][:-2] + "B="}, maxLogDelaySeconds=3_600),
    ],
)
def test_a_wrong_card_is_refused(change: Callable[[dict[str, Any]], object]) -> None:
    value = _card()
    change(value)
    with pytest.raises(AioumError) as caught:
        card.parse_card(value)
    assert caught.value.code == "card-invalid"


def test_the_descriptor_hash_covers_the_whole_json_whatever_its_member_order() -> None:
    value = _card()
    reordered = dict(reversed(value.items()))
    assert card.descriptor_hash(value) == card.descriptor_hash(reordered)
    assert card.descriptor_hash(value) != card.descriptor_hash(value | {"somethingLater": {}})
    assert card.descriptor_hash({}) == keccak256(b"{}")


def test_a_problem_document_is_recognized_only_in_its_exact_form() -> None:
    document = problem.problem_bytes(500, "tool-failed", "it broke")
    assert problem.problem_code(document) == "tool-failed"
    assert document == (b'{"status":500,"title":"it broke","type":"https://aioum.org/problems/tool-failed"}')
    for other in (
        b"plain text",
        b'{"status":500}',
        document + b" ",
        document.replace(b'"status":500', b'"status": 500'),
        document.replace(b"aioum.org", b"example.org"),
        b'{"status":500,"title":"t","type":"https://aioum.org/problems/x","z":1}',
        b'{"status":' + b"1" * 3_000,
    ):
        assert not problem.is_problem(other)
