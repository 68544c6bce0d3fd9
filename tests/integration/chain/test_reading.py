"""Reading sessions, terms, services, openings and events, now and at an earlier block."""

import secrets
from dataclasses import replace

import pytest

from aioum.chain import calls, payment_reads, ratings, registry_reads, tokens
from aioum.chain.abi import decode_event
from aioum.chain.client import Chain
from aioum.chain.decisions import Decisions
from aioum.chain.deployments import Endpoint
from aioum.chain.events import Transfer
from aioum.chain.model import ChainSession
from aioum.chain.token_domains import token_domain
from aioum.core.authorization import ReceiveWithAuthorization
from aioum.core.errors import AioumError
from aioum.core.payment import Voucher, compute_channel_id, session_salt, terms_hash
from aioum.core.types import ZERO_ADDRESS, ZERO_BYTES32, Address, Bytes32, ChannelId
from aioum.devnet.running import RunningDevnet, running_devnet
from tests.integration.chain.openings import DEPOSIT, open_session
from tests.integration.conftest import FundedAccount, RegisteredService


async def test_an_opened_session_reads_the_same_by_channel_by_number_and_by_its_event(
    chain: Chain, payer: FundedAccount, registered_service: RegisteredService
) -> None:
    nonce = Bytes32(secrets.token_bytes(32))
    channel_id, mined = await open_session(chain, payer, registered_service, nonce)
    service = registered_service.service

    session = await chain.session(channel_id)
    opening = await chain.opening(mined.transaction_hash)
    assert session is not None
    assert opening is not None
    assert session == ChainSession(
        session_id=session.session_id,
        channel_id=channel_id,
        payer=payer.key.address,
        payee=service.terms.payee,
        token=service.terms.token,
        authorized_signer=ZERO_ADDRESS,
        operator=service.terms.operator,
        service_id=service.service_id,
        terms_hash=service.terms_hash,
        deposit=DEPOSIT,
        settled=0,
        refunded=0,
        opened_at=opening.block.timestamp,
        close_requested_at=0,
        finalized_at=0,
        root=ZERO_BYTES32,
        call_count=0,
        commit_required=True,
        dispute_window_seconds=0,
    )
    assert await chain.session_by_id(session.session_id) == session
    assert (opening.channel_id, opening.nonce, opening.roster_hash) == (channel_id, nonce, ZERO_BYTES32)
    assert await chain.find_opening(channel_id) == opening
    assert await chain.opening(mined.transaction_hash, ChannelId(bytes(32))) is None


async def test_the_channel_id_of_an_opening_follows_from_its_parameters(
    chain: Chain, payer: FundedAccount, registered_service: RegisteredService
) -> None:
    channel_id, mined = await open_session(chain, payer, registered_service, Bytes32(secrets.token_bytes(32)))
    opening = await chain.opening(mined.transaction_hash)
    assert opening is not None
    salt = session_salt(opening.nonce, opening.terms_hash, opening.roster_hash)
    parties = (opening.payer, opening.payee, opening.token)
    assert compute_channel_id(*parties, salt, opening.authorized_signer, chain.domain) == channel_id


async def test_a_session_is_read_as_it_was_at_an_earlier_block(
    chain: Chain, payer: FundedAccount, registered_service: RegisteredService
) -> None:
    channel_id, opened = await open_session(
        chain, payer, registered_service, Bytes32(secrets.token_bytes(32))
    )
    topped_up = await payer.sender.send(calls.top_up(chain.payment_manager, channel_id, 7), "top-up")

    assert await chain.session(channel_id, opened.block_number - 1) is None
    before = await chain.session(channel_id, topped_up.block_number - 1)
    after = await chain.session(channel_id, topped_up.block_number)
    assert before is not None
    assert after is not None
    assert (before.deposit, after.deposit) == (DEPOSIT, DEPOSIT + 7)


