"""Running a WebAssembly module: wasi-preview1 without files, network, time or chance (PROTOCOL 6).

The same module, input and limits give the same outcome on every machine; that is what makes a declared
service's answers checkable by anybody. A module runs in a process of its own (`wasm_process`), which has
limits of the operating system besides those of the engine and is killed when its time is over.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import IO, Final, NamedTuple

from aioum.core.errors import AioumError, ConfigError, InvalidInput

DEFAULT_ENTRY: Final = "_start"
MAX_MODULE_BYTES: Final = 16_777_216
MAX_INPUT_BYTES: Final = 68_157_440
_MAX_HEADER_BYTES: Final = 65_536
_ARGUMENTS: Final = ("-I", "-m", "aioum.kits.wasm_process")


@dataclass(frozen=True, slots=True)
class WasmLimits:
    """What one run may use. The defaults are those of a card's `wasm` services, but for the time.

    Attributes:
        fuel: about one per instruction, and more for calls that leave the module (docs/wasm-services.md).
        memory_bytes: the module's memory; growing it further fails inside the module.
        output_bytes: standard output, and standard error as well.
        wall_seconds: a safety net by the clock over start, compilation and run; fuel is the real limit.
    """

    fuel: int = 1_000_000_000
    memory_bytes: int = 67_108_864
    output_bytes: int = 1_048_576
    wall_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class ModuleResult:
    """How a run ended that nothing stopped.

    Attributes:
        stdout: the output.
        exit_code: of `proc_exit`, or 0 where the module simply returned.
        fuel_used: of `WasmLimits.fuel`.
        stderr: the first 2,000 bytes, as text of a foreign program.
    """

    stdout: bytes
    exit_code: int
    fuel_used: int
    stderr: str


class ModuleStopped(AioumError):
    """The module did not run to its end; the code says why.

    `wasm-module-invalid`, `wasm-import-unknown`, `wasm-memory-exceeded`, `wasm-output-exceeded`,
    `wasm-fuel-exhausted` and `wasm-trap` follow from module and input alone. `wasm-stack-exhausted` (how much
    stack compiled code needs differs between engines), `wasm-timeout` and `wasm-process-failed` do not.
    """

    default_code = "wasm-trap"

    @property
    def reproducible(self) -> bool:
        """Whether the module would end this way everywhere."""
        return self.code not in ("wasm-stack-exhausted", "wasm-timeout", "wasm-process-failed")


class WasmUnavailable(ConfigError):
    """There is no wasmtime here, so nothing ran."""

    default_code = "wasm-unavailable"


def require_wasm() -> None:
    """Return where modules can run.

    Raises:
        WasmUnavailable: wasmtime is not installed.
    """
    if find_spec("wasmtime") is None:
        raise _unavailable("wasmtime is not installed")


def run_module(
    module: bytes, stdin: bytes, limits: WasmLimits | None = None, *, entry: str = DEFAULT_ENTRY
) -> ModuleResult:
    """As `run_module_async`, waiting for it. For threads that run no event loop."""
    return asyncio.run(run_module_async(module, stdin, limits, entry=entry))


async def run_module_async(
    module: bytes, stdin: bytes, limits: WasmLimits | None = None, *, entry: str = DEFAULT_ENTRY
) -> ModuleResult:
    """Run a module once. Cancellation kills its process.

    Args:
        module: the binary form, at most MAX_MODULE_BYTES.
        stdin: at most MAX_INPUT_BYTES.
        limits: by default those of a card.
        entry: the exported function to call, without parameters and results.

    Raises:
        ModuleStopped: it did not run to its end.
        WasmUnavailable: nothing ran.
        InvalidInput: `wasm-input-too-large`; nothing ran.
    """
    limits = limits or WasmLimits()
    with _job(module, stdin, limits, entry) as job:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *_ARGUMENTS,
            stdin=job.source,
            stdout=job.sink,
            stderr=asyncio.subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(limits.wall_seconds):
                status = await process.wait()
        except TimeoutError:
            raise ModuleStopped(f"no answer within {limits.wall_seconds:g} s", code="wasm-timeout") from None
        finally:
            if process.returncode is None:
                _kill(process.pid)
                await asyncio.shield(process.wait())
        return _result(job, status)


class _Job(NamedTuple):
    """Standard streams of the process. Files, not pipes: neither side can block or flood the other."""

    source: IO[bytes]
    sink: IO[bytes]
    limits: WasmLimits


@contextmanager
def _job(module: bytes, stdin: bytes, limits: WasmLimits, entry: str) -> Iterator[_Job]:
    require_wasm()
    if len(module) > MAX_MODULE_BYTES or len(stdin) > MAX_INPUT_BYTES:
        raise InvalidInput(
            f"module and input have {len(module)} and {len(stdin)} bytes,"
            f" at most {MAX_MODULE_BYTES} and {MAX_INPUT_BYTES} are run",
            code="wasm-input-too-large",
        )
    header = {
        "entry": entry,
        "fuel": limits.fuel,
        "memoryBytes": limits.memory_bytes,
        "moduleBytes": len(module),
        "outputBytes": limits.output_bytes,
        "wallSeconds": limits.wall_seconds,
    }
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as sink:
        source.write(json.dumps(header).encode() + b"\n" + module + stdin)
        source.seek(0)
        yield _Job(source, sink, limits)


def _result(job: _Job, status: int) -> ModuleResult:
    if status != 0:
        # SIGXCPU is the processor's side of the time limit.
        code = "wasm-timeout" if status == -signal.SIGXCPU else "wasm-process-failed"
        raise ModuleStopped(f"the process of the module ended with status {status}", code=code)
    job.sink.seek(0)
    try:
        outcome = json.loads(job.sink.readline(_MAX_HEADER_BYTES))
        code, detail = outcome["code"], outcome.get("detail", "")
        output = job.sink.read(job.limits.output_bytes + 1)
        if code is None and len(output) <= job.limits.output_bytes:
            return ModuleResult(
                output, int(outcome["exitCode"]), int(outcome["fuelUsed"]), str(outcome["stderr"])
            )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModuleStopped("the process of the module gave no answer", code="wasm-process-failed") from error
    if code == "wasm-unavailable":
        raise _unavailable(detail)
    raise ModuleStopped(f"the module was stopped: {detail}", code=code or "wasm-process-failed")


def _unavailable(reason: str) -> WasmUnavailable:
    return WasmUnavailable(
        f"WebAssembly cannot be run here: {reason}", hint="pip install 'aioum[wasm]' brings wasmtime"
    )


def _kill(pid: int) -> None:
    # The process leads its own group.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
