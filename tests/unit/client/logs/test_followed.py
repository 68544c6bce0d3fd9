"""The configuration of a monitor is read strictly."""

import json
from pathlib import Path
from typing import Any

import pytest

from aioum.client.logs.followed import Followed, read_config, require_distinct
from aioum.core.errors import ConfigError
from aioum.core.hextext import address_text
from aioum.core.submission.framing import encode_base64
from aioum.core.types import Address
from aioum.log.monitor import LogIdentity
from tests.unit.log.samples import KEY, ORIGIN

OPERATOR = Address(b"\x01" * 20)
WHO = {"operator": address_text(OPERATOR)}
PINNED = {**WHO, "log": "./log", "origin": ORIGIN, "publicKey": encode_base64(KEY.public_key)}


def read(tmp_path: Path, value: Any) -> tuple[list[Followed], list[str]]:
    path = tmp_path / "monitor.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return read_config(path)


def test_operators_and_peers_are_read(tmp_path: Path) -> None:
    followed, peers = read(
        tmp_path,
        {
            "operators": [WHO, {**PINNED, "maxDelaySeconds": 60}],
            "peers": ["https://monitor.example/checkpoints/"],
        },
    )
    assert followed == [
        Followed(OPERATOR),
        Followed(OPERATOR, ("./log",), LogIdentity(ORIGIN, KEY.public_key), 60),
    ]
    assert peers == ["https://monitor.example/checkpoints/"]
    assert read(tmp_path, {}) == ([], [])


@pytest.mark.parametrize(
    "value",
    [
        "{", "[]", '{"operators": [], "operators": []}', {"operator": []}, {"operators": {}},
        {"operators": [{}]}, {"operators": [{"operator": "0x01"}]}, {"operators": [{**WHO, "url": ""}]},
        {"operators": [{**WHO, "origin": ORIGIN}]}, {"operators": [{**WHO, "log": 1}]},
        {"operators": [{**PINNED, "publicKey": "AAAA"}]}, {"operators": [{**PINNED, "origin": "a b"}]},
        {"operators": [{**WHO, "maxDelaySeconds": -1}]}, {"operators": [{**WHO, "maxDelaySeconds": True}]},
        {"peers": "x"}, {"peers": [""]},
    ],
)  # fmt: skip
def test_anything_else_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, value)
    assert caught.value.code == "monitor-config-invalid"


def test_an_operator_is_followed_once() -> None:
    require_distinct([Followed(OPERATOR), Followed(Address(b"\x02" * 20))])
    with pytest.raises(ConfigError) as caught:
        require_distinct([Followed(OPERATOR), Followed(OPERATOR, ("./log",))])
    assert caught.value.code == "monitor-config-invalid"
