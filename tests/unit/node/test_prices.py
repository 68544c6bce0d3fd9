"""What a call costs, from the service file to the receipt and to what a person reads: exact, or refused.

An amount is an integer of base units all the way. Whatever a token cannot express is refused where it is
written down; it is never rounded, least of all to nothing.
"""

from __future__ import annotations

import asyncio
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioum.cli.market import token_amount
from aioum.core import purse
from aioum.core.amounts import MAX_AMOUNT, format_token_amount, parse_amount
from aioum.core.canonical import parse_json
from aioum.core.card import MAX_CARD_BYTES, parse_card
from aioum.core.errors import AioumError
from aioum.core.ledger import (
    Admitted,
    Answer,
    CallRequest,
    Limits,
    SessionState,
    admit,
    finalize,
    receipt_of,
    record,
    seal,
    settlement_of,
    statement_of,
)
from aioum.core.types import Address, ChannelId
from aioum.core.wire import SignedReceipt, SignedStatement, payment_request
from aioum_node.card_builder import CardFacts, TokenFacts, build_card
from aioum_node.service import load_tools
from aioum_node.settings import load_settings
from aioum_node.tools import tool

PLACES = (0, 6, 8, 18)
CHANNEL = ChannelId(b"\x09" * 32)
PAYEE = Address(b"\x01" * 20)
RESPONSE = Answer(b"{}", 200, "application/json", failed=False)
LIMITS = Limits()

decimals = st.sampled_from(PLACES)
# Small ones, those about a token's own unit, and the largest that there are.
amounts = st.one_of(
    st.integers(1, 20),
    st.sampled_from(PLACES).flatmap(lambda places: st.integers(10**places - 1, 10**places + 1)),
    st.integers(1, MAX_AMOUNT),
    st.integers(MAX_AMOUNT - 2, MAX_AMOUNT),
).filter(bool)


