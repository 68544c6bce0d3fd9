"""What an evidence package says, for a person. Nothing of it is proven by being shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from aioum.core.amounts import format_token_amount, parse_amount
from aioum.core.canonical import JsonValue
from aioum.core.card import parse_card
from aioum.core.errors import AioumError, InvalidInput
from aioum.core.evidence_reading import EvidencePackage
from aioum.core.hashing import keccak256
from aioum.core.hextext import address_text, to_hex
from aioum.core.problem import is_problem
from aioum.log.checkpoint import parse_checkpoint
from aioum.log.membership import read_membership


def summary_json(package: EvidencePackage, data: bytes) -> dict[str, Any]:
    """The package in numbers.

    Args:
        package: as it was read.
        data: the file's bytes; their hash is what a dispute names.
    """
    symbol, decimals = _token(package)
    receipts = package.receipts or ()
    return {
        "formatVersion": package.format_version,
        "sessionId": str(package.session_id),
        "channelId": None if package.channel_id is None else to_hex(package.channel_id),
        "chainId": package.domain.chain_id,
        "paymentManager": address_text(package.domain.payment_manager),
        "service": _member(package.card, "name"),
        "token": {"symbol": symbol, "decimals": decimals},
        "claim": package.claim.value,
        "narrative": package.narrative,
        "callCount": package.call_count,
        "shownCalls": len(package.calls),
        "failedCalls": sum(_failed(call) for call in package.calls),
        "tools": dict(sorted(Counter(_text(call, "toolId") for call in package.calls).items())),
        "resultsRoot": to_hex(package.results_root),
        "vouchers": len(package.vouchers),
        "highestVoucher": _highest(_amounts(package.vouchers, "cumulativeAmount")),
        "receipts": len(receipts),
        "charged": str(sum(_amounts(receipts, "charge"))) if receipts else None,
        "statedCalls": _member(package.statement, "callCount"),
        "statedSpent": _member(package.statement, "spent"),
        "seats": [_text(seat, "id") for seat in _list(package.submissions, "roster")],
        "signedCalls": len(_list(package.submissions, "entries")),
        "attestations": [_text(attestation, "type") for attestation in package.attestations],
        "log": _log_place(package.log),
        "sizeBytes": len(data),
        "evidenceHash": to_hex(keccak256(data)),
    }


def summary_facts(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The same for print: names and values; empty where the package says nothing."""
    hidden = summary["callCount"] - summary["shownCalls"]
    shown = f", {summary['shownCalls']} of them shown" if hidden else ""
    tools = ", ".join(f"{tool} ×{count}" for tool, count in summary["tools"].items())
    receipts = f"{summary['receipts']}, charging {_money(summary, 'charged')}" if summary["receipts"] else ""
    stated = ""
    if summary["statedCalls"] is not None:
        stated = f"{summary['statedCalls']} calls, {_money(summary, 'statedSpent')} spent"
    place = summary["log"]
    return [
        ("claim", summary["claim"]),
        ("narrative", summary["narrative"]),
        ("service", summary["service"] or ""),
        ("session", summary["sessionId"]),
        ("channel", summary["channelId"] or ""),
        ("chain", str(summary["chainId"])),
        ("PaymentManager", summary["paymentManager"]),
        ("calls", f"{summary['callCount']}{shown}, {summary['failedCalls']} failed"),
        ("tools", tools),
        ("claimed root", summary["resultsRoot"]),
        (
            "vouchers",
            f"{summary['vouchers']}, up to {_money(summary, 'highestVoucher')}"
            if summary["vouchers"]
            else "0",
        ),
        ("receipts", receipts),
        ("statement", stated),
        (
            "signed calls",
            f"{summary['signedCalls']} by {', '.join(summary['seats'])}" if summary["seats"] else "",
        ),
        ("attestations", ", ".join(summary["attestations"])),
        ("log", "" if place is None else f"entry {place['index']} of {place['size']} in {place['origin']}"),
        ("size", f"{summary['sizeBytes']} bytes"),
        ("hash", summary["evidenceHash"]),
    ]


def call_rows(package: EvidencePackage) -> list[dict[str, Any]]:
    """The calls as they are shown, without their texts."""
    charges = {_member(receipt, "index"): _member(receipt, "charge") for receipt in package.receipts or ()}
    return [
        {
            "index": _member(call, "index"),
            "toolId": _text(call, "toolId"),
            "requestBytes": _size_bytes(call, "request"),
            "responseBytes": _size_bytes(call, "response"),
            "failed": _failed(call),
            "charge": charges.get(_member(call, "index")),
        }
        for call in package.calls
    ]


def call_cells(row: dict[str, Any]) -> tuple[str, ...]:
    """One of `call_rows` as cells of a table."""
    return (
        str(row["index"]),
        row["toolId"],
        "failed" if row["failed"] else "answered",
        "?" if row["charge"] is None else str(row["charge"]),
        str(row["requestBytes"]),
        str(row["responseBytes"]),
    )


def _money(summary: dict[str, Any], name: str) -> str:
    value, token = summary[name], summary["token"]
    if value is None or token["decimals"] is None:
        return f"{value} base units"
    try:
        return f"{format_token_amount(parse_amount(value), token['decimals'])} {token['symbol']}"
    except InvalidInput:
        return str(value)


def _token(package: EvidencePackage) -> tuple[str | None, int | None]:
    if package.card is None:
        return None, None
    try:
        token = parse_card(package.card).token
    except InvalidInput:
        return None, None
    return token.symbol, token.decimals


def _log_place(value: JsonValue) -> dict[str, Any] | None:
    try:
        membership = read_membership(value)
        checkpoint = parse_checkpoint(membership.checkpoint)
    except AioumError:
        return None
    return {"origin": checkpoint.origin, "index": membership.index, "size": checkpoint.size}


def _amounts(values: Iterable[JsonValue], name: str) -> list[int]:
    amounts = []
    for value in values:
        try:
            amounts.append(parse_amount(_member(value, name)))
        except InvalidInput:
            # What is malformed is a finding of verify-evidence; a summary counts the rest.
            continue
    return amounts


def _highest(amounts: list[int]) -> str | None:
    return str(max(amounts)) if amounts else None


def _member(value: JsonValue, name: str) -> Any:
    member = value.get(name) if isinstance(value, dict) else None
    return None if isinstance(member, dict | list) else member


def _list(value: JsonValue, name: str) -> list[JsonValue]:
    member = value.get(name) if isinstance(value, dict) else None
    return member if isinstance(member, list) else []


def _text(value: JsonValue, name: str) -> str:
    member = _member(value, name)
    return member if isinstance(member, str) else "?"


def _size_bytes(call: JsonValue, name: str) -> int:
    return len(_text(call, name).encode(errors="replace"))


def _failed(call: JsonValue) -> bool:
    return is_problem(_text(call, "response").encode(errors="replace"))
