"""The memory of a running node is its own."""

import ctypes
import subprocess
import sys
import textwrap

import pytest

PR_CAPBSET_DROP = 24

PROGRAM = textwrap.dedent("""
    import resource, subprocess, sys
    from aioum_node.hardening import keep_memory_private

    LOOK = "import os; open(f'/proc/{os.getppid()}/environ').read(); print('read it')"

    def look():
        return subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True)

    before = look()
    keep_memory_private()
    after = look()
    core, _ = resource.getrlimit(resource.RLIMIT_CORE)
    print(before.stdout.strip(), "PermissionError" in after.stderr, core)
""")


def _without_root_s_rights() -> None:
    for capability in range(41):
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can deny it")
def test_program_of_the_same_user_cannot_read_the_node_and_no_core_is_left() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=_without_root_s_rights,
    )

    assert done.stdout.split() == ["read", "it", "True", "0"]
