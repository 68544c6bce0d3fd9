"""`aioum kit`: verifier kits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aioum.cli.failures import INTERRUPTED, WRONG_USAGE, Invocation, report
from aioum.cli.settings import examples, json_option, verbose_option
from aioum.options.common import Command, with_options

if TYPE_CHECKING:
    from aioum.kits.execution import Runner
    from aioum.kits.kit import Kit
    from aioum.kits.reference import ArtifactSubject, KitReference
    from aioum.kits.resolution import Resolution

_FILE = click.Path(path_type=Path, dir_okay=False)

MAX_JSON_BYTES = 1_048_576
MAX_ARTIFACT_BYTES = 67_108_864


@click.group()
def kit() -> None:
    """Pack, inspect, fetch and run verifier kits.

    A kit is the program that judges the sessions of one game or service, kept as an archive under the digest
    of its bytes.
    """


def _cache_option(function: Command) -> Command:
    return click.option(
        "--cache",
        type=click.Path(path_type=Path, file_okay=False),
        envvar="AIOUM_KIT_CACHE",
        show_envvar=True,
        metavar="DIR",
        help="Folder of kits in hand; by default ~/.aioum/kits.",
    )(function)


def _network_options(function: Command) -> Command:
    return with_options(
        function,
        click.option(
            "--ca-file",
            type=_FILE,
            metavar="FILE",
            help="PEM certificates of authorities to believe, in place of the system's.",
        ),
        click.option(
            "--allow-private-addresses",
            is_flag=True,
            help="Also fetch from machines of the own network, this one included.",
        ),
    )


def _authorize_option(function: Command) -> Command:
    return click.option(
        "--authorize",
        "authorized",
        multiple=True,
        metavar="DIGEST",
        help="A kit that you want run, sha256:…; can be given several times.",
    )(function)


@kit.command(
    epilog=examples(
        "aioum kit pack ./verifier --manifest kit.json -o verifier.gaos-verifier",
        "aioum kit pack ./verifier --manifest kit.json -o v.gaos-verifier --json --mirror https://kits.example",
    )
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--manifest",
    "manifest_file",
    type=_FILE,
    required=True,
    metavar="FILE",
    help="JSON: the manifest without its list of files.",
)
@click.option("-o", "--out", type=_FILE, required=True, metavar="FILE", help="Where to write the kit.")
@click.option(
    "--mirror",
    "mirrors",
    multiple=True,
    metavar="URL",
    help="Where the kit will lie, for the reference that --json prints; can be given several times.",
)
@json_option
@verbose_option
def pack(folder: Path, manifest_file: Path, out: Path, mirrors: tuple[str, ...], as_json: bool) -> None:
    """Make a kit of the files in FOLDER and print its digest.

    The same files and manifest always give the same bytes.
    """
    from aioum.cli.output import print_json, write_file
    from aioum.cli.verify_run_inputs import read_bytes
    from aioum.core.canonical import parse_json
    from aioum.kits.fetch import require_mirror_url
    from aioum.kits.folder import read_folder
    from aioum.kits.kit import pack_kit
    from aioum.kits.manifest import KitManifest
    from aioum.kits.reference import KitReference

    for mirror in mirrors:
        require_mirror_url(mirror)
    description = parse_json(read_bytes(manifest_file, MAX_JSON_BYTES), max_bytes=MAX_JSON_BYTES)
    made = pack_kit(KitManifest.from_description(description), read_folder(folder))
    write_file(out, made.archive)
    if as_json:
        reference = KitReference(made.digest, len(made.archive), mirrors)
        print_json({"digest": made.digest, "size": len(made.archive), "reference": reference.to_json()})
    else:
        click.echo(made.digest)


@kit.command(epilog=examples("aioum kit inspect verifier.gaos-verifier", "aioum kit inspect v.tar --json"))
@click.argument("file", type=_FILE)
@json_option
@verbose_option
def inspect(file: Path, as_json: bool) -> None:
    """Check the kit in FILE and show what it says of itself. Nothing is unpacked or run.

    Anything but the canonical bytes of a kit is refused.
    """
    from aioum.cli.output import print_facts, print_json, print_table

    found = _read_kit(file)
    manifest = found.manifest
    if as_json:
        print_json({"digest": found.digest, "size": len(found.archive), "manifest": manifest.to_json()})
        return
    print_facts(
        [
            ("digest", found.digest),
            ("bytes", str(len(found.archive))),
            ("game", f"{manifest.game.id} {manifest.game.version}"),
            ("adapter", f"{manifest.adapter.id} {manifest.adapter.version}"),
            ("runtime", manifest.runtime.kind),
            ("entrypoint", manifest.entrypoint),
            ("formats", ", ".join(manifest.replay_formats)),
        ]
    )
    click.echo()
    print_table(
        ("path", "bytes", "digest"),
        [(entry.path, str(entry.size_bytes), entry.digest) for entry in manifest.files],
        empty="",
    )


@kit.command(
    epilog=examples(
        "aioum kit fetch session.gaos-replay.jsonl",
        "aioum kit fetch session.gaos-replay.jsonl --authorize sha256:1917…9477 -o verifier.gaos-verifier",
    )
)
@click.argument("artifact", type=click.Path(path_type=Path, allow_dash=True))
@click.option("-o", "--out", type=_FILE, metavar="FILE", help="Also write the kit to this file.")
@_authorize_option
@_cache_option
@_network_options
@json_option
@verbose_option
def fetch(
    artifact: Path,
    out: Path | None,
    authorized: tuple[str, ...],
    cache: Path | None,
    as_json: bool,
    **network: Any,
) -> int:
    """Fetch the kit that ARTIFACT names, unless it is in the cache. Nothing is run.

    By HTTPS alone, without redirects, at most 64 MiB, from public addresses. Exit codes: 0 the kit is in
    hand, 1 it is not.
    """
    from aioum.cli.output import write_file

    subject = _subject(_read_artifact(artifact))
    reference = None if subject is None else subject.reference
    found = asyncio.run(_resolve(reference, authorized, cache, may_fetch=True, **network))
    if found.kit is not None and out is not None:
        write_file(out, found.kit.archive)
    _print(found, as_json=as_json, judged=False)
    return 0 if found.kit is not None else 1


@kit.command(
    epilog=examples(
        "aioum kit run session.gaos-replay.jsonl --authorize sha256:1917…9477",
        "aioum kit run session.gaos-replay.jsonl --kit verifier.gaos-verifier --authorize sha256:1917…9477",
        "aioum kit run old.gaos-replay.jsonl --authorize sha256:1917…9477 --image verifier@sha256:ab12…",
    )
)
@click.argument("artifact", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--kit", "kit_file", type=_FILE, metavar="FILE", help="Use this kit, whatever ARTIFACT names.")
@_authorize_option
@click.option("--fetch", "may_fetch", is_flag=True, help="Fetch the kit if it is not in the cache.")
@click.option("--image", metavar="NAME@DIGEST", help="Image in which node-esm kits run; it must be present.")
@click.option(
    "--engine",
    type=click.Choice(["docker", "podman"]),
    help="Container engine; by default the first that is installed.",
)
@_cache_option
@_network_options
@json_option
@verbose_option
@click.pass_obj
def run(
    invocation: Invocation | None,
    /,
    artifact: Path,
    kit_file: Path | None,
    authorized: tuple[str, ...],
    may_fetch: bool,
    image: str | None,
    engine: str | None,
    cache: Path | None,
    as_json: bool,
    **network: Any,
) -> int:
    """Have a kit judge ARTIFACT, in a sandbox and only if you authorize its digest.

    Kits of runtime wasi-preview1 run in WebAssembly, everywhere; node-esm ones in a container of yours.
    Exit codes: 0 trusted or unverifiable, 1 rejected, 2 wrong usage, or something that cannot be read.
    """
    try:
        content = _read_artifact(artifact)
        subject = _subject(content)
        found = _found(kit_file, subject, authorized, cache, may_fetch=may_fetch, **network)
        from aioum.kits.resolution import judge

        judged = judge(found, content, subject, _runners(image, engine))
        _print(judged, as_json=as_json, judged=True)
    except BaseException as error:
        # 1 is a verdict; whatever keeps the artifact from being judged is 2.
        verbose = invocation is not None and invocation.verbose
        return INTERRUPTED if report(error, verbose=verbose) == INTERRUPTED else WRONG_USAGE
    return 1 if judged.verdict == "rejected" else 0


def _found(
    kit_file: Path | None,
    subject: ArtifactSubject | None,
    authorized: tuple[str, ...],
    cache: Path | None,
    *,
    may_fetch: bool,
    **network: Any,
) -> Resolution:
    from aioum.kits.resolution import kit_in_hand

    reference = None if subject is None else subject.reference
    if kit_file is None:
        return asyncio.run(_resolve(reference, authorized, cache, may_fetch=may_fetch, **network))
    return kit_in_hand(
        _read_kit(kit_file), source=str(kit_file), reference=reference, authorized=_digests(authorized)
    )


async def _resolve(
    reference: KitReference | None,
    authorized: tuple[str, ...],
    cache: Path | None,
    *,
    may_fetch: bool,
    allow_private_addresses: bool,
    ca_file: Path | None,
) -> Resolution:
    from aioum.kits.cache import KitCache
    from aioum.kits.resolution import resolve_kit

    fetcher = None
    if may_fetch:
        import ssl

        from aioum.client.kit_download import HttpsKitFetcher

        fetcher = HttpsKitFetcher(
            allow_private_addresses=allow_private_addresses, tls=ssl.create_default_context(cafile=ca_file)
        )
    folder = cache or Path.home() / ".aioum" / "kits"
    return await resolve_kit(
        reference, cache=KitCache(folder), fetcher=fetcher, authorized=_digests(authorized)
    )


def _runners(image: str | None, engine: str | None) -> list[Runner]:
    from aioum.kits.container import ENGINES, ContainerRunner, find_engine
    from aioum.kits.wasi_runner import WasiKitRunner

    runners: list[Runner] = [WasiKitRunner()]
    if image is not None:
        runners.append(ContainerRunner(find_engine((engine,) if engine else ENGINES), image))
    return runners


def _digests(texts: tuple[str, ...]) -> frozenset[str] | None:
    from aioum.kits.manifest import require_digest

    if not texts:
        return None
    return frozenset(require_digest(text, code="kit-digest-invalid") for text in texts)


def _read_kit(file: Path) -> Kit:
    from aioum.cli.verify_run_inputs import read_bytes
    from aioum.kits.archive import MAX_ARCHIVE_BYTES
    from aioum.kits.kit import read_kit

    return read_kit(read_bytes(file, MAX_ARCHIVE_BYTES))


def _read_artifact(file: Path) -> bytes:
    from aioum.cli.verify_run_inputs import read_bytes

    return read_bytes(file, MAX_ARTIFACT_BYTES)


def _subject(artifact: bytes) -> ArtifactSubject | None:
    from aioum.core.errors import InvalidInput
    from aioum.kits.reference import artifact_subject

    try:
        return artifact_subject(artifact)
    except InvalidInput as error:
        if error.code != "artifact-header-invalid":
            raise
        # Not a replay: a kit may judge other things too, but such things name no kit.
        return None


def _print(found: Resolution, *, as_json: bool, judged: bool) -> None:
    from aioum.cli.output import print_facts, print_json

    facts = found.to_json()
    if as_json:
        print_json(facts)
        return
    names = ["reference", "retrieval", "integrity", "authorization", "execution", "digest", "source"]
    shown = [(name, str(facts[name] or "")) for name in names]
    print_facts([("verdict", found.verdict), *shown] if judged else shown)
    for diagnostic in found.diagnostics:
        print_facts([("note", f"{diagnostic.message} [{diagnostic.code}]")])
    for remark in found.remarks:
        print_facts([("the kit says", remark)])
