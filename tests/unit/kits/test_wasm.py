"""The sandbox: what a module can do, and the ways out of it that are closed."""

import asyncio
import os
import struct
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from aioum.core.errors import InvalidInput
from aioum.kits.wasm import (
    MAX_MODULE_BYTES,
    ModuleStopped,
    WasmLimits,
    WasmUnavailable,
    run_module,
    run_module_async,
)
from tests.unit.kits.wat import ECHO, EXIT_3, LOOP, TRAP, binary, module, preview1

PAGE = 65_536


def printed(wasm: bytes, stdin: bytes = b"") -> int:
    """The number that a module shows."""
    (value,) = struct.unpack("<q", run_module(wasm, stdin).stdout)
    return int(value)


def stopped(wasm: bytes, stdin: bytes = b"", limits: WasmLimits | None = None, entry: str = "_start") -> str:
    """The code that a module is stopped with."""
    with pytest.raises(ModuleStopped) as stop:
        run_module(wasm, stdin, limits, entry=entry)
    return stop.value.code


# What it can do


@pytest.mark.parametrize("size", [0, 1, 65_536, 200_000])
def test_module_reads_its_input_and_prints(size: int) -> None:
    text = os.urandom(size)

    result = run_module(ECHO, text)

    assert (result.stdout, result.exit_code, result.stderr) == (text, 0, "")


def test_exit_status_is_reported_and_output_before_it_kept() -> None:
    wasm = module(
        "(i64.store (i32.const 64) (i64.const 33)) (call $print (i32.const 64) (i32.const 1))"
        "(call $proc_exit (i32.const 300)) unreachable"
    )

    result = run_module(wasm, b"")

    assert (result.stdout, result.exit_code) == (b"!", 300)
    assert run_module(EXIT_3, b"").exit_code == 3


def test_another_entry_can_be_named_and_must_be_a_plain_function() -> None:
    wasm = binary(
        '(module (func (export "judge")) (func (export "add") (param i32)) (memory (export "m") 1))'
    )

    assert run_module(wasm, b"", entry="judge").exit_code == 0
    for entry in ("_start", "add", "m", "absent"):
        assert stopped(wasm, entry=entry) == "wasm-module-invalid"


def test_standard_error_is_kept_in_part_and_is_no_output() -> None:
    wasm = module(
        "(i32.store (i32.const 0) (i32.const 64)) (i32.store (i32.const 4) (i32.const 5000))"
        "(memory.fill (i32.const 64) (i32.const 120) (i32.const 5000))"
        "(drop (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8)))"
    )

    result = run_module(wasm, b"")

    assert (result.stdout, result.stderr) == (b"", "x" * 2_000)


# Files and network

REFUSED = [
    ("path_open", "i32 i32 i32 i32 i32 i64 i64 i32 i32", 76),
    ("path_filestat_get", "i32 i32 i32 i32 i32", 76),
    ("path_create_directory", "i32 i32 i32", 76),
    ("path_unlink_file", "i32 i32 i32", 76),
    ("path_symlink", "i32 i32 i32 i32 i32", 76),
    ("fd_readdir", "i32 i32 i32 i64 i32", 76),
    ("fd_pread", "i32 i32 i32 i64 i32", 76),
    ("fd_filestat_get", "i32 i32", 76),
    ("fd_prestat_get", "i32 i32", 8),
    ("fd_prestat_dir_name", "i32 i32 i32", 8),
    ("fd_seek", "i32 i64 i32 i32", 70),
    ("sock_accept", "i32 i32 i32", 76),
    ("sock_recv", "i32 i32 i32 i32 i32 i32", 76),
    ("sock_send", "i32 i32 i32 i32 i32", 76),
    ("sock_shutdown", "i32 i32", 76),
    ("poll_oneoff", "i32 i32 i32 i32", 76),
    ("proc_raise", "i32", 76),
    ("random_get", "i32 i32", 76),
]


@pytest.mark.parametrize("name, parameters, error", REFUSED, ids=[name for name, *_ in REFUSED])
def test_files_network_sleep_and_randomness_are_refused(name: str, parameters: str, error: int) -> None:
    arguments = " ".join(f"({kind}.const 3)" for kind in parameters.split())

    wasm = module(
        f"(call $show (i64.extend_i32_u (call $it {arguments})))", imports=preview1(name, parameters)
    )

    assert printed(wasm) == error


