from pathlib import Path

import pytest

from aioum_node.storage import NodeStore
from aioum_node.store.postgres.store import PostgresStore
from tests.postgres import PostgresServer, schema_of
from tests.unit.node.store.conformance import LIMITS
from tests.unit.node.store.incarnation_conformance import IncarnationConformance


class TestPostgresIncarnations(IncarnationConformance):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: PostgresServer) -> None:
        self._url = postgres.url

    def make(self, folder: Path) -> NodeStore:
        return PostgresStore(self._url, LIMITS, schema=schema_of(folder))
