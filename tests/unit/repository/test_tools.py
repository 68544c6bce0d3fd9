"""What tests skip without is an error where it has to be there."""

from pathlib import Path

import pytest

from tests.tools import missing


@pytest.mark.parametrize(("said", "outcome"), [("1", pytest.fail.Exception), ("0", pytest.skip.Exception)])
def test_a_missing_tool_is_an_error_where_nothing_may_be_missing(
    monkeypatch: pytest.MonkeyPatch, said: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("AIOUM_TEST_TOOLS", said)

    with pytest.raises(outcome, match="it is not installed"):
        missing("it is not installed")


def test_nothing_may_be_missing_in_ci(repository: Path) -> None:
    said = (repository / ".ci" / "run").read_text(encoding="utf-8").splitlines()

    assert {"export AIOUM_TEST_TOOLS=1", "export AIOUM_TEST_POSTGRESQL=1"} <= set(said)