@pytest.mark.parametrize("descriptor", [0, 3, 4, 100, -1])
def test_only_standard_output_and_error_can_be_written(descriptor: int) -> None:
    call = f"(call $fd_write (i32.const {descriptor}) (i32.const 0) (i32.const 1) (i32.const 8))"

    assert printed(module(f"(call $show (i64.extend_i32_u {call}))")) == 8


@pytest.mark.parametrize("descriptor", [1, 2, 3, -1])
def test_only_standard_input_can_be_read(descriptor: int) -> None:
    call = f"(call $fd_read (i32.const {descriptor}) (i32.const 0) (i32.const 1) (i32.const 8))"

    assert printed(module(f"(call $show (i64.extend_i32_u {call}))")) == 8


@pytest.mark.parametrize(
    "field",
    [
        '(import "env" "system" (func (param i32) (result i32)))',
        '(import "wasi_snapshot_preview1" "sock_connect" (func (param i32 i32) (result i32)))',
        '(import "wasi_unstable" "fd_write" (func (param i32 i32 i32 i32) (result i32)))',
        '(import "wasi_snapshot_preview1" "fd_write" (func (param i64)))',
        '(import "wasi_snapshot_preview1" "path_open" (func))',
        '(import "wasi_snapshot_preview1" "path_open" (func (param f64) (result i32)))',
        '(import "wasi_snapshot_preview1" "path_open" (func (param externref) (result i32)))',
        '(import "wasi_snapshot_preview1" "fd_sync" (func (param i32) (result i32)))'
        '(import "wasi_snapshot_preview1" "fd_sync" (func (param i64) (result i32)))',
        '(import "env" "memory" (memory 1))',
        '(import "wasi_snapshot_preview1" "fd_write" (global i32))',
    ],
)
def test_an_import_that_is_no_function_of_preview1_is_refused(field: str) -> None:
    assert stopped(binary(f'(module {field} (func (export "_start")))')) == "wasm-import-unknown"


# Clock, chance, surroundings


@pytest.mark.parametrize("clock", range(4))
def test_every_clock_says_zero_and_goes_on_saying_it(clock: int) -> None:
    look = f"(call $it (i32.const {clock}) (i64.const 1) (i32.const 64))"
    wasm = module(
        f"(i64.store (i32.const 64) (i64.const 7)) (drop {look}) (drop {look})"
        "(call $show (i64.load (i32.const 64)))",
        imports=preview1("clock_time_get", "i32 i64 i32"),
    )

    assert printed(wasm) == 0


def test_clocks_tick_by_one_nanosecond_and_there_is_no_fifth() -> None:
    resolution = module(
        "(drop (call $it (i32.const 0) (i32.const 64))) (call $show (i64.load (i32.const 64)))",
        imports=preview1("clock_res_get", "i32 i32"),
    )
    fifth = module(
        "(call $show (i64.extend_i32_u (call $it (i32.const 4) (i64.const 1) (i32.const 64))))",
        imports=preview1("clock_time_get", "i32 i64 i32"),
    )

    assert (printed(resolution), printed(fifth)) == (1, 28)


def test_refused_randomness_leaves_the_buffer_as_it_was() -> None:
    wasm = module(
        "(i64.store (i32.const 64) (i64.const 7)) (drop (call $it (i32.const 64) (i32.const 8)))"
        "(call $show (i64.load (i32.const 64)))",
        imports=preview1("random_get", "i32 i32"),
    )

    assert printed(wasm) == 7


@pytest.mark.parametrize("what", ["args", "environ"])
def test_there_are_no_arguments_and_no_environment(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "value")
    sizes = module(
        "(i64.store (i32.const 64) (i64.const -1)) (drop (call $it (i32.const 64) (i32.const 68)))"
        "(call $show (i64.load (i32.const 64)))",
        imports=preview1(f"{what}_sizes_get", "i32 i32"),
    )
    texts = module(
        "(i64.store (i32.const 64) (i64.const 7)) (drop (call $it (i32.const 64) (i32.const 68)))"
        "(call $show (i64.load (i32.const 64)))",
        imports=preview1(f"{what}_get", "i32 i32"),
    )

    assert (printed(sizes), printed(texts)) == (0, 7)


