/** Bytes that are appended to. */
export class Bytes {
  private data: Uint8Array = new Uint8Array(32);
  length: i32 = 0;

  push(byte: u8): void {
    if (this.length == this.data.length) {
      const larger = new Uint8Array(2 * this.length);
      larger.set(this.data);
      this.data = larger;
    }
    this.data[this.length++] = byte;
  }

  ascii(text: string): void {
    for (let i = 0; i < text.length; i++) this.push(u8(text.charCodeAt(i)));
  }

  taken(): Uint8Array {
    return this.data.slice(0, this.length);
  }

  get start(): usize {
    return this.data.dataStart;
  }
}
