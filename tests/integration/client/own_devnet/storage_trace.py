"""Which slots of our contracts a transaction wrote, by name."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from aioum.chain.client import Chain
from aioum.core.hashing import keccak256
from aioum.core.hextext import from_hex, to_hex
from aioum.core.types import Address
from tests.contract_layout import layout


def word(value: int | bytes) -> bytes:
    """A mapping's key as it is hashed."""
    return value.to_bytes(32, "big") if isinstance(value, int) else value.rjust(32, b"\0")


@dataclass
class Writes:
    """The functions that write a slot: into nothing, and over something (which includes clearing it)."""

    new: set[str] = field(default_factory=set)
    rewritten: set[str] = field(default_factory=set)


@dataclass
class Storage:
    """What transactions wrote.

    Attributes:
        contracts: names of those that count.
        keys: of the mappings that transactions write to.
        written: contract, slot, function, and whether something was there before.
    """

    chain: Chain
    contracts: dict[Address, str]
    keys: set[bytes] = field(default_factory=set)
    written: list[tuple[Address, bytes, str, bool]] = field(default_factory=list)

    async def note(self, function: str, transaction: bytes) -> None:
        """Take down what a transaction wrote."""
        trace: Any = await self.chain.rpc.request(
            "debug_traceTransaction",
            to_hex(transaction),
            {"tracer": "prestateTracer", "tracerConfig": {"diffMode": True}},
        )
        for address_hex, pre in trace["pre"].items():
            address = Address(from_hex(address_hex, 20))
            if address not in self.contracts:
                continue
            before = pre.get("storage", {})
            after = trace["post"].get(address_hex, {}).get("storage", {})
            for slot_hex in {*before, *after}:
                was, becomes = (int(values.get(slot_hex, "0x0"), 16) for values in (before, after))
                if was != becomes:
                    self.written.append((address, from_hex(slot_hex, 32), function, bool(was)))

    def writes(self) -> dict[tuple[str, str, int], Writes]:
        """By contract, variable, and slot from where that begins. A slot that none explains is an error."""
        names, found = self._names(), defaultdict[tuple[str, str, int], Writes](Writes)
        for address, slot, function, was in self.written:
            writes = found[names[address, slot]]
            (writes.rewritten if was else writes.new).add(function)
        return found

    def _names(self) -> dict[tuple[Address, bytes], tuple[str, str, int]]:
        names = {}
        for address, contract in self.contracts.items():
            for variable in layout()[contract]:
                reached = {word(variable.slot)}
                bases = set(reached)
                # A mapping, and a mapping of mappings.
                for _ in range(2):
                    reached = {keccak256(key + base) for key in self.keys for base in reached}
                    bases |= reached
                for base in bases:
                    for offset in range(len(variable.slots)):
                        at = word(int.from_bytes(base, "big") + offset)
                        names[address, at] = (contract, variable.name, offset)
        return names
