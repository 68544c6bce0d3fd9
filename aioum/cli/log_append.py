"""`aioum log append`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aioum.cli.log_named import LogOrigin
from aioum.cli.log_options import LogKey
from aioum.cli.output import print_facts, print_json, write_file
from aioum.cli.run_keys import password_file_option, signing_keys
from aioum.cli.settings import examples, json_option, verbose_option

if TYPE_CHECKING:
    from aioum.core.types import Bytes32
    from aioum.log.checkpoint import NoteSigner
    from aioum.log.membership import Membership

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(
    epilog=examples(
        "aioum log append runs.log run-42.json --key log.pem --origin agent.example/runs",
        "aioum log append runs.log run-43.json --key log.pem --register /other/disk/runs.checkpoint",
    )
)
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path, file_okay=False))
@click.argument("capsule", metavar="CAPSULE", type=_FILE)
@click.option(
    "--key",
    "key_file",
    type=_FILE,
    required=True,
    metavar="FILE",
    help="Ed25519 key that signs the log's checkpoints, as `aioum run keygen` makes it; not one that seals.",
)
@password_file_option
@click.option(
    "--former-key",
    "former_keys",
    type=LogKey(),
    multiple=True,
    metavar="BASE64",
    help="Public key that signed the log before this one; can be given several times.",
)
@click.option(
    "--origin",
    type=LogOrigin(),
    metavar="TEXT",
    help="Makes a new log with this name, for ever; an address without its scheme, such as "
    "agent.example/runs.",
)
@click.option(
    "--register",
    "register_file",
    type=_FILE,
    metavar="FILE",
    help="Says how far the log was published, so that a restored one is noticed; best on another disk. By "
    "default FOLDER.checkpoint.",
)
@click.option(
    "-o",
    "--out",
    type=_FILE,
    metavar="FILE",
    help="Write the proof to this file; by default CAPSULE with .log.json as its ending.",
)
@json_option
@verbose_option
def append(
    folder: Path,
    capsule: Path,
    key_file: Path,
    password_file: Path | None,
    former_keys: tuple[bytes, ...],
    origin: str | None,
    register_file: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Append a sealed run to a log of your own, publish it, and write the proof.

    The log holds the run's root alone. FOLDER/public can be served by any web server. A run that is in the
    log already is not appended again: its proof is written anew. Others check with `aioum run verify --log`.
    """
    from aioum.cli.log_proofs import proof_bytes, proof_facts, proof_json
    from aioum.core.submission.framing import encode_base64

    root = _sealed_root(capsule)
    key = _log_key(key_file, password_file)
    register = register_file or folder.with_name(f"{folder.name}.checkpoint")
    membership = asyncio.run(_append(folder, origin, register, key, former_keys, root))
    proof_file = out or capsule.with_suffix(".log.json")
    write_file(proof_file, proof_bytes(membership))
    public_key = encode_base64(key.public_key)
    if as_json:
        print_json(proof_json(membership) | {"publicKey": public_key, "file": str(proof_file)})
    else:
        print_facts([*proof_facts(membership), ("log key", public_key), ("proof", str(proof_file))])


def _sealed_root(file: Path) -> Bytes32:
    """The root of a run whose seal holds. Raises InvalidInput `capsule-broken`, or as `verify_capsule`."""
    from aioum.cli.verify_run_inputs import read_bytes
    from aioum.core.errors import InvalidInput
    from aioum.core.types import Bytes32
    from aioum.run.capsule import MAX_CAPSULE_BYTES
    from aioum.run.policy import SealPolicy
    from aioum.run.verification import verify_capsule

    verdict = verify_capsule(read_bytes(file, MAX_CAPSULE_BYTES), SealPolicy())
    if verdict.reason is not None or verdict.seal is None:
        raise InvalidInput(
            f"{file} does not hold: {verdict.reason}",
            code="capsule-broken",
            hint="`aioum run verify` says what broke; a log never forgets an entry",
        )
    return Bytes32(verdict.seal.root)


def _log_key(file: Path, password_file: Path | None) -> NoteSigner:
    from aioum.core.errors import ConfigError
    from aioum.run.keys import ED25519

    (key,) = signing_keys((file,), password_file)
    if key.alg != ED25519:
        raise ConfigError(
            f"{file} is an {key.alg} key; checkpoints are signed with {ED25519}",
            code="log-key-malformed",
            hint="make one with `aioum run keygen FILE`",
        )
    return key


async def _append(
    path: Path,
    origin: str | None,
    register: Path,
    key: NoteSigner,
    former_keys: tuple[bytes, ...],
    root: Bytes32,
) -> Membership:
    """Raises LogFolderError as `LogFolder`, ConfigError `log-missing`, PublishRefused as `publish`."""
    from aioum.core.errors import ConfigError
    from aioum.log.entry import CapsuleEntry
    from aioum.log.files import LogFolder
    from aioum.log.membership import Membership
    from aioum.log.publish import FileRegister, publish

    named = path / "origin"
    if origin is None:
        if not named.is_file():
            raise ConfigError(f"there is no log in {path}", code="log-missing", hint="--origin makes one")
        origin = named.read_text(encoding="utf-8").removesuffix("\n")
    entry = CapsuleEntry(root).to_bytes()
    with LogFolder.open(path, origin) as log:
        places = (index for index, data in enumerate(log.entries()) if data == entry)
        index = next(places, None)
        if index is None:
            index = log.append([entry])
        # Durable here: the entry. After a crash it is found above, and published now.
        note = await publish(log, FileRegister(register), key, former_keys=former_keys)
        return Membership(note, entry, index, tuple(log.tree.inclusion(index)))
