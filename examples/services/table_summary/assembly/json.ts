// As much of canonical JSON (RFC 8785) as a request and an answer need. Text stays UTF-8 throughout.

import { Bytes } from "./bytes";
import { fail } from "./wasi";

const QUOTE: u8 = 0x22;
const BACKSLASH: u8 = 0x5c;
// The letters that follow a backslash, and what they stand for, position by position.
const LETTERS = "btnfr";
const CONTROLS = "\b\t\n\f\r";
const DIGITS = "0123456789abcdef";

/** Where in a request its parts are read from. */
export class Reader {
  private position: i32 = 0;

  constructor(private readonly data: Uint8Array) {}

  /** Takes exactly `text`; a canonical request has one spelling only. */
  expect(text: string): void {
    for (let i = 0; i < text.length; i++) {
      if (this.next() != text.charCodeAt(i)) fail("the request is not of this service");
    }
  }

  /** The rest of a string whose opening quote was taken. */
  string(): Uint8Array {
    const text = new Bytes();
    while (true) {
      const byte = this.next();
      if (byte == QUOTE) return text.taken();
      text.push(byte == BACKSLASH ? this.escaped() : byte);
    }
  }

  end(): void {
    if (this.position != this.data.length) fail("the request goes on");
  }

  private escaped(): u8 {
    const byte = this.next();
    const at = LETTERS.indexOf(String.fromCharCode(byte));
    if (at >= 0) return u8(CONTROLS.charCodeAt(at));
    if (byte != 0x75) return byte;
    // Canonical JSON writes nothing but other control characters as \u00xx.
    this.expect("00");
    return u8(16 * this.digit() + this.digit());
  }

  private digit(): i32 {
    const value = DIGITS.indexOf(String.fromCharCode(this.next()));
    if (value < 0) fail("the request is not canonical");
    return value;
  }

  private next(): u8 {
    if (this.position == this.data.length) fail("the request breaks off");
    return this.data[this.position++];
  }
}

/** Appends a string with its quotes. */
export function quote(output: Bytes, text: Uint8Array): void {
  output.push(QUOTE);
  for (let i = 0; i < text.length; i++) {
    const byte = text[i];
    const at = CONTROLS.indexOf(String.fromCharCode(byte));
    if (at >= 0) output.ascii("\\" + LETTERS.charAt(at));
    else if (byte < 0x20) output.ascii("\\u00" + DIGITS.charAt(byte >> 4) + DIGITS.charAt(byte & 15));
    else {
      if (byte == QUOTE || byte == BACKSLASH) output.push(BACKSLASH);
      output.push(byte);
    }
  }
  output.push(QUOTE);
}
