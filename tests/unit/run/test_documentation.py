"""What docs/runs.md says is so."""

import re
from pathlib import Path

import pytest

from aioum.run.capsule import MAX_CAPSULE_BYTES, read_capsule
from aioum.run.chain import MAX_EVENTS
from aioum.run.content import MAX_CONTENT_BYTES
from aioum.run.disclosure import MAX_DISCLOSED_EVENTS, MAX_DISCLOSURE_BYTES
from aioum.run.disclosure_verification import DisclosureReason
from aioum.run.dsse import MAX_SIGNATURES
from aioum.run.fields import MAX_NAME_BYTES
from aioum.run.key_files import read_public_key, write_public_key
from aioum.run.keys import Ed25519Key
from aioum.run.policy import SealPolicy
from aioum.run.verification import Reason, verify_capsule


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "runs.md").read_text(encoding="utf-8")


def test_the_program_of_the_page_records_and_seals_a_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(program, names)
    key = names["key"]
    assert isinstance(key, Ed25519Key)
    write_public_key(tmp_path / "agent.pem.pub", key)
    trusted = SealPolicy((read_public_key(tmp_path / "agent.pem.pub"),))
    data = (tmp_path / "run-42.json").read_bytes()
    assert verify_capsule(data, trusted).reason is None
    events = [item.event for item in read_capsule(data).events]
    assert [(event.name, event.parent) for event in events] == [
        ("plan", None), ("flights", None), ("look_up", 1), ("spend limit", 1), ("owner", None)
    ]  # fmt: skip


def test_every_reason_stands_on_the_page(page: str) -> None:
    assert [reason for reason in (*Reason, *DisclosureReason) if f"`{reason.value}`" not in page] == []


def test_the_limits_of_the_page_are_those_of_the_code(page: str) -> None:
    assert MAX_CAPSULE_BYTES == MAX_DISCLOSURE_BYTES
    for said in (
        f"{MAX_EVENTS:,} events of a run",
        f"{MAX_CAPSULE_BYTES >> 20} MiB of a capsule",
        f"{MAX_DISCLOSED_EVENTS:,} events of a disclosure",
        f"{MAX_NAME_BYTES} bytes of a name",
        f"{MAX_SIGNATURES} keys of a seal",
        f"at most {MAX_CONTENT_BYTES >> 20} MiB each",
    ):
        assert said in page.replace("\n", " ")
