"""Modules for tests, written in WebAssembly's text form."""

from functools import cache

import wasmtime

PRELUDE = """
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
"""
TOOLS = """
  ;; Bytes 0..7 hold one buffer (address, length), 8..11 the count that WASI reports.
  (func $print (param $at i32) (param $size i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $size))
    (if (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable)))
  (func $read (param $at i32) (param $size i32) (result i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $size))
    (if (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable))
    (i32.load (i32.const 8)))
  ;; Prints a number as its eight bytes.
  (func $show (param $value i64)
    (i64.store (i32.const 16) (local.get $value))
    (call $print (i32.const 16) (i32.const 8)))
"""


@cache
def binary(text: str) -> bytes:
    """The binary form of a module's text."""
    return bytes(wasmtime.wat2wasm(text))


def module(body: str, *, imports: str = "", more: str = "", memory: str = "2") -> bytes:
    """A module whose `_start` is `body`, with `$print`, `$read` and `$show` at hand.

    Args:
        body: instructions, after its own `(local …)` declarations.
        imports: further `(import …)` fields.
        more: further functions, tables and so on.
        memory: limits of the memory in pages.
    """
    return binary(
        f'(module {PRELUDE} {imports} (memory (export "memory") {memory}) {TOOLS} {more}'
        f' (func (export "_start") {body}))'
    )


def preview1(name: str, parameters: str, result: str = "(result i32)") -> str:
    """An import of a function of wasi-preview1 as `$it`."""
    return f'(import "wasi_snapshot_preview1" "{name}" (func $it (param {parameters}) {result}))'


ECHO = module(
    """(local $size i32)
    (loop $more
      (local.set $size (call $read (i32.const 1024) (i32.const 65536)))
      (call $print (i32.const 1024) (local.get $size))
      (br_if $more (local.get $size)))"""
)
"""Prints its input."""

LOOP = module("(loop $for_ever (br $for_ever))")
EXIT_3 = module("(call $proc_exit (i32.const 3))")
TRAP = module("unreachable")
