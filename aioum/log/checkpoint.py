"""Checkpoints: how large a log is and with which root, signed (C2SP tlog-checkpoint over signed-note).

The reader takes one spelling of each checkpoint. What the format leaves open and a log has no use for, such
as extension lines, is refused: nobody could audit it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

from aioum.core.errors import InvalidInput, SignatureInvalid
from aioum.core.merkle import HASH_BYTES
from aioum.core.submission.framing import decode_base64, encode_base64
from aioum.core.submission.keys import SIGNATURE_SIZE_BYTES, VerifyingKey
from aioum.log.errors import CheckpointInvalid
from aioum.log.proofs import MAX_SIZE
from aioum.log.tree import EMPTY_ROOT

MAX_NOTE_BYTES: Final = 131_072
"""Most bytes of a note: sixteen post-quantum signatures of witnesses fit in."""

MAX_SIGNATURES: Final = 64
"""Most signature lines of a note; the format asks for at least 16."""

MAX_ORIGIN_BYTES: Final = 255

_ED25519: Final = b"\x01"
_KEY_ID_BYTES: Final = 4
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")
_SIGNATURE_LINE: Final = re.compile(r"— ([^ ]+) ([A-Za-z0-9+/]+={0,2})")


class NoteSigner(Protocol):
    """An Ed25519 key that signs checkpoints."""

    @property
    def public_key(self) -> bytes:
        """32 bytes."""
        ...

    def sign(self, message: bytes, /) -> bytes:
        """The signature of 64 bytes (RFC 8032): the same for the same message."""
        ...


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A log's state.

    Attributes:
        origin: the log's name, 1 to 255 bytes of UTF-8 without white space, `+` or control characters.
        size: number of entries, 0 to 2^62-1.
        root: over them, 32 bytes; `EMPTY_ROOT` over none.

    Raises:
        CheckpointInvalid: `checkpoint-origin-invalid`; `checkpoint-size-malformed`;
            `checkpoint-root-malformed`.
    """

    origin: str
    size: int
    root: bytes

    def __post_init__(self) -> None:
        require_origin(self.origin)
        if type(self.size) is not int or not 0 <= self.size <= MAX_SIZE:
            raise CheckpointInvalid(
                f"a log cannot have {self.size!r:.40} entries", code="checkpoint-size-malformed"
            )
        if len(self.root) != HASH_BYTES or (self.size == 0 and self.root != EMPTY_ROOT):
            raise CheckpointInvalid(
                "a root has 32 bytes, and that of no entries is SHA-256 of nothing",
                code="checkpoint-root-malformed",
            )

    def text(self) -> str:
        """What is signed: three lines."""
        return f"{self.origin}\n{self.size}\n{encode_base64(self.root)}\n"


def require_origin(origin: str) -> str:
    """Return a log's name if it is one that can also name the log's key.

    Raises:
        CheckpointInvalid: `checkpoint-origin-invalid`.
    """
    try:
        size_bytes = len(origin.encode())
    except UnicodeEncodeError:
        size_bytes = 0
    if not 0 < size_bytes <= MAX_ORIGIN_BYTES or not _is_key_name(origin) or not origin.isprintable():
        raise CheckpointInvalid(
            f"not a log's origin: {origin!r:.100}",
            code="checkpoint-origin-invalid",
            hint="an address without its scheme, such as example.com/log",
        )
    return origin


def key_id(name: str, public_key: bytes) -> bytes:
    """The 4 bytes that stand before an Ed25519 signature in a note."""
    return hashlib.sha256(name.encode() + b"\n" + _ED25519 + public_key).digest()[:_KEY_ID_BYTES]


def sign_checkpoint(checkpoint: Checkpoint, key: NoteSigner) -> bytes:
    """The signed note of a checkpoint; the same for the same checkpoint and key."""
    text = checkpoint.text()
    signature = key_id(checkpoint.origin, key.public_key) + key.sign(text.encode())
    return f"{text}\n— {checkpoint.origin} {encode_base64(signature)}\n".encode()


def read_checkpoint(note: bytes, origin: str, public_key: bytes) -> Checkpoint:
    """Read a signed note, strictly, and check the log's signature.

    Signatures of others, such as witnesses, must be well-formed lines and are not looked at further.

    Args:
        note: at most MAX_NOTE_BYTES.
        origin: the log's name, which is also its key's name.
        public_key: the log's Ed25519 key, 32 bytes.

    Raises:
        CheckpointInvalid: `checkpoint-too-large`; `checkpoint-encoding-invalid`, not UTF-8 or with control
            characters; `checkpoint-layout-malformed`; `checkpoint-extension-unexpected`, more than three
            lines; `checkpoint-signatures-too-many`; `checkpoint-signature-malformed`;
            `checkpoint-signature-duplicate`; `checkpoint-size-malformed`; `checkpoint-root-malformed`;
            `checkpoint-origin-unexpected`; `checkpoint-key-mismatch`, signed under the log's name with
            another key; `checkpoint-signature-missing`; `checkpoint-signature-invalid`;
            `checkpoint-key-invalid`, the key given is none (also one of small order).
    """
    text, lines = _split(note)
    signatures = _signatures(lines)
    checkpoint = _checkpoint(text)
    if checkpoint.origin != origin:
        raise CheckpointInvalid(
            f"a checkpoint of {checkpoint.origin!r:.100}, expected {origin!r:.100}",
            code="checkpoint-origin-unexpected",
        )
    expected = (origin, key_id(origin, public_key))
    signature = signatures.get(expected)
    if signature is None:
        if any(name == origin for name, _ in signatures):
            raise CheckpointInvalid(
                "the checkpoint is signed under the log's name with another key",
                code="checkpoint-key-mismatch",
            )
        raise CheckpointInvalid("the log did not sign the checkpoint", code="checkpoint-signature-missing")
    _verify(public_key, text.encode(), signature)
    return checkpoint


