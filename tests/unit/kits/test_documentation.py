"""The page of kits names every reason code that they give."""

import re
from pathlib import Path

CODE = re.compile(r"\"((?:kit|folder|artifact)-[a-z]+(?:-[a-z]+)*)\"")


def test_the_page_lists_exactly_the_codes_in_the_source(repository: Path) -> None:
    sources = [
        *(repository / "aioum" / "kits").glob("*.py"),
        repository / "aioum" / "client" / "kit_download.py",
    ]
    given = {code for source in sources for code in CODE.findall(source.read_text(encoding="utf-8"))}
    page = (repository / "docs" / "verifier-kits.md").read_text(encoding="utf-8")
    table = page.partition("## Reason codes")[2]
    listed = set(re.findall(r"`((?:kit|folder|artifact)-[a-z-]+)`", table))
    assert listed == given
