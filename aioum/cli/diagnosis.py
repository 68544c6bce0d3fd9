"""What `aioum doctor` looks at: the contracts a deployments file names, the clock, and the data folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aioum.chain.client import Chain
from aioum.chain.deployment_check import (
    DO_NOT_PAY_HINT,
    Difference,
    code_differences,
    contracts_of,
    other_sources,
    wiring_differences,
)
from aioum.chain.deployments import Deployment, caip2
from aioum.chain.errors import shown_url
from aioum.chain.rpc import Rpc
from aioum.cli.settings import Settings
from aioum.core.errors import AioumError, ChainError, ConfigError
from aioum.core.hashing import keccak256
from aioum.core.hextext import address_text, to_hex
from aioum.core.types import Address
from aioum.verify.report import Status

MAX_CLOCK_SKEW_SECONDS: Final = 120
"""Newest block and machine may differ by this much: a slow chain's block time, and then some."""

MIN_FREE_BYTES: Final = 100 * 1024 * 1024
DEVNET_CHAIN_ID: Final = 31_337


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        name: what was looked at; several lines can share one.
        code: reason code of a failure, else None.
        summary: one sentence.
        hint: what can be done about a failure, or None.
    """

    name: str
    status: Status
    summary: str
    code: str | None = None
    hint: str | None = None


_CHAIN_CHECKS: Final = (
    "chain-id",
    "deployment-block",
    "code",
    "artifact",
    "wiring",
    "domain",
    "token",
    "clock",
)


async def diagnose(settings: Settings, now_seconds: float) -> list[Finding]:
    """Look at everything. Problems become findings, so one does not hide the others.

    Args:
        settings: what the command was told.
        now_seconds: the machine's clock, unix seconds.
    """
    findings = [*folder_findings(settings.data_dir)]
    try:
        deployment = settings.deployment()
    except (ChainError, ConfigError) as error:
        skipped = [_skipped(name, "no deployment is known") for name in ("endpoint", *_CHAIN_CHECKS)]
        return [_failed("deployment", error), *skipped, *findings]
    named = f"{caip2(deployment.chain_id)}, PaymentManager {address_text(deployment.payment_manager)}"
    return [
        _passed("deployment", f"the deployments file names {named}"),
        *await chain_findings(deployment, now_seconds),
        *findings,
    ]


async def chain_findings(deployment: Deployment, now_seconds: float) -> list[Finding]:
    """Hold the chain behind the endpoint against the deployment."""
    async with Rpc(deployment.rpc_url) as rpc:
        try:
            chain_id = await rpc.chain_id()
        except ChainError as error:
            skipped = [_skipped(name, "the endpoint does not answer") for name in _CHAIN_CHECKS]
            return [_failed("endpoint", error), *skipped]
        findings = [_passed("endpoint", f"{shown_url(deployment.rpc_url)} answers")]
        if chain_id != deployment.chain_id:
            text = f"the endpoint is on chain {chain_id}, the deployments file is for {deployment.chain_id}"
            findings.append(
                Finding(
                    "chain-id", Status.FAIL, text, "chain-id-mismatch", "name the right endpoint with --rpc"
                )
            )
            findings += [_skipped(name, "the endpoint is on another chain") for name in _CHAIN_CHECKS[1:]]
            return findings
        findings.append(_passed("chain-id", f"the chain's id is {chain_id}"))
        chain = Chain(rpc, chain_id, deployment.payment_manager, deployment.service_registry)
        checks: list[tuple[str, Callable[[], Awaitable[Finding]]]] = [
            ("deployment-block", lambda: _deployment_block(rpc, deployment)),
            ("code", lambda: _code(rpc, deployment)),
            ("artifact", lambda: _artifact(rpc, deployment)),
            ("wiring", lambda: _wiring(rpc, deployment)),
            ("domain", lambda: _domain(chain)),
            *(
                ("token", lambda symbol=symbol, token=token: _token(chain, symbol, token))
                for symbol, token in deployment.tokens.items()
            ),
            ("clock", lambda: _clock(chain, now_seconds)),
        ]
        for name, check in checks:
            try:
                findings.append(await check())
            except ChainError as error:
                findings.append(_failed(name, error))
        return findings


async def _deployment_block(rpc: Rpc, deployment: Deployment) -> Finding:
    block = await rpc.block(deployment.block_number)
    if block is not None and block.hash == deployment.block_hash:
        return _passed("deployment-block", f"block {block.number} is the one the contracts were deployed by")
    got = "missing" if block is None else to_hex(block.hash)
    return Finding(
        "deployment-block",
        Status.FAIL,
        f"block {deployment.block_number} is {got}, expected {to_hex(deployment.block_hash)}",
        "deployment-stale",
        "the chain was reset or is another one: `aioum devnet reset` writes a new deployments file",
    )


async def _code(rpc: Rpc, deployment: Deployment) -> Finding:
    names = {at: f"{name} at {address_text(at)}" for name, at in contracts_of(deployment).items()}
    names |= {token: f"{symbol} at {address_text(token)}" for symbol, token in deployment.tokens.items()}
    wrong = [
        names.get(at, address_text(at))
        for at, expected in deployment.code_hashes.items()
        if keccak256(await rpc.code(at)) != expected
    ]
    if wrong:
        text = f"other code than at deployment lies at {', '.join(wrong)}"
        return Finding("code", Status.FAIL, text, "code-mismatch", DO_NOT_PAY_HINT)
    return _passed("code", f"the code at {len(deployment.code_hashes)} addresses is that of the deployment")


async def _artifact(rpc: Rpc, deployment: Deployment) -> Finding:
    contracts = contracts_of(deployment)
    hint = DO_NOT_PAY_HINT
    if others := other_sources(deployment):
        hint = f"{', '.join(others)}: deployed from other sources; use the version of aioum they came with"
    if differences := await code_differences(rpc, contracts):
        return _differs("artifact", differences, hint)
    return _passed("artifact", f"{', '.join(contracts)}: the code is what their sources compile to")


async def _wiring(rpc: Rpc, deployment: Deployment) -> Finding:
    if differences := await wiring_differences(rpc, deployment):
        return _differs("wiring", differences, DO_NOT_PAY_HINT)
    return _passed("wiring", "the contracts were made for each other and for this chain")


def _differs(name: str, differences: Sequence[Difference], hint: str) -> Finding:
    text = "; ".join(difference.text for difference in differences)
    return Finding(name, Status.FAIL, text, differences[0].code, hint)


async def _domain(chain: Chain) -> Finding:
    separator = await chain.domain_separator()
    if separator != chain.domain.separator:
        text = (
            f"the PaymentManager signs under {to_hex(separator)}, we under {to_hex(chain.domain.separator)}"
        )
        return Finding("domain", Status.FAIL, text, "domain-mismatch", "it would accept no voucher of ours")
    return _passed("domain", "the PaymentManager has the domain separator that we sign under")


async def _token(chain: Chain, symbol: str, token: Address) -> Finding:
    actual, decimals = await chain.token_symbol(token), await chain.token_decimals(token)
    if actual != symbol:
        text = f"the token at {address_text(token)} calls itself {actual}, the deployments file says {symbol}"
        return Finding(
            "token", Status.FAIL, text, "token-mismatch", "check the address before you pay with it"
        )
    return _passed("token", f"{symbol} at {address_text(token)} has {decimals} decimal places")


async def _clock(chain: Chain, now_seconds: float) -> Finding:
    skew_seconds = round((await chain.head()).timestamp - now_seconds)
    direction = "ahead of" if skew_seconds > 0 else "behind"
    text = f"the newest block is {abs(skew_seconds)} s {direction} this machine"
    if abs(skew_seconds) <= MAX_CLOCK_SKEW_SECONDS:
        return _passed("clock", text)
    if chain.chain_id == DEVNET_CHAIN_ID:
        return Finding("clock", Status.NOT_APPLICABLE, f"{text}; a devnet's time can be moved")
    hint = "set this machine's clock, or use an endpoint that follows the chain"
    return Finding("clock", Status.FAIL, text, "clock-skew", hint)


def folder_findings(data_dir: Path, min_free_bytes: int = MIN_FREE_BYTES) -> Iterator[Finding]:
    """Look at the folder of the record: can it be used, can others, is there room."""
    yield _folder(data_dir)
    nearest = next(folder for folder in (data_dir, *data_dir.absolute().parents) if folder.exists())
    free = shutil.disk_usage(nearest).free
    if free < min_free_bytes:
        text = f"{free} bytes are free at {nearest}, expected at least {min_free_bytes}"
        yield Finding("disk-space", Status.FAIL, text, "disk-space-low", "a full disk stops calls: make room")
    else:
        yield _passed("disk-space", f"{free // 2**20} MiB are free at {nearest}")


def _folder(data_dir: Path) -> Finding:
    if not data_dir.exists():
        parent = next(folder for folder in data_dir.absolute().parents if folder.exists())
        if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
            return Finding("data-folder", Status.NOT_APPLICABLE, f"{data_dir} is made by the first session")
        text = f"{data_dir} does not exist and cannot be made in {parent}"
    elif not data_dir.is_dir() or not os.access(data_dir, os.R_OK | os.W_OK | os.X_OK):
        text = f"{data_dir} is no folder that this user can read and write"
    else:
        exposed = [path for path in (data_dir, *sorted(data_dir.glob("*.sqlite3*"))) if _is_exposed(path)]
        if not exposed:
            return _passed("data-folder", f"{data_dir} can be used, and by this user alone")
        text = f"others can use {', '.join(map(str, exposed))}"
        return Finding("data-folder", Status.FAIL, text, "data-dir-exposed", f"chmod -R go= {data_dir}")
    return Finding("data-folder", Status.FAIL, text, "data-dir-unusable", "name another with --data-dir")


def _is_exposed(path: Path) -> bool:
    # Files are made with mode 0600; a folder that others can merely read lists names and no more.
    forbidden = 0o022 if path.is_dir() else 0o077
    return os.name == "posix" and bool(path.stat().st_mode & forbidden)


def _passed(name: str, text: str) -> Finding:
    return Finding(name, Status.PASS, text)


def _failed(name: str, error: AioumError) -> Finding:
    return Finding(name, Status.FAIL, str(error), error.code, error.hint)


def _skipped(name: str, reason: str) -> Finding:
    return Finding(name, Status.NOT_APPLICABLE, f"not looked at: {reason}")
