"""What a service's terms say of disputes, from the node's settings (PROTOCOL 4.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aioum.core.errors import ConfigError, InvalidInput
from aioum.core.hextext import address
from aioum.core.types import ZERO_ADDRESS, Address
from aioum_node.card_builder import base_units
from aioum_node.settings import Settings

_SHORTEST_WINDOW_SECONDS: Final = 3_600


@dataclass(frozen=True, slots=True)
class DisputeTerms:
    """Arbitrator (zero: none), its time to rule (0 without one), and the bond in base units."""

    arbitrator: Address
    ruling_period_seconds: int
    bond: int


def dispute_terms(settings: Settings, decimals: int) -> DisputeTerms:
    """What the registry would take.

    Args:
        settings: of the node.
        decimals: of the token.

    Raises:
        ConfigError: `arbitrator-invalid`; `dispute-terms-invalid`, the registry would refuse them, or they
            say something that can never happen; `price-invalid` of the bond.
    """
    bond = base_units(settings.dispute_bond, decimals, "setting dispute_bond")
    try:
        arbitrator = address(settings.arbitrator) if settings.arbitrator else ZERO_ADDRESS
    except InvalidInput as error:
        raise ConfigError(f"setting arbitrator: {error}", code="arbitrator-invalid") from error
    window = settings.dispute_window_seconds
    if window == 0:
        if any(arbitrator) or bond:
            raise _invalid("arbitrator and dispute_bond mean nothing without a dispute_window_seconds")
        return DisputeTerms(ZERO_ADDRESS, 0, 0)
    if window < _SHORTEST_WINDOW_SECONDS:
        raise _invalid(f"dispute_window_seconds is 0 or at least {_SHORTEST_WINDOW_SECONDS}, got {window}")
    if bond == 0:
        raise _invalid("a dispute window needs a dispute_bond above 0")
    if not settings.commit_required:
        raise _invalid("a dispute window needs commit_required")
    return DisputeTerms(arbitrator, settings.ruling_period_seconds if any(arbitrator) else 0, bond)


def _invalid(why: str) -> ConfigError:
    return ConfigError(why, code="dispute-terms-invalid", hint="see docs/settings.md")
