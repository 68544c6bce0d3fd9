"""Tools loaded from settings and functions; the card made of them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aioum.core.card import descriptor_hash, parse_card
from aioum.core.errors import AioumError, ConfigError
from aioum.core.types import Address
from aioum_node.card_builder import CardFacts, LogFacts, TokenFacts, build_card
from aioum_node.cards import Offer
from aioum_node.service import ToolFunction, load_tools
from aioum_node.settings import DeterministicSettings, Settings, ToolSettings
from aioum_node.tools import tool

FACTS = CardFacts(
    operator=Address(b"\x01" * 20),
    receipt_signer=Address(b"\x02" * 20),
    chain_id=31337,
    service_registry=Address(b"\x03" * 20),
    payment_manager=Address(b"\x04" * 20),
    token=TokenFacts(Address(b"\x05" * 20), "DEV", 6),
)


@tool(price="0.001", timeout_seconds=5, deterministic=True)
def wordcount(text: str, limit: int = 3) -> int:
    """Counts the words
    of a text.

    Not part of the description.
    """
    return len(text.split()[:limit])


@tool(price=7, tool_id="clock")
async def now() -> str:
    return "noon"


def plain(text: str) -> str:
    return text


async def card_of(
    settings: Settings, functions: Sequence[ToolFunction] = (), facts: CardFacts = FACTS
) -> Offer:
    async with load_tools(settings, functions) as box:
        return build_card(settings, box.tools, facts)


async def test_a_log_and_its_delay_are_promised_only_by_an_operator_who_keeps_one() -> None:
    settings = Settings(max_log_delay_seconds=600)
    facts = replace(FACTS, log=LogFacts("operator.example/log", b"\x07" * 32))
    promised = (await card_of(settings, [now], facts)).card
    assert promised.log is not None
    assert (promised.log.origin, promised.log.public_key) == ("operator.example/log", b"\x07" * 32)
    assert promised.max_log_delay_seconds == 600
    silent = (await card_of(settings, [now])).card
    assert (silent.log, silent.max_log_delay_seconds) == (None, None)


async def test_card_says_what_tools_and_settings_say() -> None:
    offer = await card_of(Settings(service_name="Words", min_deposit="0.5"), [wordcount, now])

    card = offer.card
    assert (card.name, card.operator, card.receipt_signer) == ("Words", FACTS.operator, FACTS.receipt_signer)
    assert card.contracts.payment_manager == FACTS.payment_manager
    assert (card.token.symbol, card.token.decimals) == ("DEV", 6)
    assert (card.min_deposit, card.retention_ms, card.limits.max_in_flight) == (500_000, 604_800_000, 16)
    words, clock = card.tools
    assert (words.id, words.description) == ("wordcount", "Counts the words of a text.")
    assert (words.price, words.timeout_seconds) == (1_000, 5)
    assert words.input_schema["required"] == ["text"]
    assert (clock.id, clock.price) == ("clock", 7)


async def test_hash_covers_the_canonical_bytes_and_equal_settings_give_equal_bytes() -> None:
    first, second = await card_of(Settings(), [wordcount]), await card_of(Settings(), [wordcount])

    assert first.canonical == second.canonical
    assert first.descriptor_hash == descriptor_hash(json.loads(first.canonical))


async def test_only_a_deterministic_service_says_which_tools_are_exempt() -> None:
    how = DeterministicSettings(kind="command", entry="python3 words.py")

    judged = await card_of(Settings(deterministic=how), [wordcount, now])
    other = await card_of(Settings(), [wordcount, now])

    assert judged.card.reexecutable("wordcount")
    assert not judged.card.reexecutable("clock")
    assert json.loads(judged.canonical)["deterministic"] == {"kind": "command", "entry": "python3 words.py"}
    assert not other.card.reexecutable("wordcount")


async def test_tools_come_from_modules_commands_and_urls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_of_card_test.py").write_text(
        "from aioum_node.tools import tool\n"
        "@tool(price=1)\ndef a() -> str:\n    return ''\n"
        "@tool(price=1)\ndef b() -> str:\n    return ''\n"
        "def c(x: int) -> str:\n    return ''\n"
    )
    (tmp_path / "schema.json").write_text('{"type": "object", "required": ["q"]}')
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    settings = Settings(
        node_dir=tmp_path,
        python_path=(Path("."),),
        tools=(
            ToolSettings(python="shop_of_card_test"),
            ToolSettings(python="shop_of_card_test:c", price="0.01", id="see", timeout_seconds=9),
            ToolSettings(command=("cat",), id="cat", price=2, input_schema_file=Path("schema.json")),
            ToolSettings(http="https://far.example/x", id="web", price=3, description="Far away"),
        ),
    )

    tools = {entry.id: entry for entry in (await card_of(settings)).card.tools}

    assert sorted(tools) == ["a", "b", "cat", "see", "web"]
    assert (tools["see"].price, tools["see"].timeout_seconds) == (10_000, 9)
    assert tools["cat"].input_schema["required"] == ["q"]
    assert tools["web"].description == "Far away"


@pytest.mark.parametrize(
    ("changes", "functions", "code"),
    [
        ({}, (), "no-tools"),
        ({}, (plain,), "tool-price-missing"),
        ({}, (wordcount, wordcount), "tool-duplicate"),
        ({}, (tool(price="0.0000001")(lambda: ""),), "price-invalid"),
        ({}, (tool(price=1)(lambda: ""),), "card-invalid"),
        ({"tools": (ToolSettings(python="no_such_module_here"),)}, (), "tool-not-found"),
        ({"tools": (ToolSettings(python="json:nothing", price=1),)}, (), "tool-not-found"),
        ({"tools": (ToolSettings(python="json"),)}, (), "tool-not-found"),
        ({"min_deposit": "0.0000001"}, (wordcount,), "price-invalid"),
        (
            {"tools": (ToolSettings(command=("a",), id="a", price=1, input_schema={"type": "nonsense"}),)},
            (),
            "tool-schema-invalid",
        ),
        (
            {
                "tools": (
                    ToolSettings(
                        command=("a",), id="a", price=1, input_schema={"$ref": "http://127.0.0.1:9/s"}
                    ),
                )
            },
            (),
            "tool-schema-invalid",
        ),
        (
            {"tools": (ToolSettings(command=("a",), id="a", price=1, input_schema_file=Path("/none")),)},
            (),
            "tool-schema-invalid",
        ),
        (
            {
                "tools": (
                    ToolSettings(http="http://a", id="a", price=1, headers_from_files={"X": Path("none")}),
                )
            },
            (),
            "secret-file-missing",
        ),
        (
            {
                "tools": tuple(
                    ToolSettings(command=("a",), id=f"t{i}", price=1, description="x" * 30_000)
                    for i in range(9)
                )
            },
            (),
            "card-too-large",
        ),
    ],
)
async def test_service_that_cannot_be_offered_is_refused(
    changes: dict[str, Any], functions: Sequence[ToolFunction], code: str
) -> None:
    with pytest.raises(AioumError) as caught:
        await card_of(Settings(**changes), functions)

    assert caught.value.code == code


def test_positional_only_parameters_have_no_arguments_object() -> None:
    def positional(text: str, /) -> str:
        return text

    with pytest.raises(ConfigError) as caught:
        load_tools(Settings(), [tool(price=1)(positional)])

    assert caught.value.code == "tool-signature-unsupported"


def test_unknown_type_has_no_schema() -> None:
    class Opaque:
        pass

    def opaque(value: Opaque) -> str:
        return ""

    with pytest.raises(ConfigError) as caught:
        load_tools(Settings(), [tool(price=1)(opaque)])

    assert caught.value.code == "tool-signature-unsupported"


def test_declared_function_is_still_an_ordinary_function() -> None:
    assert wordcount("a b c d") == 3


async def test_arguments_are_held_against_the_schema_of_the_card() -> None:
    offered = (await card_of(Settings(), [wordcount])).tools["wordcount"]

    offered.check({"text": "a"})
    with pytest.raises(AioumError) as caught:
        offered.check({"text": 1})

    assert caught.value.code == "arguments-invalid"
    parse_card(json.loads((await card_of(Settings(), [wordcount])).canonical))
