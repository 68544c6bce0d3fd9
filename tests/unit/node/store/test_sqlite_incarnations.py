from pathlib import Path

from aioum_node.storage import NodeStore
from aioum_node.store.sqlite import STORE_FILE, SqliteStore
from tests.unit.node.store.conformance import LIMITS
from tests.unit.node.store.incarnation_conformance import IncarnationConformance


class TestSqliteIncarnations(IncarnationConformance):
    def make(self, folder: Path) -> NodeStore:
        return SqliteStore(folder / STORE_FILE, LIMITS)


class TestSqliteIncarnationsWithOneSessionInMemory(IncarnationConformance):
    def make(self, folder: Path) -> NodeStore:
        return SqliteStore(folder / STORE_FILE, LIMITS, max_cached_sessions=1)
