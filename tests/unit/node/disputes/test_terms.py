from typing import Any

import pytest

from aioum.core.errors import ConfigError
from aioum.core.types import ZERO_ADDRESS, Address
from aioum_node.disputes.terms import DisputeTerms, dispute_terms
from aioum_node.settings import Settings

ARBITRATOR = "0x" + "11" * 20


def terms(**settings: Any) -> DisputeTerms:
    return dispute_terms(Settings(**settings), 6)


def refused(**settings: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        terms(**settings)
    return caught.value.code


def test_without_a_window_there_is_nothing_to_dispute() -> None:
    assert terms() == DisputeTerms(ZERO_ADDRESS, 0, 0)


def test_window_without_an_arbitrator_leaves_proofs_alone() -> None:
    assert terms(dispute_window_seconds=3_600, dispute_bond="0.5") == DisputeTerms(ZERO_ADDRESS, 0, 500_000)


def test_arbitrator_comes_with_the_time_that_he_has() -> None:
    found = terms(dispute_window_seconds=3_600, dispute_bond=7, arbitrator=ARBITRATOR)
    assert found == DisputeTerms(Address(b"\x11" * 20), 604_800, 7)


@pytest.mark.parametrize(
    "settings, code",
    [
        ({"dispute_window_seconds": 3_599, "dispute_bond": 1}, "dispute-terms-invalid"),
        ({"dispute_window_seconds": 3_600}, "dispute-terms-invalid"),
        ({"dispute_window_seconds": 3_600, "dispute_bond": "0"}, "dispute-terms-invalid"),
        (
            {"dispute_window_seconds": 3_600, "dispute_bond": 1, "commit_required": False},
            "dispute-terms-invalid",
        ),
        ({"dispute_bond": 1}, "dispute-terms-invalid"),
        ({"arbitrator": ARBITRATOR}, "dispute-terms-invalid"),
        ({"dispute_window_seconds": 3_600, "dispute_bond": 1, "arbitrator": "0x12"}, "arbitrator-invalid"),
        ({"dispute_window_seconds": 3_600, "dispute_bond": "0.0000001"}, "price-invalid"),
    ],
)
def test_terms_that_the_registry_would_refuse_or_that_mean_nothing_are_refused(
    settings: dict[str, Any], code: str
) -> None:
    assert refused(**settings) == code
