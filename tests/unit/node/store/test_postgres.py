from pathlib import Path

import pytest

from aioum_node.store.port import Store
from aioum_node.store.postgres.store import PostgresStore
from tests.postgres import PostgresServer, schema_of
from tests.unit.node.store.conformance import LIMITS
from tests.unit.node.store.signed_conformance import SignedSessionConformance

# Each test makes a schema of its own, durably; one interpreter is enough for that.
pytestmark = pytest.mark.slow


class TestPostgresStore(SignedSessionConformance):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: PostgresServer) -> None:
        self._url = postgres.url

    def make(self, folder: Path) -> Store:
        return PostgresStore(self._url, LIMITS, schema=schema_of(folder))


@pytest.mark.long
class TestPostgresStoreThatCommitsEachStepAlone(SignedSessionConformance):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: PostgresServer) -> None:
        self._url = postgres.url

    def make(self, folder: Path) -> Store:
        return PostgresStore(self._url, LIMITS, schema=schema_of(folder), max_steps_per_group=1, max_groups=8)
