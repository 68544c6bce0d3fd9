"""The process that a command runs under: started by `aioum_node.upstream.command` as a plain script.

It reads one job from its control socket, starts the program with limits, waits, and ends everything that the
program left behind: as a subreaper (Linux) it inherits whatever runs away into another session. The control
socket is also the leash: where the node closes it, or dies, everything here ends.

As little as possible is imported, since every call pays for it: no `json`, no `typing`, no `socket`.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import resource
import select
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

SIZE_BYTES = 4
"""Before the job stands its length, big-endian."""

_LOOK_SECONDS = 0.1
_END_SECONDS = 0.01
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_IS_LINUX = sys.platform == "linux"


def main() -> None:
    """Do the one job; what happened is one line of text on the control socket."""
    control = int(sys.argv[1])
    os.set_inheritable(control, False)
    size = int.from_bytes(_read_all(control, SIZE_BYTES), "big")
    content = _read_all(control, size)
    if len(content) < size or not content:
        return
    outcome = _run(marshal.loads(content), control)  # noqa: S302 - of the node, by this very interpreter
    try:
        os.write(control, outcome.encode() + b"\n")
    except OSError:
        # The node is gone.
        return


def _read_all(descriptor: int, size: int) -> bytes:
    content = b""
    while len(content) < size and (more := os.read(descriptor, size - len(content))):
        content += more
    return content


def _run(job: dict[str, Any], control: int) -> str:
    """`exit CODE`, `over LIMIT` or `error TEXT`."""
    if _IS_LINUX:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
            return "error this system does not list the children of a process"
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    failure, failed = os.pipe()
    warden = os.getpid()
    program = os.fork()
    if program == 0:
        _become(job, failed, warden)
    os.close(failed)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        # The program's alone: as long as they were open here, nobody would see their end.
        os.dup2(nothing, stream)
    try:
        if error := os.read(failure, 1_000):
            return "error " + error.decode(errors="replace").replace("\n", " ")
        return _watch(program, job["limits"], control, woken)
    finally:
        _end_all(program, woken)


def _become(job: dict[str, Any], failed: int, warden: int) -> None:
    """Turn this child into the program."""
    try:
        os.setsid()
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            # Python ignores two of them, and programs rely on them.
            signal.signal(number, signal.SIG_DFL)
        if _IS_LINUX:
            # Should something end the warden, it ends the program too.
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        if os.getppid() != warden:
            os._exit(1)
        _confine(job["limits"])
        os.execvpe(job["argv"][0], job["argv"], job["environment"])  # noqa: S606 - no shell is wanted
    except (OSError, ValueError) as error:
        os.write(failed, str(error).encode())
    finally:
        os._exit(127)


def _confine(limits: dict[str, int]) -> None:
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: limits["cpu_seconds"],
        resource.RLIMIT_DATA: limits["memory_bytes"],
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_NOFILE: limits["open_files"],
    }
    for limit, value in wanted.items():
        _, highest = resource.getrlimit(limit)
        # A second more, so that SIGXCPU comes before SIGKILL and tells the reason.
        hard = value + 1 if limit == resource.RLIMIT_CPU else value
        if highest != resource.RLIM_INFINITY:
            value, hard = min(value, highest), min(hard, highest)
        resource.setrlimit(limit, (value, hard))


def _watch(program: int, limits: dict[str, int], control: int, woken: int) -> str:
    """Wait for the program, the end of the leash, or a limit that counts for all processes together."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(woken, select.POLLIN)
    while True:
        if (status := _reaped(program)) is not None:
            return f"exit {os.waitstatus_to_exitcode(status)}"
        running = list(_descendants())
        if len(running) > limits["processes"]:
            return "over processes"
        most = limits["memory_bytes"]
        if _resident_bytes(running) > most and _own_bytes(running) > most:
            return "over memory"
        for descriptor, _ in poll.poll(_LOOK_SECONDS * 1_000):
            if descriptor != woken:
                return "over time"
            os.read(woken, 1_000)


def _reaped(program: int) -> int | None:
    """Take in everything that has ended; the program's status where it is among it."""
    found = None
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == program:
                found = ended[1]
    except ChildProcessError:
        # There is none left.
        return found
    return found


def _end_all(program: int, woken: int) -> None:
    while True:
        stopped: set[int] = set()
        # Stopped first: what stands still starts nothing, so that the list comes to an end.
        while fresh := set(_descendants()) - stopped:
            for pid in fresh:
                _signal(pid, signal.SIGSTOP)
            stopped |= fresh
        for pid in stopped:
            _signal(pid, signal.SIGKILL)
        _signal(-program, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if select.select([woken], [], [], _END_SECONDS)[0]:
            os.read(woken, 1_000)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _descendants() -> Iterator[int]:
    """Every process below this one, in whatever session it is (Linux)."""
    if not _IS_LINUX:
        return
    todo = [os.getpid()]
    while todo:
        parent = todo.pop()
        try:
            for thread in os.listdir(f"/proc/{parent}/task"):
                children = [int(pid) for pid in _read(f"/proc/{parent}/task/{thread}/children").split()]
                todo.extend(children)
                yield from children
        except (OSError, ValueError):
            continue


def _resident_bytes(pids: list[int]) -> int:
    """Resident memory of processes; a page that several share counts for each (Linux)."""
    pages = 0
    for pid in pids:
        try:
            pages += int(_read(f"/proc/{pid}/statm").split()[1])
        except (OSError, ValueError, IndexError):
            continue
    return pages * resource.getpagesize()


def _own_bytes(pids: list[int]) -> int:
    """As `_resident_bytes`, with shared pages counted once; takes longer."""
    kibibytes = 0
    for pid in pids:
        try:
            lines = _read(f"/proc/{pid}/smaps_rollup").splitlines()
            kibibytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except (OSError, ValueError, IndexError):
            continue
    return kibibytes * 1_024


def _read(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    main()