def test_standard_streams_are_neither_files_nor_terminals() -> None:
    wasm = module(
        "(drop (call $it (i32.const 1) (i32.const 64))) (call $print (i32.const 64) (i32.const 24))",
        imports=preview1("fd_fdstat_get", "i32 i32"),
    )

    assert run_module(wasm, b"").stdout == struct.pack("<QQQ", 0, 1 << 6, 0)


def test_two_runs_are_equal_to_the_byte_and_in_fuel_and_nan_is_canonical() -> None:
    # 0/0 and arithmetic on a NaN with a payload: hardware differs in sign and payload of both.
    wasm = module(
        """(local $zero f64) (local $odd f64)
        (local.set $odd (f64.reinterpret_i64 (i64.const 0x7ff800000000beef)))
        (call $show (i64.reinterpret_f64 (f64.div (local.get $zero) (local.get $zero))))
        (call $show (i64.reinterpret_f64 (f64.add (local.get $odd) (f64.const 1))))
        (call $show (i64.extend_i32_u (i32.reinterpret_f32 (f32.sqrt (f32.const -1)))))"""
    )

    first, second = run_module(wasm, b""), run_module(wasm, b"")

    assert first == second
    assert first.stdout == struct.pack("<QQQ", 0x7FF8 << 48, 0x7FF8 << 48, 0x7FC00000)


# Fuel and time


def test_an_endless_loop_uses_up_its_fuel() -> None:
    assert stopped(LOOP, limits=WasmLimits(fuel=10_000_000)) == "wasm-fuel-exhausted"


def test_an_endless_loop_ends_under_the_limits_of_a_card() -> None:
    assert stopped(LOOP) == "wasm-fuel-exhausted"


def test_a_start_section_has_the_same_fuel() -> None:
    wasm = binary('(module (func $run (loop $on (br $on))) (start $run) (func (export "_start")))')

    assert stopped(wasm, limits=WasmLimits(fuel=1_000_000)) == "wasm-fuel-exhausted"


def test_calls_out_of_the_module_cost_fuel_too() -> None:
    wasm = module("(loop $on (drop (call $it)) (br $on))", imports=preview1("sched_yield", ""))

    assert stopped(wasm, limits=WasmLimits(fuel=20_000_000)) == "wasm-fuel-exhausted"


def test_moved_bytes_cost_fuel() -> None:
    assert stopped(ECHO, bytes(50_000), WasmLimits(fuel=50_000)) == "wasm-fuel-exhausted"


def test_work_of_one_instruction_on_many_bytes_costs_fuel_for_each() -> None:
    fill = f"(memory.fill (i32.const 0) (i32.const 1) (i32.const {1024 * PAGE}))"

    assert stopped(module(f"(loop $on {fill} (br $on))", memory="1024")) == "wasm-fuel-exhausted"


ENDLESS = WasmLimits(fuel=2**62)


def test_a_run_that_fuel_does_not_end_ends_by_the_clock() -> None:
    with pytest.raises(ModuleStopped) as stop:
        run_module(LOOP, b"", replace(ENDLESS, wall_seconds=0.5))

    assert stop.value.code == "wasm-timeout"
    assert not stop.value.reproducible


async def test_a_canceled_run_ends_its_process() -> None:
    others = children()
    task = asyncio.create_task(run_module_async(LOOP, b"", ENDLESS))
    await wait_until(lambda: children() - others)
    (child,) = children() - others

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert child not in children()


def children() -> set[int]:
    """Processes that this one started."""
    return {
        int(pid)
        for task in Path("/proc/self/task").iterdir()
        for pid in (task / "children").read_text().split()
    }


async def wait_until(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0)


# Memory


def grown(pages: int, memory: str) -> bytes:
    return module(f"(call $show (i64.extend_i32_s (memory.grow (i32.const {pages}))))", memory=memory)


def test_memory_grows_to_the_limit_and_not_past_it() -> None:
    assert printed(grown(1024 - 2, "2")) == 2
    assert printed(grown(1024 - 1, "2")) == -1
    assert printed(grown(65_535, "1")) == -1


