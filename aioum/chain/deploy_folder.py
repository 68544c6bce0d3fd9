"""The folder that makes a deployment resumable: what was planned, and the journal of what was sent.

The plan is durable before the first transaction is signed, and every transaction is in the journal before any
endpoint sees it. So a run that is killed anywhere leaves enough to find out what it created.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from aioum.chain.creations import DeploymentPlan, contract_of
from aioum.chain.journal import SqliteTransactionJournal, TransactionState
from aioum.chain.runtime_code import build_of
from aioum.core.errors import ConfigError
from aioum.core.hextext import address_text, to_hex
from aioum.core.types import Address, Bytes32

PLAN_FILE_NAME: Final = "plan.json"
JOURNAL_FILE_NAME: Final = "transactions.sqlite3"
MAX_PLAN_SIZE_BYTES: Final = 65_536
_LOCK_FILE_NAME: Final = "lock"


class DeploymentJournal(SqliteTransactionJournal):
    """The journal of one deployment, which also tells what it created."""

    async def mined_creations(self, chain_id: int, account: Address) -> dict[str, Bytes32]:
        """Name of each contract that was created to the transaction that did it.

        Raises:
            TransactionJournalError: the journal cannot be read.
        """
        sql = (
            "SELECT purpose, transaction_hash FROM transactions "
            "WHERE chain_id = ? AND account = ? AND state = ?"
        )
        values = (chain_id, account, TransactionState.MINED.value)
        rows = await self._run(lambda connection: connection.execute(sql, values).fetchall())
        return {
            contract: Bytes32(transaction_hash)
            for purpose, transaction_hash in rows
            if (contract := contract_of(purpose)) is not None
        }


class PlannedDeployment(BaseModel):
    """What a folder is for. Another chain, account, grace period or other sources need another folder."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, populate_by_name=True)

    format_version: Literal[1] = Field(alias="formatVersion", default=1)
    chain_id: int = Field(alias="chainId", gt=0)
    account: str
    grace_period_seconds: int = Field(alias="gracePeriodSeconds", ge=0)
    compiler: str
    creation_sha256: dict[str, Annotated[str, Field(min_length=66, max_length=66)]] = Field(
        alias="creationSha256"
    )

    @classmethod
    def of(cls, plan: DeploymentPlan, chain_id: int, account: Address) -> PlannedDeployment:
        """Describe a plan for a chain and an account, with the sources that are here now."""
        build = build_of(plan.contracts)
        return cls(
            chain_id=chain_id,
            account=address_text(account),
            grace_period_seconds=plan.grace_period_seconds,
            compiler=build.compiler,
            creation_sha256={name: to_hex(value) for name, value in build.creation_sha256.items()},
        )

    def differences(self, other: PlannedDeployment) -> list[str]:
        """The names of the members in which two plans differ."""
        return [
            field.alias or name
            for name, field in type(self).model_fields.items()
            if getattr(self, name) != getattr(other, name)
        ]


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Have a folder to oneself for as long as the block runs; it is made where it is missing.

    Raises:
        ConfigError: `deploy-busy`: another program uses it.
        OSError: it cannot be made or written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / _LOCK_FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"another program deploys with {folder}", code="deploy-busy", hint="wait until it has ended"
            ) from None
        yield
    finally:
        os.close(descriptor)


def begin(folder: Path, planned: PlannedDeployment) -> None:
    """Keep the plan, durably, before anything is sent. Raises OSError."""
    _write_durably(folder / PLAN_FILE_NAME, planned.model_dump(by_alias=True))


def is_begun(folder: Path, planned: PlannedDeployment) -> bool:
    """Whether the folder holds this deployment already; False where it holds none.

    Raises:
        ConfigError: `deploy-plan-changed` or `deploy-plan-invalid`.
    """
    path = folder / PLAN_FILE_NAME
    try:
        with path.open("rb") as file:
            content = file.read(MAX_PLAN_SIZE_BYTES + 1)
    except FileNotFoundError:
        return False
    try:
        found = PlannedDeployment.model_validate_json(content)
    except ValidationError as error:
        raise ConfigError(
            f"{path} cannot be read: {error}",
            code="deploy-plan-invalid",
            hint="name another folder with --state",
        ) from error
    if differing := found.differences(planned):
        raise ConfigError(
            f"{folder} holds another deployment, which differs in {', '.join(differing)}",
            code="deploy-plan-changed",
            hint="go on with what it was begun with, or begin another one with --state",
            details={"differs": differing},
        )
    return True


def _write_durably(path: Path, content: object) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8") as file:
        file.write(json.dumps(content, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
