"""Fixtures and settings that the whole suite shares."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.postgres import PostgresServer, running_server, server_programs

REPOSITORY = Path(__file__).resolve().parent.parent

# No deadline: the suite asserts no times. CI repeats the same examples, so that a red run can be repeated.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests by the folder they lie in."""
    for item in items:
        parts = item.path.relative_to(REPOSITORY).parts
        for marker in ("integration", "e2e"):
            if marker in parts:
                item.add_marker(marker)


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def vectors_dir() -> Path:
    """The project's own vectors, kept in the repository."""
    return REPOSITORY / "tests" / "vectors"


@pytest.fixture(scope="session")
def load_vectors(vectors_dir: Path) -> Callable[[str], Any]:
    """Reads one file of the project's own vectors by name."""

    def load(name: str) -> Any:
        return json.loads((vectors_dir / name).read_text(encoding="utf-8"))

    return load


@pytest.fixture(scope="session")
def shared_vectors_dir() -> Path:
    """Vectors of others, which are not in the repository; tests that need them skip where they are absent."""
    named = os.environ.get("AIOUM_VECTORS")
    folder = Path(named) if named else REPOSITORY.parent / "shared" / "vectors"
    if folder.is_dir():
        return folder
    if named:
        pytest.fail(f"AIOUM_VECTORS names no folder: {named}")
    pytest.skip("the shared vectors are not beside the checkout; set AIOUM_VECTORS to their folder")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of this run's own."""
    programs = server_programs()
    if programs is None:
        if os.environ.get("AIOUM_TEST_POSTGRESQL") == "1":
            pytest.fail("AIOUM_TEST_POSTGRESQL asks for PostgreSQL, which is not installed (initdb)")
        pytest.skip("PostgreSQL is not installed (initdb); Debian has it in the package postgresql")
    with running_server(programs) as server:
        yield server
