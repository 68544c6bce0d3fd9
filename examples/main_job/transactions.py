"""Everything that was sent on the demo's chain, with its gas."""

from __future__ import annotations

from aioum.chain.abi import artifact, canonical_type
from aioum.chain.rpc import Rpc
from aioum.core.hashing import keccak256
from aioum.core.hextext import from_hex
from aioum.devnet.running import RunningDevnet
from examples.main_job.show import Transaction

_CONTRACTS = ("ServiceRegistry", "PaymentManager", "DevToken")


async def newest_block(devnet: RunningDevnet) -> int:
    """Number of the newest block."""
    async with Rpc(devnet.rpc_url) as rpc:
        return int(await rpc.request("eth_blockNumber"), 16)


async def transactions_since(devnet: RunningDevnet, block_number: int) -> list[Transaction]:
    """The transactions after that block, in order."""
    functions = _functions()
    found = []
    async with Rpc(devnet.rpc_url) as rpc:
        newest = int(await rpc.request("eth_blockNumber"), 16)
        for number in range(block_number + 1, newest + 1):
            block = await rpc.request("eth_getBlockByNumber", hex(number), True)
            for sent in block["transactions"]:
                receipt = await rpc.request("eth_getTransactionReceipt", sent["hash"])
                what = functions.get(sent["input"][:10], "transfer")
                outcome = "" if int(receipt["status"], 16) else " (reverted)"
                found.append(Transaction(what + outcome, int(receipt["gasUsed"], 16), from_hex(sent["hash"])))
    return found


def _functions() -> dict[str, str]:
    names = {}
    for contract in _CONTRACTS:
        for entry in artifact(contract).abi:
            if entry["type"] == "function":
                signature = f"{entry['name']}({','.join(map(canonical_type, entry['inputs']))})"
                names["0x" + keccak256(signature.encode())[:4].hex()] = f"{contract}.{entry['name']}"
    return names
