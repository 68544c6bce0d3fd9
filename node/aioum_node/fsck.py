"""Checking a store against itself: what content implies is computed again, and what differs is named.

What no hash and no signature covers cannot be told from another truth: an answer's status and content type,
times, scan positions, cards. Nor can vouchers that a contract signed: only the chain can judge them, and they
are named as if they were wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from aioum.core.canonical import JsonValue
from aioum.core.errors import AioumError, ConfigError, InvalidInput, SignatureInvalid
from aioum.core.hextext import to_hex
from aioum.core.ledger import EMPTY_FRONTIER, Call, Phase
from aioum.core.merkle import Frontier
from aioum.core.payment import Domain, Voucher, compute_channel_id, session_salt
from aioum.core.prefix import AheadLeaf
from aioum.core.seats import NO_SEATS, Seats
from aioum.core.signing import require_signer
from aioum.core.transcript import append_leaf, entry_from_json, leaf_hash
from aioum.core.types import Bytes32, ChannelId
from aioum_node.access import ContractSignatures
from aioum_node.rosters import SeatKeys, accepted_keys
from aioum_node.store.port import StoredSession
from aioum_node.store.reader import SqliteReader
from aioum_node.store.sqlite import STORE_FILE, store_lock

# Many settlements look at the same time, and each call may have a large answer.
_CALLS_PER_READ: Final = 16
_VOUCHER_INVALID: Final = "voucher-signature-invalid"
_NO_KEYS: Final[SeatKeys] = {}
# What a row that holds other bytes than the store wrote can raise when it is read.
_UNREADABLE: Final = (AioumError, ValueError, LookupError, TypeError, OverflowError)


class CheckedReader(Protocol):
    """The reads of the store port that a check needs."""

    async def sessions(self, phases: Sequence[Phase]) -> list[StoredSession]:
        """`SessionReader.sessions`."""
        ...

    async def calls(self, channel_id: ChannelId, first: int, limit: int) -> list[Call]:
        """`SessionReader.calls`."""
        ...


class WholeReader(CheckedReader, Protocol):
    """A reader that can also look beside the sessions."""

    async def integrity(self) -> list[str]:
        """What is wrong with the structure, and which rows no read of the port reaches."""
        ...


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that differs from what the store's own content says.

    Attributes:
        code: which rule; see `check_session`.
        channel_id: the session, or None where no session could be read.
        index: the call, or None where it concerns the whole session.
    """

    code: str
    message: str
    channel_id: ChannelId | None = None
    index: int | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """As `aioum-node fsck --json` prints it."""
        channel = None if self.channel_id is None else to_hex(self.channel_id)
        return {"channelId": channel, "index": self.index, "code": self.code, "message": self.message}

    def __str__(self) -> str:
        channel = "store" if self.channel_id is None else f"channel {to_hex(self.channel_id)}"
        call = "" if self.index is None else f" call {self.index}"
        return f"{channel}{call}: {self.code}: {self.message}"


@dataclass(frozen=True, slots=True)
class Report:
    """What a check looked at, and what it found."""

    sessions: int
    calls: int
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, JsonValue]:
        """As `aioum-node fsck --json` prints it."""
        return {
            "sessions": self.sessions,
            "calls": self.calls,
            "findings": [finding.to_json() for finding in self.findings],
        }


def fsck(node_dir: Path) -> Report:
    """Check the store of a node that does not run. Nothing in it is changed.

    Raises:
        ConfigError: `store-missing`; `store-locked`, the node runs; `store-foreign`, `store-outdated`,
            `store-too-new`.
        AioumError: `store-failed`, the file is none that SQLite can look through.
    """

    async def work() -> Report:
        path = node_dir / STORE_FILE
        reader = SqliteReader(path)
        try:
            with store_lock(path):
                return await check_whole(reader)
        finally:
            await reader.close()

    return asyncio.run(work())


async def check_whole(store: WholeReader) -> Report:
    """Check every session, and that no row lies outside them; codes as `check_store`, and `file-damaged`.

    Raises:
        ConfigError: as the store's reads.
    """
    damage = [Finding("file-damaged", line) for line in await store.integrity()]
    report = await check_store(store)
    return Report(report.sessions, report.calls, (*damage, *report.findings))


