"""What a node's process denies to other programs of its own user: its memory, its environment, its cores."""

from __future__ import annotations

import ctypes
import resource
import sys
from typing import Final

_PR_SET_DUMPABLE: Final = 4


def keep_memory_private() -> None:
    """Leave no core file, and (Linux) let no program of the same user trace this one or read its `/proc`.

    Keys are in this memory. Command tools run as the same user, and could otherwise simply read it. Programs
    that are started from here are not affected.
    """
    _, highest = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, highest))
    if sys.platform == "linux" and ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise RuntimeError("the memory of this process cannot be made private")
