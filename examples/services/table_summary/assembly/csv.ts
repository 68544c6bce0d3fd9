// Comma-separated values as RFC 4180 has them; a line ends with LF or CRLF.

import { Bytes } from "./bytes";
import { fail } from "./wasi";

const COMMA: u8 = 0x2c;
const QUOTE: u8 = 0x22;
const LF: u8 = 0x0a;
const CR: u8 = 0x0d;

/** The rows of a table. Empty lines are none. */
export function parseRows(text: Uint8Array): Uint8Array[][] {
  const rows: Uint8Array[][] = [];
  let row: Uint8Array[] = [];
  let cell = new Bytes();
  let quoted = false;
  let closed = false;
  for (let i = 0; i < text.length; i++) {
    const byte = text[i];
    const next: u8 = i + 1 < text.length ? text[i + 1] : LF;
    if (quoted) {
      if (byte != QUOTE) cell.push(byte);
      else if (next == QUOTE) {
        cell.push(QUOTE);
        i++;
      } else {
        quoted = false;
        closed = true;
      }
    } else if (byte == COMMA) {
      row.push(cell.taken());
      cell = new Bytes();
      closed = false;
    } else if (byte == LF || (byte == CR && next == LF)) {
      if (byte == CR) i++;
      if (row.length > 0 || cell.length > 0 || closed) {
        row.push(cell.taken());
        rows.push(row);
      }
      row = [];
      cell = new Bytes();
      closed = false;
    } else if (closed) fail(`row ${rows.length + 1} has text after a closing quote`);
    else if (byte == QUOTE && cell.length == 0) quoted = true;
    else cell.push(byte);
  }
  if (quoted) fail(`row ${rows.length + 1} has a quote that nothing closes`);
  if (row.length > 0 || cell.length > 0 || closed) {
    row.push(cell.taken());
    rows.push(row);
  }
  return rows;
}