async def check_store(store: CheckedReader) -> Report:
    """Check every session of a store.

    Codes as `check_session`; besides `sessions-unreadable`, and `calls-unreadable` of a session.

    Raises:
        ConfigError: as the store's reads.
    """
    try:
        sessions = await store.sessions(tuple(Phase))
    except ConfigError:
        raise
    except _UNREADABLE as error:
        return Report(0, 0, (Finding("sessions-unreadable", f"a session's row cannot be read: {error}"),))
    findings: list[Finding] = []
    calls = 0
    for stored in sessions:
        try:
            findings.extend(await check_session(store, stored))
        except _UNREADABLE as error:
            message = f"one of its calls cannot be read: {error}"
            findings.append(Finding("calls-unreadable", message, stored.facts.channel_id))
        calls += stored.state.admitted
    return Report(len(sessions), calls, tuple(findings))


async def check_session(
    store: CheckedReader, stored: StoredSession, *, signatures: bool = True
) -> list[Finding]:
    """Compute one session from its calls, and name what differs.

    Codes of a call: `call-out-of-place`, `request-not-canonical`, `leaf-mismatch`, `charge-mismatch`,
    `voucher-signature-invalid`, `envelope-missing`, `envelope-unexpected`, `envelope-out-of-chain`,
    `envelope-signature-invalid`. Of a session: `channel-id-mismatch`, `roster-mismatch`, `admitted-mismatch`,
    `frontier-mismatch`, `ahead-mismatch`, `spent-mismatch`, `reserved-mismatch`, `failures-mismatch`,
    `accepted-mismatch`, `heads-mismatch`.

    Args:
        store: where its calls lie.
        stored: the session.
        signatures: also check every call's voucher and envelope signatures; the session's accepted voucher
            is checked in any case.

    Raises:
        AioumError: `store-failed`.
    """
    check = _Check(stored, signatures=signatures)
    while not check.broken:
        page = await store.calls(stored.facts.channel_id, check.seen, _CALLS_PER_READ)
        if not page:
            break
        # Off the loop: a page may hold many megabytes to hash.
        await asyncio.to_thread(check.take, page)
    if not check.broken:
        check.finish()
    return check.findings


async def require_sound(
    store: CheckedReader, stored: StoredSession, contracts: ContractSignatures | None = None
) -> None:
    """Whether what is about to be anchored and captured follows from the stored requests and responses.

    Args:
        store: where the session's calls lie.
        stored: the session that the settlement was made from.
        contracts: asked about the accepted voucher where no plain key of the session signed it.

    Raises:
        AioumError: `store-corrupt`, details `findings`; `store-failed`.
        ChainError: the contract could not be asked.
    """
    findings = await check_session(store, stored, signatures=False)
    if contracts is not None and [finding.code for finding in findings] == [_VOUCHER_INVALID]:
        facts, state = stored.facts, stored.state
        digest = Voucher(facts.channel_id, state.accepted).digest(_domain(stored))
        if await contracts.is_valid_signature(facts.voucher_signer, digest, state.accepted_signature):
            return
    if findings:
        raise AioumError(
            f"the record of session {to_hex(stored.facts.channel_id)} contradicts itself: {findings[0]}",
            code="store-corrupt",
            hint="nothing was sent; stop the node, run aioum-node fsck and restore the store from a backup",
            details={"findings": [finding.to_json() for finding in findings]},
        )


def _domain(stored: StoredSession) -> Domain:
    return Domain(stored.facts.chain_id, stored.facts.payment_manager)