async def test_a_settlement_commits_captures_refunds_and_finalizes(
    chain: Chain, devnet: RunningDevnet, payer: FundedAccount, registered_service: RegisteredService
) -> None:
    operator = registered_service.operator
    channel_id, opened = await open_session(
        chain, payer, registered_service, Bytes32(secrets.token_bytes(32))
    )
    signature = await payer.signer.sign(Voucher(channel_id, 4_000), chain.domain)
    assert await chain.is_voucher_valid(channel_id, 4_000, signature)
    payee_before = await chain.token_balance(devnet.token, operator.key.address)
    payer_before = await chain.token_balance(devnet.token, payer.key.address)

    root = Bytes32(secrets.token_bytes(32))
    settlement = calls.Settlement(channel_id, 4_000, 3_500, 12, root, signature)
    settled = await operator.sender.send(calls.settle_session(chain.payment_manager, settlement), "settle")

    assert {event.name for event in settled.events} == {"ResultsCommitted", "Settled", "Finalized"}
    assert all(event.channel_id == channel_id for event in settled.events)
    session = await chain.session(channel_id)
    assert session is not None
    assert (session.settled, session.refunded) == (3_500, DEPOSIT - 3_500)
    assert (session.root, session.call_count, session.is_finalized) == (root, 12, True)
    assert await chain.token_balance(devnet.token, operator.key.address) == payee_before + 3_500
    assert await chain.token_balance(devnet.token, payer.key.address) == payer_before + DEPOSIT - 3_500

    told = await chain.events(opened.block_number, settled.block_number, channel_id)
    assert told[0].name == "SessionOpened"
    assert tuple(told[1:]) == settled.events

    again = await operator.sender.send(calls.settle_session(chain.payment_manager, settlement), "settle")
    assert again.events == ()


async def test_a_bad_item_of_a_batch_is_an_event_that_names_its_reason(
    chain: Chain, payer: FundedAccount, registered_service: RegisteredService
) -> None:
    good, _ = await open_session(chain, payer, registered_service, Bytes32(secrets.token_bytes(32)))
    signature = await payer.signer.sign(Voucher(good, 10), chain.domain)
    root = Bytes32(secrets.token_bytes(32))
    unknown = ChannelId(secrets.token_bytes(32))
    batch = [calls.Settlement(c, 10, 10, 1, root, signature) for c in (unknown, good)]
    sender = registered_service.operator.sender
    mined = await sender.send(calls.settle_sessions(chain.payment_manager, batch), "settle-batch")

    (skipped,) = (event for event in mined.events if event.name == "SettlementSkipped")
    assert skipped.channel_id == unknown
    session = await chain.session(good)
    assert session is not None
    assert session.settled == 10


async def test_a_plain_channel_has_no_terms_and_no_opening(
    chain: Chain, devnet: RunningDevnet, payer: FundedAccount, operator: FundedAccount
) -> None:
    mined = await payer.sender.send(
        calls.open_plain(
            chain.payment_manager,
            payee=operator.key.address,
            token=devnet.token,
            deposit=9,
            salt=Bytes32(secrets.token_bytes(32)),
        ),
        "open-plain",
    )
    (opened,) = mined.events
    assert opened.channel_id is not None
    session = await chain.session(opened.channel_id)
    assert session is not None
    assert (session.service_id, session.terms_hash, session.commit_required) == (0, ZERO_BYTES32, False)
    assert await chain.find_opening(opened.channel_id) is None
    assert await chain.opening(mined.transaction_hash) is None


