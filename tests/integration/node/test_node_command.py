"""`aioum-node` as an operator runs it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import aiohttp
import pytest
from aiohttp import web

from aioum.chain.client import Chain
from aioum.core.ledger import Limits
from aioum.devnet.running import RunningDevnet
from aioum_node.registration import Registration
from aioum_node.settings import CONFIG_FILE, settings_table
from aioum_node.store.sqlite import STORE_FILE, SqliteStore
from tests.integration.conftest import FundedAccount
from tests.integration.node.conftest import PRICE
from tests.integration.node.edge_client import Buyer
from tests.serving import served_posts

PROGRAM = str(Path(sys.executable).parent / "aioum-node")
DEADLINE_SECONDS = 60
ANY_PORT = ("--listen-port", "0", "--admin-port", "0")


def environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIOUM_")}
    return {**inherited, "PYTHONWARNINGS": "error"}


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
        check=False,
    )


def succeeded(*arguments: str, stdin: str = "") -> str:
    done = run(*arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def shop(devnet: RunningDevnet, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A node's folder, as init makes it."""
    folder = str(tmp_path_factory.mktemp("operator") / "shop")
    succeeded("init", "--dir", folder, "--devnet-account", "9", "--deployment", str(devnet.deployment_file))
    return folder


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[dict[str, Any], subprocess.Popen[str]]]:
    """A running node and what it said of itself."""
    process = subprocess.Popen(
        [PROGRAM, "run", "--json", *ANY_PORT, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield json.loads(line), process
    finally:
        process.kill()
        process.communicate()


async def status(http: aiohttp.ClientSession, url: str, headers: dict[str, str] | None = None) -> int:
    async with http.get(url, headers=headers) as response:
        return response.status


async def published_node(chain: Chain, said: dict[str, Any]) -> Any:
    """What a buyer has to know of a node in another process."""
    service = await chain.service(int(said["serviceId"]))
    assert service is not None
    registration = Registration(service.service_id, service.terms_hash, service.terms, changed=False)
    return SimpleNamespace(url=said["url"], registration=registration)


async def test_new_node_is_published_serves_and_stops_when_the_running_call_is_paid(
    shop: str, chain: Chain, payer: FundedAccount
) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        started.set()
        await release.wait()
        return web.Response(text="late")

    # Each request over a connection of its own: the port itself is asked, and not one who was let in before.
    connector = aiohttp.TCPConnector(force_close=True)
    async with served_posts(answer) as url, aiohttp.ClientSession(connector=connector) as http:
        with Path(shop, CONFIG_FILE).open("a") as file:
            file.write(
                f'[[tools]]\nid = "slow"\nprice = {PRICE}\nhttp = "{url}"\ntrusted_host = "127.0.0.1"\n'
            )
        unpublished = run("run", "--dir", shop, *ANY_PORT)
        published = json.loads(succeeded("register", "--dir", shop, "--url", "http://node.example", "--json"))
        again = succeeded("register", "--dir", shop, "--url", "http://node.example")
        descriptor_hash = succeeded("card", "--dir", shop, "--hash").strip()
        with serving("--dir", shop, "--log-format", "json") as (said, process):
            async with http.get(said["url"] + "/.well-known/aioum.json") as response:
                described = await response.json()
            token = {"Authorization": "Bearer " + Path(shop, "admin.token").read_text().strip()}
            ready = [await status(http, said["adminUrl"] + "/readyz", headers) for headers in ({}, token)]
            buyer, node = Buyer(chain, payer, http), await published_node(chain, said)
            session = await buyer.open(node)
            paying = asyncio.create_task(buyer.pay(node, session, PRICE, "slow", {}, action="open"))
            async with asyncio.timeout(DEADLINE_SECONDS):
                await started.wait()
                process.send_signal(signal.SIGTERM)
                while await status(http, said["url"] + "/readyz") == 200:
                    await asyncio.sleep(0.02)
            ready.append(await status(http, said["adminUrl"] + "/readyz", token))
            refused = await buyer.pay(node, session, 2 * PRICE, "slow", {})
            release.set()
            paid = await paying
            _, log = await asyncio.to_thread(process.communicate, timeout=DEADLINE_SECONDS)
            assert process.returncode == 0, log
    async with SqliteStore(Path(shop, STORE_FILE), Limits(16, 8)) as store:
        stored = await store.session(session.channel_id)
        (call,) = await store.calls(session.channel_id, 0, 16)

    assert unpublished.returncode == 1
    assert "[not-registered]" in unpublished.stderr
    assert "hint:" in unpublished.stderr
    assert published["changed"]
    assert "already published" in again
    assert published["descriptorHash"] == descriptor_hash
    assert described["serviceId"] == said["serviceId"] == published["serviceId"]
    assert said["descriptorHash"] == descriptor_hash
    assert ready == [401, 200, 503]
    assert (refused.status, refused.code, refused.headers["Retry-After"]) == (503, "not-ready", "2")
    assert (paid.status, paid.body) == (200, b"late")
    receipt = buyer.receipt(node, paid).receipt
    assert (receipt.index, receipt.charge) == (0, PRICE)
    assert stored is not None
    assert (stored.state.spent, stored.state.admitted, stored.state.frontier.size) == (PRICE, 1, 1)
    assert call.answer is not None
    assert call.answer.response == b"late"
    assert [json.loads(line)["event"] for line in log.splitlines()] == ["node-ready"]


def test_run_can_publish_by_itself(devnet: RunningDevnet, tmp_path: Path, repository: Path) -> None:
    template = str(repository / "examples" / "services" / "library")
    made = json.loads(
        succeeded(
            "init", "--dir", str(tmp_path / "library"), "--template", template, "--devnet-account", "8",
            "--deployment", str(devnet.deployment_file), "--json",
        )
    )  # fmt: skip

    with serving("--dir", made["nodeDir"], "--register") as (said, process):
        with urlopen(said["url"] + "/.well-known/aioum.json", timeout=10) as response:
            card = json.loads(response.read())["card"]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 0

    assert card["operator"] == made["operator"]
    assert "word-frequencies" in [tool["id"] for tool in card["tools"]]


def test_key_comes_from_stdin_and_never_from_an_argument(tmp_path: Path) -> None:
    made = json.loads(
        succeeded("init", "--dir", str(tmp_path / "a"), "--import-key", "-", "--json", stdin="0x" + "11" * 32)
    )
    refused = run("init", "--dir", str(tmp_path / "b"), "--import-key", "-", "--devnet-account", "1")

    assert made["operator"] == "0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A"
    assert refused.returncode == 2


def test_operator_without_ether_is_told_so(devnet: RunningDevnet, tmp_path: Path) -> None:
    folder = str(tmp_path / "poor")
    succeeded("init", "--dir", folder, "--deployment", str(devnet.deployment_file))

    refused = run("register", "--dir", folder)

    assert refused.returncode == 1
    assert refused.stderr.startswith("error: ")
    assert "Traceback" not in refused.stderr


def test_traceback_comes_with_v_only(tmp_path: Path) -> None:
    assert "Traceback" not in run("card", "--dir", str(tmp_path)).stderr
    assert "Traceback" in run("-v", "card", "--dir", str(tmp_path)).stderr


def test_settings_are_shown_as_they_are_in_effect(shop: str) -> None:
    shown = json.loads(succeeded("settings", "--dir", shop, "--max-unpaid-calls", "3"))

    assert (shown["node_dir"], shown["max_unpaid_calls"]) == (shop, 3)
    assert succeeded("settings", "--markdown") == settings_table()


def test_setting_that_makes_no_sense_is_an_error_with_a_hint(shop: str) -> None:
    refused = run("settings", "--dir", shop, "--listen-port", "http")

    assert refused.returncode == 1
    assert "[config-invalid]" in refused.stderr
    assert "hint: aioum-node settings" in refused.stderr
