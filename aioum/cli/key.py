"""`aioum key`."""

from __future__ import annotations

from pathlib import Path

import click

from aioum.cli.keys import KeySource, read_password
from aioum.cli.output import print_facts, print_json
from aioum.cli.settings import examples, json_option, verbose_option

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group()
def key() -> None:
    """Make key stores."""


@key.command(
    epilog=examples(
        "aioum key create key.json",
        "aioum key create key.json --password-file password --from-key-file key.txt",
    )
)
@click.argument("store", metavar="FILE", type=_FILE)
@click.option(
    "--password-file",
    type=_FILE,
    metavar="FILE",
    envvar="AIOUM_PASSWORD_FILE",
    show_envvar=True,
    help="File with the new key store's password; without it you are asked.",
)
@click.option(
    "--from-key-file",
    type=_FILE,
    metavar="FILE",
    help="Keep this key (0x and 64 hex digits), make no new one.",
)
@json_option
@verbose_option
def create(store: Path, password_file: Path | None, from_key_file: Path | None, as_json: bool) -> None:
    """Make a key, and keep it in FILE, encrypted with a password.

    FILE is a version 3 key store, which other Ethereum tools read too. An existing file is never replaced.
    Keep a copy of file and password: whoever loses either loses what the account holds.
    """
    from aioum.chain.keystore import create_keystore
    from aioum.core.hextext import address_text

    known = None if from_key_file is None else KeySource(key_file=from_key_file).load(chain_id=0)
    made = create_keystore(store, read_password(store, password_file, confirm=True), known)
    address = address_text(made.address)
    if as_json:
        print_json({"address": address, "file": str(store)})
    else:
        print_facts([("address", address), ("file", str(store))])
