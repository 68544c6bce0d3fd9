"""Running `wasi-preview1` kits: WebAssembly without files, network, time or chance."""

from __future__ import annotations

from dataclasses import dataclass

from aioum.core.errors import InvalidInput
from aioum.kits.execution import RunLimits, RunnerUnavailable, RunResult
from aioum.kits.kit import Kit
from aioum.kits.wasm import ModuleStopped, WasmLimits, WasmUnavailable, run_module


@dataclass(frozen=True, slots=True)
class WasiKitRunner:
    """The sandbox that works everywhere. A kit reads request and artifact on stdin, and nothing else."""

    @property
    def runtime_kinds(self) -> frozenset[str]:
        """`wasi-preview1`."""
        return frozenset({"wasi-preview1"})

    def run(self, kit: Kit, request: bytes, artifact: bytes, limits: RunLimits) -> RunResult:
        """See `Runner.run`. Not for threads that run an event loop."""
        allowed = WasmLimits(
            fuel=limits.fuel,
            memory_bytes=limits.memory_bytes,
            output_bytes=limits.output_bytes,
            wall_seconds=limits.wall_seconds,
        )
        try:
            result = run_module(kit.program, request + artifact, allowed)
        except (WasmUnavailable, InvalidInput) as error:
            raise RunnerUnavailable(str(error), code=error.code, hint=error.hint) from error
        except ModuleStopped as stopped:
            return RunResult(b"", stopped.code, str(stopped))
        if result.exit_code != 0:
            return RunResult(b"", "kit-run-failed", f"status {result.exit_code}: {result.stderr:.200}")
        return RunResult(result.stdout)
