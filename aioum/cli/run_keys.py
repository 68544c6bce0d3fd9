"""`aioum run keygen`, and the keys that other commands of `aioum run` sign with."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aioum.cli.keys import read_password
from aioum.cli.output import print_facts, print_json
from aioum.cli.settings import examples, json_option, verbose_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aioum.run.keys import SigningKey

ALGORITHMS = ("Ed25519", "ML-DSA-44", "ML-DSA-65")

_FILE = click.Path(path_type=Path, dir_okay=False)

password_file_option = click.option(
    "--password-file",
    type=_FILE,
    metavar="FILE",
    envvar="AIOUM_PASSWORD_FILE",
    show_envvar=True,
    help="File with the password of encrypted key files; without it you are asked.",
)


@click.command(
    epilog=examples(
        "aioum run keygen agent.pem",
        "aioum run keygen agent-pq.pem --algorithm ML-DSA-65 --encrypt",
    )
)
@click.argument("file", metavar="FILE", type=_FILE)
@click.option(
    "--algorithm",
    type=click.Choice(ALGORITHMS),
    default="Ed25519",
    show_default=True,
    help="What it signs with; an ML-DSA key beside an Ed25519 one outlives the day when curves fall.",
)
@click.option("--encrypt", is_flag=True, help="Encrypt the file with a password.")
@password_file_option
@json_option
@verbose_option
def keygen(file: Path, algorithm: str, encrypt: bool, password_file: Path | None, as_json: bool) -> None:
    """Make a key that seals runs.

    FILE gets the secret key, FILE.pub the public one for those who verify; both are PEM. An existing FILE is
    never replaced. The key cannot pay for anything.
    """
    from aioum.core.submission.framing import encode_base64
    from aioum.run.key_files import create_key_file, write_public_key
    from aioum.run.keys import key_id

    password = read_password(file, password_file, confirm=True) if encrypt else None
    key = create_key_file(file, algorithm, password=password)
    public_file = file.with_name(f"{file.name}.pub")
    write_public_key(public_file, key)
    made = {
        "algorithm": key.alg,
        "keyId": key_id(key.public_key),
        "publicKey": encode_base64(key.public_key),
        "file": str(file),
        "publicFile": str(public_file),
    }
    if as_json:
        print_json(made)
    else:
        print_facts(
            [
                ("algorithm", made["algorithm"]),
                ("key id", made["keyId"]),
                ("file", made["file"]),
                ("public file", made["publicFile"]),
            ]
        )


def signing_keys(files: Sequence[Path], password_file: Path | None) -> list[SigningKey]:
    """The keys of files, each with its password where it has one. Raises ConfigError as `read_key_file`."""
    from aioum.run.key_files import read_key_file

    return [read_key_file(file, partial(read_password, file, password_file)) for file in files]
