"""A node whose disk takes nothing more: it says so before a client pays, and goes on when there is room."""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from structlog.testing import capture_logs

from aioum_node.store.sqlite import STORE_FILE
from tests.integration.node.conftest import PRICE, StartNode
from tests.integration.node.edge_client import Buyer
from tests.integration.node.test_node_and_chain import until


@contextmanager
def full_disk(store_file: Path) -> Iterator[None]:
    """No file may grow beyond what the store's log has by now."""
    size_bytes = store_file.with_name(store_file.name + "-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_node_whose_disk_is_full_is_not_ready_until_it_can_write_again(
    start_node: StartNode, buyer: Buyer, tmp_path: Path
) -> None:
    # Nothing is written meanwhile but what the test asks for.
    with capture_logs() as entries:
        async with start_node(watch_interval_seconds=60, transparency_log=False) as node:

            async def readyz() -> tuple[int, list[str]]:
                async with buyer.http.get(node.url + "/readyz") as response:
                    return response.status, json.loads(await response.read())["missing"]

            session = await buyer.open(node)
            await buyer.enter(node, session, PRICE)
            before = await readyz()
            with full_disk(tmp_path / "node" / STORE_FILE):
                failed = await buyer.pay(node, session, 2 * PRICE)
                full = await readyz()
                refused = await buyer.pay(node, session, 2 * PRICE)

                async def is_counted() -> bool:
                    async with buyer.http.get(node.admin_url + "/metrics") as response:
                        text = await response.text()
                    return 'aioum_loop_failures_total{code="store-failed",loop="store"}' in text

                await until(is_counted)
                still_full = await readyz()

            async def is_ready() -> bool:
                return (await readyz())[0] == 200

            await until(is_ready)
            served = await buyer.pay(node, session, 2 * PRICE)

    assert before == (200, [])
    assert (failed.status, failed.code) == (503, "store-busy")
    assert full == still_full == (503, ["store"])
    assert (refused.status, refused.code) == (503, "not-ready")
    assert (served.status, buyer.receipt(node, served).receipt.index) == (200, 1)
    said = [(entry["event"], entry.get("code")) for entry in entries if entry["event"].startswith("storing")]
    assert said == [("storing-failed", "store-failed"), ("storing-again", None)]
