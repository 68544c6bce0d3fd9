"""The code that lies on a chain, held against what our sources compile to.

Both are equal but for the immutables: values that a constructor writes into the code that it returns. The
compiled code has zeros in their places, and the artifacts say where those are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from aioum.chain.abi import artifact
from aioum.chain.deployments import Build
from aioum.core.errors import ChainError
from aioum.core.hextext import from_hex, to_hex
from aioum.core.types import Bytes32

ARTIFACT_MISMATCH: Final = "artifact-mismatch"
IMMUTABLE_MISMATCH: Final = "immutable-mismatch"


@dataclass(frozen=True, slots=True)
class RuntimeCode:
    """What a contract's code is, once it is created.

    Attributes:
        name: the contract's name.
        code: zeros where an immutable lies.
        immutables: an immutable's name to its places in the code; each holds the value as 32 bytes.
        compiler: version of solc.
    """

    name: str
    code: bytes
    immutables: Mapping[str, tuple[slice, ...]]
    compiler: str

    def values_in(self, deployed: bytes) -> Mapping[str, bytes]:
        """The immutables of deployed code that is this contract's in every other byte.

        Returns:
            each immutable's name to its 32 bytes.

        Raises:
            ChainError: `artifact-mismatch`: other code; `immutable-mismatch`: an immutable has different
                values in different places, which no constructor does.
        """
        if not deployed:
            raise self._mismatch("there is no code")
        if len(deployed) != len(self.code):
            raise self._mismatch(f"it is {len(deployed)} bytes long, expected {len(self.code)}")
        places = [place for found in self.immutables.values() for place in found]
        masked = _masked(deployed, places)
        if masked != self.code:
            at = next(
                i for i, (got, wanted) in enumerate(zip(masked, self.code, strict=True)) if got != wanted
            )
            raise self._mismatch(f"byte {at} is {masked[at]:#04x}, expected {self.code[at]:#04x}")
        return {name: self._value(name, deployed, found) for name, found in self.immutables.items()}

    def _value(self, name: str, deployed: bytes, places: Iterable[slice]) -> bytes:
        values = {deployed[place] for place in places}
        if len(values) != 1:
            shown = ", ".join(sorted(map(to_hex, values)))
            raise ChainError(
                f"{self.name} holds different values of {name}: {shown}", code=IMMUTABLE_MISMATCH
            )
        return values.pop()

    def _mismatch(self, what: str) -> ChainError:
        return ChainError(
            f"the code is not that of {self.name} as it is compiled here: {what}", code=ARTIFACT_MISMATCH
        )


@cache
def runtime_code(name: str) -> RuntimeCode:
    """The compiled contract of this name, from the artifacts that ship with the package."""
    text = resources.files("aioum.chain").joinpath("artifacts", f"{name}.json").read_text(encoding="utf-8")
    data = json.loads(text)
    return RuntimeCode(
        name=name,
        code=from_hex(data["deployedBytecode"]),
        immutables={
            immutable: tuple(slice(place["start"], place["start"] + place["length"]) for place in places)
            for immutable, places in data["immutableReferences"].items()
        },
        compiler=data["compiler"]["version"],
    )


def creation_sha256(name: str) -> Bytes32:
    """SHA-256 of a contract's creation code, without constructor arguments."""
    return Bytes32(hashlib.sha256(artifact(name).bytecode).digest())


def build_of(names: Iterable[str]) -> Build:
    """What the contracts of these names are compiled from and by here; at least one name."""
    chosen = tuple(names)
    return Build(
        runtime_code(chosen[0]).compiler, {contract: creation_sha256(contract) for contract in chosen}
    )


def _masked(code: bytes, places: Iterable[slice]) -> bytes:
    masked = bytearray(code)
    for place in places:
        masked[place] = bytes(place.stop - place.start)
    return bytes(masked)
