"""Reading our contracts: everything a client, a node or a verifier asks of a chain, at one block if it
wants.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Self

from aioum.chain import erc1271
from aioum.chain.abi import (
    DEV_TOKEN,
    PAYMENT_MANAGER,
    SERVICE_REGISTRY,
    decode_event,
    event_topic,
    struct_values,
)
from aioum.chain.deployments import Deployment, Endpoint, stale
from aioum.chain.endpoints import PoolPolicy
from aioum.chain.events import ServiceRegistered, ServiceRetired, ServiceUpdated, SessionOpened
from aioum.chain.model import BlockRef, ChainEvent, ChainSession, Opening, RegisteredTerms, Service
from aioum.chain.payment_reads import service_registry_of
from aioum.chain.rpc import DEFAULT_REQUEST_TIMEOUT_SECONDS, BlockName, Rpc
from aioum.chain.scan import first_block_since, logs_between
from aioum.core.errors import ChainError, InvalidInput
from aioum.core.hashing import keccak256
from aioum.core.hextext import address_text, to_hex
from aioum.core.payment import Domain, Terms
from aioum.core.types import Address, Bytes32, ChannelId


class Chain:
    """One PaymentManager with its ServiceRegistry, read through one endpoint.

    Every method takes the state of the newest block, or of the block number given. All raise ChainError:
    `rpc-timeout`, `rpc-unreachable`, `rpc-error`, `rpc-response-invalid`, `contract-missing`,
    ContractReverted; where several endpoints are named also the codes of `Rpc`.

    Attributes:
        rpc: the connection itself.
        domain: the EIP-712 domain of vouchers and receipts.
        first_block: none of the contracts' events is older.
        deployment: what the connection was made from, if that was a deployments file.
    """

    def __init__(
        self,
        rpc: Rpc,
        chain_id: int,
        payment_manager: Address,
        service_registry: Address,
        *,
        first_block: int = 0,
        deployment: Deployment | None = None,
    ) -> None:
        self.rpc = rpc
        self.chain_id = chain_id
        self.payment_manager = payment_manager
        self.service_registry = service_registry
        self.domain = Domain(chain_id, payment_manager)
        self.first_block = first_block
        self.deployment = deployment

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        target: Deployment | Endpoint,
        *,
        rpc_url: str | None = None,
        request_timeout_seconds: float = DEFAULT_REQUEST_TIMEOUT_SECONDS,
        pool_policy: PoolPolicy | None = None,
    ) -> AsyncIterator[Self]:
        """Connect, and check that the chain is the one that is meant before anything is read from it.

        Args:
            target: a deployment, or addresses.
            rpc_url: another endpoint than the target's, or several ones, separated by commas or spaces.
            request_timeout_seconds: for each request.
            pool_policy: of several endpoints, how patient to be with each.

        Raises:
            ChainError: `deployment-stale`; for addresses `contract-missing`, or `domain-mismatch` where the
                contract would not accept our signatures.
        """
        if rpc_url is not None:
            target = replace(target, rpc_url=rpc_url)
        chain_id = target.chain_id if isinstance(target, Deployment) else None
        async with Rpc(
            target.rpc_url,
            request_timeout_seconds=request_timeout_seconds,
            chain_id=chain_id,
            pool_policy=pool_policy,
        ) as rpc:
            if isinstance(target, Deployment):
                yield await cls._of_deployment(rpc, target)
            else:
                yield await cls._of_addresses(rpc, target)

    @classmethod
    async def _of_deployment(cls, rpc: Rpc, deployment: Deployment) -> Self:
        await check_deployment(rpc, deployment)
        return cls(
            rpc,
            deployment.chain_id,
            deployment.payment_manager,
            deployment.service_registry,
            first_block=deployment.block_number,
            deployment=deployment,
        )

    @classmethod
    async def _of_addresses(cls, rpc: Rpc, endpoint: Endpoint) -> Self:
        chain_id = await rpc.chain_id()
        manager = endpoint.payment_manager
        separator = await rpc.read(PAYMENT_MANAGER, manager, "domainSeparator")
        if bytes(separator) != Domain(chain_id, manager).separator:
            raise ChainError(
                f"the contract at {address_text(manager)} signs under another domain than a PaymentManager "
                f"of chain {chain_id} does",
                code="domain-mismatch",
                hint="check the address; the contract may be another one",
            )
        registry = endpoint.service_registry
        if registry is None:
            registry = await service_registry_of(rpc, manager)
        return cls(rpc, chain_id, manager, registry, first_block=endpoint.first_block)

    async def head(self) -> BlockRef:
        """The newest block."""
        return await self._block("latest")

    async def block(self, number: int) -> BlockRef | None:
        """A block by number, or None."""
        return await self.rpc.block(number)

    async def block_at_depth(self, depth: int) -> BlockRef:
        """The newest block with at least `depth` confirmations. The head has one; the first block stands in
        for what would lie before it.

        Raises:
            InvalidInput: `depth-invalid` below 1.
        """
        if depth < 1:
            raise InvalidInput(f"a block has at least one confirmation, got {depth}", code="depth-invalid")
        head = await self.head()
        return head if depth == 1 else await self._block(max(0, head.number - depth + 1))

    async def session(self, channel_id: ChannelId, block: int | None = None) -> ChainSession | None:
        """A channel, or None where it was never opened here."""
        return _session(await self._manager("sessionOfChannel", channel_id, block=block))

    async def session_by_id(self, session_id: int, block: int | None = None) -> ChainSession | None:
        """A channel by its number; see `ChainSession.session_id`."""
        return _session(await self._manager("session", session_id, block=block))

    async def terms(self, terms_hash: Bytes32, block: int | None = None) -> RegisteredTerms | None:
        """Terms ever registered under this hash, or None."""
        service_id, values = await self._registry("terms", terms_hash, block=block)
        if service_id == 0:
            return None
        return RegisteredTerms(
            terms_hash, service_id, Terms(*struct_values(SERVICE_REGISTRY, "terms", 1, values))
        )

    async def service(self, service_id: int, block: int | None = None) -> Service | None:
        """A service that takes new sessions, or None where it is unknown or retired."""
        terms_hash = Bytes32(bytes(await self._registry("currentTerms", service_id, block=block)))
        if not any(terms_hash):
            return None
        last = block if block is not None else (await self.head()).number
        uri = ""
        async for event in self._registry_events(last, service_id):
            if not isinstance(event, ServiceRetired):
                uri = event.descriptor_uri
        return await self._service(service_id, terms_hash, uri, block)

    async def services(self, block: int | None = None) -> list[Service]:
        """All services that take new sessions, by id."""
        last = block if block is not None else (await self.head()).number
        current: dict[int, tuple[Bytes32, str]] = {}
        async for event in self._registry_events(last):
            if isinstance(event, ServiceRetired):
                current.pop(event.service_id, None)
            else:
                current[event.service_id] = (event.terms_hash, event.descriptor_uri)
        return [
            await self._service(service_id, terms_hash, uri, last)
            for service_id, (terms_hash, uri) in sorted(current.items())
        ]

    async def opening(self, transaction_hash: Bytes32, channel_id: ChannelId | None = None) -> Opening | None:
        """The opening of a session in this transaction; None where it is not mined, failed, or opened none.

        Args:
            transaction_hash: 32 bytes.
            channel_id: which one, where a transaction opens several; None: the first.
        """
        receipt = await self.rpc.receipt(transaction_hash)
        if receipt is None or receipt["status"] != 1:
            return None
        for event in self.decode(receipt["logs"]):
            opened = event.body
            if isinstance(opened, SessionOpened) and channel_id in (None, opened.channel_id):
                return await self._opening(event, opened)
        return None

    async def find_opening(self, channel_id: ChannelId) -> Opening | None:
        """The opening of a session by its channel id; None where it is unknown, or a plain channel."""
        session = await self.session(channel_id)
        if session is None:
            return None
        head = (await self.head()).number
        # The session's own opening time leads to its block in a few dozen requests, however long the chain
        # is.
        first = await first_block_since(self.rpc, session.opened_at, self.first_block, head)
        last = await first_block_since(self.rpc, session.opened_at + 1, first, head) - 1
        topics = [to_hex(event_topic(PAYMENT_MANAGER, "SessionOpened")), None, to_hex(channel_id)]
        async for log in logs_between(self.rpc, self.payment_manager, first, last, topics):
            for event in self.decode([log]):
                if isinstance(event.body, SessionOpened):
                    return await self._opening(event, event.body)
        return None

    async def events(
        self, from_block: int, to_block: int, channel_id: ChannelId | None = None
    ) -> list[ChainEvent]:
        """The PaymentManager's events in order, both blocks included, or only those about one channel;
        fetched in bounded ranges.
        """
        found = [
            event
            async for log in logs_between(self.rpc, self.payment_manager, from_block, to_block)
            for event in self.decode([log])
        ]
        return found if channel_id is None else [event for event in found if event.channel_id == channel_id]

    async def code(self, at: Address, block: int | None = None) -> bytes:
        """The code at an address; empty where there is none."""
        return await self.rpc.code(at, _at(block))

    async def is_valid_signature(
        self, signer: Address, digest: bytes, signature: bytes, block: int | None = None
    ) -> bool:
        """Whether the contract at `signer` accepts the signature by ERC-1271, asked as the PaymentManager
        asks.

        False where there is no code, also where it reverts or runs out of its 150,000 gas. An ECDSA signature
        of `signer` itself is not looked at: check that first (PROTOCOL 3).
        """
        if len(signature) > erc1271.MAX_SIGNATURE_SIZE_BYTES:
            return False
        question = {
            "data": to_hex(erc1271.question(signer, digest, signature)),
            "gas": erc1271.QUESTION_GAS + 50 * len(signature),
        }
        return erc1271.is_yes(await self.rpc.simulate(question, _at(block)))

    async def is_voucher_valid(
        self, channel_id: ChannelId, cumulative_amount: int, signature: bytes, block: int | None = None
    ) -> bool:
        """Whether the PaymentManager would take the signature for this amount; says nothing about the
        deposit.
        """
        return bool(
            await self._manager("isVoucherValid", channel_id, cumulative_amount, signature, block=block)
        )

    async def native_balance(self, owner: Address, block: int | None = None) -> int:
        """An account's balance for gas, in wei."""
        return await self.rpc.balance(owner, _at(block))

    async def token_balance(self, token: Address, owner: Address, block: int | None = None) -> int:
        """An account's balance in base units of a token."""
        return int(await self._token(token, "balanceOf", owner, block=block))

    async def token_allowance(
        self, token: Address, owner: Address, spender: Address, block: int | None = None
    ) -> int:
        """What `spender` may pull from `owner`, in base units."""
        return int(await self._token(token, "allowance", owner, spender, block=block))

    async def token_decimals(self, token: Address) -> int:
        """Decimal places of a token."""
        return int(await self._token(token, "decimals"))

    async def token_symbol(self, token: Address) -> str:
        """A token's symbol, as it calls itself: never a proof of which token it is."""
        return str(await self._token(token, "symbol"))

    async def credit(self, token: Address, owner: Address, block: int | None = None) -> int:
        """Base units that `owner` can pull with claimCredit."""
        return int(await self._manager("credits", token, owner, block=block))

    async def grace_period_seconds(self) -> int:
        """Seconds between a payer's requestClose and its withdraw."""
        return int(await self._manager("gracePeriodSeconds"))

    async def domain_separator(self) -> Bytes32:
        """The PaymentManager's own domain separator; equal to `domain.separator`."""
        return Bytes32(bytes(await self._manager("domainSeparator")))

    def decode(self, logs: list[Mapping[str, Any]]) -> list[ChainEvent]:
        """Decode those of the logs that our two contracts emitted; others are left out."""
        ours = (self.payment_manager, self.service_registry)
        return [event for log in logs if (event := decode_event(log)) is not None and event.contract in ours]

    async def _block(self, block: int | BlockName) -> BlockRef:
        found = await self.rpc.block(block)
        if found is None:
            raise ChainError(f"the endpoint does not know block {block}", code="block-missing")
        return found

    async def _service(self, service_id: int, terms_hash: Bytes32, uri: str, block: int | None) -> Service:
        registered = await self.terms(terms_hash, block)
        if registered is None:
            raise ChainError(
                f"the registry has no terms {to_hex(terms_hash)} of its service {service_id}",
                code="rpc-response-invalid",
            )
        return Service(service_id, terms_hash, registered.terms, uri)

    async def _registry_events(
        self, last: int, service_id: int | None = None
    ) -> AsyncIterator[ServiceRegistered | ServiceUpdated | ServiceRetired]:
        topics = [] if service_id is None else [None, to_hex(service_id.to_bytes(32, "big"))]
        async for log in logs_between(self.rpc, self.service_registry, self.first_block, last, topics):
            for event in self.decode([log]):
                if isinstance(event.body, ServiceRegistered | ServiceUpdated | ServiceRetired):
                    yield event.body

    async def _opening(self, event: ChainEvent, opened: SessionOpened) -> Opening:
        block = await self.rpc.block(event.block_hash)
        if block is None:
            raise ChainError(f"block {event.block_number} was reorganized away", code="block-missing")
        return Opening(
            session_id=opened.session_id,
            channel_id=opened.channel_id,
            payer=opened.payer,
            payee=opened.payee,
            token=opened.token,
            authorized_signer=opened.authorized_signer,
            service_id=opened.service_id,
            terms_hash=opened.terms_hash,
            deposit=opened.deposit,
            nonce=opened.nonce,
            roster_hash=opened.roster_hash,
            block=block,
            transaction_hash=event.transaction_hash,
        )

    async def _manager(self, function: str, *args: Any, block: int | None = None) -> Any:
        return await self.rpc.read(PAYMENT_MANAGER, self.payment_manager, function, *args, block=_at(block))

    async def _registry(self, function: str, *args: Any, block: int | None = None) -> Any:
        return await self.rpc.read(SERVICE_REGISTRY, self.service_registry, function, *args, block=_at(block))

    async def _token(self, token: Address, function: str, *args: Any, block: int | None = None) -> Any:
        return await self.rpc.read(DEV_TOKEN, token, function, *args, block=_at(block))


async def check_deployment(rpc: Rpc, deployment: Deployment) -> None:
    """Check that the chain behind `rpc` is the one that the deployments file was written for.

    Raises:
        ChainError: `deployment-stale`.
    """
    chain_id = await rpc.chain_id()
    if chain_id != deployment.chain_id:
        raise stale(f"it is for chain {deployment.chain_id}", {"chain_id": chain_id})
    block = await rpc.block(deployment.block_number)
    if block is None or block.hash != deployment.block_hash:
        raise stale(
            f"block {deployment.block_number} of the chain is another one",
            {
                "block_number": deployment.block_number,
                "block_hash": None if block is None else to_hex(block.hash),
            },
        )
    for at, expected in deployment.code_hashes.items():
        if keccak256(await rpc.code(at)) != expected:
            raise stale(f"the code at {address_text(at)} is another one", {"address": address_text(at)})


def _at(block: int | None) -> int | BlockName:
    return "latest" if block is None else block


def _session(values: tuple[Any, ...]) -> ChainSession | None:
    session = ChainSession(*struct_values(PAYMENT_MANAGER, "session", 0, values))
    return session if session.session_id else None
