"""The operator's package of a session, read as a stranger reads it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aioum.chain.client import Chain
from aioum.core.canonical import JsonValue, canonical_bytes
from aioum.core.errors import AioumError
from aioum.core.evidence import package_bytes
from aioum.core.evidence_reading import parse_package
from aioum.core.hextext import address_text, from_hex, to_hex
from aioum.core.payment import CallReceipt, Domain, SignedMessage, Statement, Voucher
from aioum.core.signing import require_signer
from aioum.core.transcript import frontier_root
from aioum.core.types import Bytes32, ChannelId
from aioum_node.export import assemble, export_package, find_session
from aioum_node.store.reader import SqliteReader
from aioum_node.store.sqlite import STORE_FILE
from tests.integration.conftest import FundedAccount, RegisteredService
from tests.integration.node.books import PRICE, Books, open_session, opened_books
from tests.unit.node.store.samples import facts, opened


async def sell(
    books: Books, payer: FundedAccount, registered_service: RegisteredService, chain: Chain
) -> ChannelId:
    service = registered_service.service
    channel_id = await books.adopt(await open_session(payer.sender, service), service)
    for index in range(4):
        await books.call(payer.key, channel_id, fails=index == 1)
    contracts: JsonValue = {
        "chainId": chain.chain_id,
        "paymentManager": address_text(chain.payment_manager),
        "serviceRegistry": address_text(chain.service_registry),
    }
    operator = address_text(service.terms.operator)
    card: JsonValue = {
        "name": "test",
        "operator": operator,
        "contracts": contracts,
        "token": {"address": address_text(service.terms.token), "symbol": "aUSD", "decimals": 6},
        "tools": [{"id": "echo", "price": str(PRICE)}],
        "receiptSigner": operator,
    }
    await books.store.put_card(service.terms.descriptor_hash, canonical_bytes(card))
    return channel_id


async def export(session: str, folder: Path) -> Any:
    return await asyncio.to_thread(
        export_package, session=session, node_dir=folder, claim="quality", narrative="as it was"
    )


async def refused(session: str, folder: Path) -> AioumError:
    with pytest.raises(AioumError) as caught:
        await export(session, folder)
    return caught.value


async def test_the_package_of_a_running_nodes_session_holds_all_that_the_node_knows(
    chain: Chain, payer: FundedAccount, registered_service: RegisteredService, tmp_path: Path
) -> None:
    async with opened_books(chain, registered_service.operator.key, tmp_path) as books:
        channel_id = await sell(books, payer, registered_service, chain)
        stored = await books.stored(channel_id)
        by_channel = await export(to_hex(channel_id), tmp_path)
        by_number = await export(str(stored.facts.session_id), tmp_path)
    assert by_channel == by_number
    package = parse_package(package_bytes(by_channel))
    assert by_channel["formatVersion"] == 1
    assert by_channel["channelId"] == to_hex(channel_id)
    assert by_channel["resultsRoot"] == to_hex(frontier_root(stored.state.frontier))
    assert [entry["index"] for entry in by_channel["calls"]] == [0, 1, 2, 3]
    # The failed call's voucher is there too: each call came with an amount of its own.
    amounts = [int(voucher["cumulativeAmount"]) for voucher in by_channel["vouchers"]]
    assert amounts == sorted(set(amounts))
    assert len(amounts) == 4
    for voucher, amount in zip(by_channel["vouchers"], amounts, strict=True):
        digest = Voucher(channel_id, amount).digest(chain.domain)
        require_signer(digest, from_hex(voucher["signature"]), payer.key.address)
    assert package.terms is not None
    assert package.terms.terms_hash(chain.chain_id) == registered_service.service.terms_hash
    assert by_channel["card"]["name"] == "test"
    assert "receipts" not in by_channel
    assert "statement" not in by_channel


async def test_with_the_receipt_signer_the_package_has_receipts_and_a_statement(
    chain: Chain, payer: FundedAccount, registered_service: RegisteredService, tmp_path: Path
) -> None:
    operator = registered_service.operator.key

    async def sign(message: SignedMessage, domain: Domain) -> bytes:
        return operator.sign_digest(message.digest(domain))

    async with opened_books(chain, operator, tmp_path) as books:
        channel_id = await sell(books, payer, registered_service, chain)
        stored = await books.stored(channel_id)
        calls = await books.store.calls(channel_id, 0, 10)
        reader = SqliteReader(tmp_path / STORE_FILE)
        found = await find_session(reader, to_hex(channel_id))
        package = await assemble(reader, found, claim="quality", narrative="", sign=sign)
        await reader.close()
    receipts = package["receipts"]
    assert isinstance(receipts, list)
    for call, receipt in zip(calls, receipts, strict=True):
        assert call.leaf is not None
        assert isinstance(receipt, dict)
        assert (receipt["index"], receipt["charge"]) == (call.index, str(call.charge))
        word = CallReceipt(channel_id, call.index, call.leaf, call.charge)
        signature = from_hex(receipt["signature"])
        require_signer(word.digest(chain.domain), signature, operator.address)
    statement = package["statement"]
    assert isinstance(statement, dict)
    root = Bytes32(frontier_root(stored.state.frontier))
    word_at_end = Statement(channel_id, 4, root, 3 * PRICE)
    signature = from_hex(statement["signature"])
    require_signer(word_at_end.digest(chain.domain), signature, operator.address)


async def test_an_id_that_two_sessions_bear_is_refused_with_both_channel_ids(
    chain: Chain, payer: FundedAccount, registered_service: RegisteredService, tmp_path: Path
) -> None:
    async with opened_books(chain, registered_service.operator.key, tmp_path) as books:
        channel_id = await sell(books, payer, registered_service, chain)
        session_id = (await books.stored(channel_id)).facts.session_id
        other = facts(9, session_id=session_id)
        await books.store.open(other, opened(9), 0)
        error = await refused(str(session_id), tmp_path)
    assert error.code == "session-ambiguous"
    assert error.details == {"channelIds": [to_hex(channel_id), to_hex(other.channel_id)]}


async def test_a_session_that_is_not_there_a_text_that_is_no_id_and_a_folder_without_store(
    chain: Chain, registered_service: RegisteredService, tmp_path: Path
) -> None:
    async with opened_books(chain, registered_service.operator.key, tmp_path):
        assert (await refused("999999", tmp_path)).code == "session-not-found"
        assert (await refused("0x" + "01" * 32, tmp_path)).code == "session-not-found"
        assert (await refused("seven", tmp_path)).code == "session-id-invalid"
        assert (await refused("0", tmp_path)).code == "session-id-invalid"
        assert (await refused("0x12", tmp_path)).code == "hex-invalid"
    assert (await refused("1", tmp_path / "elsewhere")).code == "store-missing"
