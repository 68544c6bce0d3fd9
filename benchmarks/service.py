"""The service that is bought from in the end-to-end benchmark, and its sessions: known to node and client."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aioum.core.payment import Domain
from aioum.core.signing import LocalKey
from aioum.core.types import Address
from aioum_node.card_builder import CardFacts, TokenFacts, build_card
from aioum_node.cards import Offer
from aioum_node.service import ToolBox, load_tools
from aioum_node.settings import Settings
from aioum_node.store.port import SessionFacts
from aioum_node.tools import tool
from benchmarks.sessions import session_facts

DOMAIN: Final = Domain(31_337, Address(bytes(19) + b"\x01"))
TOKEN: Final = Address(bytes(19) + b"\x02")
REGISTRY: Final = Address(bytes(19) + b"\x03")
# Throw-away keys.
OPERATOR: Final = LocalKey(bytes(31) + b"\x07")
CLIENT: Final = LocalKey(bytes(31) + b"\x08")
TOOL_ID: Final = "wordcount"
PRICE: Final = 1_000


@tool(price=PRICE, timeout_seconds=30)
async def wordcount(text: str) -> dict[str, int]:
    """Counts words and characters of a text: next to nothing, for the path around it is what is measured."""
    return {"characters": len(text), "words": len(text.split())}


def settings(folder: Path) -> Settings:
    """A node's settings; nothing of the environment or of a file but defaults."""
    return Settings(node_dir=folder, service_name="benchmark", max_concurrent_calls=1_024)


def tool_box(folder: Path) -> ToolBox:
    """The service's one tool."""
    return load_tools(settings(folder), [wordcount])


def offer(folder: Path, tools: ToolBox) -> Offer:
    """The service's card."""
    facts = CardFacts(
        operator=OPERATOR.address,
        receipt_signer=OPERATOR.address,
        chain_id=DOMAIN.chain_id,
        service_registry=REGISTRY,
        payment_manager=DOMAIN.payment_manager,
        token=TokenFacts(TOKEN, "USD", 6),
    )
    return build_card(settings(folder), tools.tools, facts)


def facts_of(number: int, card: Offer) -> SessionFacts:
    """The session of that number."""
    return session_facts(
        number,
        DOMAIN,
        payer=CLIENT.address,
        payee=OPERATOR.address,
        token=TOKEN,
        descriptor_hash=card.descriptor_hash,
    )