async def test_the_other_reads_say_what_the_whole_session_and_its_terms_say(
    chain: Chain, devnet: RunningDevnet, payer: FundedAccount, registered_service: RegisteredService
) -> None:
    rpc, manager, registry = chain.rpc, chain.payment_manager, chain.service_registry
    service, root = registered_service.service, Bytes32(b"\7" * 32)
    channel_id, opened = await open_session(
        chain, payer, registered_service, Bytes32(secrets.token_bytes(32))
    )
    commit = calls.commit_results(manager, channel_id, root, 3)
    committed = await registered_service.operator.sender.send(commit, "commit")
    session, opening = await chain.session(channel_id), await chain.opening(opened.transaction_hash)
    assert session is not None
    assert opening is not None

    assert await payment_reads.session_count(rpc, manager, committed.block_number) == session.session_id
    assert await payment_reads.session_results_root(rpc, manager, session.session_id) == root
    assert await payment_reads.session_call_count(rpc, manager, session.session_id) == 3
    assert await payment_reads.hold_of(rpc, manager, channel_id) == payment_reads.Hold(
        session.payer, session.payee, session.token, session.terms_hash, root, 3, 0, 0, 0
    )
    salt = session_salt(opening.nonce, opening.terms_hash, opening.roster_hash)
    parties = {"payer": session.payer, "payee": session.payee, "token": session.token}
    assert await payment_reads.computed_channel_id(rpc, manager, salt=salt, **parties) == channel_id
    assert await payment_reads.signing_domain(rpc, manager) == payment_reads.SigningDomain(
        b"\x0f", "EVM Payment Channel", "1", chain.chain_id, manager, ZERO_BYTES32, ()
    )
    assert await registry_reads.service_count(rpc, registry, committed.block_number) == service.service_id
    assert await registry_reads.operator_of(rpc, registry, service.terms_hash) == service.terms.operator
    assert await registry_reads.payment_terms(
        rpc, registry, service.terms_hash
    ) == registry_reads.PaymentTerms(session.operator, session.payee, session.token, True, 0)
    computed = await registry_reads.computed_terms_hash(rpc, registry, service.service_id, service.terms)
    assert computed == service.terms_hash
    decisions = await Decisions.of(chain)
    assert (await decisions.is_pending(channel_id), await decisions.awarded(channel_id)) == (False, 0)
    assert (await decisions.payment_manager(), await decisions.service_registry()) == (manager, registry)
    assert await tokens.token_name(rpc, session.token) == "aioum devnet dollar"
    assert await tokens.total_supply(rpc, session.token, committed.block_number) >= session.deposit
    assert await decisions.max_uri_bytes() == 8_192
    assert await registry_reads.max_descriptor_uri_bytes(rpc, registry) == 2_048
    rated = devnet.deployment.rating_registry
    assert rated is not None
    assert await ratings.rated_payment_manager(rpc, rated) == manager
    assert await ratings.max_detail_uri_bytes(rpc, rated) == ratings.MAX_DETAIL_URI_BYTES


async def test_tokens_move_by_their_owner_its_approval_and_its_authorization(
    chain: Chain, devnet: RunningDevnet, payer: FundedAccount, operator: FundedAccount
) -> None:
    owner, spender, to = payer.key.address, operator.key.address, Address(secrets.token_bytes(20))
    sent = await payer.sender.send(tokens.transfer(devnet.token, to, 5), "transfer")
    await payer.sender.send(calls.approve(devnet.token, spender, 7), "approve")
    await operator.sender.send(tokens.transfer_from(devnet.token, owner, to, 7), "transfer-from")
    assert await chain.token_balance(devnet.token, to) == 12
    given = ReceiveWithAuthorization(owner, spender, 9, 0, 2**40, Bytes32(secrets.token_bytes(32)))
    domain = await token_domain(chain.rpc, devnet.token, chain.chain_id)
    before = await chain.token_balance(devnet.token, spender)
    signature = payer.key.sign_digest(given.digest(domain))
    taken = tokens.receive_with_authorization(devnet.token, given, signature)
    await operator.sender.send(taken, "receive")
    assert await chain.token_balance(devnet.token, spender) == before + 9
    (log,) = (await chain.rpc.receipt(sent.transaction_hash) or {"logs": []})["logs"]
    event = decode_event(log)
    assert event is not None
    assert event.body == Transfer(owner, to, 5)


async def test_what_was_never_there_is_none(chain: Chain) -> None:
    unknown = Bytes32(secrets.token_bytes(32))
    assert await chain.session(ChannelId(unknown)) is None
    assert await chain.session_by_id(2**200) is None
    assert await chain.terms(unknown) is None
    assert await chain.service(2**200) is None
    assert await payment_reads.hold_of(chain.rpc, chain.payment_manager, ChannelId(unknown)) is None
    assert await registry_reads.operator_of(chain.rpc, chain.service_registry, unknown) is None
    assert await registry_reads.payment_terms(chain.rpc, chain.service_registry, unknown) is None
    assert await chain.opening(unknown) is None
    assert await chain.find_opening(ChannelId(unknown)) is None
    assert await chain.code(Address(unknown[:20])) == b""
    assert await chain.block(2**60) is None


