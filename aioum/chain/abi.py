"""Our contracts' ABIs, from the compiled artifacts that ship with the package; encoding and decoding by
web3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from aioum.chain.events import EVENTS
from aioum.chain.model import ChainEvent
from aioum.core.hashing import keccak256
from aioum.core.hextext import address, from_hex, to_hex
from aioum.core.types import Bytes32, ChannelId

if TYPE_CHECKING:
    from web3.contract import AsyncContract

PAYMENT_MANAGER: Final = "PaymentManager"
SERVICE_REGISTRY: Final = "ServiceRegistry"
DISPUTE_MANAGER: Final = "DisputeManager"
RATING_REGISTRY: Final = "RatingRegistry"
LOG_ANCHOR: Final = "LogAnchor"
DEV_TOKEN: Final = "DevToken"
CONTRACTS: Final = (
    PAYMENT_MANAGER,
    SERVICE_REGISTRY,
    DISPUTE_MANAGER,
    RATING_REGISTRY,
    LOG_ANCHOR,
    DEV_TOKEN,
)


@dataclass(frozen=True, slots=True)
class Artifact:
    """One compiled contract: `abi` as the compiler wrote it, `bytecode` creates it."""

    name: str
    abi: tuple[Mapping[str, Any], ...]
    bytecode: bytes


@dataclass(frozen=True, slots=True)
class Revert:
    """A decoded revert. `args` by Solidity name, JSON-serializable: bytes and addresses as hex text."""

    error: str
    args: Mapping[str, Any]


@cache
def artifact(name: str) -> Artifact:
    """The compiled contract of this name."""
    text = resources.files("aioum.chain").joinpath("artifacts", f"{name}.json").read_text(encoding="utf-8")
    data = json.loads(text)
    return Artifact(name, tuple(data["abi"]), from_hex(data["bytecode"]))


@cache
def interface(name: str) -> AsyncContract:
    """A contract without an address, for encoding and decoding only. Loads web3."""
    from eth_abi.codec import ABICodec
    from eth_abi.decoding import StringDecoder
    from web3 import AsyncHTTPProvider, AsyncWeb3
    from web3._utils.abi import build_strict_registry

    # Never connected: a provider is what web3 hangs its ABI codec on.
    offline = AsyncWeb3(AsyncHTTPProvider("http://localhost"), middleware=[])
    # A string of Solidity is any bytes. One that is no UTF-8, which anybody can put into an event, must not
    # make everything beside it unreadable.
    registry = build_strict_registry()
    registry.unregister_decoder("string")
    tolerant = StringDecoder(handle_string_errors="replace")  # type: ignore[no-untyped-call]
    registry.register_decoder("string", tolerant, label="string")
    offline.codec = ABICodec(registry)
    return offline.eth.contract(address=offline.to_checksum_address(bytes(20)), abi=artifact(name).abi)


def encode_call(contract: str, function: str, args: tuple[Any, ...]) -> bytes:
    """Calldata of one call. Addresses and hashes as bytes, structs as tuples in the struct's order."""
    return from_hex(interface(contract).encode_abi(function, args=args))


def encode_creation(contract: str, types: tuple[str, ...] = (), args: tuple[Any, ...] = ()) -> bytes:
    """The data of the transaction that creates a contract."""
    from eth_abi.abi import encode

    return artifact(contract).bytecode + encode(types, args)


def canonical_type(parameter: Mapping[str, Any]) -> str:
    """The ABI type of a parameter as signatures spell it, tuples written out."""
    kind: str = parameter["type"]
    if not kind.startswith("tuple"):
        return kind
    return "(" + ",".join(map(canonical_type, parameter["components"])) + ")" + kind[5:]


def event_topic(contract: str, event: str) -> Bytes32:
    """The first topic of an event of this name."""
    (entry,) = (e for e in artifact(contract).abi if e["type"] == "event" and e["name"] == event)
    return Bytes32(keccak256(_signature(entry)))


def decode_revert(data: bytes) -> Revert | None:
    """Decode what a call reverted with; None where none of our contracts declares it."""
    from eth_abi.abi import decode
    from eth_abi.exceptions import DecodingError

    entry = _errors().get(data[:4])
    if entry is None:
        return None
    types = [canonical_type(parameter) for parameter in entry["inputs"]]
    try:
        values = decode(types, data[4:])
    except DecodingError:
        return None
    return Revert(
        entry["name"],
        {
            parameter["name"]: to_hex(value) if isinstance(value, bytes) else value
            for parameter, value in zip(entry["inputs"], values, strict=True)
        },
    )


def decode_event(log: Mapping[str, Any]) -> ChainEvent | None:
    """Decode one log as web3 returns it; None where none of our contracts declares such an event."""
    from eth_abi.exceptions import DecodingError
    from web3.exceptions import LogTopicError, MismatchedABI

    topics = log["topics"]
    known = _events().get(bytes(topics[0])) if topics else None
    if known is None:
        return None
    contract, entry = known
    try:
        decoded = interface(contract).events[entry["name"]]().process_log(log)
    except (LogTopicError, MismatchedABI, DecodingError):
        return None
    args = {
        parameter["name"]: plain(parameter["type"], decoded["args"][parameter["name"]])
        for parameter in entry["inputs"]
    }
    channel_id = args.get("channelId")
    return ChainEvent(
        name=entry["name"],
        contract=address(log["address"]),
        channel_id=None if channel_id is None else ChannelId(channel_id),
        body=EVENTS[entry["name"]](*args.values()),
        args=args,
        block_number=log["blockNumber"],
        block_hash=Bytes32(bytes(log["blockHash"])),
        transaction_hash=Bytes32(bytes(log["transactionHash"])),
        log_index=log["logIndex"],
    )


def struct_values(contract: str, function: str, output: int, values: tuple[Any, ...]) -> list[Any]:
    """The members of a struct that a view function returned, in the project's own types."""
    (entry,) = (e for e in artifact(contract).abi if e["type"] == "function" and e["name"] == function)
    members = entry["outputs"][output]["components"]
    return [plain(member["type"], value) for member, value in zip(members, values, strict=True)]


def plain(kind: str, value: Any) -> Any:
    """A value as web3 decodes it, in the project's own types: addresses and hashes as bytes."""
    if kind == "address":
        return address(value)
    return bytes(value) if kind.startswith("bytes") else value


def _signature(entry: Mapping[str, Any]) -> bytes:
    return f"{entry['name']}({','.join(map(canonical_type, entry['inputs']))})".encode()


@cache
def _errors() -> Mapping[bytes, Mapping[str, Any]]:
    built_in: list[Mapping[str, Any]] = [
        {"name": "Error", "inputs": [{"name": "reason", "type": "string"}]},
        {"name": "Panic", "inputs": [{"name": "code", "type": "uint256"}]},
    ]
    declared = [e for name in CONTRACTS for e in artifact(name).abi if e["type"] == "error"]
    return {keccak256(_signature(entry))[:4]: entry for entry in built_in + declared}


@cache
def _events() -> Mapping[bytes, tuple[str, Mapping[str, Any]]]:
    return {
        keccak256(_signature(entry)): (name, entry)
        for name in CONTRACTS
        for entry in artifact(name).abi
        if entry["type"] == "event"
    }
