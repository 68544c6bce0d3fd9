"""A market with an arbitrator: an honest node, one that lies when it is told to, and what everybody has."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aioum.chain.client import Chain
from aioum.core.hextext import address_text, to_hex
from aioum.devnet.accounts import well_known_keys
from aioum.devnet.running import RunningDevnet, running_devnet
from tests.integration.cli.conftest import CLIENT_ACCOUNT, NODE_ACCOUNT, Shell, make_shell, serving

LIAR_ACCOUNT: Final = 6
ARBITRATOR_ACCOUNT: Final = 7
DAY: Final = 86_400
WINDOW_SECONDS: Final = 3 * DAY
RULING_SECONDS: Final = DAY
BOND: Final = 100_001
REPEAT: Final = shlex.join(
    [
        sys.executable, "-c",
        "import json, sys; sys.stdout.write(json.load(sys.stdin)['arguments']['text'])",
    ]
)  # fmt: skip
"""What the honest node's card pins: how anybody runs its `repeat` again."""

_CODE = re.compile(r"^error: .*\[([a-z-]+)\]$", re.MULTILINE)
_CHANNEL = re.compile("0x[0-9a-f]{64}")
_PATIENCE_SECONDS: Final = 30


class LyingNode:
    """`tests.lying_node` as a program of its own; it begins honest."""

    def __init__(self, repository: Path, folder: Path, settings: dict[str, Any]) -> None:
        self._log = folder / "log"
        with self._log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.lying_node", "none"],
                cwd=repository, env=make_shell(folder).environment,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip
        said = json.loads(self._ask(json.dumps(settings)))
        self.service_id = str(said["serviceId"])

    def tell(self, lie: str) -> None:
        """Let it tell this lie from now on, or `none`."""
        assert self._ask(lie) == lie

    def wait_until_logged(self, event: str, times: int) -> None:
        """Wait until its log has told of this so often."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._log.read_text().count(event) < times:
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.05)

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            ended = self._process.wait(_PATIENCE_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
        assert ended == 0, self._log.read_text()

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().decode().strip()
        assert answer, self._log.read_text()
        return answer


@dataclass(frozen=True, slots=True)
class Court:
    """Who meets over what was bought.

    Attributes:
        client, arbitrator, operator: their command lines; the operator's node is the honest one.
        honest: number of its service; `pid` of its process, and `shop` its folder.
        liar: another operator's node.
    """

    devnet: RunningDevnet
    client: Shell
    arbitrator: Shell
    operator: Shell
    honest: str
    pid: int
    shop: Path
    liar: LyingNode

    def buy(self, service: str, tool: str, *options: str) -> Any:
        """One call by the client, which asks for the text "a"."""
        return self.client.json("call", service, tool, "--arg", "text=a", *options)

    def disagree(self, *arguments: str) -> tuple[str, str]:
        """A command of the client, which finds that its operator contradicts it: the error's code, and the
        channel.
        """
        done = self.client.run("aioum", *arguments, "--json", expect=1)
        said = done.stderr.decode()
        (code,) = _CODE.findall(said)
        # What was answered is printed before the session is closed; without an answer it says how to go on.
        channel = json.loads(done.stdout)["channelId"] if done.stdout else _CHANNEL.findall(said)[-1]
        return code, channel

    def respond(self, session: str, *options: str) -> Any:
        """Have the honest operator answer a dispute with the package that it exports itself."""
        done = self.operator.run(
            "aioum-node", "disputes", "respond", session, *options, "--dir", str(self.shop), "--json"
        )
        return json.loads(done.stdout)

    def events(self, channel: str) -> dict[str, Any]:
        """What the arbitrator sees on the chain about a session: the arguments of each kind of event."""
        watched = self.arbitrator.run(
            "aioum", "watch", "--channel", channel, "--from-block", "0", "--once", "--json"
        )
        seen = [json.loads(line) for line in watched.stdout.splitlines()]
        return {event["event"]: event["args"] for event in seen}

    def judge(self, uri: str, evidence_hash: str, *options: str) -> dict[str, str]:
        """Which checks of published evidence pass for the arbitrator, by name; none may fail."""
        judged = self.arbitrator.run(
            "verify-evidence", uri, "--evidence-hash", evidence_hash, *options, "--json"
        )
        return {check["name"]: check["status"] for check in json.loads(judged.stdout)["checks"]}

    @contextmanager
    def watching(self, channel: str) -> Iterator[Callable[[str], None]]:
        """Watch a session, as anybody can; gives what waits until an event is seen that was not yet."""
        watching = self.arbitrator.start(
            "aioum", "watch", "--channel", channel, "--from-block", "0", "--interval", "0.1", "--json",
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert watching.stdout is not None
        with closing(watching.stdout) as lines:

            def see(event: str) -> None:
                assert any(json.loads(line)["event"] == event for line in lines), f"no {event} was seen"

            try:
                yield see
            finally:
                watching.kill()
                watching.wait()

    @contextmanager
    def operator_away(self) -> Iterator[None]:
        """Nothing comes of the honest node for as long as this lasts."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def pass_time(self, seconds: int) -> None:
        """Move the chain's clock."""
        asyncio.run(self.devnet.increase_time(seconds))

    def balances(self) -> dict[str, int]:
        """Base units of everybody, and of the contracts: `held` by the PaymentManager, `bonds` elsewhere."""
        keys = well_known_keys()
        owners = {
            "client": keys[CLIENT_ACCOUNT].address,
            "operator": keys[NODE_ACCOUNT].address,
            "liar": keys[LIAR_ACCOUNT].address,
            "arbitrator": keys[ARBITRATOR_ACCOUNT].address,
        }

        async def read() -> dict[str, int]:
            async with Chain.connect(self.devnet.deployment) as chain:
                decisions = self.devnet.deployment.dispute_manager
                assert decisions is not None
                everybody = {**owners, "held": chain.payment_manager, "bonds": decisions}
                token = self.devnet.token
                return {name: await chain.token_balance(token, owner) for name, owner in everybody.items()}

        return asyncio.run(read())


