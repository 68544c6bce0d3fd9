"""Following what happens on a real chain, also where a reorganization undoes it."""

import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.chain.journal import SqliteTransactionJournal
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner
from aioum.client.watching import Concern, Watch
from aioum.core.payment import Terms
from aioum.core.signing import LocalKey
from aioum.core.types import ZERO_ADDRESS, Bytes32, ChannelId
from aioum.devnet.running import running_devnet
from tests.integration.conftest import FundedAccount, RegisteredService


async def opened(chain: Chain, payer: FundedAccount, service: RegisteredService) -> ChannelId:
    mined = await payer.sender.send(
        calls.open_session(
            chain.payment_manager,
            service_id=service.service.service_id,
            terms_hash=service.service.terms_hash,
            deposit=1_000,
            nonce=Bytes32(secrets.token_bytes(32)),
        ),
        "open",
    )
    (event,) = (event for event in mined.events if event.name == "SessionOpened")
    return ChannelId(event.args["channelId"])


async def test_events_of_an_account_are_reported_once_each_in_order(
    chain: Chain, payer: FundedAccount, registered_service: RegisteredService
) -> None:
    first = (await chain.head()).number + 1
    channel_id = await opened(chain, payer, registered_service)
    watch = Watch(chain, [chain.payment_manager], Concern(frozenset({payer.key.address})), first_block=first)
    assert [seen.event.name for seen in await watch.look()] == ["SessionOpened"]
    assert await watch.look() == []

    await payer.sender.send(calls.request_close(chain.payment_manager, channel_id), "leave")
    await payer.sender.send(calls.top_up(chain.payment_manager, channel_id, 5), "stay")
    seen = await watch.look()

    assert [one.event.name for one in seen] == ["CloseRequested", "ToppedUp", "CloseCancelled"]
    assert {one.session.payer for one in seen if one.session is not None} == {payer.key.address}
    assert [one.event.channel_id for one in seen] == [channel_id] * 3


async def test_what_does_not_concern_the_account_is_left_out(
    chain: Chain, payer: FundedAccount, registered_service: RegisteredService
) -> None:
    first = (await chain.head()).number + 1
    channel_id = await opened(chain, payer, registered_service)
    stranger = LocalKey(secrets.token_bytes(32)).address

    def watching(concern: Concern) -> Watch:
        return Watch(chain, [chain.payment_manager], concern, first_block=first)

    assert await watching(Concern(accounts=frozenset({stranger}))).look() == []
    operator = registered_service.operator.key.address
    (seen,) = await watching(Concern(accounts=frozenset({operator}))).look()
    assert seen.event.channel_id == channel_id
    assert len(await watching(Concern(channels=frozenset({channel_id}))).look()) == 1


@pytest.mark.slow
async def test_what_a_reorganization_undoes_is_reported_again_as_undone(anvil: Path, tmp_path: Path) -> None:
    async with running_devnet(tmp_path / "devnet") as devnet, Chain.connect(devnet.deployment) as chain:
        key = LocalKey(secrets.token_bytes(32))
        await devnet.fund(key.address)
        journal = SqliteTransactionJournal(tmp_path / "transactions.sqlite3")
        try:
            sender = Sender(chain, LocalSigner(key), journal, poll_interval_seconds=0.02)
            head = (await chain.head()).number
            watch = Watch(chain, [chain.service_registry], Concern(), first_block=head + 1)
            terms = Terms(
                operator=key.address,
                payee=key.address,
                token=devnet.token,
                receipt_signer=key.address,
                arbitrator=ZERO_ADDRESS,
                descriptor_hash=Bytes32(secrets.token_bytes(32)),
                commit_required=True,
                dispute_window_seconds=0,
                ruling_period_seconds=0,
                dispute_bond=0,
            )
            snapshot = await devnet.snapshot()
            await sender.send(calls.register(chain.service_registry, terms, ""), "register")
            (registered,) = await watch.look()
            assert not registered.undone

            await devnet.revert(snapshot)
            # The same as an endpoint that is behind shows: nothing is known of the block yet.
            assert await watch.look() == []
            await devnet.mine(3)
            assert await watch.look() == [replace(registered, undone=True)]
            assert await watch.look() == []
        finally:
            await journal.close()