async def card_of(price_toml: str, places: int, *, min_deposit_toml: str = '"0"') -> dict[str, Any]:
    """The card that a service file with this price comes to."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "node.toml"
        file.write_text(
            f"min_deposit = {min_deposit_toml}\n"
            f'[[tools]]\ncommand = ["cat"]\nid = "cat"\nprice = {price_toml}\n',
            encoding="utf-8",
        )
        chosen = load_settings(file)
        facts = CardFacts(PAYEE, PAYEE, 31337, PAYEE, PAYEE, TokenFacts(Address(b"\x05" * 20), "DEV", places))
        async with load_tools(chosen, ()) as box:
            value = parse_json(build_card(chosen, box.tools, facts).canonical, max_bytes=MAX_CARD_BYTES)
    assert isinstance(value, dict)
    return value


def refused(price_toml: str, places: int) -> str:
    with pytest.raises(AioumError) as caught:
        asyncio.run(card_of(price_toml, places))
    return caught.value.code


@settings(max_examples=60)
@given(price=amounts, places=decimals, in_tokens=st.booleans())
def test_a_price_of_the_service_file_is_the_cards_and_the_challenges(
    price: int, places: int, in_tokens: bool
) -> None:
    written = f'"{format_token_amount(price, places)}"' if in_tokens or price >= 2**63 else str(price)

    value = asyncio.run(card_of(written, places, min_deposit_toml=written))

    assert (value["tools"][0]["price"], value["minDeposit"]) == (str(price), str(price))
    card = parse_card(value)
    offered = card.tools[0].price
    assert (type(offered), offered, card.min_deposit) == (int, price, price)
    challenge = payment_request(
        price=offered, token=card.token.address, payee=PAYEE, chain_id=1, payment_manager=PAYEE,
        suggested_deposit=offered,
    )  # fmt: skip
    assert (challenge["amount"], challenge["suggestedDeposit"]) == (str(price), str(price))


@given(price=amounts, calls=st.integers(1, 4))
def test_every_call_costs_exactly_its_price_on_both_sides_and_in_what_is_settled(
    price: int, calls: int
) -> None:
    calls = min(calls, MAX_AMOUNT // price)
    deposit = min(price * calls, MAX_AMOUNT)
    client = purse.PurseState(CHANNEL, deposit=deposit, signed=False)
    node = SessionState(CHANNEL, deposit=deposit)
    for index in range(calls):
        client, call = purse.begin_call(client, "cat", b"{}", price)
        step = admit(node, CallRequest("cat", b"{}", price, call.amount, b"v"), None, LIMITS)
        assert isinstance(step, Admitted)
        done = record(step.state, step.call, RESPONSE, LIMITS)
        node = done.state
        word = SignedReceipt.from_header(SignedReceipt(receipt_of(CHANNEL, done.call), b"s").header()).receipt
        assert (type(word.charge), word.charge) == (int, price)
        client = purse.accept_answer(client, call, RESPONSE.response, word)
        assert node.spent == client.spent == price * (index + 1)
    statement = statement_of(node)
    said = SignedStatement.from_json(SignedStatement(statement, b"s").to_json(), CHANNEL).statement
    assert said.spent == price * calls
    settlement = settlement_of(seal(node, "test"))
    assert (settlement.capture, type(settlement.capture)) == (price * calls, int)
    assert settlement.capture <= settlement.voucher_amount <= deposit
    assert finalize(seal(node, "test")).spent == price * calls


@given(price=amounts, short=st.integers(1, 3))
def test_a_voucher_or_a_deposit_that_lacks_one_unit_pays_for_nothing(price: int, short: int) -> None:
    missing = min(short, price)
    with pytest.raises(AioumError) as caught:
        admit(
            SessionState(CHANNEL, deposit=price),
            CallRequest("cat", b"{}", price, price - missing, b"v"),
            None,
            LIMITS,
        )
    assert caught.value.code in ("payment-insufficient", "amount-not-increasing")
    with pytest.raises(AioumError) as caught:
        admit(
            SessionState(CHANNEL, deposit=price - missing),
            CallRequest("cat", b"{}", price, price, b"v"),
            None,
            LIMITS,
        )
    assert caught.value.code == "amount-exceeds-deposit"
    with pytest.raises(AioumError) as caught:
        purse.begin_call(purse.PurseState(CHANNEL, deposit=price - missing), "cat", b"{}", price)
    assert caught.value.code == "deposit-exhausted"


@given(value=amounts, places=decimals)
def test_what_a_person_types_and_reads_is_the_same_amount(value: int, places: int) -> None:
    text = format_token_amount(value, places)

    assert token_amount(text, places) == value
    assert parse_amount(str(value)) == value
    assert any(character in "123456789" for character in text)


@given(places=decimals, beyond=st.integers(1, 20), digit=st.integers(1, 9), whole=st.integers(0, 10**6))
def test_what_a_token_cannot_express_is_refused_and_never_rounded(
    places: int, beyond: int, digit: int, whole: int
) -> None:
    text = f"{whole}.{'0' * (places + beyond - 1)}{digit}"

    assert refused(f'"{text}"', places) == "price-invalid"
    with pytest.raises(click.UsageError):
        token_amount(text, places)


def test_a_ten_millionth_costs_what_it_says_or_is_refused() -> None:
    assert asyncio.run(card_of('"0.0000001"', 8))["tools"][0]["price"] == "10"
    assert asyncio.run(card_of('"0.0000001"', 18))["tools"][0]["price"] == str(10**11)
    assert refused('"0.0000001"', 6) == "price-invalid"
    assert refused('"0.0000001"', 0) == "price-invalid"
    assert {refused('"1e-7"', places) for places in PLACES} == {"price-invalid"}


@pytest.mark.parametrize("places", PLACES)
def test_the_largest_amount_is_taken_and_one_more_is_not(places: int) -> None:
    largest, above = (format_token_amount(value, places) for value in (MAX_AMOUNT, MAX_AMOUNT + 1))

    assert asyncio.run(card_of(f'"{largest}"', places))["tools"][0]["price"] == str(MAX_AMOUNT)
    assert refused(f'"{above}"', places) == "price-invalid"
    with pytest.raises(click.UsageError):
        token_amount(above, places)


@pytest.mark.parametrize(
    "number", ["1.0", "0.5", "1e-7", "1e300", "1e2", "nan", "inf", "-0.0", "true", "[1]", "-1"]
)
def test_a_number_with_a_fraction_or_an_exponent_is_no_price(number: str) -> None:
    # In TOML 1.0 is a float; read as the integer 1 it would be one base unit, and not one token.
    assert refused(number, 6) in ("config-invalid", "price-invalid")
    with pytest.raises(AioumError) as caught:
        asyncio.run(card_of('"1"', 6, min_deposit_toml=number))
    assert caught.value.code in ("config-invalid", "price-invalid")


@given(number=st.floats(), places=decimals)
def test_no_float_is_a_price_of_a_function_of_a_card_or_of_the_wire(number: float, places: int) -> None:
    @tool(price=number)  # type: ignore[arg-type]
    def shout(text: str) -> str:
        return text.upper()

    async def built() -> None:
        chosen = load_settings(flags={"node_dir": Path("/nowhere")})
        facts = CardFacts(PAYEE, PAYEE, 31337, PAYEE, PAYEE, TokenFacts(Address(b"\x05" * 20), "DEV", places))
        async with load_tools(chosen, (shout,)) as box:
            build_card(chosen, box.tools, facts)

    with pytest.raises(AioumError) as caught:
        asyncio.run(built())
    assert caught.value.code == "price-invalid"
    if math.isfinite(number):
        value = asyncio.run(card_of('"1"', places))
        value["tools"][0]["price"] = json.loads(json.dumps(number))
        with pytest.raises(AioumError) as caught:
            parse_card(value)
        assert caught.value.code == "card-invalid"
    with pytest.raises(AioumError) as caught:
        parse_amount(number)
    assert caught.value.code == "amount-invalid"