class Ledger:
    """What moved since it was made."""

    def __init__(self, court: Court) -> None:
        self._court = court
        self._before = court.balances()

    def moved(self) -> dict[str, int]:
        """Base units that each gained or lost; whoever is not in it has what it had."""
        now = self._court.balances()
        # Nothing appears or vanishes: all that moved, moved between these.
        assert sum(now.values()) == sum(self._before.values())
        return {name: now[name] - had for name, had in self._before.items() if now[name] != had}


@contextmanager
def sitting_court(repository: Path, folder: Path) -> Iterator[Court]:
    """Everybody on a chain of their own, whose clock a test may move."""
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())
        running = running_devnet(folder / "devnet")
        devnet = runner.run(running.__aenter__())
        stack.callback(lambda: runner.run(running.__aexit__(None, None, None)))

        def shell(name: str, account: int) -> Shell:
            (folder / name).mkdir()
            return make_shell(
                folder / name,
                AIOUM_DEPLOYMENT=str(devnet.deployment_file),
                AIOUM_DEVNET_ACCOUNT=str(account),
                AIOUM_DATA_DIR=str(folder / name / "record"),
            )

        keys = well_known_keys()
        arbitrator = address_text(keys[ARBITRATOR_ACCOUNT].address)
        terms = {
            "dispute_window_seconds": WINDOW_SECONDS,
            "dispute_bond": "0.100001",
            "arbitrator": arbitrator,
            "ruling_period_seconds": RULING_SECONDS,
        }
        options = {**terms, "dispute_interval_seconds": 0.2}
        flags = [
            word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))
        ]
        pinned = json.dumps({"kind": "command", "entry": REPEAT})
        operator, shop = make_shell(folder, AIOUM_DETERMINISTIC=pinned), folder / "shop"
        honest = stack.enter_context(serving(operator, shop, devnet.deployment_file, *flags))
        (folder / "liar").mkdir()
        settings = {
            **options,
            "key": to_hex(keys[LIAR_ACCOUNT].secret_bytes()),
            "node_dir": str(folder / "liar" / "node"),
            "deployment_file": str(devnet.deployment_file),
            "listen_port": 0,
            "admin_port": 0,
            "watch_interval_seconds": 0.2,
            "settle_interval_seconds": 0.2,
        }
        liar = stack.enter_context(closing(LyingNode(repository, folder / "liar", settings)))
        yield Court(
            devnet, shell("client", CLIENT_ACCOUNT), shell("arbitrator", ARBITRATOR_ACCOUNT), operator,
            honest["serviceId"], int(honest["pid"]), shop, liar,
        )  # fmt: skip