def parse_checkpoint(note: bytes) -> Checkpoint:
    """Read a note without checking who signed it: for what is only a hint, such as one's own file.

    Raises:
        CheckpointInvalid: as `read_checkpoint`, as far as it concerns the writing.
    """
    text, lines = _split(note)
    _signatures(lines)
    return _checkpoint(text)


def _split(note: bytes) -> tuple[str, list[str]]:
    if len(note) > MAX_NOTE_BYTES:
        raise CheckpointInvalid(f"a note of over {MAX_NOTE_BYTES} bytes", code="checkpoint-too-large")
    try:
        whole = note.decode()
    except UnicodeDecodeError as error:
        raise CheckpointInvalid("the note is not UTF-8", code="checkpoint-encoding-invalid") from error
    if _CONTROL.search(whole):
        raise CheckpointInvalid("the note has control characters", code="checkpoint-encoding-invalid")
    text, blank, rest = whole.rpartition("\n\n")
    if not blank or not rest.endswith("\n"):
        raise CheckpointInvalid("a note is a text, an empty line and lines of signatures, each ended")
    return text + "\n", rest[:-1].split("\n")


def _signatures(lines: Sequence[str]) -> dict[tuple[str, bytes], bytes]:
    if len(lines) > MAX_SIGNATURES:
        raise CheckpointInvalid(
            f"a note with {len(lines)} signatures, at most {MAX_SIGNATURES}",
            code="checkpoint-signatures-too-many",
        )
    signatures: dict[tuple[str, bytes], bytes] = {}
    for line in lines:
        match = _SIGNATURE_LINE.fullmatch(line)
        if match is None or not _is_key_name(match[1]):
            raise _signature_malformed(line)
        data = _canonical_base64(match[2])
        if data is None or len(data) <= _KEY_ID_BYTES:
            raise _signature_malformed(line)
        key = (match[1], data[:_KEY_ID_BYTES])
        if key in signatures:
            raise CheckpointInvalid("two signatures by one key", code="checkpoint-signature-duplicate")
        signatures[key] = data[_KEY_ID_BYTES:]
    return signatures


def _checkpoint(text: str) -> Checkpoint:
    lines = text[:-1].split("\n")
    if len(lines) < 3 or "" in lines:
        raise CheckpointInvalid("a checkpoint has an origin, a size and a root, each on a line of its own")
    if len(lines) > 3:
        raise CheckpointInvalid("the checkpoint has extension lines", code="checkpoint-extension-unexpected")
    origin, size, root = lines
    if not _SIZE.fullmatch(size):
        raise CheckpointInvalid(
            f"the size is written as {size!r:.40}, expected plain decimal digits",
            code="checkpoint-size-malformed",
        )
    try:
        data = decode_base64(root, HASH_BYTES)
    except InvalidInput as error:
        raise CheckpointInvalid(f"the root: {error}", code="checkpoint-root-malformed") from error
    return Checkpoint(origin, int(size), data)


def _canonical_base64(value: str) -> bytes | None:
    try:
        return decode_base64(value, len(value.rstrip("=")) * 3 // 4)
    except InvalidInput:
        return None


def _is_key_name(name: str) -> bool:
    return "+" not in name and len(name.split()) == 1 and name == name.strip()


def _signature_malformed(line: str) -> CheckpointInvalid:
    return CheckpointInvalid(f"not a signature line: {line!r:.80}", code="checkpoint-signature-malformed")


@lru_cache(maxsize=64)
def _accepted(public_key: bytes) -> VerifyingKey:
    return VerifyingKey(public_key)


def _verify(public_key: bytes, message: bytes, signature: bytes) -> None:
    try:
        key = _accepted(public_key)
    except SignatureInvalid as error:
        raise CheckpointInvalid(str(error), code="checkpoint-key-invalid") from error
    try:
        if len(signature) == SIGNATURE_SIZE_BYTES:
            key.verify(message, signature)
            return
    except SignatureInvalid:
        pass
    raise CheckpointInvalid(
        "the log's signature does not fit the checkpoint", code="checkpoint-signature-invalid"
    )
