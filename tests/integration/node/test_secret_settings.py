"""A running node whose secrets lie in files: the admin port's token, the chain's endpoint."""

from pathlib import Path

import aiohttp
import pytest

from aioum.devnet.running import RunningDevnet
from tests.integration.node.conftest import StartNode

TOKEN = "0123456789abcdef-Z"

WRONG = [
    {},
    {"Authorization": TOKEN},
    {"Authorization": f"Basic {TOKEN}"},
    {"Authorization": f"Bearer {TOKEN}x"},
    {"Authorization": f"Bearer {TOKEN[:-1]}"},
    {"Authorization": "Bearer "},
    {"Authorization": "Bearer \u00e4"},
]


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "admin.token"
    path.write_text(TOKEN + "\n")
    path.chmod(0o600)
    return path


async def test_nothing_of_the_admin_port_is_answered_without_its_token(
    start_node: StartNode, token_file: Path
) -> None:
    refused = []
    async with start_node(admin_token_file=token_file) as node, aiohttp.ClientSession() as http:
        for headers in WRONG:
            for path in ("/metrics", "/healthz", "/nothing"):
                async with http.get(node.admin_url + path, headers=headers) as answer:
                    body = await answer.json(content_type=None)
                    refused.append((answer.status, body["type"].rpartition("/")[2]))
                    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="admin"'
        async with http.get(
            node.admin_url + "/metrics", headers={"Authorization": f"bearer {TOKEN}"}
        ) as answer:
            status, text = answer.status, await answer.text()
        async with http.get(node.url + "/healthz") as answer:
            public = answer.status

    assert set(refused) == {(401, "admin-token-invalid")}
    assert (status, public) == (200, 200)
    assert "aioum_ready 1.0" in text


async def test_endpoint_of_the_chain_may_come_from_a_private_file(
    start_node: StartNode, devnet: RunningDevnet, tmp_path: Path
) -> None:
    path = tmp_path / "rpc.url"
    path.write_text(devnet.deployment.rpc_url + "\n")
    path.chmod(0o600)

    async with start_node(rpc_url="http://127.0.0.1:1", rpc_url_file=path) as node:
        assert node.registration.service_id > 0
