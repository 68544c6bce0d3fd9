"""What seats did: inputs of steps, and the submissions that records carry (SUBMISSIONS 1.6)."""

from __future__ import annotations

from typing import Any, Final

from aioum.core.errors import CanonicalError, InvalidInput
from aioum.core.submission.canonical import canonical_json_text
from aioum.core.submission.framing import MAX_COMMAND_BYTES, decode_base64
from aioum.core.types import Bytes32
from aioum.replay import fields
from aioum.replay.json_lines import load_json
from aioum.replay.model import COMMITMENT_SCHEME, Commit, Header, Input, Integrity, JsonObject, Reveal

INPUT_REQUIRED: Final = frozenset({"wireId", "canonicalId"})
IDENTITY_MEMBERS: Final = frozenset({"submissionId", "canonicalCommand", "cursor"})
CHAIN_MEMBERS: Final = frozenset({"clientTime", "prevChainHash", "sig"})
INTEGRITY_MEMBERS: Final = IDENTITY_MEMBERS | CHAIN_MEMBERS
_NOT_IN_1_0: Final = INTEGRITY_MEMBERS | {"commit", "reveal", "verifiedPayload", "hostTime"}
INPUT: Final = (
    INPUT_REQUIRED
    | INTEGRITY_MEMBERS
    | {"payload", "seat", "x", "y", "index", "boardId", "zoneId", "targets"}
    | {"commit", "reveal", "verifiedPayload"}
)

_PLACES: Final = frozenset({"x", "y", "index", "boardId", "zoneId", "targets"})
_COMMITMENTS: Final = frozenset({"commit", "reveal", "verifiedPayload"})
_TARGET: Final = frozenset({"container", "coord"})
_COMMIT: Final = frozenset({"commitmentId", "scheme", "hash"})
_REVEAL: Final = frozenset({"commitmentId", "salt", "payload"})
_COMMITMENT_CODE: Final = "commitment-invalid"


class InputReader:
    """Checks inputs and submissions against what the header declares.

    Args:
        header: what the artifact declares.
        unique_ids: whether a seat may use a submission id only once in a level. The format's tools ask that
            of records, not of an artifact of actions only.

    Attributes:
        has_signature_material: whether some `sig` was met, be it checked or opaque.
    """

    def __init__(self, header: Header, *, unique_ids: bool) -> None:
        self._has_integrity = header.has_integrity
        self._is_oldest = header.format_version == "1.0"
        self._canonical_ids = {
            f"Action {wire}": f"Action {canonical + 1}"
            for wire, canonical in enumerate(header.permutation, 1)
        }
        self._unique_ids = unique_ids
        self._seen: set[tuple[int, str, str]] = set()
        self.has_signature_material = False

    def read(self, value: JsonObject, level_index: int) -> Input:
        """Check an input whose member names are known and whose required members are there.

        Raises:
            InvalidInput: with a reason code.
        """
        if self._is_oldest and not _NOT_IN_1_0.isdisjoint(value):
            raise InvalidInput(
                "integrity and commitments need version 1.1 or later", code="needs-later-version"
            )
        self._check_ids(value)
        seat = fields.text(value, "seat") if "seat" in value else None
        integrity = self.integrity(value)
        if seat is not None and "submissionId" in value:
            self.register(level_index, seat, value["submissionId"])
        if not _PLACES.isdisjoint(value):
            _check_places(value)
        commit = reveal = None
        if not _COMMITMENTS.isdisjoint(value):
            commit, reveal = _commitments(value)
        return Input(seat, integrity, commit, reveal, value)

    def integrity(self, value: JsonObject) -> Integrity | None:
        """The submission that an input or a record carries.

        Raises:
            InvalidInput: from version 1.2, where a group of fields is incomplete or a field malformed.
        """
        signature = head = client_time = None
        if "sig" in value:
            self.has_signature_material = True
        if not self._has_integrity:
            return self._opaque_integrity(value)
        if "submissionId" not in value or "canonicalCommand" not in value or "cursor" not in value:
            _require_no_part(value)
            return None
        if "prevChainHash" in value and "clientTime" in value:
            client_time = fields.count(value, "clientTime")
            head = Bytes32(decode_base64(value["prevChainHash"], 32))
            if "sig" in value:
                signature = decode_base64(value["sig"], 64)
        elif not CHAIN_MEMBERS.isdisjoint(value):
            raise _incomplete_chain(value)
        command, command_value = self._command(value["canonicalCommand"])
        return Integrity(
            fields.text(value, "submissionId"),
            command,
            command_value,
            fields.count(value, "cursor"),
            client_time,
            head,
            signature,
        )

    def register(self, level_index: int, seat: str, submission_id: Any) -> None:
        """Note a submission's identity. Raises InvalidInput `duplicate-submission-id`."""
        if not self._unique_ids or type(submission_id) is not str:  # opaque before 1.2
            return
        identity = (level_index, seat, submission_id)
        if identity in self._seen:
            raise InvalidInput(
                f"the submissionId {fields.shown(submission_id)} of seat {fields.shown(seat)}"
                f" occurs twice in level {level_index}",
                code="duplicate-submission-id",
            )
        self._seen.add(identity)

    def _check_ids(self, value: JsonObject) -> None:
        wire, canonical = value["wireId"], value["canonicalId"]
        ids = self._canonical_ids
        expected = ids.get(wire) if type(wire) is str else None
        if expected is not None and canonical == expected:
            return
        if expected is not None and type(canonical) is str and canonical in ids:
            raise InvalidInput(
                f"by perm {wire} is {expected}, got {canonical}", code="permutation-contradicted"
            )
        wrong = wire if expected is None else canonical
        raise InvalidInput(
            f"action ids are Action 1 … Action {len(ids)}, got {fields.shown(wrong)}",
            code="action-id-invalid",
        )

    def _command(self, text: Any) -> tuple[bytes, Any]:
        if type(text) is not str:
            raise InvalidInput("canonicalCommand must be a string", code="text-invalid")
        command = text.encode()
        if len(command) > MAX_COMMAND_BYTES:
            raise InvalidInput(
                f"a command of {len(command)} bytes, at most {MAX_COMMAND_BYTES} are allowed",
                code="command-too-large",
            )
        try:
            value = load_json(text)
            if canonical_json_text(value) == text:
                return command, value
        except CanonicalError as error:
            raise InvalidInput(f"canonicalCommand: {error}", code="non-canonical-command") from error
        raise InvalidInput("canonicalCommand is not canonical JSON", code="non-canonical-command")

    def _opaque_integrity(self, value: JsonObject) -> Integrity | None:
        # 1.1 reserves the fields. Only `clientTime` has a form there; the rest says something or nothing.
        fields.optional_count(value, "clientTime")
        try:
            command, command_value = self._command(value.get("canonicalCommand"))
            return Integrity(
                fields.text(value, "submissionId"),
                command,
                command_value,
                fields.count(value, "cursor"),
                client_time=None,
                prev_head=None,
                signature=None,
            )
        except InvalidInput:
            return None


