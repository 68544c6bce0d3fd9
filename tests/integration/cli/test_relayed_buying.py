"""Buying with a key that has tokens and no gas, through the installed commands."""

import secrets
from pathlib import Path

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.core.hextext import to_hex
from aioum.core.signing import LocalKey
from aioum.devnet.running import RunningDevnet
from tests.integration.cli.conftest import Shell
from tests.integration.conftest import FundedAccount


def write_key(path: Path, key: LocalKey) -> str:
    path.touch(mode=0o600)
    path.write_text(to_hex(key.secret_bytes()))
    return str(path)


async def test_a_relayer_sends_opening_and_top_up_of_a_key_without_gas(
    shell: Shell,
    node: dict[str, str],
    devnet: RunningDevnet,
    chain: Chain,
    payer: FundedAccount,
    tmp_path: Path,
) -> None:
    poor = LocalKey(secrets.token_bytes(32))
    await payer.sender.send(calls.mint(devnet.token, poor.address, 1_000_000), "mint")
    del shell.environment["AIOUM_DEVNET_ACCOUNT"]
    shell.environment["AIOUM_KEY_FILE"] = write_key(tmp_path / "poor", poor)
    relayed = ("--relayer-key-file", write_key(tmp_path / "relayer", payer.key))

    buying = ("call", node["serviceId"], "repeat", "--arg", "text=a")
    assert shell.code(*buying) == "transaction-refused"
    opened = shell.json(*buying, "--keep-open", *relayed)
    assert (opened["response"], opened["deposit"]) == ("a", "250000")
    topped = shell.json("session", "top-up", opened["channelId"], "0.5", *relayed)
    assert topped == {"channelId": opened["channelId"], "deposit": "750000"}
    closed = shell.json("session", "close", opened["channelId"])
    assert (closed["captured"], closed["refunded"]) == ("250000", "500000")
    assert await chain.token_balance(devnet.token, poor.address) == 750_000
    assert await chain.native_balance(poor.address) == 0
