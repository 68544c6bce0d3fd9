// Exact decimals: signed millionths in 64 bits. Binary fractions would make 0.1 + 0.2 something else.

import { fail } from "./wasi";

const SCALE: i64 = 1_000_000;
const MAX_WHOLE_DIGITS = 12;
const MAX_FRACTION_DIGITS = 6;

/** What `parse` gives for text that is no number of at most 12 digits before and 6 after the point. */
export const NO_NUMBER: i64 = i64.MIN_VALUE;

export function parse(text: Uint8Array): i64 {
  let at = 0;
  let end = text.length;
  while (at < end && text[at] == 0x20) at++;
  while (end > at && text[end - 1] == 0x20) end--;
  const negative = at < end && text[at] == 0x2d;
  if (negative || (at < end && text[at] == 0x2b)) at++;
  let value: i64 = 0;
  let whole = 0;
  let fraction = -1;
  for (; at < end; at++) {
    const byte = text[at];
    if (byte == 0x2e && fraction < 0 && whole > 0) fraction = 0;
    else if (byte >= 0x30 && byte <= 0x39) {
      value = 10 * value + i64(byte - 0x30);
      if (fraction < 0) whole++;
      else fraction++;
      if (whole > MAX_WHOLE_DIGITS || fraction > MAX_FRACTION_DIGITS) return NO_NUMBER;
    } else return NO_NUMBER;
  }
  if (whole == 0 || fraction == 0) return NO_NUMBER;
  for (let digits = max(fraction, 0); digits < MAX_FRACTION_DIGITS; digits++) value *= 10;
  return negative ? -value : value;
}

export function add(a: i64, b: i64): i64 {
  const sum = a + b;
  if (((a ^ sum) & (b ^ sum)) < 0) fail("the sum of a column is too large");
  return sum;
}

/** The quotient to a millionth, halves rounded away from zero. */
export function divide(a: i64, count: i64): i64 {
  const magnitude = a < 0 ? -a : a;
  const quotient = magnitude / count + i64(2 * (magnitude % count) >= count);
  return a < 0 ? -quotient : quotient;
}

/** Plain notation without needless zeros. */
export function format(value: i64): string {
  const magnitude = u64(value < 0 ? -value : value);
  let text = (magnitude / SCALE).toString();
  let fraction = magnitude % SCALE;
  if (fraction != 0) {
    let digits = MAX_FRACTION_DIGITS;
    for (; fraction % 10 == 0; fraction /= 10) digits--;
    text += "." + fraction.toString().padStart(digits, "0");
  }
  return value < 0 ? "-" + text : text;
}