def test_a_module_that_begins_above_the_limit_is_refused() -> None:
    assert run_module(module("", memory="1024"), b"").exit_code == 0
    assert stopped(module("", memory="1025")) == "wasm-memory-exceeded"


def test_huge_tables_are_refused_and_do_not_grow() -> None:
    assert stopped(module("", more="(table 65537 funcref)")) == "wasm-memory-exceeded"
    assert stopped(module("", more="(table 1 funcref)" * 17)) == "wasm-memory-exceeded"
    grows = "(call $show (i64.extend_i32_s (table.grow $t (ref.null func) (i32.const 4000000000))))"
    assert printed(module(grows, more="(table $t 1 funcref)")) == -1


def test_touching_memory_beyond_its_end_is_a_trap() -> None:
    assert stopped(module(f"(drop (i32.load (i32.const {2 * PAGE - 3})))")) == "wasm-trap"


@pytest.mark.parametrize("at", [2 * PAGE - 4, 2 * PAGE, -8, -1])
def test_pointers_outside_the_memory_are_faults_and_nothing_is_read_or_written(at: int) -> None:
    vectors = f"(call $fd_write (i32.const 1) (i32.const {at}) (i32.const 1) (i32.const 8))"
    buffers = (
        f"(i32.store (i32.const 0) (i32.const {at})) (i32.store (i32.const 4) (i32.const 5))"
        "(call $show_after (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))"
    )
    after = "(func $show_after (param i32) (call $show (i64.extend_i32_u (local.get 0))))"

    assert printed(module(f"(call $show (i64.extend_i32_u {vectors}))")) == 21
    assert printed(module(buffers, more=after), b"input") == 21


def test_deep_recursion_ends_without_harm() -> None:
    wasm = module("(call $down)", more="(func $down (call $down) (call $down))")

    with pytest.raises(ModuleStopped) as stop:
        run_module(wasm, b"")

    assert stop.value.code == "wasm-stack-exhausted"
    assert not stop.value.reproducible


def test_a_module_without_memory_cannot_use_the_streams() -> None:
    wasm = binary(
        '(module (import "wasi_snapshot_preview1" "fd_write" (func $w (param i32 i32 i32 i32) (result i32)))'
        '(func (export "_start") (drop (call $w (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))'
    )

    assert stopped(wasm) == "wasm-trap"


# Output and input


def repeated(times: int, size: int) -> bytes:
    """Prints `size` bytes `times` times."""
    return module(
        f"""(local $left i32) (local.set $left (i32.const {times}))
        (loop $on
          (call $print (i32.const 1024) (i32.const {size}))
          (br_if $on (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))"""
    )


def test_output_ends_at_one_mebibyte() -> None:
    assert run_module(repeated(16, 65_536), b"").stdout == bytes(1_048_576)
    assert stopped(repeated(17, 65_536)) == "wasm-output-exceeded"


def test_buffers_that_name_the_same_memory_often_do_not_multiply_it() -> None:
    # 1,024 buffers of 64 KiB each over one page: 64 MiB of output from one call.
    fill = """(local $at i32)
        (loop $on
          (i32.store offset=4096 (local.get $at) (i32.const 0))
          (i32.store offset=4100 (local.get $at) (i32.const 65536))
          (br_if $on (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 8))) (i32.const 8192))))"""
    call = "(call $fd_write (i32.const {}) (i32.const 4096) (i32.const {}) (i32.const 8))"

    assert stopped(module(fill + f"(drop {call.format(1, 1024)})")) == "wasm-output-exceeded"
    assert stopped(module(fill + f"(drop {call.format(2, 1024)})")) == "wasm-output-exceeded"
    assert printed(module(fill + f"(call $show (i64.extend_i32_u {call.format(1, 1025)}))")) == 28


def test_input_and_module_have_a_largest_size() -> None:
    with pytest.raises(InvalidInput) as refusal:
        run_module(bytes(MAX_MODULE_BYTES + 1), b"")

    assert refusal.value.code == "wasm-input-too-large"


# Modules that are none


