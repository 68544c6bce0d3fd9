"""What a module sees of the world: wasi-preview1 reduced to standard input and output (PROTOCOL 6).

No arguments, no environment, no files, no sockets; every clock says 0; randomness is refused. Each answer is
a constant of this page, so a module cannot tell two machines or two runs apart. Runs in the process of
`wasm_process` alone.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import wasmtime

MODULE: Final = "wasi_snapshot_preview1"

SUCCESS: Final = 0
BAD_FD: Final = 8
FAULT: Final = 21
INVALID: Final = 28
NOT_SEEKABLE: Final = 70
NOT_CAPABLE: Final = 76

CALL_FUEL: Final = 1_000
"""Fuel of each call that leaves the module, and 1 more for each byte it moves: the engine counts neither."""
MAX_VECTORS: Final = 1_024
"""Most buffers of one read or write."""
VECTOR_FUEL: Final = 100
"""Fuel of each buffer of a read or write, be it empty."""
MAX_STDERR_BYTES: Final = 2_000
"""How much of standard error is kept; the rest is counted and dropped."""

_MASK = 0xFFFF_FFFF
_CLOCKS = 4
_READ_RIGHT, _WRITE_RIGHT = 1 << 1, 1 << 6

REFUSED: Final[Mapping[str, int]] = {
    # Where the list of preopened folders would begin: there are none.
    **dict.fromkeys(("fd_prestat_get", "fd_prestat_dir_name"), BAD_FD),
    **dict.fromkeys(("fd_seek", "fd_tell"), NOT_SEEKABLE),
    **dict.fromkeys(
        (
            "fd_advise", "fd_allocate", "fd_datasync", "fd_fdstat_set_flags", "fd_fdstat_set_rights",
            "fd_filestat_get", "fd_filestat_set_size", "fd_filestat_set_times", "fd_pread", "fd_pwrite",
            "fd_readdir", "fd_renumber", "fd_sync", "path_create_directory", "path_filestat_get",
            "path_filestat_set_times", "path_link", "path_open", "path_readlink", "path_remove_directory",
            "path_rename", "path_symlink", "path_unlink_file", "poll_oneoff", "proc_raise", "random_get",
            "sock_accept", "sock_recv", "sock_send", "sock_shutdown",
        ),
        NOT_CAPABLE,
    ),
}  # fmt: skip
"""Functions that a module may import and that always answer with this error number."""


class Stop(Exception):
    """Ends the module from inside a call of it; `code` as in `aioum.kits.wasm`."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class Exit(Exception):
    """The module called `proc_exit`; `status` is 0…2^32−1."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _Fault(Exception):
    """A pointer or length outside the module's memory."""


@dataclass(slots=True)
class Streams:
    """Standard streams of one run.

    Attributes:
        stdin: the whole of standard input.
        output_bytes: most bytes on standard output, and most on standard error.
    """

    stdin: bytes
    output_bytes: int
    stdout: bytearray
    stderr: bytearray
    position: int = 0
    stderr_bytes: int = 0

    def write(self, descriptor: int, data: bytes) -> None:
        """Take output. Raises `Stop` where it is too much."""
        if descriptor == 1:
            self.stdout += data
        else:
            self.stderr_bytes += len(data)
            self.stderr += data[: MAX_STDERR_BYTES - len(self.stderr)]

    def room(self, descriptor: int) -> int:
        """How many more bytes the stream takes."""
        return self.output_bytes - (len(self.stdout) if descriptor == 1 else self.stderr_bytes)


class _View:
    """The memory of a module during one call of a function here."""

    def __init__(self, caller: wasmtime.Caller) -> None:
        memory = caller.get("memory")
        if not isinstance(memory, wasmtime.Memory):
            raise Stop("wasm-trap", "the module exports no memory")
        self._caller = caller
        self._memory = memory
        self._size = memory.data_len(caller)

    def read(self, start: int, size: int) -> bytes:
        self._check(start, size)
        return bytes(self._memory.read(self._caller, start, start + size))

    def write(self, start: int, data: bytes) -> None:
        self._check(start, len(data))
        if data:
            self._memory.write(self._caller, data, start)

    def vectors(self, start: int, count: int) -> list[tuple[int, int]]:
        """Address and length of each buffer, all of them inside the memory."""
        vectors = list(struct.iter_unpack("<II", self.read(start, 8 * count)))
        for address, size in vectors:
            self._check(address, size)
        return vectors

    def _check(self, start: int, size: int) -> None:
        if start + size > self._size:
            raise _Fault


Function = Callable[..., int | None]
Kind = Literal["i32", "i64"]


