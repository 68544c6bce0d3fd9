"""Money and hex text at the edges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioum.core import amounts, hextext
from aioum.core.errors import AioumError


@pytest.mark.parametrize("text", ["", "-1", "01", "1.0", "+1", "1e3", " 1", "٣", str(2**128), None, 5])
def test_text_that_is_no_amount_is_refused(text: object) -> None:
    with pytest.raises(AioumError) as caught:
        amounts.parse_amount(text)
    assert caught.value.code == "amount-invalid"


@given(st.integers(min_value=0, max_value=amounts.MAX_AMOUNT), st.integers(min_value=0, max_value=38))
def test_what_a_person_reads_parses_back_exactly(value: int, decimals: int) -> None:
    assert amounts.parse_token_amount(amounts.format_token_amount(value, decimals), decimals) == value
    assert amounts.parse_amount(str(value)) == value


def test_token_amounts_read_naturally() -> None:
    assert amounts.format_token_amount(1_500_000, 6) == "1.5"
    assert amounts.format_token_amount(1, 6) == "0.000001"
    assert amounts.format_token_amount(7, 0) == "7"
    assert amounts.parse_token_amount("1.50", 6) == 1_500_000


@pytest.mark.parametrize("text", ["1.2345678", "1.", ".5", "-1", "1,5", "abc", ""])
def test_a_token_amount_that_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(AioumError) as caught:
        amounts.parse_token_amount(text, 6)
    assert caught.value.code == "amount-invalid"


@pytest.mark.parametrize("text", ["", "12", "0x1", "0xzz", None, 5, "0x12\n"])
def test_text_that_is_no_hex_is_refused(text: object) -> None:
    with pytest.raises(AioumError) as caught:
        hextext.from_hex(text)
    assert caught.value.code == "hex-invalid"


def test_hex_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(AioumError) as caught:
        hextext.bytes32("0x00")
    assert caught.value.code == "hex-invalid"


def test_addresses_are_eip55_on_output_and_any_case_on_input() -> None:
    text = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
    assert hextext.address_text(hextext.address(text.lower())) == text
    assert hextext.address("0x" + text[2:].upper()) == hextext.address(text)


@pytest.mark.parametrize("text", ["0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD", "0x00", "", None])
def test_an_address_with_a_wrong_checksum_or_size_is_refused(text: object) -> None:
    with pytest.raises(AioumError) as caught:
        hextext.address(text)
    assert caught.value.code == "address-invalid"
