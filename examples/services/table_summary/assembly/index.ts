// The service: a table in, what its columns hold out. Equal requests give equal bytes on every machine.

import { Bytes } from "./bytes";
import { parseRows } from "./csv";
import { NO_NUMBER, add, divide, format, parse } from "./decimal";
import { Reader, quote } from "./json";
import { fail, readInput, write } from "./wasi";

const MAX_COLUMNS = 1_000;

function main(): void {
  const request = new Reader(readInput());
  request.expect('{"arguments":{"csv":"');
  const text = request.string();
  request.expect('},"tool":"summarize-table"}');
  request.end();

  const rows = parseRows(text);
  if (rows.length == 0) fail("the table has no head");
  const head = rows[0];
  if (head.length > MAX_COLUMNS) fail(`the table has ${head.length} columns, more than ${MAX_COLUMNS}`);
  for (let i = 1; i < rows.length; i++) {
    if (rows[i].length != head.length) {
      fail(`row ${i + 1} has ${rows[i].length} cells, the head has ${head.length}`);
    }
  }
  const output = new Bytes();
  output.ascii('{"columns":[');
  for (let column = 0; column < head.length; column++) {
    if (column > 0) output.ascii(",");
    summarize(output, rows, column);
  }
  output.ascii(`],"rows":${rows.length - 1}}`);
  write(1, output.start, output.length);
}

/** Appends what one column holds; figures only where every cell that is not empty is a number. */
function summarize(output: Bytes, rows: Uint8Array[][], column: i32): void {
  let filled: i64 = 0;
  let numeric = true;
  let sum: i64 = 0;
  let least: i64 = i64.MAX_VALUE;
  let most: i64 = i64.MIN_VALUE;
  for (let i = 1; i < rows.length; i++) {
    const cell = rows[i][column];
    if (cell.length == 0) continue;
    filled++;
    const value = numeric ? parse(cell) : NO_NUMBER;
    if (value == NO_NUMBER) {
      numeric = false;
      continue;
    }
    sum = add(sum, value);
    least = min(least, value);
    most = max(most, value);
  }
  output.ascii(`{"empty":${rows.length - 1 - filled},"filled":${filled},`);
  if (numeric && filled > 0) {
    const mean = format(divide(sum, filled));
    output.ascii(`"maximum":"${format(most)}","mean":"${mean}","minimum":"${format(least)}",`);
  }
  output.ascii('"name":');
  quote(output, rows[0][column]);
  if (numeric && filled > 0) output.ascii(`,"sum":"${format(sum)}"`);
  output.ascii("}");
}

main();
