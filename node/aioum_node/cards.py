"""Cards as the node serves them: each under its hash, its prices and schemas ready to use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import jsonschema_rs

from aioum.core.canonical import parse_json
from aioum.core.card import MAX_CARD_BYTES, Card, Tool, parse_card
from aioum.core.errors import AioumError, ConfigError, InvalidInput, Refused
from aioum.core.hashing import keccak256
from aioum.core.types import Bytes32
from aioum.core.wire import JsonObject
from aioum_node.store.port import CardStore

_MAX_MESSAGE_CHARACTERS = 300


class OfferedTool:
    """A tool as one card offers it: price, time limit and compiled schema."""

    __slots__ = ("_validator", "id", "price", "timeout_seconds")

    def __init__(self, tool: Tool) -> None:
        """Raises ConfigError `tool-schema-invalid`."""
        self.id = tool.id
        self.price = tool.price
        self.timeout_seconds = tool.timeout_seconds
        self._validator = _compile(tool)

    def check(self, arguments: JsonObject) -> None:
        """Hold arguments against the schema. Raises InvalidInput `arguments-invalid`."""
        if self._validator.is_valid(arguments):
            return
        error = next(iter(self._validator.iter_errors(arguments)))
        place = "/".join(str(part) for part in error.instance_path)
        raise InvalidInput(
            f"arguments do not fit the schema of {self.id} at /{place}: {error.message}"[
                :_MAX_MESSAGE_CHARACTERS
            ],
            code="arguments-invalid",
        )


def _refuse_reference(uri: str) -> NoReturn:
    raise ValueError(f"a schema may not refer to {uri}: it would be fetched")


def _compile(tool: Tool) -> jsonschema_rs.Draft202012Validator:
    try:
        return jsonschema_rs.Draft202012Validator(tool.input_schema, retriever=_refuse_reference)
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise ConfigError(
            f"the input schema of {tool.id} is no JSON Schema (2020-12): {error}"[:_MAX_MESSAGE_CHARACTERS],
            code="tool-schema-invalid",
        ) from error


@dataclass(frozen=True, slots=True)
class Offer:
    """One card, ready to use. `canonical` are the bytes that its hash covers."""

    descriptor_hash: Bytes32
    canonical: bytes
    card: Card
    tools: Mapping[str, OfferedTool]

    @classmethod
    def of(cls, descriptor_hash: Bytes32, canonical: bytes) -> Offer:
        """Compile a card. Raises InvalidInput `card-invalid` or ConfigError `tool-schema-invalid`."""
        value: Any = parse_json(canonical, max_bytes=MAX_CARD_BYTES)
        card = parse_card(value)
        return cls(descriptor_hash, canonical, card, {tool.id: OfferedTool(tool) for tool in card.tools})


class Cards:
    """Every card the node ever offered. Few exist, so all that were asked for stay in memory."""

    def __init__(self, store: CardStore, current: Offer) -> None:
        self._store = store
        self._offers = {current.descriptor_hash: current}
        self.current = current

    async def offer(self, descriptor_hash: Bytes32) -> Offer:
        """The card of that hash.

        Raises:
            Refused: `card-unknown`.
            AioumError: `card-damaged`, the store has other bytes than the node once offered; or the store's.
        """
        offer = self._offers.get(descriptor_hash)
        if offer is None:
            canonical = await self._store.card(descriptor_hash)
            if canonical is None:
                raise Refused("the node never offered a card of this hash", code="card-unknown")
            if keccak256(canonical) != descriptor_hash:
                raise AioumError(
                    "the stored card has another hash than it is stored under",
                    code="card-damaged",
                    hint="restore the store from a backup",
                )
            offer = self._offers[descriptor_hash] = Offer.of(descriptor_hash, canonical)
        return offer
