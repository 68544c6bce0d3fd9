"""docs/settings.md cannot drift from the settings."""

from __future__ import annotations

from pathlib import Path

from aioum_node.settings import settings_table

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"


def test_the_page_of_settings_is_the_table_that_the_command_prints() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.endswith("\n" + settings_table().rstrip("\n") + "\n")