def _require_no_part(value: JsonObject) -> None:
    if not IDENTITY_MEMBERS.isdisjoint(value):
        raise InvalidInput(
            "submissionId, canonicalCommand and cursor come together or not at all",
            code="identity-incomplete",
        )
    if not CHAIN_MEMBERS.isdisjoint(value):
        raise InvalidInput(
            "clientTime, prevChainHash and sig need submissionId, canonicalCommand and cursor",
            code="chain-without-identity",
        )


def _incomplete_chain(value: JsonObject) -> InvalidInput:
    if "sig" in value:
        return InvalidInput("sig needs clientTime and prevChainHash", code="signature-without-chain")
    return InvalidInput("clientTime and prevChainHash come together or not at all", code="chain-incomplete")


def _check_places(value: JsonObject) -> None:
    for name in ("x", "y", "index"):
        if name in value and type(value[name]) is not int:
            raise InvalidInput(
                f"{name} must be a whole number, got {fields.shown(value[name])}", code="integer-invalid"
            )
    fields.optional_text(value, "boardId")
    fields.optional_text(value, "zoneId")
    if "targets" in value:
        targets = value["targets"]
        if type(targets) is not list or not all(map(_is_target, targets)):
            raise InvalidInput(
                "targets must be a list of {container, coord}; a coord is two whole numbers, one, or a text",
                code="targets-invalid",
            )


def _is_target(value: Any) -> bool:
    if type(value) is not dict or value.keys() != _TARGET:
        return False
    container, coord = value["container"], value["coord"]
    if type(container) is not str or not container:
        return False
    if type(coord) is list:
        return len(coord) == 2 and all(type(each) is int for each in coord)
    return type(coord) in (int, str)


def _commitments(value: JsonObject) -> tuple[Commit | None, Reveal | None]:
    if "commit" in value and "reveal" in value:
        raise InvalidInput("commit and reveal exclude each other", code="commit-and-reveal")
    if "verifiedPayload" in value and "reveal" not in value:
        raise InvalidInput("verifiedPayload needs reveal", code="verified-payload-without-reveal")
    if "commit" in value:
        commit = fields.members(value["commit"], _COMMIT, _COMMIT)
        fields.one_of(commit, "scheme", (COMMITMENT_SCHEME,), "bad-commitment-scheme")
        digest = Bytes32(fields.hash_hex(commit, "hash", _COMMITMENT_CODE))
        return Commit(fields.u32(commit, "commitmentId"), digest), None
    reveal = fields.members(value["reveal"], _REVEAL, _REVEAL)
    salt = fields.salt_hex(reveal, "salt", _COMMITMENT_CODE)
    return None, Reveal(fields.u32(reveal, "commitmentId"), salt, reveal["payload"])
