"""What verification needs from outside, handed in: chain facts at one block, a re-executor."""

from __future__ import annotations

from typing import Protocol

from aioum.chain.model import BlockRef, ChainSession, RegisteredTerms
from aioum.core.card import Deterministic
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


class Program(Protocol):
    """A program that stands for a deterministic service."""

    @property
    def digest(self) -> str | None:
        """Lower-case hex SHA-256 of the program where it is the very one that the card pins, else None."""
        ...

    async def run(self, request: bytes, *, max_output_bytes: int) -> bytes:
        """The response to a canonical request.

        Args:
            request: UTF-8 of the transcript's request.
            max_output_bytes: longest output of interest; of a longer one the first max_output_bytes + 1 bytes
                are returned.

        Raises:
            ReExecutionFailed: there is no response to compare.
            NoResponse: the pinned program gives no response to this request, wherever it is run.
            ConfigError: `re-execution-not-started`, the program cannot run at all.
        """
        ...


class ReExecutor(Protocol):
    """Runs a deterministic service again."""

    async def program(self, declared: Deterministic) -> Program:
        """What to run for a service.

        Args:
            declared: how the card under the session's terms says the service is re-executed.

        Raises:
            ReExecutionFailed: there is no such program here; the code says why.
        """
        ...


class ReExecutionFailed(AioumError):
    """A re-executor gave no response, which says nothing about the recorded one.

    `re-execution-timeout`, `re-execution-command-failed`, `re-execution-kind-unsupported`, or a `wasm-` code.
    """

    default_code = "re-execution-command-failed"


class NoResponse(AioumError):
    """A pinned program ends without a response: the recorded one cannot be its."""

    default_code = "re-execution-diverged"
