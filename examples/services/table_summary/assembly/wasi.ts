// The three functions of wasi-preview1 that the service needs.

@external("wasi_snapshot_preview1", "fd_read")
declare function fd_read(descriptor: i32, vectors: usize, count: i32, size: usize): i32;

@external("wasi_snapshot_preview1", "fd_write")
declare function fd_write(descriptor: i32, vectors: usize, count: i32, size: usize): i32;

@external("wasi_snapshot_preview1", "proc_exit")
declare function proc_exit(status: i32): void;

const CHUNK_BYTES = 65_536;

// One buffer of a read or write: address and length; after it the number of bytes that were moved.
const vector = memory.data(12);

/** The whole of standard input. */
export function readInput(): Uint8Array {
  let input = new Uint8Array(CHUNK_BYTES);
  let length = 0;
  while (true) {
    if (length == input.length) {
      const larger = new Uint8Array(2 * input.length);
      larger.set(input);
      input = larger;
    }
    store<usize>(vector, input.dataStart + length);
    store<u32>(vector, input.length - length, 4);
    if (fd_read(0, vector, 1, vector + 8) != 0) fail("standard input cannot be read");
    const size = load<u32>(vector, 8);
    if (size == 0) return input.subarray(0, length);
    length += size;
  }
}

/** Writes to standard output (1) or standard error (2). */
export function write(descriptor: i32, start: usize, size: i32): void {
  store<usize>(vector, start);
  store<u32>(vector, size, 4);
  if (fd_write(descriptor, vector, 1, vector + 8) != 0) proc_exit(2);
}

/** Ends the run without an answer; the node records a failed call, which costs nothing. */
export function fail(reason: string): void {
  const text = String.UTF8.encode(reason);
  write(2, changetype<usize>(text), text.byteLength);
  proc_exit(1);
}

/** What the compiler calls where a check of its own fails, such as an index out of range. */
export function abort(_message: string | null, _file: string | null, _line: u32, _column: u32): void {
  proc_exit(3);
}
