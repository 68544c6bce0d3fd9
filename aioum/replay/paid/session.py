"""What a paid artifact says of its session in the header (SUBMISSIONS 5).

Everything here but deposit, voucher and statement hashes to the session's id, which every signature covers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aioum.core.amounts import parse_amount
from aioum.core.canonical import JsonValue
from aioum.core.card import Card, parse_card
from aioum.core.errors import InvalidInput
from aioum.core.evidence import ChannelFacts, ServiceTerms, channel_to_json, terms_to_json
from aioum.core.evidence_reading import (
    Members,
    channel_from_json,
    read_chain_id,
    read_object,
    read_positive_text,
    terms_from_json,
)
from aioum.core.hextext import address, address_text, bytes32, from_hex, to_hex
from aioum.core.payment import Domain, Statement, Voucher
from aioum.core.submission.chain import paid_session_id
from aioum.core.types import ChannelId
from aioum.replay.model import JsonObject

ADAPTER_ID: Final = "aioum.paid-session"
ADAPTER_VERSION: Final = "1"
SESSION_EXTENSION: Final = "aioum.session.v1"
LEVEL_ID: Final = "session"
RESULT_LANE: Final = "aioum.result.v1"
"""Lane of what came of a call: right behind its resolution."""

SUBMISSION_LANE: Final = "aioum.submission.v1"
"""Lane of signed calls that are no step: without an answer, or second ones of an index."""


@dataclass(frozen=True, slots=True)
class PaidSession:
    """The session's fixed facts.

    Attributes:
        label: the session id that the chain gave; a reorganization can change it.
        card_value: JSON of the card; its hash covers members that `card` does not know.
        deposit: base units in escrow as the exporter knew them, or None. Nothing signed says so.
        voucher: the highest one (cumulative amount in base units, signature), or None.
        statement: the operator's latest word on the session and its signature, or None.
    """

    label: int
    domain: Domain
    channel: ChannelFacts
    service: ServiceTerms
    card_value: JsonObject
    card: Card
    deposit: int | None = None
    voucher: tuple[Voucher, bytes] | None = None
    statement: tuple[Statement, bytes] | None = None

    @property
    def channel_id(self) -> ChannelId:
        """What channel facts and domain hash to."""
        return self.channel.channel_id(self.domain)

    @property
    def session_id(self) -> str:
        """The id that seats sign."""
        return paid_session_id(self.channel_id)

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools in the order of the card: `Action k` is the k-th of them."""
        return tuple(tool.id for tool in self.card.tools)

    def to_json(self) -> JsonObject:
        """The header's extension."""
        value: JsonObject = {
            "sessionId": str(self.label),
            "chainId": self.domain.chain_id,
            "paymentManager": address_text(self.domain.payment_manager),
            "channel": channel_to_json(self.channel),
            "terms": terms_to_json(self.service),
            "card": self.card_value,
        }
        if self.deposit is not None:
            value["deposit"] = str(self.deposit)
        if self.voucher is not None:
            voucher, signature = self.voucher
            value["voucher"] = {
                "cumulativeAmount": str(voucher.cumulative_amount),
                "signature": to_hex(signature),
            }
        if self.statement is not None:
            statement, signature = self.statement
            value["statement"] = {
                "callCount": statement.call_count,
                "root": to_hex(statement.root),
                "spent": str(statement.spent),
                "signature": to_hex(signature),
            }
        return value

    @classmethod
    def from_json(cls, value: JsonValue) -> PaidSession:
        """Read the header's extension; members that are not known are ignored.

        Raises:
            InvalidInput: `session-facts-malformed`, naming the first member that is wrong.
        """
        try:
            facts = Members(value)
            domain = Domain(facts.read("chainId", read_chain_id), facts.read("paymentManager", address))
            channel = facts.read("channel", channel_from_json)
            card_value = facts.read("card", read_object)
            channel_id = channel.channel_id(domain)
            return cls(
                label=facts.read("sessionId", read_positive_text),
                domain=domain,
                channel=channel,
                service=facts.read("terms", terms_from_json),
                card_value=card_value,
                card=parse_card(card_value),
                deposit=facts.optional("deposit", parse_amount),
                voucher=facts.optional("voucher", lambda value: read_voucher(value, channel_id)),
                statement=facts.optional("statement", lambda value: read_statement(value, channel_id)),
            )
        except InvalidInput as error:
            raise InvalidInput(f"{SESSION_EXTENSION}: {error}", code="session-facts-malformed") from error


def read_voucher(value: JsonValue, channel_id: ChannelId) -> tuple[Voucher, bytes]:
    """A package's voucher of this channel, and its signature. Raises InvalidInput."""
    members = Members(value)
    voucher = Voucher(channel_id, members.read("cumulativeAmount", parse_amount))
    return voucher, members.read("signature", _signature)


def read_statement(value: JsonValue, channel_id: ChannelId) -> tuple[Statement, bytes]:
    """A package's statement of this channel, and its signature. Raises InvalidInput."""
    members = Members(value)
    statement = Statement(
        channel_id,
        members.read("callCount", read_count),
        members.read("root", bytes32),
        members.read("spent", parse_amount),
    )
    statement.words()
    return statement, members.read("signature", _signature)


def read_count(value: JsonValue) -> int:
    """A whole number from 0. Raises InvalidInput."""
    if type(value) is not int or value < 0:
        raise InvalidInput(f"expected a whole number from 0, got {value!r:.40}")
    return value


def _signature(value: JsonValue) -> bytes:
    return from_hex(value)
