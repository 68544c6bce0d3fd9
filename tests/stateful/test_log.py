"""A log through appends, publications, power losses, restored copies and a second writer: one history."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aioum.core.errors import AioumError
from aioum.core.merkle import verify_consistency, verify_inclusion
from aioum.log.files import LogFolder, published_note
from aioum.log.fsck import fsck
from aioum.log.publish import FileRegister, publish
from aioum.log.tree import LogTree, MemoryNodes, leaf_hash, node_hash
from tests.unit.log.losing_disk import LosingDisk, PowerLost, chance
from tests.unit.log.samples import KEY, ORIGIN, reader, verified

counts = st.one_of(st.integers(0, 5), st.integers(250, 260))


class LogMachine(RuleBasedStateMachine):
    """Whatever happens to it, the log keeps what it acknowledged, and all that it showed is one history."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="aioum-log-"))
        (self.root / "disk").mkdir()
        self.disk = LosingDisk(self.root / "disk")
        self.path = self.root / "disk" / "log"
        self.register = FileRegister(self.root / "apart" / "register")
        self.entries: list[bytes] = []
        self.seen: dict[bytes, int] = {}
        self.copied: int | None = None
        self.number = 0
        self.log = self.opened()

    def opened(self) -> LogFolder:
        return LogFolder.open(self.path, ORIGIN, disk=self.disk)

    def fresh(self, count: int) -> list[bytes]:
        self.number += count
        return [b"%d" % number for number in range(self.number - count, self.number)]

    def publish(self, log: LogFolder) -> str | None:
        try:
            note = asyncio.run(publish(log, self.register, KEY))
        except AioumError as error:
            return error.code
        self.see(note)
        return None

    def see(self, note: bytes | None) -> None:
        if note is not None:
            self.seen.setdefault(note, verified(note).size)

    def survive(self, act: Callable[[], object], step: int) -> bool:
        """Do something while the power fails at a step; say whether it did."""
        self.disk.lose_at(step)
        try:
            act()
        except PowerLost:
            self.log.close()
            self.disk.lose(chance(step))
            self.see(asyncio.run(self.register.latest()))
            self.see(published_note(self.path))
            self.log = self.opened()
            return True
        self.disk.lose_at(-1)
        return False

    @rule(count=counts)
    def append(self, count: int) -> None:
        new = self.fresh(count)
        assert self.log.append(new) == len(self.entries)
        self.entries += new

    @rule()
    def show(self) -> None:
        assert self.publish(self.log) is None

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = self.opened()

    @rule(count=counts, step=st.integers(0, 8))
    def append_while_the_power_fails(self, count: int, step: int) -> None:
        new = self.fresh(count)
        lost = self.survive(lambda: self.log.append(new), step)
        assert self.log.size in {len(self.entries) + len(new), *([len(self.entries)] if lost else ())}
        if self.log.size > len(self.entries):
            self.entries += new

    @rule(step=st.integers(0, 30))
    def show_while_the_power_fails(self, step: int) -> None:
        self.survive(lambda: self.publish(self.log), step)

    @rule()
    def copy(self) -> None:
        shutil.rmtree(self.root / "copy", ignore_errors=True)
        shutil.copytree(self.path, self.root / "copy", ignore=shutil.ignore_patterns("lock"))
        self.copied = len(self.entries)

    @precondition(lambda self: self.copied is not None and self.copied < max(self.seen.values(), default=0))
    @rule(count=st.integers(0, 300))
    def a_copy_of_before_is_published_by_another_writer(self, count: int) -> None:
        assert self.copied is not None
        before = published_note(self.root / "copy")
        with LogFolder.open(self.root / "copy", ORIGIN) as other:
            other.append(self.fresh(count))
            shorter = other.size < max(self.seen.values())
            assert self.publish(other) == ("log-rolled-back" if shorter else "log-forked")
        assert published_note(self.root / "copy") == before
        self.copied = None

    @invariant()
    def the_log_has_what_it_acknowledged(self) -> None:
        assert self.log.size == len(self.entries)

    @invariant()
    def readers_find_what_the_visible_checkpoint_speaks_of(self) -> None:
        note = published_note(self.path)
        if note is not None:
            checkpoint = verified(note)
            assert asyncio.run(reader(self.path).root(checkpoint.size)) == checkpoint.root

    def require_one_history(self) -> None:
        plain = LogTree(MemoryNodes())
        plain.extend([leaf_hash(entry) for entry in self.entries])
        for note, size in self.seen.items():
            root = verified(note).root
            assert root == plain.root(size)
            if size:
                proof = self.log.tree.consistency(size)
                verify_consistency(size, plain.size, root, plain.root(), proof, node_hash)
        for index in range(0, plain.size, 97):
            leaf, proof = leaf_hash(self.entries[index]), self.log.tree.inclusion(index)
            verify_inclusion(leaf, index, plain.size, proof, plain.root(), node_hash)

    def teardown(self) -> None:
        try:
            assert list(self.log.entries()) == self.entries
            assert self.publish(self.log) is None
            self.require_one_history()
            assert fsck(self.path, KEY.public_key).findings == []
        finally:
            self.log.close()
            shutil.rmtree(self.root)


LogMachine.TestCase.settings = settings(max_examples=20, stateful_step_count=25)
TestLog = LogMachine.TestCase