@pytest.mark.parametrize(
    "wasm",
    [
        b"",
        b"no module",
        b"(module)",
        b"\0asm",
        b"\0asm\x01\0\0\0",
        b"\0asm\x0d\0\x01\0",
        ECHO[:-1],
        ECHO[:100] + b"\xff" + ECHO[101:],
    ],
)
def test_a_malformed_module_is_refused(wasm: bytes) -> None:
    assert stopped(wasm) == "wasm-module-invalid"


@pytest.mark.parametrize(
    "text",
    [
        "(module (memory 1 1 shared))",
        "(module (memory i64 1))",
        "(module (memory 1) (memory 1))",
        "(module (func (param v128) (drop (i8x16.relaxed_swizzle (local.get 0) (local.get 0)))))",
        "(module (func $f (return_call $f)))",
        "(module (tag $e) (func (throw $e)))",
        "(module (type (struct (field i32))))",
    ],
)
def test_newer_and_nondeterministic_features_are_refused(text: str) -> None:
    assert stopped(binary(text)) == "wasm-module-invalid"


def test_a_trap_of_the_module_is_reported() -> None:
    with pytest.raises(ModuleStopped) as stop:
        run_module(TRAP, b"")

    assert stop.value.code == "wasm-trap"
    assert stop.value.reproducible


# The process around it


def test_without_wasmtime_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wasmtime", None)

    with pytest.raises(WasmUnavailable) as refusal:
        run_module(ECHO, b"")

    assert refusal.value.code == "wasm-unavailable"
    assert refusal.value.hint is not None
    assert "aioum[wasm]" in refusal.value.hint


def pretend(behavior: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a shell script stand where the interpreter is."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{behavior}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))


@pytest.mark.parametrize(
    "behavior, code",
    [
        ("exit 1", "wasm-process-failed"),
        ("exit 0", "wasm-process-failed"),
        ("kill -9 $$", "wasm-process-failed"),
        ("echo '[1]'", "wasm-process-failed"),
        ("echo '{\"code\": null}'", "wasm-process-failed"),
        ("yes | head -c 3000000", "wasm-process-failed"),
        ("kill -XCPU $$", "wasm-timeout"),
    ],
)
def test_a_process_that_breaks_is_no_answer(
    behavior: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(behavior, tmp_path, monkeypatch)

    assert stopped(ECHO) == code


def test_a_wasmtime_that_does_not_load_or_is_too_old_is_as_good_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend("""echo '{"code": "wasm-unavailable", "detail": "no setting wasm_gc"}'""", tmp_path, monkeypatch)

    with pytest.raises(WasmUnavailable) as refusal:
        run_module(ECHO, b"")

    assert "wasm_gc" in str(refusal.value)


@pytest.mark.parametrize("limit, size", [("RLIMIT_DATA", 60 * 2**20), ("RLIMIT_AS", 2**31)])
def test_a_machine_with_too_little_memory_is_not_taken_for_the_modules_own_end(
    limit: str, size: int, tmp_path: Path
) -> None:
    # With this little, growing memory to what every module is promised would fail or nothing would start.
    (tmp_path / "module").write_bytes(grown(1022, "2"))
    program = (
        "import resource; from pathlib import Path; from aioum.kits.wasm import ModuleStopped, run_module\n"
        f"resource.setrlimit(resource.{limit}, ({size}, {size}))\n"
        f"try:\n    print(run_module(Path({str(tmp_path / 'module')!r}).read_bytes(), b''))\n"
        "except ModuleStopped as stop:\n    print(stop.code, stop.reproducible)\n"
    )

    assert asyncio.run(output_of(program)) == b"wasm-process-failed False\n"


def test_the_process_can_open_nothing_once_the_module_runs(tmp_path: Path) -> None:
    program = (
        "import sys; from aioum.kits.wasm_process import confine\n"
        "import socket\n"
        "confine({'wallSeconds': 5, 'memoryBytes': 67108864, 'outputBytes': 10})\n"
        f"for act in (lambda: open({str(tmp_path / 'file')!r}, 'w'), socket.socket):\n"
        "    try:\n        act()\n    except OSError as error:\n        print(error.errno)\n"
    )

    process = asyncio.run(output_of(program))

    assert process.split() == [b"24", b"24"]
    assert list(tmp_path.iterdir()) == []


async def output_of(program: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    return output
