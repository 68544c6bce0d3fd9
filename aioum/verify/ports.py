"""What verification needs from outside, handed in: chain facts at one block, a re-executor."""

from __future__ import annotations

from typing import Protocol

from aioum.chain.model import BlockRef, ChainSession, RegisteredTerms
from aioum.core.errors import AioumError
from aioum.core.types import Address, Bytes32, ChannelId


class ChainView(Protocol):
    """One PaymentManager on one chain, read at one block. Nothing is written."""

    @property
    def chain_id(self) -> int:
        """The chain's id."""
        ...

    @property
    def payment_manager(self) -> Address:
        """The contract that sessions are read from."""
        ...

    @property
    def block(self) -> BlockRef:
        """The block of every answer."""
        ...

    async def session(self, channel_id: ChannelId) -> ChainSession | None:
        """The session of a channel, or None."""
        ...

    async def session_by_id(self, session_id: int) -> ChainSession | None:
        """The session with this label, or None."""
        ...

    async def terms(self, terms_hash: Bytes32) -> RegisteredTerms | None:
        """The terms registered under a hash, or None."""
        ...

    async def has_code(self, account: Address) -> bool:
        """Whether a contract lives at the address."""
        ...

    async def is_valid_signature(self, account: Address, digest: bytes, signature: bytes) -> bool:
        """Whether the contract at `account` accepts the signature (ERC-1271)."""
        ...


class ReExecutor(Protocol):
    """Runs a deterministic service again."""

    async def run(self, request: bytes, *, max_output_bytes: int) -> bytes:
        """The response to a canonical request.

        Args:
            request: UTF-8 of the transcript's request.
            max_output_bytes: longest output of interest; of a longer one the first max_output_bytes + 1 bytes
                are returned.

        Raises:
            ReExecutionFailed: there is no response to compare.
            ConfigError: `re-execution-not-started`, the re-executor cannot run at all.
        """
        ...


class ReExecutionFailed(AioumError):
    """The re-executor gave no response: `re-execution-timeout` or `re-execution-command-failed`."""

    default_code = "re-execution-command-failed"
