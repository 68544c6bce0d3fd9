"""An operator's log on a real chain: sessions that end by hand, and loops that keep the log, one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_bytes

from aioum.chain import calls
from aioum.chain.calls import Settlement
from aioum.chain.client import Chain
from aioum.chain.sender import Sender
from aioum.core.payment import Voucher
from aioum.core.types import Address, Bytes32, ChannelId
from aioum.log.checkpoint import Checkpoint, read_checkpoint
from aioum.log.files import published_note
from aioum.log.publish import CheckpointRegister, FileRegister
from aioum.run.keys import Ed25519Key
from aioum_node.log.anchoring import Anchoring
from aioum_node.log.identity import LogIdentity
from aioum_node.log.loop import LogLoop
from aioum_node.log.reader import LogReader
from tests.integration.conftest import FundedAccount, RegisteredService
from tests.integration.node.books import open_session

ORIGIN = "operator.example/log"
IDENTITY = LogIdentity(ORIGIN, Ed25519Key(b"\x07" * 32))


@dataclass
class Told:
    """A `LogObserver` and a clock that a test moves, in seconds."""

    logged: int = 0
    anchors: list[int] = field(default_factory=list)
    gas: list[int] = field(default_factory=list)
    alerts: list[str] = field(default_factory=list)
    seconds: float = 0.0
    visible: int = 0

    def sessions_logged(self, count: int) -> None:
        self.logged += count

    def anchored(self, size: int, gas_used: int) -> None:
        self.anchors.append(size)
        self.gas.append(gas_used)

    def log_alert(self, code: str) -> None:
        self.alerts.append(code)

    def note_visible(self) -> None:
        self.visible += 1

    def monotonic(self) -> float:
        return self.seconds


@dataclass(frozen=True)
class Keeper:
    """One process that keeps the log."""

    folder: Path
    loop: LogLoop
    anchoring: Anchoring
    told: Told

    async def shows(self, channel_id: ChannelId) -> bool:
        """Whether everybody can see that a session is in the log."""
        return await LogReader(self.folder).membership(channel_id) is not None

    async def keep(self) -> None:
        """A round, and then an anchor, which is due whenever the log has grown."""
        await self.loop.run_once()
        await self.anchoring.look()


@asynccontextmanager
async def keeping(
    operator: FundedAccount,
    folder: Path,
    *,
    identity: LogIdentity = IDENTITY,
    register: CheckpointRegister | None = None,
    sender: Sender | None = None,
    told: Told | None = None,
    confirmations: int = 1,
) -> AsyncIterator[Keeper]:
    """One process that keeps the log of `folder`."""
    sends = sender or operator.sender
    told = told or Told()
    anchoring = Anchoring(
        identity,
        folder,
        log_anchor_of(sends.chain),
        sends,
        interval_seconds=0,
        may_send=lambda: True,
        monotonic=told.monotonic,
        observer=told,
    )
    loop = LogLoop(
        path=folder,
        identity=identity,
        register=register or FileRegister(folder.with_name(f"{folder.name}.register")),
        chain=sends.chain,
        operator=operator.key.address,
        confirmations=confirmations,
        interval_seconds=60,
        max_delay_seconds=3_600,
        anchoring=anchoring,
        monotonic=told.monotonic,
        on_visible=told.note_visible,
        observer=told,
    )
    try:
        yield Keeper(folder, loop, anchoring, told)
    finally:
        await loop.close()


def log_anchor_of(chain: Chain) -> Address:
    """The devnet's LogAnchor."""
    assert chain.deployment is not None
    assert chain.deployment.log_anchor is not None
    return chain.deployment.log_anchor


async def settled(payer: FundedAccount, registered: RegisteredService, *, captured: int = 7_000) -> ChannelId:
    """A session with seven calls, or with none, that the operator settled."""
    opening = await open_session(payer.sender, registered.service)
    channel_id = opening.channel_id
    chain = payer.sender.chain
    signature = payer.key.sign_digest(Voucher(channel_id, captured).digest(chain.domain))
    settlement = (
        Settlement(channel_id, captured, captured, 7, Bytes32(token_bytes(32)), signature)
        if captured
        else Settlement(channel_id, 0, 0, 0, Bytes32(bytes(32)), b"")
    )
    await registered.operator.sender.send(calls.settle_session(chain.payment_manager, settlement), "settle")
    return channel_id


def shown(folder: Path, identity: LogIdentity = IDENTITY) -> Checkpoint:
    """What the log shows to everybody."""
    note = published_note(folder)
    assert note is not None
    return read_checkpoint(note, identity.origin, identity.key.public_key)
