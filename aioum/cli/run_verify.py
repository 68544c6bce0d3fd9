"""`aioum run verify`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aioum.cli.failures import FAILED, INTERRUPTED, WRONG_USAGE, Invocation, report
from aioum.cli.log_named import named_log_options
from aioum.cli.run_policy import policy_options
from aioum.cli.settings import examples, json_option, verbose_option

if TYPE_CHECKING:
    from aioum.cli.run_logged import Logged
    from aioum.core.canonical import JsonValue
    from aioum.core.types import ChannelId
    from aioum.log.monitor import LogIdentity
    from aioum.run.capsule import Capsule
    from aioum.run.disclosure import Disclosure
    from aioum.run.disclosure_verification import DisclosureVerdict
    from aioum.run.links import Links, SessionLeaves
    from aioum.run.policy import SealPolicy
    from aioum.run.verification import CapsuleVerdict
    from aioum.trust.timestamps import Timestamp

_FILE = click.Path(path_type=Path, dir_okay=False)


@dataclass(frozen=True, slots=True)
class Stamped:
    """What became of the timestamp that a person handed in.

    Attributes:
        time: the verified timestamp, or None.
        reason: the code of what is wrong with it, or None.
        message: for people.
    """

    time: Timestamp | None
    reason: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """Everything that was found about a file.

    Attributes:
        verdict: on the seal and what it seals.
        logged: where a log proof was handed in.
        stamped: where a timestamp was handed in.
        links: where packages of sessions were handed in.
    """

    verdict: CapsuleVerdict | DisclosureVerdict
    logged: Logged | None
    stamped: Stamped | None
    links: Links | None

    @property
    def reason(self) -> str | None:
        """The code of the first that broke, or None."""
        logged = None if self.logged is None else self.logged.reason
        stamped = None if self.stamped is None else self.stamped.reason
        linked = CALL_DIFFERENT if self.links is not None and self.links.different else None
        return self.verdict.reason or logged or stamped or linked


CALL_DIFFERENT = "call-link-mismatch"
"""A paid call of the run is another one in its session's package."""


