"""`aioum run forge-demo`."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from aioum.cli.failures import FAILED
from aioum.cli.output import fact, print_json, print_table
from aioum.cli.settings import examples, json_option, verbose_option

if TYPE_CHECKING:
    from aioum.core.canonical import JsonValue
    from aioum.run.capsule import Capsule
    from aioum.run.keys import SigningKey

_ORIGIN: Final = "example.org/agents-log"


@dataclass(frozen=True, slots=True)
class Shown:
    """One attack, and what became of it.

    Attributes:
        name: of the attack.
        story: what it does.
        checked: what the verifier had in hand.
        expected: reason for refusing it, or None where it has to succeed.
        found: reason that it was refused for, or None.
        file: of the forgery.
    """

    name: str
    story: str
    checked: str
    expected: str | None
    found: str | None
    file: bytes

    @property
    def as_expected(self) -> bool:
        """Whether it went as PROTOCOL 8 says."""
        return self.found == self.expected

    def to_json(self) -> dict[str, JsonValue]:
        """The JSON object."""
        return {
            "attack": self.name,
            "story": self.story,
            "checked": self.checked,
            "expected": self.expected,
            "found": self.found,
            "asExpected": self.as_expected,
        }


@click.command(
    "forge-demo", epilog=examples("aioum run forge-demo", "aioum run forge-demo --keep forged --json")
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Keep the honest capsule, its public key and all forgeries in this folder.",
)
@json_option
@verbose_option
def forge_demo(keep: Path | None, as_json: bool) -> int:
    """Attack a sealed run, and see what each attack is refused for.

    A run is recorded and sealed with a new key. Eight attacks alter the capsule without that key; each is
    refused. The ninth is the owner's: he changes an event, hashes everything anew and signs it. That verifies
    offline, and shows only against a root that others had before: a pin, or a log.

    Exit codes: 0 everything went as the protocol says, 1 something did not.
    """
    shown = attack_everything(keep)
    if as_json:
        print_json([each.to_json() for each in shown])
    else:
        print_table(
            ("attack", "checked with", "result", "story"),
            [(each.name, each.checked, _result(each), each.story) for each in shown],
            empty="no attacks",
        )
        fact("What no seal stops: its owner can rebuild a run. Pin, log or anchor the root while it is true.")
    return 0 if all(each.as_expected for each in shown) else FAILED


def attack_everything(keep: Path | None = None) -> list[Shown]:
    """Record and seal a run, and attack it in every way.

    Args:
        keep: folder for the files, or None.
    """
    import os

    from aioum.run.forgery import ATTACKS, Means, reseal
    from aioum.run.key_files import write_public_key
    from aioum.run.keys import SEED_BYTES, Ed25519Key
    from aioum.run.policy import SealPolicy, TrustedKey
    from aioum.run.seal import read_seal
    from aioum.run.verification import verify_capsule

    owner, stranger, log_key = (Ed25519Key(os.urandom(SEED_BYTES)) for _ in range(3))
    policy = SealPolicy((TrustedKey(owner.alg, owner.public_key),))
    with tempfile.TemporaryDirectory() as folder:
        honest, other = (_record(Path(folder) / name, owner) for name in ("honest", "other"))
    root = read_seal(honest.envelope.payload).root
    in_log = _LogOfOne(root, log_key)

    def reason(file: bytes, pinned_root: bytes | None = None) -> str | None:
        return verify_capsule(file, policy, pinned_root=pinned_root).reason

    genuine = honest.to_bytes()
    honestly = reason(genuine, root) or in_log.reason(root)
    shown = [Shown("none", "the run as it was sealed", "key, pin, log", None, honestly, genuine)]
    means = Means(honest, other, stranger)
    for attack in ATTACKS:
        file = attack.forge(means)
        shown.append(Shown(attack.name, attack.story, "key", attack.reason.value, reason(file), file))
    rebuilt = reseal(honest, 1, bytes(32), [owner])
    file = rebuilt.to_bytes()
    story = "the owner changes an output, hashes everything anew and seals it"
    rebuilt_root = read_seal(rebuilt.envelope.payload).root
    shown += [
        Shown("rebuild-and-reseal", story, "key", None, reason(file), file),
        Shown("rebuild-and-reseal", story, "key, pin", "pinned-root-mismatch", reason(file, root), file),
        Shown(
            "rebuild-and-reseal", story, "key, log", "proof-root-mismatch", in_log.reason(rebuilt_root), file
        ),
    ]
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        write_public_key(keep / "owner.pem.pub", owner)
        for each in shown:
            (keep / f"{each.name}.json").write_bytes(each.file)
    return shown


def _record(folder: Path, owner: SigningKey) -> Capsule:
    from aioum.run.event import Kind
    from aioum.run.recorder import Run

    with Run.start(folder, agent="agent://forge-demo") as run:
        run.record(Kind.LLM_CALL, "plan", input="book a trip to Lisbon", output="search, then ask")
        with run.span(Kind.SUB_AGENT, "flights", input="Lisbon, in May") as flights:
            run.record(Kind.TOOL_CALL, "search", input={"to": "LIS"}, output={"price": 120})
            run.record(Kind.RETRIEVAL, "baggage rules", input="hand luggage", output="one piece")
            flights.output("120 with hand luggage")
        run.record(Kind.GUARDRAIL, "spend limit", input={"price": 120}, output="within")
        run.record(Kind.APPROVAL, "owner", input="120 with hand luggage?", output="yes")
        return run.seal(owner)


class _LogOfOne:
    """A log that took the honest root, and the checkpoint of it that everybody has seen."""

    def __init__(self, root: bytes, key: SigningKey) -> None:
        from aioum.core.types import Bytes32
        from aioum.log.checkpoint import Checkpoint, sign_checkpoint
        from aioum.log.entry import CapsuleEntry
        from aioum.log.tree import LogTree, MemoryNodes, leaf_hash

        tree = LogTree(MemoryNodes())
        # Other runs' roots stand around it.
        for logged in (bytes(32), root, b"\x01" * 32):
            tree.append(leaf_hash(CapsuleEntry(Bytes32(logged)).to_bytes()))
        self._proof = tree.inclusion(1)
        self._public_key = key.public_key
        self._note = sign_checkpoint(Checkpoint(_ORIGIN, tree.size, tree.root()), key)

    def reason(self, root: bytes) -> str | None:
        """Why this root is not the one that was logged, or None."""
        from aioum.core.errors import ProofInvalid
        from aioum.core.merkle import verify_inclusion
        from aioum.core.types import Bytes32
        from aioum.log.checkpoint import read_checkpoint
        from aioum.log.entry import CapsuleEntry
        from aioum.log.tree import leaf_hash, node_hash

        seen = read_checkpoint(self._note, _ORIGIN, self._public_key)
        leaf = leaf_hash(CapsuleEntry(Bytes32(root)).to_bytes())
        try:
            verify_inclusion(leaf, 1, seen.size, self._proof, seen.root, node_hash)
        except ProofInvalid as error:
            return error.code
        return None


def _result(shown: Shown) -> str:
    told = "verifies" if shown.found is None else f"refused: {shown.found}"
    return told if shown.as_expected else f"{told}, expected {shown.expected or 'success'}"