class _Check:
    """One session, computed again call by call."""

    def __init__(self, stored: StoredSession, *, signatures: bool) -> None:
        self.findings: list[Finding] = []
        self.seen = 0
        self.broken = False
        self._facts = stored.facts
        self._state = stored.state
        self._signatures = signatures
        self._domain = _domain(stored)
        self._frontier: Frontier = EMPTY_FRONTIER
        self._ahead: list[AheadLeaf] = []
        self._spent = self._reserved = self._failures = 0
        self._accepted, self._accepted_signature = 0, b""
        self._seats, self._keys = self._opening()

    def found(self, code: str, message: str, index: int | None = None) -> None:
        self.findings.append(Finding(code, message, self._facts.channel_id, index))

    def take(self, page: Sequence[Call]) -> None:
        """The next calls, in order."""
        for call in page:
            if call.index != self.seen:
                # The transcript has no gaps, so nothing after one could be placed.
                self.found("call-out-of-place", f"found where call {self.seen} belongs", call.index)
                self.broken = True
                return
            self._request(call)
            self._answer(call)
            self._voucher(call)
            self._envelope(call)
            self.seen += 1

    def finish(self) -> None:
        """Hold the sums against the session's account."""
        state = self._state
        for code, computed, kept in (
            ("admitted-mismatch", self.seen, state.admitted),
            ("spent-mismatch", self._spent, state.spent),
            ("reserved-mismatch", self._reserved, state.reserved),
            ("failures-mismatch", self._failures, state.failures),
            ("accepted-mismatch", self._accepted, state.accepted),
        ):
            if computed != kept:
                self.found(code, f"the account says {kept}, its calls give {computed}")
        if self._frontier != state.frontier:
            self.found("frontier-mismatch", "the calls' leaves give another root than the account's")
        if tuple(self._ahead) != state.ahead:
            self.found("ahead-mismatch", "the calls beyond the prefix are not those of the account")
        if self._seats != state.seats:
            self.found("heads-mismatch", "the envelopes give other heads than the account's")
        if self._accepted_signature != state.accepted_signature:
            self.found(
                "accepted-mismatch", "the accepted voucher's signature is not the one that came with it"
            )
        elif not self._signatures and state.accepted:
            # Where every voucher is checked, this one was among them.
            self._require_voucher(state.accepted, state.accepted_signature, None)

    def _opening(self) -> tuple[Seats, SeatKeys]:
        facts = self._facts
        # A plain channel's salt is not known here.
        if any(facts.terms_hash):
            salt = session_salt(facts.nonce, facts.terms_hash, facts.roster_hash)
            channel_id = compute_channel_id(
                facts.payer, facts.payee, facts.token, salt, facts.authorized_signer, self._domain
            )
            if channel_id != facts.channel_id:
                self.found("channel-id-mismatch", f"its facts give the channel {to_hex(channel_id)}")
        if facts.roster is None:
            return NO_SEATS, _NO_KEYS
        if facts.roster.hash != facts.roster_hash:
            self.found("roster-mismatch", f"the stored roster hashes to {to_hex(facts.roster.hash)}")
        try:
            keys = accepted_keys(facts.roster)
        except SignatureInvalid as error:
            self.found("roster-mismatch", str(error))
            keys = _NO_KEYS
        return Seats.at_genesis(facts.channel_id, facts.roster), keys

    def _request(self, call: Call) -> None:
        try:
            entry_from_json(
                {
                    "index": call.index,
                    "toolId": call.tool_id,
                    "request": call.request.decode(),
                    "response": "" if call.answer is None else call.answer.response.decode(),
                },
                call.index,
            )
        except UnicodeDecodeError as error:
            self.found("request-not-canonical", f"request or response is no text: {error.reason}", call.index)
        except InvalidInput as error:
            self.found("request-not-canonical", str(error), call.index)

    def _answer(self, call: Call) -> None:
        if call.answer is None:
            self._reserved += call.price
            return
        leaf = Bytes32(leaf_hash(call.index, call.request, call.answer.response, call.tool_id.encode()))
        if leaf != call.leaf:
            kept = "none" if call.leaf is None else to_hex(call.leaf)
            self.found("leaf-mismatch", f"the content gives {to_hex(leaf)}, stored is {kept}", call.index)
        charge = 0 if call.answer.failed else call.price
        if call.charge != charge:
            self.found("charge-mismatch", f"charged {call.charge}, due is {charge}", call.index)
        self._spent += charge
        self._failures += call.answer.failed
        if self._frontier.size == call.index:
            self._frontier = append_leaf(self._frontier, leaf)
        else:
            self._ahead.append(AheadLeaf(call.index, leaf, charge))

    def _voucher(self, call: Call) -> None:
        if call.amount > self._accepted:
            self._accepted, self._accepted_signature = call.amount, call.signature
        if self._signatures:
            self._require_voucher(call.amount, call.signature, call.index)

    def _require_voucher(self, amount: int, signature: bytes, index: int | None) -> None:
        digest = Voucher(self._facts.channel_id, amount).digest(self._domain)
        try:
            require_signer(digest, signature, self._facts.voucher_signer)
        except SignatureInvalid as error:
            self.found(_VOUCHER_INVALID, f"the voucher for {amount}: {error}", index)

    def _envelope(self, call: Call) -> None:
        envelope = call.envelope
        if envelope is None:
            if self._state.signed:
                self.found("envelope-missing", "a call of a signed session without its envelope", call.index)
            return
        if not self._state.signed:
            self.found("envelope-unexpected", "an envelope in a session without roster", call.index)
            return
        if self._seats.head(envelope.seat) != envelope.prev_head or envelope.cursor != call.index:
            message = f"the envelope does not continue what seat {envelope.seat} asked before"
            self.found("envelope-out-of-chain", message, call.index)
        try:
            submission = envelope.submission(self._facts.channel_id, call.request)
            self._seats = self._seats.after(submission)
            if self._signatures and (key := self._keys.get(envelope.seat)) is not None:
                submission.require_signed(envelope.signature, key)
        except (SignatureInvalid, InvalidInput) as error:
            self.found("envelope-signature-invalid", str(error), call.index)
