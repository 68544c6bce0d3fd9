"""`aioum run disclose`."""

from __future__ import annotations

from pathlib import Path

import click

from aioum.cli.output import write_file
from aioum.cli.references import CALL_INDEXES, is_number
from aioum.cli.settings import examples, verbose_option

_FILE = click.Path(path_type=Path, dir_okay=False)


class ContentFile(click.ParamType[tuple[int, Path]]):
    """A content that is handed in, such as `3=request.json`."""

    name = "content"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, Path]:
        """Read an index and a file's name."""
        if isinstance(value, tuple):
            return value
        index, equals, file = str(value).partition("=")
        if not (equals and file and is_number(index)):
            self.fail(f"{value!r:.80} is no index and file; write them like 3=request.json", param, ctx)
        return int(index), Path(file)


@click.command(
    epilog=examples(
        "aioum run disclose run-42.json --events 0-3,7 --out shown.json",
        "aioum run disclose run-42.json --folder runs/42 --inputs 3 --outputs 3,4 --out shown.json",
        "aioum run disclose run-42.json --folder runs/42 --output-file 3=answer.txt --out shown.json",
    )
)
@click.argument("capsule_file", metavar="CAPSULE", type=_FILE)
@click.option(
    "--events", type=CALL_INDEXES, metavar="INDEXES", help="Show these events, without their contents."
)
@click.option(
    "--inputs", type=CALL_INDEXES, metavar="INDEXES", help="Show these events with their inputs, as kept."
)
@click.option(
    "--outputs", type=CALL_INDEXES, metavar="INDEXES", help="Show these events with their outputs, as kept."
)
@click.option(
    "--input-file",
    "input_files",
    type=ContentFile(),
    multiple=True,
    metavar="INDEX=FILE",
    help="Show this event with its input out of a file, where the run kept none; can be given several times.",
)
@click.option(
    "--output-file",
    "output_files",
    type=ContentFile(),
    multiple=True,
    metavar="INDEX=FILE",
    help="Likewise, its output.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Folder of the run, with its secrets: needed to show contents.",
)
@click.option("-o", "--out", type=_FILE, metavar="FILE", help="Write to this file, not to standard output.")
@verbose_option
def disclose(
    capsule_file: Path,
    events: tuple[int, ...] | None,
    inputs: tuple[int, ...] | None,
    outputs: tuple[int, ...] | None,
    input_files: tuple[tuple[int, Path], ...],
    output_files: tuple[tuple[int, Path], ...],
    folder: Path | None,
    out: Path | None,
) -> None:
    """Show chosen events or contents, and nothing else.

    The disclosure holds the signed seal, the events with the proofs that they are part of the sealed run, and
    for each content the salt that opens its commitment. Of everything else it holds hashes that tell nothing.
    Whoever gets it checks it with `aioum run verify`.
    """
    from aioum.cli.verify_run_inputs import read_bytes
    from aioum.run.capsule import MAX_CAPSULE_BYTES, read_capsule
    from aioum.run.content import MAX_CONTENT_BYTES
    from aioum.run.disclosure import disclose as disclose_events
    from aioum.run.opening import openings
    from aioum.run.salts import Side

    wanted: dict[tuple[int, Side], bytes | None] = {(index, Side.INPUT): None for index in inputs or ()}
    wanted |= {(index, Side.OUTPUT): None for index in outputs or ()}
    for side, files in ((Side.INPUT, input_files), (Side.OUTPUT, output_files)):
        for index, file in files:
            wanted[index, side] = read_bytes(file, MAX_CONTENT_BYTES)
    if not wanted and not events:
        raise click.UsageError("say what to show: --events, --inputs, --outputs, --input-file, --output-file")
    if wanted and folder is None:
        raise click.UsageError("contents are opened with the run's secrets; say where they are with --folder")
    capsule = read_capsule(read_bytes(capsule_file, MAX_CAPSULE_BYTES))
    opened = {} if folder is None else openings(folder, capsule, wanted)
    write_file(out, disclose_events(capsule, events or (), opened).to_bytes())