class Preview1:
    """The functions that answer; `define` gives a linker what a module imports."""

    def __init__(self, streams: Streams, store: wasmtime.Store) -> None:
        self._streams = streams
        self._store = store
        self._served: dict[str, tuple[str, bool, Function]] = {
            # name: parameters, whether it returns an error number, function
            "args_get": ("ii", True, self._nothing),
            "args_sizes_get": ("ii", True, self._no_sizes),
            "environ_get": ("ii", True, self._nothing),
            "environ_sizes_get": ("ii", True, self._no_sizes),
            "clock_res_get": ("ii", True, lambda view, clock, at: self._clock(view, clock, at, 1)),
            "clock_time_get": ("iIi", True, lambda view, clock, _, at: self._clock(view, clock, at, 0)),
            "fd_close": ("i", True, lambda _, fd: SUCCESS if fd <= 2 else BAD_FD),
            "fd_fdstat_get": ("ii", True, self._describe),
            "fd_read": ("iiii", True, self._read),
            "fd_write": ("iiii", True, self._write),
            "proc_exit": ("i", False, self._exit),
            "sched_yield": ("", True, lambda _: SUCCESS),
        }

    def define(self, linker: wasmtime.Linker, module: wasmtime.Module) -> None:
        """Define every import of `module`.

        Raises:
            Stop: `wasm-import-unknown`, one of them is no function of wasi-preview1.
        """
        defined: dict[str, tuple[str, list[str]]] = {}
        for wanted in module.imports:
            name, kind = wanted.name or "", wanted.type
            if wanted.module != MODULE or not isinstance(kind, wasmtime.FuncType):
                raise _unknown(wanted.module, name)
            parameters = "".join("I" if str(part) == "i64" else str(part)[0] for part in kind.params)
            results = [str(part) for part in kind.results]
            if name in defined:
                if defined[name] != (parameters, results):
                    raise _unknown(wanted.module, name)
                continue
            defined[name] = parameters, results
            if name in REFUSED and results == ["i32"] and set(parameters) <= {"i", "I"}:
                linker.define_func(MODULE, name, kind, self._refuse(REFUSED[name]))
            elif name in self._served and self._served[name][:2] == (parameters, results == ["i32"]):
                linker.define_func(MODULE, name, kind, self._serve(self._served[name][2]), access_caller=True)
            else:
                raise _unknown(wanted.module, name)

    def _refuse(self, error: int) -> Callable[..., int]:
        def refuse(*_: int) -> int:
            self._burn(CALL_FUEL)
            return error

        return refuse

    def _serve(self, function: Function) -> Callable[..., int | None]:
        def serve(caller: wasmtime.Caller, *arguments: int) -> int | None:
            self._burn(CALL_FUEL)
            # wasmtime hands over signed numbers; addresses and lengths are not.
            try:
                return function(_View(caller), *(argument & _MASK for argument in arguments))
            except _Fault:
                return FAULT

        return serve

    def _burn(self, fuel: int) -> None:
        left = self._store.get_fuel()
        if left < fuel:
            self._store.set_fuel(0)
            raise Stop("wasm-fuel-exhausted", "the module's fuel is used up")
        self._store.set_fuel(left - fuel)

    def _nothing(self, _view: _View, _pointers: int, _text: int) -> int:
        return SUCCESS

    def _no_sizes(self, view: _View, count_at: int, size_at: int) -> int:
        view.write(count_at, bytes(4))
        view.write(size_at, bytes(4))
        return SUCCESS

    def _clock(self, view: _View, clock: int, at: int, nanoseconds: int) -> int:
        if clock >= _CLOCKS:
            return INVALID
        view.write(at, nanoseconds.to_bytes(8, "little"))
        return SUCCESS

    def _describe(self, view: _View, descriptor: int, at: int) -> int:
        if descriptor > 2:
            return BAD_FD
        # Type 0, "unknown": neither file nor terminal, so libraries buffer and do not seek.
        rights = _WRITE_RIGHT if descriptor else _READ_RIGHT
        view.write(at, struct.pack("<BxHxxxxQQ", 0, 0, rights, 0))
        return SUCCESS

    def _read(self, view: _View, descriptor: int, at: int, count: int, read_at: int) -> int:
        if descriptor != 0:
            return BAD_FD
        if count > MAX_VECTORS:
            return INVALID
        self._burn(VECTOR_FUEL * count)
        vectors = view.vectors(at, count)
        view.read(read_at, 4)
        streams, start = self._streams, self._streams.position
        for address, size in vectors:
            part = streams.stdin[streams.position : streams.position + size]
            view.write(address, part)
            streams.position += len(part)
        self._burn(streams.position - start)
        view.write(read_at, (streams.position - start).to_bytes(4, "little"))
        return SUCCESS

    def _write(self, view: _View, descriptor: int, at: int, count: int, written_at: int) -> int:
        if descriptor not in (1, 2):
            return BAD_FD
        if count > MAX_VECTORS:
            return INVALID
        self._burn(VECTOR_FUEL * count)
        vectors = view.vectors(at, count)
        view.read(written_at, 4)
        total = sum(size for _, size in vectors)
        # Before anything is copied: the buffers may name the same memory many times over.
        if total > self._streams.room(descriptor):
            raise Stop(
                "wasm-output-exceeded", f"more output than {self._streams.output_bytes} bytes were allowed"
            )
        self._burn(total)
        for address, size in vectors:
            self._streams.write(descriptor, view.read(address, size))
        view.write(written_at, total.to_bytes(4, "little"))
        return SUCCESS

    def _exit(self, _view: _View, status: int) -> None:
        raise Exit(status)


def _unknown(module: str, name: str) -> Stop:
    return Stop("wasm-import-unknown", f"the module imports {module}.{name}, which nothing here provides")
