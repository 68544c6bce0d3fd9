"""One run of a module by wasmtime, always configured alike. Used in the process of `wasm_process` alone."""

from __future__ import annotations

from typing import Any, Final

import wasmtime

from aioum.kits.wasm_preview1 import Exit, Preview1, Stop, Streams

MAX_STACK_BYTES: Final = 524_288
MAX_TABLE_ELEMENTS: Final = 65_536
MAX_TABLES: Final = 16
_MAX_DETAIL_CHARACTERS = 300


def _configuration() -> wasmtime.Config:
    """One deterministic machine: the WebAssembly of 2.0, canonical NaNs, fuel; nothing newer, no threads."""
    settings: dict[str, bool | int] = {
        "consume_fuel": True,
        "cranelift_nan_canonicalization": True,
        "max_wasm_stack": MAX_STACK_BYTES,
        "parallel_compilation": False,
        # It would need a file descriptor of its own.
        "memory_init_cow": False,
    }
    newer = (
        "wasm_threads", "shared_memory", "wasm_relaxed_simd", "wasm_memory64", "wasm_multi_memory",
        "wasm_tail_call", "wasm_exceptions", "wasm_gc", "wasm_function_references", "wasm_component_model",
        "wasm_wide_arithmetic", "wasm_custom_page_sizes", "wasm_stack_switching",
    )  # fmt: skip
    config = wasmtime.Config()
    for name, value in (settings | dict.fromkeys(newer, False)).items():
        # Setting what a release does not know would silently do nothing.
        if not isinstance(getattr(wasmtime.Config, name, None), property):
            raise RuntimeError(f"this wasmtime has no setting {name}; 50 or newer is needed")
        setattr(config, name, value)
    return config


_ENGINE = wasmtime.Engine(_configuration())
_TRAPS = {"OUT_OF_FUEL": "wasm-fuel-exhausted", "STACK_OVERFLOW": "wasm-stack-exhausted"}


def run(job: dict[str, Any], wasm: bytes, stdin: bytes) -> tuple[dict[str, Any], bytes]:
    """Run a module once; returns what happened and its standard output."""
    store = wasmtime.Store(_ENGINE)
    store.set_limits(
        memory_size=job["memoryBytes"],
        table_elements=MAX_TABLE_ELEMENTS,
        instances=1,
        tables=MAX_TABLES,
        memories=1,
    )
    store.set_fuel(job["fuel"])
    streams = Streams(stdin, job["outputBytes"], bytearray(), bytearray())
    status = 0
    try:
        module = _compiled(wasm)
        linker = wasmtime.Linker(_ENGINE)
        Preview1(streams, store).define(linker, module)
        _entry(linker, store, module, job["entry"])(store)
    except Exit as exit_:
        status = exit_.status
    except Stop as stop:
        return _stopped(stop.code, stop), b""
    except wasmtime.Trap as trap:
        return _stopped(_TRAPS.get(trap.trap_code.name if trap.trap_code else "", "wasm-trap"), trap), b""
    outcome = {
        "code": None,
        "exitCode": status,
        "fuelUsed": job["fuel"] - store.get_fuel(),
        "stderr": streams.stderr.decode(errors="replace"),
    }
    return outcome, bytes(streams.stdout)


def _compiled(wasm: bytes) -> wasmtime.Module:
    # wasmtime would also take the text form, of which there are many for one module.
    if not wasm.startswith(b"\0asm"):
        raise Stop("wasm-module-invalid", "it does not begin as a WebAssembly module does")
    try:
        wasmtime.Module.validate(_ENGINE, wasm)
    except wasmtime.WasmtimeError as error:
        raise Stop("wasm-module-invalid", _line(error)) from error
    try:
        return wasmtime.Module(_ENGINE, wasm)
    except wasmtime.WasmtimeError as error:
        # The module is a good one: what failed is this compiler or this machine.
        raise Stop("wasm-process-failed", _line(error)) from error


def _entry(
    linker: wasmtime.Linker, store: wasmtime.Store, module: wasmtime.Module, name: str
) -> wasmtime.Func:
    try:
        instance = linker.instantiate(store, module)
    except wasmtime.WasmtimeError as error:
        text = _line(error)
        exceeded = "memory limits" in text or "table limits" in text or "resource limit" in text
        # Imports and limits are the module's; anything else that keeps it from starting is this machine's.
        raise Stop("wasm-memory-exceeded" if exceeded else "wasm-process-failed", text) from error
    entry = instance.exports(store).get(name)
    if not isinstance(entry, wasmtime.Func):
        raise Stop("wasm-module-invalid", f"it exports no function {name}")
    kind = entry.type(store)
    if kind.params or kind.results:
        raise Stop("wasm-module-invalid", f"its function {name} takes or returns values")
    return entry


def _stopped(code: str, reason: Exception) -> dict[str, Any]:
    return {"code": code, "detail": _line(reason)}


def _line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # The last line of an engine's message says the reason, those before it where.
    return (lines[-1] if lines else type(error).__name__)[:_MAX_DETAIL_CHARACTERS]
