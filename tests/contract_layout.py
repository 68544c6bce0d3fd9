"""Where the contracts keep what they store, as the compiler lays it out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import solcx

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = ROOT / "contracts" / "src"
CONTRACTS: Final = ("PaymentManager", "DisputeManager", "ServiceRegistry", "RatingRegistry", "LogAnchor")


@dataclass(frozen=True, slots=True)
class Variable:
    """A state variable.

    Attributes:
        slot: where it begins; what a mapping leads to lies elsewhere.
        slots: the fields of what it holds in the end, slot by slot; no name where that is no struct.
    """

    name: str
    slot: int
    slots: tuple[tuple[str, ...], ...]


@cache
def layout() -> dict[str, list[Variable]]:
    """The state variables of each contract, inherited ones included."""
    chosen = {name: f"contracts/src/{name}.sol" for name in CONTRACTS}
    files = {path.relative_to(ROOT).as_posix(): path for path in sorted(SOURCES.rglob("*.sol"))}
    output = solcx.compile_standard(
        {
            "language": "Solidity",
            "sources": {name: {"content": path.read_text(encoding="utf-8")} for name, path in files.items()},
            "settings": {
                "evmVersion": "cancun",
                "remappings": ["@openzeppelin/contracts/=node_modules/@openzeppelin/contracts/"],
                "outputSelection": {path: {name: ["storageLayout"]} for name, path in chosen.items()},
            },
        },
        solc_binary=ROOT / "scripts" / "solc",
        base_path=ROOT,
        allow_paths=ROOT,
    )["contracts"]
    return {name: _variables(output[path][name]["storageLayout"]) for name, path in chosen.items()}


def _variables(found: dict[str, Any]) -> list[Variable]:
    types = found["types"]
    return [
        Variable(item["label"], int(item["slot"]), tuple(map(tuple, _slots(types, item["type"]))))
        for item in found["storage"]
    ]


def _slots(types: dict[str, Any], kind: str) -> list[list[str]]:
    while "value" in types[kind]:
        kind = types[kind]["value"]
    size = (int(types[kind]["numberOfBytes"]) + 31) // 32
    slots: list[list[str]] = [[] for _ in range(size)]
    for member in types[kind].get("members", ()):
        first = int(member["slot"])
        for offset, inner in enumerate(_slots(types, member["type"])):
            slots[first + offset] += inner or [member["label"]]
    return slots