@click.command(
    epilog=examples(
        "aioum run verify run-42.json --trust agent.pem.pub",
        "aioum run verify run-42.json --trust agent.pem.pub --pin 0x5f…",
        "aioum run verify run-42.json --log run-42.log.json --log-origin agent.example/log --log-key 1ZBx…",
        "aioum run verify run-42.json --package session-3.json --package session-4.json",
        "aioum run verify shown.json --policy policy.json --json",
    )
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option(
    "--pin",
    "pinned_root",
    metavar="ROOT",
    help="The run's root as you learned it before: this shows a run that its owner rebuilt.",
)
@click.option(
    "--log",
    "proof_file",
    type=_FILE,
    metavar="FILE",
    help="Proof that the run's root is in a log, with --log-origin and --log-key; this too shows a run that "
    "was rebuilt later. Keys that the policy believes for a stretch of the log are judged by the proven "
    "index.",
)
@named_log_options
@click.option(
    "--log-index",
    type=click.IntRange(0),
    metavar="INDEX",
    help="In place of --log: where the log has the run's root, if you have verified that yourself.",
)
@click.option(
    "--timestamp",
    "timestamp_file",
    type=_FILE,
    metavar="FILE",
    help="RFC 3161 timestamp (DER) over the seal digest.",
)
@click.option(
    "--timestamp-root",
    "root_files",
    type=_FILE,
    multiple=True,
    metavar="FILE",
    help="Root certificates (PEM) of timestamp authorities that you believe; can be given several times.",
)
@click.option(
    "--package",
    "package_files",
    type=_FILE,
    multiple=True,
    metavar="FILE",
    help="Evidence package of a session that the run paid in: are its calls those of the run? Can be given "
    "several times.",
)
@policy_options
@json_option
@verbose_option
@click.pass_obj
def verify(
    invocation: Invocation | None,
    /,
    file: Path,
    policy: Callable[[], SealPolicy],
    as_json: bool,
    **options: Any,
) -> int:
    """Verify a capsule or a disclosure.

    FILE is a sealed run or a disclosure of one, '-' for standard input. Every guarantee is listed: ✓ holds,
    ✗ broken, ○ not checked. The reason is the code of the first that broke.

    A run that its owner rebuilt and sealed again verifies, unless its root was pinned or logged before:
    --pin or --log shows it.

    Exit codes: 0 everything that was checked holds, 1 something broke, 2 wrong usage, or a file that cannot
    be read.
    """
    try:
        judgement = _judge(file, policy(), **options)
        _print(judgement, as_json=as_json)
    except BaseException as error:
        # 1 is a verdict; whatever keeps the file from being judged is 2.
        verbose = invocation is not None and invocation.verbose
        return INTERRUPTED if report(error, verbose=verbose) == INTERRUPTED else WRONG_USAGE
    return FAILED if judgement.reason else 0


def _judge(
    file: Path,
    policy: SealPolicy,
    *,
    pinned_root: str | None,
    proof_file: Path | None,
    known_log: LogIdentity | None,
    log_index: int | None,
    timestamp_file: Path | None,
    root_files: tuple[Path, ...],
    package_files: tuple[Path, ...],
) -> Judgement:
    from aioum.cli.verify_run_inputs import read_bytes
    from aioum.core.hextext import bytes32
    from aioum.run.capsule import MAX_CAPSULE_BYTES, Capsule
    from aioum.run.disclosure_verification import verify_read_disclosure
    from aioum.run.links import check_links
    from aioum.run.stamping import seal_digest
    from aioum.run.verification import verify_read_capsule

    if (timestamp_file is None) is not (not root_files):
        raise click.UsageError("--timestamp and --timestamp-root go together")
    if proof_file is not None and log_index is not None:
        raise click.UsageError("--log proves the index, --log-index says it: give one")
    if (proof_file is None) is not (known_log is None):
        raise click.UsageError("--log needs --log-origin and --log-key, and they need it")
    pin = None if pinned_root is None else bytes32(pinned_root)
    sealed = read_sealed(read_bytes(file, MAX_CAPSULE_BYTES))
    logged = None
    if proof_file is not None and known_log is not None:
        from aioum.cli.run_logged import look_up

        logged = look_up(proof_file, known_log, sealed.envelope.payload)
        log_index = logged.index
    verdict: CapsuleVerdict | DisclosureVerdict
    if isinstance(sealed, Capsule):
        verdict = verify_read_capsule(sealed, policy, pinned_root=pin, log_index=log_index)
    else:
        verdict = verify_read_disclosure(sealed, policy, pinned_root=pin, log_index=log_index)
    stamped = None
    if timestamp_file is not None:
        stamped = _check_timestamp(timestamp_file, root_files, seal_digest(sealed.envelope))
    links = None
    if package_files:
        links = check_links((item.event for item in sealed.events), _sessions(package_files))
    return Judgement(verdict, logged, stamped, links)


def _sessions(files: tuple[Path, ...]) -> SessionLeaves:
    """Raises InvalidInput `file-unusable`, `package-malformed`, or as `parse_package`."""
    from aioum.cli.verify_run_inputs import read_bytes
    from aioum.core.errors import InvalidInput
    from aioum.core.evidence import MAX_PACKAGE_BYTES
    from aioum.core.evidence_reading import parse_package
    from aioum.run.links import leaves_of

    sessions: dict[ChannelId, Mapping[int, bytes]] = {}
    for file in files:
        package = parse_package(read_bytes(file, MAX_PACKAGE_BYTES))
        if package.channel_id is None:
            raise InvalidInput(f"{file} does not say which session it is of", code="package-malformed")
        sessions[package.channel_id] = {**sessions.get(package.channel_id, {}), **leaves_of(package.calls)}
    return sessions


def read_sealed(data: bytes) -> Capsule | Disclosure:
    """Read a capsule or a disclosure. Raises InvalidInput as `read_capsule` or `read_disclosure`."""
    from aioum.run.capsule import read_capsule
    from aioum.run.disclosure import DISCLOSURE_TYPE, DisclosureMalformed, read_disclosure
    from aioum.run.errors import CapsuleMalformed

    try:
        return read_capsule(data)
    except CapsuleMalformed as no_capsule:
        try:
            return read_disclosure(data)
        except DisclosureMalformed as no_disclosure:
            # Whichever it was meant to be says what is wrong with it.
            raise (no_disclosure if DISCLOSURE_TYPE.encode() in data else no_capsule) from None


def _check_timestamp(file: Path, root_files: tuple[Path, ...], digest: bytes) -> Stamped:
    from datetime import UTC, datetime

    from cryptography import x509

    from aioum.cli.verify_run_inputs import read_bytes
    from aioum.core.errors import ConfigError, SignatureInvalid
    from aioum.trust.timestamps import MAX_TIMESTAMP_BYTES, TimestampTrust, verify_timestamp

    try:
        roots = tuple(
            root
            for path in root_files
            for root in x509.load_pem_x509_certificates(read_bytes(path, MAX_TIMESTAMP_BYTES))
        )
    except ValueError as error:
        raise ConfigError(
            f"no PEM certificates: {error}", code="certificate-malformed", hint="--timestamp-root takes PEM"
        ) from error
    try:
        stamp = verify_timestamp(
            read_bytes(file, MAX_TIMESTAMP_BYTES),
            digest=digest,
            trust=TimestampTrust(roots),
            now=datetime.now(UTC),
        )
    except SignatureInvalid as error:
        return Stamped(None, error.code, str(error))
    return Stamped(stamp, None, f"sealed no later than {stamp.time.isoformat()}, says {stamp.authority}")


def _print(judgement: Judgement, *, as_json: bool) -> None:
    if not as_json:
        from aioum.cli.run_verify_output import print_judgement

        print_judgement(judgement)
        return
    from aioum.cli.output import print_json

    value: dict[str, JsonValue] = judgement.verdict.to_json() | {"reason": judgement.reason}
    if judgement.logged is not None:
        value["log"] = judgement.logged.to_json()
    stamped = judgement.stamped
    if stamped is not None:
        time = None if stamped.time is None else stamped.time.to_json()
        value["timestamp"] = {"reason": stamped.reason, "message": stamped.message, "time": time}
    if judgement.links is not None:
        value["calls"] = judgement.links.to_json()
    print_json(value)
