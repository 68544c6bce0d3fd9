"""Programs and packages that tests need, and that a machine may lack."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Skip the test; where AIOUM_TEST_TOOLS=1 says that nothing is missing, fail it."""
    if os.environ.get("AIOUM_TEST_TOOLS") == "1":
        pytest.fail(f"AIOUM_TEST_TOOLS says that nothing is missing, but {what}")
    pytest.skip(what)
