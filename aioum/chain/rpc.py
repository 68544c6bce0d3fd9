"""JSON-RPC over HTTP by web3, reduced to what aioum asks of a chain, with errors translated and time bounded.

web3 is imported when a connection is opened, not before: it costs more than half a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, Self, cast

from aioum.chain.abi import artifact
from aioum.chain.endpoints import EndpointState, PoolPolicy, urls_in
from aioum.chain.errors import ANSWERED_BY, translated
from aioum.chain.fees import Market
from aioum.chain.model import BlockRef
from aioum.core.errors import ChainError
from aioum.core.hextext import address_text, to_hex
from aioum.core.types import Address, Bytes32

BlockName = Literal["latest", "pending", "finalized"]
DEFAULT_REQUEST_TIMEOUT_SECONDS: Final = 10.0

# An idle connection may be closed by the peer at the moment of sending. Reads may be sent again; a raw
# transaction may not be, because only its sender knows what a second answer to it means.
_REPEATABLE: Final = (
    "eth_blockNumber",
    "eth_call",
    "eth_chainId",
    "eth_estimateGas",
    "eth_getBalance",
    "eth_getBlockByHash",
    "eth_getBlockByNumber",
    "eth_getCode",
    "eth_getLogs",
    "eth_getTransactionCount",
    "eth_getTransactionReceipt",
    "eth_maxPriorityFeePerGas",
)


class Rpc:
    """A connection to an endpoint, or to a pool of them. Use it in `async with`. Every request raises
    ChainError as `errors.translated`; a pool also `rpc-rate-limited`, `endpoint-lagging` and
    `endpoint-wrong-chain`.
    """

    def __init__(
        self,
        rpc_url: str,
        *,
        request_timeout_seconds: float = DEFAULT_REQUEST_TIMEOUT_SECONDS,
        chain_id: int | None = None,
        pool_policy: PoolPolicy | None = None,
    ) -> None:
        """Make a connection; nothing is asked yet.

        Args:
            rpc_url: the endpoint, or several ones of the same chain, separated by commas or spaces.
            request_timeout_seconds: for each request to one endpoint.
            chain_id: of several endpoints, those of other chains are left out; None: the first one's chain.
            pool_policy: of several endpoints, how patient to be with each.

        Raises:
            InvalidInput: `endpoint-missing`.
        """
        self._urls = urls_in(rpc_url)
        self.rpc_url = self._urls[0]
        self._chain_id = chain_id
        self._pool_policy = pool_policy
        self._request_timeout_seconds = request_timeout_seconds
        self._contracts: dict[tuple[str, Address], Any] = {}

    async def __aenter__(self) -> Self:
        from aiohttp import ClientSession, ClientTimeout, TCPConnector
        from web3 import AsyncWeb3

        from aioum.chain.pool import PoolProvider
        from aioum.chain.provider import SingleProvider

        timeout = ClientTimeout(total=self._request_timeout_seconds)
        self._session = ClientSession(timeout=timeout, connector=TCPConnector(limit=32))
        self._provider: PoolProvider | SingleProvider
        if len(self._urls) == 1:
            self._provider = SingleProvider(self.rpc_url, self._session, _REPEATABLE)
        else:
            self._provider = PoolProvider(
                self._urls, self._session, _REPEATABLE, chain_id=self._chain_id, policy=self._pool_policy
            )
        # A contract must not be able to make us fetch addresses of its choice (EIP-3668).
        self._provider.global_ccip_read_enabled = False
        self._web3 = AsyncWeb3(self._provider, middleware=[])
        self._eth = self._web3.eth
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    @property
    def endpoints(self) -> tuple[EndpointState, ...]:
        """What is known of each endpoint; a single one is not asked how far it is."""
        return self._provider.states()

    async def chain_id(self) -> int:
        """The chain's id."""
        with translated(self.rpc_url):
            return await self._eth.chain_id

    async def block(self, block: int | bytes | BlockName = "latest") -> BlockRef | None:
        """A block by number, hash or name; None where the endpoint does not know it."""
        from web3.exceptions import BlockNotFound

        with translated(self.rpc_url):
            try:
                found = await self._eth.get_block(cast(Any, block))
            except BlockNotFound:
                return None
            return BlockRef(found["number"], Bytes32(bytes(found["hash"])), found["timestamp"])

    async def code(self, at: Address, block: int | BlockName = "latest") -> bytes:
        """The code at an address; empty where there is none."""
        with translated(self.rpc_url):
            return bytes(await self._eth.get_code(_checksum(at), block))

    async def balance(self, of: Address, block: int | BlockName = "latest") -> int:
        """An account's balance, in wei."""
        with translated(self.rpc_url):
            return int(await self._eth.get_balance(_checksum(of), block))

    async def read(
        self, contract: str, at: Address, function: str, *args: Any, block: int | BlockName = "latest"
    ) -> Any:
        """Call a view function of one of our contracts; addresses come back as checksummed text, structs as
        tuples.

        Raises:
            ChainError: also `contract-missing`.
            ContractReverted: as `reverted`.
        """
        with translated(self.rpc_url):
            bound = self._contracts.get((contract, at))
            if bound is None:
                # Making one costs web3 several milliseconds.
                bound = self._eth.contract(address=_checksum(at), abi=artifact(contract).abi)
                self._contracts[contract, at] = bound
            return await bound.functions[function](*args).call(block_identifier=block)

    async def simulate(self, transaction: Mapping[str, Any], block: int | BlockName = "latest") -> bytes:
        """Run a call or, without `to`, a creation, and return its output; nothing is kept."""
        with translated(self.rpc_url):
            return bytes(await self._eth.call(cast(Any, transaction), block))

    async def logs(
        self, at: Address, from_block: int, to_block: int, topics: Sequence[str | None] = ()
    ) -> list[Mapping[str, Any]]:
        """Logs of a contract, both blocks included; the endpoint may refuse long ranges (`rpc-error`)."""
        query = {
            "address": _checksum(at),
            "fromBlock": from_block,
            "toBlock": to_block,
            "topics": list(topics),
        }
        with translated(self.rpc_url):
            return cast(list[Mapping[str, Any]], await self._eth.get_logs(cast(Any, query)))

    async def receipt(self, transaction_hash: bytes) -> Mapping[str, Any] | None:
        """The receipt, or None: the transaction is not mined as far as this endpoint knows."""
        from web3.exceptions import TransactionIndexingInProgress, TransactionNotFound

        with translated(self.rpc_url):
            try:
                return await self._eth.get_transaction_receipt(cast(Any, to_hex(transaction_hash)))
            except (TransactionNotFound, TransactionIndexingInProgress):
                return None

    async def transaction_count(self, account: Address, block: int | BlockName = "latest") -> int:
        """The next nonce of an account as of a block; `pending` counts the endpoint's own pool too."""
        with translated(self.rpc_url):
            return await self._eth.get_transaction_count(_checksum(account), block)

    async def estimate_gas(
        self, transaction: Mapping[str, Any], stand_ins: Mapping[Address, bytes] | None = None
    ) -> int:
        """Gas that the transaction would need on the newest state. Raises ContractReverted where it would
        fail.

        Args:
            transaction: what would be sent.
            stand_ins: code to take as lying at an address; not every endpoint does that (`rpc-error`).
        """
        state = {_checksum(at): {"code": to_hex(code)} for at, code in (stand_ins or {}).items()}
        with translated(self.rpc_url):
            return await self._eth.estimate_gas(cast(Any, transaction), None, cast(Any, state or None))

    async def market(self) -> Market:
        """What gas costs now."""
        with translated(self.rpc_url):
            base_fee = (await self._eth.get_block("latest")).get("baseFeePerGas")
            if base_fee is None:
                raise ChainError(
                    "the chain has no base fee (EIP-1559)", code="chain-unsupported", hint="use a newer chain"
                )
            return Market(int(base_fee), int(await self._eth.max_priority_fee))

    async def broadcast(self, raw_transaction: bytes) -> None:
        """Hand in a signed transaction, once: whatever goes wrong in between, it may have arrived.

        Raises:
            ChainError: `rpc-error` is a refusal; after any other code the outcome is unknown.
        """
        with translated(self.rpc_url):
            await self._eth.send_raw_transaction(raw_transaction)

    async def request(self, method: str, *params: Any) -> Any:
        """A request that web3 has no method for, such as a devnet's own.

        Raises:
            ChainError: also `rpc-error`.
        """
        from web3.types import RPCEndpoint

        with translated(self.rpc_url):
            answer = await self._provider.make_request(RPCEndpoint(method), list(params))
        if "error" in answer:
            facts = cast(Mapping[str, Any], answer["error"])
            asked = answer.get(ANSWERED_BY)
            raise ChainError(
                f"{method} was refused{f' by {asked}' if asked else ''}: {facts.get('message')}",
                code="rpc-error",
                details={"rpc_code": facts.get("code"), "rpc_message": facts.get("message")},
            )
        return answer["result"]


def _checksum(value: Address) -> Any:
    return address_text(value)
