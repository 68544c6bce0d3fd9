"""The lines after the header: every kind of record (SUBMISSIONS 1.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aioum.core.errors import InvalidInput
from aioum.core.submission.canonical import canonical_json
from aioum.core.submission.framing import decode_base64
from aioum.core.types import Bytes32
from aioum.replay import fields, model
from aioum.replay.inputs import CHAIN_MEMBERS, INPUT, INPUT_REQUIRED, INTEGRITY_MEMBERS, InputReader
from aioum.replay.model import Header, JsonObject, Record

_COMMON_REQUIRED: Final = frozenset({"kind", "n", "levelIndex"})
_COMMON: Final = _COMMON_REQUIRED | {"hostTime"}
_IDENTIFIED: Final = frozenset({"tick", "participantId", "submissionId"})
_COMMANDED: Final = _IDENTIFIED | {"canonicalCommand", "cursor"}

# For each kind the allowed members and the required ones.
_MEMBERS: Final[dict[str, tuple[frozenset[str], frozenset[str]]]] = {
    kind: (_COMMON | required | optional, _COMMON_REQUIRED | required)
    for kind, required, optional in (
        (model.ACTION, INPUT_REQUIRED, INPUT | {"tick"}),
        (model.RESOLUTION, frozenset({"tick", "inputs", "cause"}), frozenset({"systemInput"})),
        (
            model.TIMEOUT,
            frozenset({"tick", "timeoutId", "windowRef", "participantId", "reason"}),
            frozenset({"timeoutPolicyRef"}),
        ),
        (model.INTEREST, _COMMANDED | {"scopeId", "declaration"}, CHAIN_MEMBERS),
        (model.INTERACTION, _COMMANDED | {"command"}, CHAIN_MEMBERS),
        (model.SEAT_SIGNATURE, frozenset({"tick", "participantId"}), CHAIN_MEMBERS),
        (
            model.COMMIT_MISMATCH,
            _IDENTIFIED | {"commitmentId", "scheme"},
            INTEGRITY_MEMBERS | {"attemptedReveal"},
        ),
        (model.CHECKPOINT, frozenset({"tick", "digest"}), frozenset()),
        (model.EXTENSION, frozenset({"lane", "record"}), frozenset()),
    )
}
_CAUSES: Final = (model.CAUSE_COMPLETE, model.CAUSE_TIMEOUT, model.CAUSE_TICK)
_ATTEMPTED_REVEAL: Final = frozenset({"salt", "payload"})


class RecordReader:
    """Checks the lines of one artifact, in order.

    Args:
        header: what the artifact declares.
        inputs: checks inputs, and remembers submissions.
        numbered_from: number of the first line.
        kinds: what may occur: every kind in a grouped artifact, else actions only.
    """

    def __init__(
        self, header: Header, inputs: InputReader, *, numbered_from: int, kinds: frozenset[str]
    ) -> None:
        self._header = header
        self._level_count = len(header.levels)
        self._inputs = inputs
        self._next_number = numbered_from
        self._kinds = kinds
        self._level_index = 0
        self._last_tick = 0
        self._readers: dict[str, Callable[[JsonObject, int, int], Record]] = {
            model.ACTION: self._action,
            model.RESOLUTION: self._resolution,
            model.TIMEOUT: self._timeout,
            model.INTEREST: self._interest,
            model.INTERACTION: self._interaction,
            model.SEAT_SIGNATURE: self._seat_signature,
            model.COMMIT_MISMATCH: self._commit_mismatch,
            model.CHECKPOINT: self._checkpoint,
            model.EXTENSION: self._extension,
        }

    def read(self, value: Any) -> Record:
        """Check the next line.

        Raises:
            InvalidInput: with a reason code. Reading can go on with the line after it.
        """
        number = self._next_number
        self._next_number += 1
        if type(value) is not dict:
            raise InvalidInput(f"must be an object, got {fields.shown(value)}", code="not-an-object")
        kind = fields.one_of(value, "kind", self._kinds, "bad-kind")
        fields.members(value, *_MEMBERS[kind])
        if value["n"] != number or type(value["n"]) is not int:
            raise InvalidInput(f"n must be {number}, got {fields.shown(value['n'])}", code="bad-sequence")
        level_index = fields.count(value, "levelIndex")
        if level_index != self._level_index:
            self._enter(level_index)
        if "hostTime" in value:
            fields.count(value, "hostTime")
        return self._readers[kind](value, number, level_index)

    def _enter(self, level_index: int) -> None:
        if level_index >= self._level_count:
            raise InvalidInput(
                f"levelIndex must be below {self._level_count}, got {level_index}", code="bad-level-index"
            )
        if level_index < self._level_index:
            raise InvalidInput(
                f"returns from level {self._level_index} to level {level_index}", code="level-order"
            )
        self._level_index = level_index
        self._last_tick = 0

    def _step_tick(self, tick: int) -> int:
        if tick < self._last_tick:
            raise InvalidInput(
                f"tick {tick} comes after tick {self._last_tick} of the same level", code="tick-order"
            )
        self._last_tick = tick
        return tick

    def _action(self, value: JsonObject, number: int, level_index: int) -> model.Action:
        tick = self._step_tick(fields.count(value, "tick")) if "tick" in value else None
        return model.Action(number, level_index, tick, self._inputs.read(value, level_index), value)

    def _resolution(self, value: JsonObject, number: int, level_index: int) -> model.Resolution:
        tick = self._step_tick(fields.count(value, "tick"))
        cause = fields.one_of(value, "cause", _CAUSES, "bad-cause")
        given = value["inputs"]
        if type(given) is not list:
            raise InvalidInput(f"inputs must be a list, got {fields.shown(given)}", code="inputs-invalid")
        inputs = tuple([self._input(each, level_index, position) for position, each in enumerate(given)])
        system_input = None
        if cause == model.CAUSE_TIMEOUT:
            system_input = self._system_input(value, given, inputs)
        elif "systemInput" in value:
            raise InvalidInput("systemInput needs the cause timeout", code="system-input-unexpected")
        return model.Resolution(number, level_index, tick, inputs, cause, system_input, value)

    def _input(self, value: Any, level_index: int, position: int) -> model.Input:
        try:
            return self._inputs.read(fields.members(value, INPUT, INPUT_REQUIRED), level_index)
        except InvalidInput as error:
            raise InvalidInput(f"input {position}: {error}", code=error.code) from error

    def _system_input(
        self, value: JsonObject, given: list[Any], inputs: tuple[model.Input, ...]
    ) -> model.Input:
        if "systemInput" not in value:
            raise InvalidInput("the cause timeout needs systemInput", code="system-input-missing")
        wanted = canonical_json(value["systemInput"])
        for candidate, each in zip(given, inputs, strict=True):
            # Equal objects can differ in canonical form (1 and true), so they are compared there.
            if canonical_json(candidate) == wanted:
                return each
        raise InvalidInput("systemInput must be one of inputs", code="system-input-not-in-inputs")

    def _timeout(self, value: JsonObject, number: int, level_index: int) -> model.Timeout:
        tick, window_ref = fields.count(value, "tick"), fields.count(value, "windowRef")
        policy_ref = fields.optional_text(value, "timeoutPolicyRef")
        if self._header.has_integrity:
            self._check_timeout_policy(tick, window_ref, policy_ref)
        return model.Timeout(
            number,
            level_index,
            tick,
            timeout_id=fields.text(value, "timeoutId"),
            window_ref=window_ref,
            participant_id=None if value["participantId"] is None else fields.text(value, "participantId"),
            reason=fields.text(value, "reason"),
            policy_ref=policy_ref,
            json=value,
        )

    def _check_timeout_policy(self, tick: int, window_ref: int, policy_ref: str | None) -> None:
        window_ticks = self._header.window_ticks
        if policy_ref != (None if window_ticks is None else model.TIMEOUT_POLICY_REF):
            raise InvalidInput(
                f"timeoutPolicyRef must be {model.TIMEOUT_POLICY_REF} under a timeoutPolicy and absent"
                f" without, got {fields.shown(policy_ref)}",
                code="timeout-policy-ref",
            )
        if window_ticks is not None and tick != window_ref + window_ticks:
            raise InvalidInput(
                f"tick must be windowRef + windowTicks = {window_ref + window_ticks}, got {tick}",
                code="timeout-tick",
            )

    def _interest(self, value: JsonObject, number: int, level_index: int) -> model.Interest:
        if not self._header.has_integrity:
            raise InvalidInput("interest needs version 1.2 or later", code="needs-later-version")
        if not value.keys() >= CHAIN_MEMBERS:
            raise InvalidInput("interest needs clientTime, prevChainHash and sig", code="interest-unsigned")
        participant_id, integrity = self._submitted(value, level_index)
        scope_id = fields.text(value, "scopeId")
        command: JsonObject = {
            "kind": model.INTEREST,
            "scopeId": scope_id,
            "declaration": value["declaration"],
        }
        if canonical_json(command) != integrity.command:
            raise InvalidInput("canonicalCommand says something else", code="interest-differs")
        return model.Interest(
            number,
            level_index,
            fields.count(value, "tick"),
            participant_id,
            scope_id,
            value["declaration"],
            integrity,
            value,
        )

    def _interaction(self, value: JsonObject, number: int, level_index: int) -> model.Interaction:
        if self._header.format_version < "1.4":
            raise InvalidInput("interaction needs version 1.4 or later", code="needs-later-version")
        participant_id, integrity = self._submitted(value, level_index)
        if canonical_json(value["command"]) != integrity.command:
            raise InvalidInput("canonicalCommand says something else", code="interaction-differs")
        tick = fields.count(value, "tick")
        return model.Interaction(
            number, level_index, tick, participant_id, value["command"], integrity, value
        )

    def _submitted(self, value: JsonObject, level_index: int) -> tuple[str, model.Integrity]:
        participant_id = fields.text(value, "participantId")
        integrity = self._inputs.integrity(value)
        if integrity is None:
            raise InvalidInput("the submission's identity is missing", code="identity-incomplete")
        self._inputs.register(level_index, participant_id, integrity.submission_id)
        return participant_id, integrity

    def _seat_signature(self, value: JsonObject, number: int, level_index: int) -> model.SeatSignature:
        client_time = head = signature = None
        if "sig" in value:
            self._inputs.has_signature_material = True
        if self._header.has_integrity:
            client_time = fields.count(value, "clientTime")
            head = Bytes32(decode_base64(value.get("prevChainHash"), 32))
            signature = decode_base64(value.get("sig"), 64)
        else:
            fields.optional_count(value, "clientTime")
        tick, participant_id = fields.count(value, "tick"), fields.text(value, "participantId")
        return model.SeatSignature(
            number, level_index, tick, participant_id, client_time, head, signature, value
        )

    def _commit_mismatch(self, value: JsonObject, number: int, level_index: int) -> model.CommitMismatch:
        participant_id = fields.text(value, "participantId")
        submission_id = fields.text(value, "submissionId")
        self._inputs.register(level_index, participant_id, submission_id)
        fields.one_of(value, "scheme", (model.COMMITMENT_SCHEME,), "bad-commitment-scheme")
        commitment_id = fields.u32(value, "commitmentId")
        attempted = None
        if "attemptedReveal" in value:
            reveal = fields.members(value["attemptedReveal"], _ATTEMPTED_REVEAL, _ATTEMPTED_REVEAL)
            salt = fields.salt_hex(reveal, "salt", "commitment-invalid")
            attempted = model.Reveal(commitment_id, salt, reveal["payload"])
        return model.CommitMismatch(
            number,
            level_index,
            fields.count(value, "tick"),
            participant_id,
            submission_id,
            commitment_id,
            attempted,
            self._inputs.integrity(value),
            value,
        )

    def _checkpoint(self, value: JsonObject, number: int, level_index: int) -> model.Checkpoint:
        return model.Checkpoint(
            number, level_index, fields.count(value, "tick"), fields.u32(value, "digest"), value
        )

    def _extension(self, value: JsonObject, number: int, level_index: int) -> model.Extension:
        record = fields.optional_object(value, "record") or {}
        return model.Extension(number, level_index, fields.text(value, "lane"), record, value)
