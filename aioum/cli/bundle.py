"""The commands `aioum bundle`: submissions to published comparisons of services."""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aioum.cli.failures import FAILED, INTERRUPTED, WRONG_USAGE, Invocation, report
from aioum.cli.settings import examples, json_option, verbose_option

if TYPE_CHECKING:
    from aioum.trust.bundle_verdict import BundleVerdict

_adapter_option = click.option(
    "--adapter",
    "adapter_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Python file with recheck_replay(artifact), or SCORING and score_episode(artifact, episode).",
)
_profile_option = click.option(
    "--profile",
    type=click.Choice(["paid", "gaos"]),
    default="paid",
    show_default=True,
    help="Rules to judge episodes by; gaos has only those of the format's own tools.",
)


@click.group()
def bundle() -> None:
    """Make and judge submissions to published comparisons."""


@bundle.command(
    epilog=examples(
        "aioum bundle verify submission --manifest comparison.json --adapter scoring.py",
        "aioum bundle verify submission --manifest-digest 9f86d081…0f00a08 --json",
    )
)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--manifest",
    "manifest_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The organizer's manifest, from anywhere but the submission.",
)
@click.option(
    "--manifest-digest",
    metavar="HEX",
    help="Its SHA-256, in place of the file: the submission's copy is used where it has this digest.",
)
@_adapter_option
@click.option(
    "--pins",
    "pins_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="JSON file with the keys of outside authorities that you trust.",
)
@_profile_option
@json_option
@verbose_option
@click.pass_obj
def verify(invocation: Invocation | None, /, folder: Path, as_json: bool, **options: Any) -> int:
    """Judge the submission in FOLDER by the organizer's manifest.

    Every episode is judged and scored again. The submission's own scores are compared, and what it says of
    its verification is refused.

    Exit codes: 0 valid, 1 not valid, 2 wrong usage, or files that are no submission or cannot be used.
    """
    try:
        # Adapters may print; standard output is the report's.
        with contextlib.redirect_stdout(sys.stderr):
            verdict, package_digest = _judge(folder, **options)
        exit_code = 0 if verdict.valid else FAILED
        _print(verdict, package_digest, exit_code, as_json=as_json)
    except BaseException as error:
        # 1 is a verdict; whatever keeps the submission from being judged is 2.
        verbose = invocation is not None and invocation.verbose
        return INTERRUPTED if report(error, verbose=verbose) == INTERRUPTED else WRONG_USAGE
    return exit_code


@bundle.command(
    epilog=examples(
        "aioum bundle pack comparison.json replays --submission 2026-07 --agent shop-7 -o submission"
    )
)
@click.argument("manifest_file", metavar="MANIFEST", type=click.Path(path_type=Path))
@click.argument("replays", type=click.Path(path_type=Path))
@click.option("--submission", "submission_id", required=True, metavar="ID", help="Name of the submission.")
@click.option("--agent", "agent_id", required=True, metavar="ID", help="What is compared.")
@click.option(
    "--kind",
    type=click.Choice(["local", "provider", "cli"]),
    default="local",
    show_default=True,
    help="How it ran.",
)
@_adapter_option
@_profile_option
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder to make.",
)
@json_option
@verbose_option
def pack(
    manifest_file: Path,
    replays: Path,
    submission_id: str,
    agent_id: str,
    kind: str,
    adapter_file: Path | None,
    profile: str,
    output: Path,
    as_json: bool,
) -> None:
    """Make a submission from MANIFEST and the folder REPLAYS.

    REPLAYS holds one file for each episode: TASK-seed-SEED-episode-N.gaos-replay.jsonl, counted from 0.
    """
    from aioum.cli.bundle_folder import read_replays, write_folder
    from aioum.cli.bundle_inputs import episode_judge, read_manifest
    from aioum.cli.output import print_facts, print_json
    from aioum.replay.facts import Profile
    from aioum.trust.bundle import AgentKind, Submitter
    from aioum.trust.package import bundle_files, package_digest
    from aioum.trust.packing import pack_bundle

    manifest = read_manifest(manifest_file)
    submitter = Submitter.from_json(
        {"submissionId": submission_id, "agentId": agent_id, "agentKind": AgentKind(kind).value}
    )
    with contextlib.redirect_stdout(sys.stderr):
        judge = episode_judge(manifest, adapter_file, Profile(profile))
        packed = pack_bundle(manifest, submitter, read_replays(replays, manifest.plan()), judge)
    files = bundle_files(packed)
    write_folder(output, files)
    made = {
        "folder": str(output),
        "manifestDigest": manifest.digest_hex,
        "contentDigest": packed.content_digest,
        "packageDigest": package_digest(files),
    }
    if as_json:
        print_json(made)
    else:
        print_facts(list(made.items()))


def _judge(
    folder: Path,
    *,
    manifest_file: Path | None,
    manifest_digest: str | None,
    adapter_file: Path | None,
    pins_file: Path | None,
    profile: str,
) -> tuple[BundleVerdict, str]:
    from aioum.cli.bundle_folder import read_folder
    from aioum.cli.bundle_inputs import episode_judge, outside_trust, read_manifest
    from aioum.replay.facts import Profile
    from aioum.trust.bundle_verdict import BundleVerdict, verify_bundle
    from aioum.trust.package import read_package

    if (manifest_file is None) == (manifest_digest is None):
        raise click.UsageError("give either --manifest or --manifest-digest", click.get_current_context())
    if manifest_digest is not None and not re.fullmatch("[0-9a-f]{64}", manifest_digest):
        raise click.UsageError(
            "--manifest-digest takes 64 lower-case hex digits", click.get_current_context()
        )
    trust = outside_trust(pins_file)
    package = read_package(read_folder(folder))
    if manifest_file is not None:
        manifest = read_manifest(manifest_file)
    elif package.bundle.manifest.digest_hex == manifest_digest:
        manifest = package.bundle.manifest
    else:
        return BundleVerdict.of_another_manifest(package.bundle), package.digest_hex
    judge_episode = episode_judge(manifest, adapter_file, Profile(profile))
    verdict = verify_bundle(package.bundle, manifest=manifest, judge_episode=judge_episode, trust=trust)
    return verdict, package.digest_hex


def _print(verdict: BundleVerdict, package_digest: str, exit_code: int, *, as_json: bool) -> None:
    if as_json:
        from aioum.cli.output import print_json

        print_json(
            {
                "reportVersion": 1,
                "packageDigest": package_digest,
                **verdict.to_json(),
                "exitCode": exit_code,
            }
        )
    else:
        from aioum.cli.bundle_output import print_verdict

        print_verdict(verdict, package_digest)
