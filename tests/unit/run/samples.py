"""Small sealed runs, and the pens of those who alter them."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from aioum.core.canonical import canonical_bytes
from aioum.core.submission.framing import encode_base64
from aioum.run.capsule import Capsule
from aioum.run.dsse import sign_envelope
from aioum.run.event import Event, Header, Kind
from aioum.run.keys import ML_DSA_44, Ed25519Key, MlDsaKey, SigningKey
from aioum.run.policy import SealPolicy, TrustedKey
from aioum.run.seal import PAYLOAD_TYPE, seal_run

OWNER = Ed25519Key(b"\x01" * 32)
STRANGER = Ed25519Key(b"\x02" * 32)
OWNER_ML_DSA = MlDsaKey(ML_DSA_44, b"\x03" * 32)
HEADER = Header("run-0001", 1_760_000_000_000, "agent://demo")


def events(count: int) -> list[Event]:
    kinds = list(Kind)
    return [
        Event(
            index,
            kinds[index % len(kinds)],
            1_760_000_000_000 + index,
            f"step {index}",
            bytes((index, 1)) * 16,
            bytes((index, 2)) * 16,
        )
        for index in range(count)
    ]


def sealed(count: int = 5, *keys: SigningKey, header: Header = HEADER) -> Capsule:
    return seal_run(header, events(count), keys or (OWNER,))


def trusting(*keys: SigningKey, threshold: int = 1, require: Sequence[str] = ()) -> SealPolicy:
    trusted = tuple(TrustedKey(key.alg, key.public_key) for key in keys or (OWNER,))
    return SealPolicy(trusted, threshold, frozenset(require))


def altered(capsule: Capsule, change: Callable[[Any], None]) -> bytes:
    """The capsule's file after a change of its JSON."""
    file = json.loads(capsule.to_bytes())
    change(file)
    return canonical_bytes(file)


def with_payload(capsule: Capsule, change: Callable[[Any], None], *keys: SigningKey) -> bytes:
    """The file after a change of the sealed JSON, signed anew by the keys, or with the old signatures."""
    payload = json.loads(capsule.envelope.payload)
    change(payload)
    data = canonical_bytes(payload)

    def put(file: Any) -> None:
        if keys:
            file["seal"] = sign_envelope(PAYLOAD_TYPE, data, keys).to_json()
        else:
            file["seal"]["payload"] = encode_base64(data)

    return altered(capsule, put)
