"""`aioum run seal`."""

from __future__ import annotations

from pathlib import Path

import click

from aioum.cli.output import print_facts, print_json
from aioum.cli.run_keys import password_file_option, signing_keys
from aioum.cli.settings import examples, json_option, verbose_option

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(
    epilog=examples(
        "aioum run seal runs/42 --key agent.pem --out run-42.json",
        "aioum run seal runs/42 --key agent.pem --key agent-pq.pem --out run-42.json",
    )
)
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--key",
    "key_files",
    type=_FILE,
    multiple=True,
    required=True,
    metavar="FILE",
    help="Sign with this key; can be given several times.",
)
@password_file_option
@click.option(
    "-o", "--out", type=_FILE, required=True, metavar="FILE", help="Write the capsule to this file."
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Where the journal is damaged, cut off what follows the damage, for good.",
)
@json_option
@verbose_option
def seal(
    folder: Path,
    key_files: tuple[Path, ...],
    password_file: Path | None,
    out: Path,
    accept_loss: bool,
    as_json: bool,
) -> None:
    """Seal a run from its folder, also after a crash.

    Nothing can be recorded in a sealed run. What was under way when a recorder crashed has `interrupted` as
    its output. Sealing again, maybe with other keys, gives a capsule of the same events.

    The capsule holds nothing secret. Keep FOLDER to yourself: it opens what the capsule hides.
    """
    from aioum.run.recorder import Run
    from aioum.run.seal import read_seal

    keys = signing_keys(key_files, password_file)
    with Run.resume(folder, accept_loss=accept_loss) as run:
        capsule = run.seal(*keys, file=out)
    sealed = read_seal(capsule.envelope.payload)
    root = "0x" + sealed.root.hex()
    if as_json:
        print_json(
            {
                "runId": sealed.header.run_id,
                "eventCount": sealed.event_count,
                "root": root,
                "keyIds": [signer.key_id for signer in sealed.signers],
                "file": str(out),
            }
        )
    else:
        print_facts(
            [
                ("run", sealed.header.run_id),
                ("events", str(sealed.event_count)),
                ("root", root),
                *(("signed by", f"{signer.alg} {signer.key_id}") for signer in sealed.signers),
                ("file", str(out)),
            ]
        )
