"""A recovery before any start has noticed that the store was restored."""

from pathlib import Path

import pytest

from aioum.core.errors import ConfigError
from aioum.core.ledger import Phase
from aioum_node.restored.recovering import opened_for_recovery
from aioum_node.restored.watermark import Watermark
from aioum_node.settings import Settings
from aioum_node.store.sqlite import STORE_FILE
from tests.unit.node.restored.test_watermark import lived


async def test_nothing_is_written_to_a_restored_store_before_a_start_has_noticed_it(tmp_path: Path) -> None:
    settings = Settings(node_dir=tmp_path)
    watermark = Watermark(settings.path(settings.watermark_file))
    await lived(tmp_path, watermark, calls=1)
    backup = (tmp_path / STORE_FILE).read_bytes()
    await lived(tmp_path, watermark, calls=2, first=1)
    (tmp_path / STORE_FILE).write_bytes(backup)

    # A few recoveries would lift the store above the watermark, and nobody would notice any more.
    with pytest.raises(ConfigError) as caught:
        async with opened_for_recovery(settings):
            pass
    noticed = await lived(tmp_path, watermark, first=1)
    async with opened_for_recovery(settings) as store:
        phases = [stored.state.phase for stored in await store.sessions(tuple(Phase))]

    assert caught.value.code == "store-in-doubt"
    assert (noticed.doubt, phases) == ("store-older", [Phase.SUSPECT])
