"""The chain as verification sees it: one PaymentManager at one block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aioum.chain.model import BlockRef, ChainSession, RegisteredTerms
from aioum.core.errors import ChainError
from aioum.core.hextext import to_hex
from aioum.core.types import Address, Bytes32, ChannelId

if TYPE_CHECKING:
    from aioum.chain.client import Chain


@dataclass(frozen=True, slots=True)
class BlockView:
    """A `ChainView` over a connected chain. Every answer is that of `block`."""

    chain: Chain
    block: BlockRef

    @classmethod
    async def at_head(cls, chain: Chain) -> BlockView:
        """The view at the newest block. Raises ChainError."""
        return cls(chain, await chain.head())

    @property
    def chain_id(self) -> int:
        """See `ChainView`."""
        return self.chain.chain_id

    @property
    def payment_manager(self) -> Address:
        """See `ChainView`."""
        return self.chain.payment_manager

    async def session(self, channel_id: ChannelId) -> ChainSession | None:
        """See `ChainView`."""
        return await self.chain.session(channel_id, self.block.number)

    async def session_by_id(self, session_id: int) -> ChainSession | None:
        """See `ChainView`."""
        return await self.chain.session_by_id(session_id, self.block.number)

    async def terms(self, terms_hash: Bytes32) -> RegisteredTerms | None:
        """See `ChainView`."""
        return await self.chain.terms(terms_hash, self.block.number)

    async def has_code(self, account: Address) -> bool:
        """See `ChainView`."""
        return bool(await self.chain.code(account, self.block.number))

    async def is_valid_signature(self, account: Address, digest: bytes, signature: bytes) -> bool:
        """See `ChainView`."""
        return await self.chain.is_valid_signature(account, digest, signature, self.block.number)

    async def require_unchanged(self) -> None:
        """Make sure, after the last read, that all answers came from the block that a report will name.

        Reads go by number: a reorganization in between would mix two histories.

        Raises:
            ChainError: `block-reorganized`.
        """
        now = await self.chain.block(self.block.number)
        if now is None or now.hash != self.block.hash:
            raise ChainError(
                f"block {self.block.number} {to_hex(self.block.hash)} was reorganized away meanwhile",
                code="block-reorganized",
                hint="run it again",
            )
