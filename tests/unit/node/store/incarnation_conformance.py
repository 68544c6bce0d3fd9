"""What every adapter does about restored stores: new lives, suspect sessions, calls that come back."""

import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest_asyncio

from aioum.core.ledger import Call, Phase, finalize, seal, statement_of
from aioum.core.suspicion import abandon, clear, suspect
from aioum.core.transcript import frontier_root
from aioum_node.storage import NodeStore
from aioum_node.store.incarnations import Beginning
from tests.pens import Pen
from tests.unit.node.store.conformance import admitted, refused
from tests.unit.node.store.samples import (
    NOW_MS,
    PRICE,
    answer,
    channel,
    facts,
    opened,
    request,
    signed_facts,
)

NOTICED_AT = 2**51


def doubtful(suspect_until: int = NOTICED_AT) -> Beginning:
    return Beginning(secrets.token_bytes(16), None, 0, suspect_until)


class IncarnationConformance(ABC):
    """Stores of one folder hold the same data."""

    @abstractmethod
    def make(self, folder: Path) -> NodeStore:
        """Open the store of this folder with LIMITS."""

    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[NodeStore]:
        store = self.make(tmp_path)
        await store.begin(Beginning(secrets.token_bytes(16), None, 1))
        await store.open(facts(1), opened(1), NOW_MS)
        yield store
        await store.close()

    async def phase(self, store: NodeStore, number: int = 1) -> Phase:
        stored = await store.session(channel(number))
        assert stored is not None
        return stored.state.phase

    async def answered(self, store: NodeStore, count: int) -> list[Call]:
        """Calls of session 1 with answers."""
        for index in range(count):
            await admitted(store, 1, (index + 1) * PRICE)
            await store.record(channel(1), index, answer(f"answer {index}", failed=index == 1), NOW_MS)
        return await store.calls(channel(1), 0, 99)

    # --- a new life ---

    async def test_a_life_without_doubt_changes_no_session(self, store: NodeStore) -> None:
        before = await store.mark()
        beginning = Beginning(b"\x07" * 16, before.incarnation, before.sequence + 1)
        assert await store.begin(beginning) == 0
        after = await store.mark()
        assert (after.incarnation, after.previous) == (b"\x07" * 16, before.incarnation)
        assert (after.starts, after.suspect_until) == (before.starts + 1, None)
        assert after.sequence >= before.sequence + 1
        assert await self.phase(store) is Phase.OPEN

    async def test_doubt_makes_all_suspect_that_is_neither_over_nor_given_up(
        self, store: NodeStore, tmp_path: Path
    ) -> None:
        for number in (2, 3, 4):
            await store.open(facts(number), opened(number), NOW_MS)
        await store.update(channel(2), lambda state: seal(state, "idle"), NOW_MS)
        await store.update(channel(3), finalize, NOW_MS)
        await store.update(channel(4), lambda state: abandon(suspect(state)), NOW_MS)
        # Sessions that are in memory become suspect as well.
        assert await store.begin(doubtful()) == 2
        await store.close()
        store = self.make(tmp_path)
        phases = [await self.phase(store, number) for number in (1, 2, 3, 4)]
        await store.close()
        assert phases == [Phase.SUSPECT, Phase.SUSPECT, Phase.FINAL, Phase.SEALED]

    async def test_the_newest_doubt_is_remembered(self, store: NodeStore) -> None:
        await store.begin(doubtful(NOTICED_AT))
        await store.begin(doubtful(NOTICED_AT - 1))
        assert (await store.mark()).suspect_until == NOTICED_AT
        await store.begin(Beginning(secrets.token_bytes(16), None, 0))
        assert (await store.mark()).suspect_until == NOTICED_AT

    # --- suspect sessions ---

    async def test_a_suspect_session_admits_repeats_and_records_nothing(self, store: NodeStore) -> None:
        await self.answered(store, 1)
        await admitted(store, 1, 2 * PRICE)
        await store.begin(doubtful())
        for amount in (PRICE, 2 * PRICE, 3 * PRICE):
            assert await refused(store.admit(channel(1), request(amount), NOW_MS)) == "session-suspect"
        for index in (0, 1):
            assert await refused(store.record(channel(1), index, answer(), NOW_MS)) == "session-suspect"

    async def test_calls_under_way_of_a_suspect_or_abandoned_session_are_not_for_recording(
        self, store: NodeStore, tmp_path: Path
    ) -> None:
        await admitted(store, 1, PRICE)
        await store.begin(doubtful())
        await store.open(facts(2), opened(2), NOW_MS)
        await admitted(store, 2, PRICE)
        for change in (None, abandon):
            if change is not None:
                await store.update(channel(1), change, NOW_MS)
            # Whoever starts next records what the one before it left.
            await store.close()
            store = self.make(tmp_path)
            assert [channel_id for channel_id, _ in await store.unrecorded()] == [channel(2)]
        await store.close()

    async def test_suspect_sessions_are_found_by_their_phase_alone(self, store: NodeStore) -> None:
        await store.open(facts(2), opened(2), NOW_MS)
        await store.update(channel(1), suspect, NOW_MS)
        found = await store.sessions((Phase.SUSPECT,))
        assert [stored.facts.channel_id for stored in found] == [channel(1)]
        assert await store.suspects() == 1
        living = await store.sessions((Phase.OPEN, Phase.SEALED), idle_since_ms=NOW_MS)
        assert [stored.facts.channel_id for stored in living] == [channel(2)]

    # --- calls that come back ---

    async def test_what_the_store_lacks_comes_back_and_the_session_goes_on_as_if_nothing_had_been(
        self, store: NodeStore, tmp_path: Path
    ) -> None:
        calls = await self.answered(store, 4)
        whole = await store.session(channel(1))
        assert whole is not None
        await store.open(facts(2), opened(2), NOW_MS)
        state = suspect(replace(opened(2), channel_id=channel(2)))
        await store.update(channel(2), lambda _: state, NOW_MS)
        after = await store.reimport(channel(2), calls, NOW_MS)
        await store.update(channel(2), clear, NOW_MS)
        await store.close()
        store = self.make(tmp_path)
        stored = await store.session(channel(2))
        back = await store.calls(channel(2), 0, 99)
        following = await admitted(store, 2, 5 * PRICE)
        await store.close()
        assert after.state.phase is Phase.SUSPECT
        assert stored is not None
        assert stored.state == replace(whole.state, channel_id=channel(2))
        assert back == calls
        assert following.index == 4

    async def test_a_call_under_way_gets_its_answer_and_known_ones_stay_as_they_are(
        self, store: NodeStore
    ) -> None:
        calls = await self.answered(store, 3)
        await store.open(facts(2), opened(2), NOW_MS)
        await admitted(store, 2, PRICE)
        await store.record(channel(2), 0, answer("answer 0"), NOW_MS)
        await admitted(store, 2, 2 * PRICE)
        await store.update(channel(2), suspect, NOW_MS)
        for _ in range(2):
            stored = await store.reimport(channel(2), calls, NOW_MS)
            assert (stored.state.admitted, stored.state.drained, stored.state.spent) == (3, True, 2 * PRICE)
        assert await store.calls(channel(2), 0, 99) == calls
        root = frontier_root(stored.state.frontier)
        assert root == statement_of(clear(stored.state)).root

    async def test_one_call_that_contradicts_takes_the_others_with_it(self, store: NodeStore) -> None:
        calls = await self.answered(store, 3)
        await store.open(facts(2), opened(2), NOW_MS)
        await admitted(store, 2, PRICE)
        await store.record(channel(2), 0, answer("answer 0"), NOW_MS)
        await store.update(channel(2), suspect, NOW_MS)
        before = await store.session(channel(2))
        for bad in (
            [calls[1], replace(calls[2], index=3)],
            [calls[1], replace(calls[2], answer=None)],
            [calls[1], replace(calls[2], charge=PRICE + 1)],
            [replace(calls[0], request=b"[]"), calls[1]],
            [replace(calls[0], answer=answer("other")), calls[1]],
            [calls[1], replace(calls[2], envelope=Pen(channel(2)).sign(b"{}", 2))],
        ):
            assert await refused(store.reimport(channel(2), bad, NOW_MS)) == "recovery-conflict"
        assert await store.session(channel(2)) == before
        assert len(await store.calls(channel(2), 0, 99)) == 1

    async def test_calls_come_back_into_suspect_sessions_only(self, store: NodeStore) -> None:
        calls = await self.answered(store, 1)
        assert await refused(store.reimport(channel(1), calls, NOW_MS)) == "session-not-suspect"
        assert await refused(store.reimport(channel(9), calls, NOW_MS)) == "channel-not-found"

    async def test_heads_of_seats_come_back_with_their_calls_and_retries_are_known(
        self, store: NodeStore
    ) -> None:
        pens = {2: Pen(channel(2))}
        await store.open(signed_facts(2), opened(2, signed=True), NOW_MS)
        for index in range(3):
            await admitted(store, 2, 3 * PRICE, envelope=pens[2].sign(b"{}", index))
            await store.record(channel(2), index, answer(), NOW_MS)
        calls = await store.calls(channel(2), 0, 99)
        whole = await store.session(channel(2))
        assert whole is not None
        await store.update(channel(2), finalize, NOW_MS)
        await store.released(channel(2))
        await store.delete(channel(2))
        await store.open(signed_facts(2), suspect(opened(2, signed=True)), NOW_MS)
        await store.reimport(channel(2), calls, NOW_MS)
        stored = await store.update(channel(2), clear, NOW_MS)
        assert stored.state == whole.state
        last = calls[2]
        assert last.envelope is not None
        assert await store.claimed(channel(2), last.envelope) == last
        await store.update(channel(2), suspect, NOW_MS)
        out_of_chain = replace(last, index=3, envelope=replace(last.envelope, cursor=3))
        assert await refused(store.reimport(channel(2), [out_of_chain], NOW_MS)) == "recovery-conflict"
