"""`aioum log monitor`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aioum.cli.failures import FAILED, complain
from aioum.cli.log_options import (
    OperatorAddress,
    confirmations_option,
    look_json,
    look_lines,
    max_delay_option,
    private_addresses_option,
    timeout_option,
)
from aioum.cli.settings import Settings, common_options, examples

if TYPE_CHECKING:
    from aioum.client.logs.auditing import Monitor
    from aioum.client.logs.followed import Followed
    from aioum.client.logs.look import Look
    from aioum.client.logs.state_folder import StateFolder
    from aioum.core.types import Address

DEFAULT_INTERVAL_SECONDS = 60.0

STATE_FOLDER = "monitor"


@click.command(
    epilog=examples(
        "aioum log monitor --operator 0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
        "aioum log monitor --config monitor.json --peer https://monitor.example/checkpoints/ --once --json",
    )
)
@click.option(
    "--operator",
    "operators",
    type=OperatorAddress(),
    multiple=True,
    metavar="ADDRESS",
    help="Operator to follow, with the logs that its cards name; repeat for several.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help='Operators and peers as JSON: {"operators": [{"operator", "log"?, "origin"?, "publicKey"?, '
    '"maxDelaySeconds"?}], "peers"?}.',
)
@click.option(
    "--peer",
    "peers",
    multiple=True,
    metavar="FILE|FOLDER|URL",
    help="Checkpoints that another monitor saw: one, or a monitor's folder (URLs of folders end in /); "
    "repeat for several.",
)
@click.option(
    "--state",
    "state_dir",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="What is remembered, shown to peers and kept as evidence; by default monitor in the data folder.",
)
@click.option("--once", is_flag=True, help="Look once, and end.")
@click.option(
    "--interval",
    type=click.FloatRange(1, 86_400),
    default=DEFAULT_INTERVAL_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Pause between two looks.",
)
@timeout_option
@max_delay_option
@confirmations_option
@private_addresses_option
@common_options
@click.pass_context
def monitor(
    ctx: click.Context,
    settings: Settings,
    operators: tuple[Address, ...],
    config_file: Path | None,
    peers: tuple[str, ...],
    state_dir: Path | None,
    once: bool,
    interval: float,
    max_delay_seconds: int | None,
    confirmations: int,
    timeout: float,
    allow_private_addresses: bool,
) -> None:
    """Follow logs, and notice when one is rewritten or split.

    Each look proves that a log continues its last verified checkpoint, and holds it against the chain, its
    anchors and what other monitors saw. What contradicts is kept in the folder evidence of the state, signed
    checkpoints included. With --once the exit code is 1 if anything is wrong, or evidence lies there; without
    it goes on until it is stopped, and says what changes. With --json one object a line for each operator.
    """
    from aioum.client.logs.followed import Followed, read_config, require_distinct

    followed, named = ([], []) if config_file is None else read_config(config_file)
    followed += [Followed(operator) for operator in operators]
    if not followed:
        raise click.UsageError("name whom to follow: --operator or --config")
    require_distinct(followed)
    followed = [
        item if item.max_delay_seconds is not None else replace(item, max_delay_seconds=max_delay_seconds)
        for item in followed
    ]
    run = _Run(settings, followed, None if once else interval)
    opened = _open(
        settings,
        state_dir or settings.data_dir / STATE_FOLDER,
        [*named, *peers],
        confirmations,
        timeout,
        allow_private_addresses,
    )
    if not asyncio.run(run.run(opened)):
        ctx.exit(FAILED)


@asynccontextmanager
async def _open(
    settings: Settings,
    state: Path,
    peers: Sequence[str],
    confirmations: int,
    timeout_seconds: float,
    allow_private_addresses: bool,
) -> AsyncIterator[Monitor]:
    from aioum.chain.client import Chain
    from aioum.client.logs.auditing import Monitor
    from aioum.client.logs.peers import Peers
    from aioum.client.logs.state_folder import StateFolder
    from aioum.client.logs.web import open_web

    with StateFolder.open(state) as folder:
        async with (
            Chain.connect(settings.deployment()) as chain,
            open_web(allow_private_addresses=allow_private_addresses) as web,
        ):
            yield Monitor(chain, folder, web, Peers(peers, web.named), confirmations, timeout_seconds)


class _Run:
    """Each operator has looks of its own: a slow one, or one that cannot be reached, holds up no other."""

    def __init__(self, settings: Settings, followed: Sequence[Followed], interval: float | None) -> None:
        self._settings = settings
        self._followed = followed
        self._interval = interval
        self._said: dict[Address, Any] = {}

    async def run(self, opened: AbstractAsyncContextManager[Monitor]) -> bool:
        """Look until stopped, or once where there is no interval; whether all is well."""
        async with opened as monitor:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._follow(monitor, followed)) for followed in self._followed]
            return all(task.result() for task in tasks) and not monitor.folder.evidence()

    async def _follow(self, monitor: Monitor, followed: Followed) -> bool:
        while True:
            ok = await self._look(monitor, followed)
            if self._interval is None:
                return ok
            await asyncio.sleep(self._interval)

    async def _look(self, monitor: Monitor, followed: Followed) -> bool:
        from aioum.core.errors import AioumError
        from aioum.core.hextext import address_text

        try:
            look = await monitor.look(followed)
        except AioumError as error:
            # The others are looked at all the same, and this one again at the next look.
            complain(f"{address_text(followed.operator)}: {error}", error.code, error.hint)
            return False
        self._print(look, monitor.folder)
        return look.ok

    def _print(self, look: Look, folder: StateFolder) -> None:
        evidence = [str(path) for path in folder.evidence(look.state.operator)]
        value = {**look_json(look), "evidence": evidence}
        # Time goes on at every look, and says nothing by itself.
        said = {name: item for name, item in value.items() if name not in ("at", "blockNumber")}
        if self._said.get(look.state.operator) == said:
            return
        self._said[look.state.operator] = said
        if self._settings.as_json:
            click.echo(json.dumps(value, ensure_ascii=True))
            return
        for line in look_lines(look) + [f"  evidence: {path}" for path in evidence]:
            click.echo(line)