async def test_a_service_follows_its_updates_and_its_old_terms_stay_readable(
    chain: Chain, registered_service: RegisteredService
) -> None:
    service, sender = registered_service.service, registered_service.operator.sender
    service_id, registry = service.service_id, chain.service_registry
    assert service.terms_hash == terms_hash(chain.chain_id, registry, service_id, service.terms)
    assert service.descriptor_uri == "file:card.json"

    changed = replace(service.terms, descriptor_hash=Bytes32(secrets.token_bytes(32)))
    updated = await sender.send(calls.update(registry, service_id, changed, "https://card.test/é"), "update")
    now = await chain.service(service_id)
    assert now is not None
    assert (now.terms, now.descriptor_uri) == (changed, "https://card.test/é")
    assert await chain.service(service_id, updated.block_number - 1) == service
    old = await chain.terms(service.terms_hash)
    assert old is not None
    assert (old.service_id, old.terms) == (service_id, service.terms)
    assert now in await chain.services()

    retired = await sender.send(calls.retire(registry, service_id), "retire")
    assert await chain.service(service_id) is None
    assert service_id not in {s.service_id for s in await chain.services()}
    assert now in await chain.services(retired.block_number - 1)


async def test_a_service_whose_address_is_no_text_does_not_hide_the_others(
    chain: Chain, registered_service: RegisteredService, payer: FundedAccount
) -> None:
    registered = registered_service.service
    terms = replace(registered.terms, operator=payer.key.address, payee=payer.key.address)
    call = calls.register(chain.service_registry, terms, "http://node.example/AAAA")
    mined = await payer.sender.send(replace(call, data=call.data.replace(b"AAAA", b"\xff\xfe\x00A")), "spoil")
    (event,) = mined.events

    services = {service.service_id: service for service in await chain.services()}

    assert registered.service_id in services
    assert services[event.args["serviceId"]].descriptor_uri == "http://node.example/\ufffd\ufffd\x00A"


async def test_the_contract_confirms_domain_grace_and_token(chain: Chain, devnet: RunningDevnet) -> None:
    assert await chain.domain_separator() == chain.domain.separator
    assert await chain.grace_period_seconds() == 900
    assert await chain.token_symbol(devnet.token) == devnet.token_symbol == "aUSD"
    assert await chain.token_decimals(devnet.token) == 6
    assert await chain.token_allowance(devnet.token, devnet.accounts[1].address, chain.payment_manager) == 0
    assert await chain.token_balance(devnet.token, devnet.accounts[9].address) == 10**12
    assert await chain.credit(devnet.token, devnet.accounts[1].address) == 0
    assert await chain.native_balance(devnet.accounts[9].address) > 0


async def test_a_block_at_depth_counts_the_head_as_one_confirmation() -> None:
    async with running_devnet() as devnet, Chain.connect(devnet.deployment) as chain:
        await devnet.mine(5)
        deep = await chain.block_at_depth(3)
        head = await chain.head()
        assert head.number - 3 < deep.number + 1 <= head.number
        assert (await chain.block_at_depth(10_000)).number == 0
        with pytest.raises(AioumError) as caught:
            await chain.block_at_depth(0)
        assert caught.value.code == "depth-invalid"


async def test_addresses_alone_are_enough_to_connect(chain: Chain, devnet: RunningDevnet) -> None:
    endpoint = Endpoint(devnet.rpc_url, chain.payment_manager)
    async with Chain.connect(endpoint) as connected:
        assert connected.service_registry == chain.service_registry
        assert connected.domain == chain.domain


async def test_a_wrong_address_is_refused_before_anything_is_read(
    chain: Chain, devnet: RunningDevnet
) -> None:
    # mstore(0, 1); return(0, 32): answers every question, the domain separator too, with the word 1.
    impostor = Address(secrets.token_bytes(20))
    await devnet.set_code(impostor, bytes.fromhex("60015f5260205ff3"))
    cases = {impostor: "domain-mismatch", Address(secrets.token_bytes(20)): "contract-missing"}
    for at, code in cases.items():
        with pytest.raises(AioumError) as caught:
            async with Chain.connect(Endpoint(devnet.rpc_url, at)):
                pass
        assert caught.value.code == code
