"""The seal of a run: what is signed, and the signing (PROTOCOL 8)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aioum.core.canonical import MAX_SAFE_INTEGER, JsonValue, canonical_bytes, parse_json
from aioum.core.submission.framing import decode_base64, encode_base64
from aioum.run.capsule import Capsule
from aioum.run.chain import RunChain
from aioum.run.dsse import MAX_PAYLOAD_BYTES, MAX_SIGNATURES, sign_envelope
from aioum.run.errors import CapsuleMalformed, SealRefused
from aioum.run.event import Event, Header
from aioum.run.fields import read_hash
from aioum.run.keys import ALGORITHMS, MAX_PUBLIC_KEY_BYTES, SigningKey, key_id

SEAL_TYPE: Final = "aioum.capsule.v1"

PAYLOAD_TYPE: Final = "application/vnd.aioum.capsule.v1+json"
"""DSSE payload type of seals."""

_MAX_ALG_CHARACTERS: Final = 64
_MEMBERS: Final = {"type", "header", "eventCount", "chainHead", "root", "signers"}
_SIGNER_MEMBERS: Final = {"alg", "publicKey"}


@dataclass(frozen=True, slots=True)
class Signer:
    """A key that a seal says it is signed by.

    Attributes:
        alg: name of the algorithm; one that is not known cannot be checked, and so does not count.
        public_key: raw bytes.
    """

    alg: str
    public_key: bytes

    @property
    def key_id(self) -> str:
        """Hex SHA-256 of the key."""
        return key_id(self.public_key)

    def to_json(self) -> dict[str, JsonValue]:
        """The JSON object."""
        return {"alg": self.alg, "publicKey": encode_base64(self.public_key)}


@dataclass(frozen=True, slots=True)
class Seal:
    """What the signatures of a capsule are over.

    Attributes:
        header: of the run.
        event_count: number of events.
        chain_head: the chain's value after the last event, 32 bytes.
        root: over all leaves, 32 bytes.
        signers: all keys that sign, in ascending order of their bytes, so that a missing one shows.
    """

    header: Header
    event_count: int
    chain_head: bytes
    root: bytes
    signers: tuple[Signer, ...]

    def to_bytes(self) -> bytes:
        """The canonical JSON: the payload."""
        return canonical_bytes(
            {
                "type": SEAL_TYPE,
                "header": self.header.to_json(),
                "eventCount": self.event_count,
                "chainHead": "0x" + self.chain_head.hex(),
                "root": "0x" + self.root.hex(),
                "signers": [signer.to_json() for signer in self.signers],
            }
        )


def read_seal(payload: bytes) -> Seal:
    """Read what `Seal.to_bytes` writes, in that spelling only.

    Raises:
        CanonicalError: as `parse_json`.
        CapsuleMalformed: `seal-malformed`, a member is missing, unknown or wrong, or the signers are out of
            order or repeated; `seal-not-canonical`, the same content is written in another way.
        EventMalformed: `header-malformed`.
    """
    value = parse_json(payload, max_bytes=MAX_PAYLOAD_BYTES)
    if type(value) is not dict or value.keys() != _MEMBERS or value["type"] != SEAL_TYPE:
        raise _malformed(f"it must have exactly the members {', '.join(sorted(_MEMBERS))}, type {SEAL_TYPE}")
    event_count, signers = value["eventCount"], value["signers"]
    if type(event_count) is not int or not 0 <= event_count <= MAX_SAFE_INTEGER:
        raise _malformed(f"eventCount is {event_count!r:.40}")
    if type(signers) is not list or len(signers) > MAX_SIGNATURES:
        raise _malformed(f"signers must be a list of at most {MAX_SIGNATURES}")
    read = tuple(_signer(signer) for signer in signers)
    if any(read[i].public_key >= read[i + 1].public_key for i in range(len(read) - 1)):
        raise _malformed("signers must be in ascending order of their keys, each once")
    seal = Seal(
        header=Header.from_json(value["header"]),
        event_count=event_count,
        chain_head=read_hash("chainHead", value["chainHead"], code="seal-malformed"),
        root=read_hash("root", value["root"], code="seal-malformed"),
        signers=read,
    )
    if seal.to_bytes() != payload:
        raise CapsuleMalformed("the seal is not written canonically", code="seal-not-canonical")
    return seal


def seal_run(header: Header, events: Iterable[Event], signers: Sequence[SigningKey]) -> Capsule:
    """Hash and seal a whole run.

    Args:
        header: of the run.
        events: in order, indexes from 0.
        signers: 1 to 16 keys.

    Raises:
        SuiteUnknown: `suite-unknown`.
        EventMalformed: `event-index-wrong`.
        SealRefused: `run-too-long`; and as `seal_chain`.
    """
    chain = RunChain(header)
    for event in events:
        chain.append(event)
    return seal_chain(chain, signers)


def seal_chain(chain: RunChain, signers: Sequence[SigningKey]) -> Capsule:
    """Seal a recorded run, whose events are hashed already.

    Raises:
        SealRefused: `run-empty`; `run-signers-missing`; `run-signers-too-many`; `run-signer-duplicate`, one
            key is given twice; `run-signer-algorithm-unknown`.
    """
    if not signers or len(signers) > MAX_SIGNATURES:
        raise SealRefused(
            f"{len(signers)} keys to sign with, expected 1 to {MAX_SIGNATURES}",
            code="run-signers-too-many" if signers else "run-signers-missing",
        )
    root = chain.frontier.root(chain.suite.node_hash)
    if root is None:
        raise SealRefused("a run without events has no root to seal", code="run-empty")
    keys = sorted(signers, key=lambda key: key.public_key)
    if len({key.public_key for key in keys}) != len(keys):
        raise SealRefused("one key is given twice", code="run-signer-duplicate")
    for key in keys:
        if key.alg not in ALGORITHMS:
            raise SealRefused(
                f"nobody could check signatures by {key.alg!r:.40}", code="run-signer-algorithm-unknown"
            )
    seal = Seal(
        header=chain.header,
        event_count=len(chain.events),
        chain_head=chain.head,
        root=root,
        signers=tuple(Signer(key.alg, key.public_key) for key in keys),
    )
    return Capsule(sign_envelope(PAYLOAD_TYPE, seal.to_bytes(), keys), tuple(chain.events))


def _signer(value: JsonValue) -> Signer:
    if type(value) is not dict or value.keys() != _SIGNER_MEMBERS:
        raise _malformed("a signer has exactly the members alg and publicKey")
    alg, public_key = value["alg"], value["publicKey"]
    if type(alg) is not str or not 0 < len(alg) <= _MAX_ALG_CHARACTERS:
        raise _malformed(f"alg is {alg!r:.40}, expected a name of 1 to {_MAX_ALG_CHARACTERS} characters")
    size_bytes = len(public_key.rstrip("=")) * 3 // 4 if type(public_key) is str else 0
    if not 0 < size_bytes <= MAX_PUBLIC_KEY_BYTES:
        raise _malformed(f"publicKey must be base64 of 1 to {MAX_PUBLIC_KEY_BYTES} bytes")
    return Signer(alg, decode_base64(public_key, size_bytes, code="seal-malformed"))


def _malformed(why: str) -> CapsuleMalformed:
    return CapsuleMalformed(f"malformed seal: {why}", code="seal-malformed")
