"""`aioum-node store`: what is done to a whole store."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import click

from aioum_node.settings import Settings


def copy_to_postgres(settings: Settings, url_file: Path | None, *, as_json: bool) -> None:
    """Move the SQLite store of the settings' folder; see `copy_store`.

    Args:
        settings: name folder and schema.
        url_file: file with the database's URL; None takes `database_url_file`.
        as_json: say what was moved as JSON.
    """
    from aioum_node.secret_files import read_secret
    from aioum_node.storage import JOURNAL_FILE, read_database_url, require_driver
    from aioum_node.store.sqlite import STORE_FILE

    require_driver()
    from aioum_node.store.postgres.copying import copy_store

    url = read_database_url(settings) if url_file is None else read_secret(url_file, "the database's URL")

    async def note(step: str) -> None:
        if not as_json and step in _SAID:
            click.echo(_SAID[step])

    copied = asyncio.run(
        copy_store(
            settings.node_dir / STORE_FILE,
            settings.node_dir / JOURNAL_FILE,
            url,
            settings.database_schema,
            note,
        )
    )
    if as_json:
        click.echo(json.dumps({"sessions": copied.sessions, "calls": copied.calls}))
        return
    click.echo(f"moved {copied.sessions} sessions with {copied.calls} calls")
    click.echo('next: set store = "postgresql" in node.toml and start the node')


_SAID = {
    "copied": "copied; reading everything back",
    "proven": "every session came back with the same root",
    "marked": "the SQLite file is marked as moved",
}
