"""What an operator has the node send over held money, as values: from a command, or to the running node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from aioum.chain.model import Mined
from aioum.core.errors import ConfigError, InvalidInput
from aioum.core.hextext import address, channel_id, from_hex, to_hex
from aioum.core.types import Address, Bytes32
from aioum.core.wire import JsonObject
from aioum_node.disputes.sending import HeldMoneySender

RESPOND: Final = "respond"
LAPSE: Final = "lapse"
RELEASE: Final = "release"
CLAIM_CREDITS: Final = "claim-credits"


class DisputeDesk:
    """Does what commands ask of a running node.

    Args:
        sending: makes what sends.
        is_held: whether this process sends, where several share the account.
        account: the operator's, which credits are paid to.
    """

    def __init__(
        self, sending: Callable[[], Awaitable[HeldMoneySender]], is_held: Callable[[], bool], account: Address
    ) -> None:
        self._sending = sending
        self._is_held = is_held
        self._account = account

    async def handle(self, command: JsonObject) -> JsonObject:
        """See `perform`.

        Raises:
            ConfigError: `lease-held`, another process sends.
        """
        if not self._is_held():
            raise ConfigError(
                "another process sends transactions for this account",
                code="lease-held",
                hint="name its folder with --dir: aioum_sending is 1 there",
            )
        return await perform(await self._sending(), command, self._account)


async def perform(sending: HeldMoneySender, command: JsonObject, account: Address) -> JsonObject:
    """Send what a command says, and wait until it is confirmed.

    Args:
        sending: what sends.
        command: `{"action": "respond", "channelId", "uri", "hash"}`, `{"action": "lapse" | "release",
            "channelId"}` or `{"action": "claim-credits", "token"}`.
        account: the operator's.

    Returns:
        `{"transaction": hex}`, or `{"claims": [{"contract", "amount", "transaction"}]}`.

    Raises:
        InvalidInput: `command-malformed`, and as `hextext`.
        ChainError, OutcomeUnknown: as `HeldMoneySender`.
    """
    action = command.get("action")
    if action == CLAIM_CREDITS:
        claims = await sending.claim_credits(address(command.get("token")), account)
        return {
            "claims": [
                {"contract": name, "amount": str(amount), "transaction": to_hex(mined.transaction_hash)}
                for name, amount, mined in claims
            ]
        }
    channel = channel_id(command.get("channelId"))
    mined: Mined
    match action, command.get("uri"):
        case "respond", str(uri):
            mined = await sending.respond(channel, uri, Bytes32(from_hex(command.get("hash"), 32)))
        case "lapse", _:
            mined = await sending.lapse(channel)
        case "release", _:
            mined = await sending.release(channel)
        case _:
            raise InvalidInput(f"no such command: {action!r:.80}", code="command-malformed")
    return {"transaction": to_hex(mined.transaction_hash)}
