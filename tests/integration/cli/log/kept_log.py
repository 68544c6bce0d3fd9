"""An operator that keeps its log by hand, so that it can also keep it wrongly."""

import asyncio
import json
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aioum.chain import anchors, calls
from aioum.chain.client import Chain
from aioum.chain.model import Mined
from aioum.cli.main import main
from aioum.core.hextext import address_text
from aioum.core.payment import Voucher, compute_channel_id, session_salt
from aioum.core.submission.framing import encode_base64
from aioum.core.submission.keys import SubmissionKey
from aioum.core.types import Address, Bytes32, ChannelId
from aioum.devnet.running import RunningDevnet, running_devnet
from aioum.log.checkpoint import Checkpoint, sign_checkpoint
from aioum.log.entry import SessionEntry
from aioum.log.files import LogFolder
from aioum.log.static import show
from tests.integration.conftest import FundedAccount, RegisteredService

ORIGIN = "operator.example/log"
KEY = SubmissionKey(b"\x07" * 32)
CAPTURED = 7_000


@contextmanager
def devnet_of_its_own(folder: Path) -> Iterator[RunningDevnet]:
    """A devnet for one module."""
    with asyncio.Runner() as runner:
        running = running_devnet(folder)
        started = runner.run(running.__aenter__())
        try:
            yield started
        finally:
            runner.run(running.__aexit__(None, None, None))


@dataclass
class KeptLog:
    """A log folder, and the sessions that belong in it.

    Attributes:
        folder: with the log.
        sessions: what was settled, as the log has to say it, in order.
    """

    chain: Chain
    payer: FundedAccount
    service: RegisteredService
    folder: Path
    sessions: list[SessionEntry] = field(default_factory=list)

    @property
    def operator(self) -> str:
        """The operator's address."""
        return address_text(self.service.operator.key.address)

    async def settle(self, count: int = 1) -> list[SessionEntry]:
        """Open and settle sessions; the log knows nothing of them yet."""
        settled = [
            await self.close(await self.open(), Bytes32(secrets.token_bytes(32))) for _ in range(count)
        ]
        self.sessions += settled
        return settled

    def append(self, entries: Sequence[SessionEntry | bytes], folder: Path | None = None) -> bytes:
        """Append entries and publish, whoever may have seen what before; the signed checkpoint."""
        with LogFolder.open(folder or self.folder, ORIGIN) as log:
            log.append([entry if isinstance(entry, bytes) else entry.to_bytes() for entry in entries])
            note = sign_checkpoint(Checkpoint(ORIGIN, log.size, log.tree.root()), KEY)
            show(log, log.size, note)
            return note

    def rewrite(self, entries: Sequence[SessionEntry | bytes]) -> bytes:
        """Put another history in the place of the log."""
        shutil.rmtree(self.folder)
        return self.append(entries)

    async def anchor(self, size: int | None = None, proof: Sequence[bytes] | None = None) -> Mined:
        """Anchor the log's first `size` entries, with the right proof or another one."""
        assert self.chain.deployment is not None
        log_anchor = self.chain.deployment.log_anchor
        assert log_anchor is not None
        operator = self.service.operator
        last = await anchors.anchored(self.chain.rpc, log_anchor, operator.key.address, ORIGIN)
        with LogFolder.open(self.folder, ORIGIN) as log:
            upto = log.size if size is None else size
            root = Bytes32(log.tree.root(upto))
            if proof is None:
                proof = [] if last is None or last.size >= upto else log.tree.consistency(last.size, upto)
        return await operator.sender.send(anchors.anchor(log_anchor, ORIGIN, upto, root, proof), "anchor")

    def named(self, *places: Path) -> list[str]:
        """The options that name the log."""
        return [
            "--operator", self.operator, "--origin", ORIGIN, "--public-key",
            encode_base64(KEY.public_key), "--log", str(*(places or (self.folder,))),
        ]  # fmt: skip

    def channel_of(self, nonce: Bytes32) -> ChannelId:
        """The channel that `open` will open with a nonce."""
        service, payer = self.service.service, self.payer.key.address
        terms, no_roster = service.terms, Bytes32(bytes(32))
        salt = session_salt(nonce, service.terms_hash, no_roster)
        return compute_channel_id(
            payer, terms.payee, terms.token, salt, Address(bytes(20)), self.chain.domain
        )

    async def open(self, nonce: Bytes32 | None = None) -> ChannelId:
        """Open a session."""
        chain, service = self.chain, self.service.service
        opened = await self.payer.sender.send(
            calls.open_session(
                chain.payment_manager,
                service_id=service.service_id,
                terms_hash=service.terms_hash,
                deposit=CAPTURED,
                nonce=nonce or Bytes32(secrets.token_bytes(32)),
            ),
            "open",
        )
        channel_id = opened.events[0].channel_id
        assert channel_id is not None
        return channel_id

    async def close(self, channel_id: ChannelId, root: Bytes32) -> SessionEntry:
        """Settle a session, with its whole deposit captured for 7 calls."""
        chain = self.chain
        signature = await self.payer.signer.sign(Voucher(channel_id, CAPTURED), chain.domain)
        settlement = calls.Settlement(channel_id, CAPTURED, CAPTURED, 7, root, signature)
        settling = calls.settle_session(chain.payment_manager, settlement)
        await self.service.operator.sender.send(settling, "settle")
        return await entry_of(chain, channel_id)


async def entry_of(chain: Chain, channel_id: ChannelId) -> SessionEntry:
    """What a log has to say of a session."""
    session = await chain.session(channel_id)
    assert session is not None
    return SessionEntry(
        chain_id=chain.chain_id,
        payment_manager=chain.payment_manager,
        channel_id=channel_id,
        session_id=session.session_id,
        call_count=session.call_count,
        captured=session.settled,
        results_root=session.root,
    )


@dataclass(frozen=True)
class Command:
    """`aioum log …` in this process, which is quicker than in one of its own; for another thread than the
    event loop's.
    """

    capsys: pytest.CaptureFixture[str]
    deployment_file: Path
    data_dir: Path

    def run(self, *arguments: str, expect: int = 0) -> tuple[str, str]:
        """What the command prints on standard output and error; its exit code must be `expect`."""
        common = ["--deployment", str(self.deployment_file), "--data-dir", str(self.data_dir)]
        self.capsys.readouterr()
        code = main(["log", *arguments, *common])
        out, err = self.capsys.readouterr()
        assert code == expect, (arguments, out, err)
        return out, err

    def lines(self, *arguments: str, expect: int = 0) -> list[str]:
        """What the command prints on standard output."""
        return self.run(*arguments, expect=expect)[0].splitlines()

    def error(self, *arguments: str, expect: int = 1) -> str:
        """The code of the error that the command ends with."""
        out, err = self.run(*arguments, expect=expect)
        assert out == ""
        (code,) = re.findall(r"^error: .*\[([a-z-]+)\]$", err, re.MULTILINE)
        return str(code)

    def json(self, *arguments: str, expect: int = 0) -> Any:
        """The object that the command prints."""
        (line,) = self.lines(*arguments, "--json", expect=expect)
        return json.loads(line)

    def codes(self, *arguments: str, expect: int) -> list[str]:
        """The codes of all remarks."""
        return [remark["code"] for remark in self.json(*arguments, expect=expect)["remarks"]]
