"""One paid call in an artifact: the action that its command stands for, and the record of what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from aioum.core.amounts import parse_amount
from aioum.core.canonical import JsonValue, parse_json
from aioum.core.errors import CanonicalError, InvalidInput
from aioum.core.hashing import keccak256
from aioum.core.hextext import bytes32, from_hex, to_hex
from aioum.core.submission.canonical import canonical_json
from aioum.core.submission.framing import MAX_COMMAND_BYTES
from aioum.core.transcript import Entry, entry_leaf
from aioum.core.types import Bytes32
from aioum.replay.game import SubmissionContext
from aioum.replay.model import JsonObject
from aioum.replay.paid.session import read_count

_REQUIRED: Final = frozenset({"index", "responseHash", "leaf"})
_RECEIPT: Final = frozenset({"charge", "signature"})


class ToolActions:
    """Commands as actions: `Action k` calls the k-th tool of the card, and the command is its payload.

    One more action stands for every tool that the card lacks: whoever signs a call of one has it recorded as
    a failed call (PROTOCOL 5), and that record has to have a form.
    """

    def __init__(self, tools: Sequence[str]) -> None:
        self._ids = {tool: f"Action {position}" for position, tool in enumerate(tools, 1)}
        self.count = len(tools) + 1
        self._no_tool = f"Action {self.count}"

    def command_to_action(self, command: Any, _context: SubmissionContext | None = None) -> JsonObject:
        """The action that a command stands for.

        Raises:
            InvalidInput: `command-malformed`, it does not have just arguments and a tool's id.
        """
        tool_id = _tool_of(command)
        return {"id": self._ids.get(tool_id, self._no_tool), "payload": command}


def require_command(request: bytes) -> None:
    """Require bytes that a node admits as a call's canonical request.

    Raises:
        InvalidInput: `non-canonical-command`, or `command-malformed`.
    """
    try:
        command = parse_json(request, max_bytes=MAX_COMMAND_BYTES)
        canonical = canonical_json(command)
    except CanonicalError as error:
        raise InvalidInput(f"the command: {error}", code="non-canonical-command") from error
    if canonical != request:
        raise InvalidInput("the command is not canonical JSON", code="non-canonical-command")
    _tool_of(command)


def _tool_of(command: Any) -> str:
    if not isinstance(command, dict) or command.keys() != {"arguments", "tool"}:
        raise InvalidInput("a command has exactly the members arguments, tool", code="command-malformed")
    tool_id = command["tool"]
    if not isinstance(tool_id, str):
        raise InvalidInput("a command's tool is a text", code="command-malformed")
    return tool_id


@dataclass(frozen=True, slots=True)
class CallResult:
    """What came of a call, as the operator recorded it. The response itself is not in the artifact.

    Attributes:
        response_hash: keccak256 of the response's UTF-8.
        leaf: the call's leaf in the transcript (PROTOCOL 2).
        charge: base units; None where there is no receipt.
        signature: the operator's, over the receipt of index, leaf and charge.
    """

    index: int
    response_hash: Bytes32
    leaf: Bytes32
    charge: int | None = None
    signature: bytes | None = None

    @classmethod
    def of(cls, entry: Entry, receipt: tuple[int, bytes] | None) -> CallResult:
        """The result of a transcript's entry, with charge and signature of its receipt."""
        response_hash, leaf = Bytes32(keccak256(entry.response.encode())), Bytes32(entry_leaf(entry))
        return cls(entry.index, response_hash, leaf, *(receipt or (None, None)))

    def to_json(self) -> JsonObject:
        """The record of the lane."""
        value: JsonObject = {
            "index": self.index,
            "responseHash": to_hex(self.response_hash),
            "leaf": to_hex(self.leaf),
        }
        if self.charge is not None and self.signature is not None:
            value["charge"] = str(self.charge)
            value["signature"] = to_hex(self.signature)
        return value

    @classmethod
    def from_json(cls, value: JsonValue) -> CallResult:
        """Read exactly those members; charge and signature come together.

        Raises:
            InvalidInput: `result-malformed`.
        """
        if not isinstance(value, dict) or value.keys() not in (_REQUIRED, _REQUIRED | _RECEIPT):
            raise InvalidInput(
                "a result has exactly index, responseHash, leaf, and maybe charge and signature",
                code="result-malformed",
            )
        receipted = "charge" in value
        try:
            return cls(
                read_count(value["index"]),
                bytes32(value["responseHash"]),
                bytes32(value["leaf"]),
                parse_amount(value["charge"]) if receipted else None,
                from_hex(value["signature"]) if receipted else None,
            )
        except InvalidInput as error:
            raise InvalidInput(f"the result: {error}", code="result-malformed") from error

    def expected_leaf(self, request: bytes, tool_id: str) -> Bytes32:
        """The leaf that request, tool and response hash give; as `leaf_hash`, but for the hashed response."""
        index = self.index.to_bytes(32, "big")
        return Bytes32(
            keccak256(index + keccak256(request) + self.response_hash + keccak256(tool_id.encode()))
        )
