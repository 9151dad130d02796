// The data of the report: named columns, decoded when first asked for. `src/columns.rs` writes them.

/** Decodes base64 and inflates. */
async function inflate(base64) {
  const packed = Uint8Array.fromBase64 ? Uint8Array.fromBase64(base64) : Uint8Array.from(atob(base64), c => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The types of columns of ranges, of which there may be millions. */
const NARROW = new Map([["name", "category", "site", "stack", "before", "group"].map(name => [`range.${name}`, Uint32Array]),
  ["alignment", "kind", "usage", "placement", "flags"].map(name => [`range.${name}`, Uint8Array])].flat());

class Columns {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
    this.places = new Map();
    this.decoded = new Map();
    const utf8 = new TextDecoder();
    while (this.at < bytes.length) {
      const length = this.next();
      const name = utf8.decode(bytes.subarray(this.at, this.at += length));
      const coding = bytes[this.at++], count = this.next(), size = this.next();
      this.places.set(name, { coding, count, from: this.at, to: this.at + size });
      this.at += size;
    }
  }

  /** The integer at `this.at`: 7 bits a byte, lowest first. */
  next() {
    let value = 0, scale = 1, byte;
    do {
      byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte > 127);
    return value;
  }

  place(name) {
    const place = this.places.get(name);
    if (!place) throw new Error(`the report lacks the column ${name}`);
    return place;
  }
  count(name) { return this.place(name).count; }

  /** The values of a column, in an array of a type that can hold them. */
  numbers(name, Type = NARROW.get(name) ?? Float64Array) {
    const known = this.decoded.get(name);
    if (known) return known;
    const { coding, count, from } = this.place(name), { bytes } = this;
    const out = new Type(count);
    if (coding === 3) {
      this.at = from;
      this.decoded.set(name, out.fill(this.next()));
      return out;
    }
    let at = from, before = 0;
    for (let i = 0; i < count; i++) {
      let byte = bytes[at++], value = byte & 127;
      if (byte > 127) {
        byte = bytes[at++]; value |= (byte & 127) << 7;
        if (byte > 127) {
          byte = bytes[at++]; value |= (byte & 127) << 14;
          for (let scale = 2097152; byte > 127; scale *= 128) { byte = bytes[at++]; value += (byte & 127) * scale; }
        }
      }
      // A difference has its sign in the lowest bit. Integers of 31 bits are several times as fast as larger ones.
      if (coding === 1) {
        if (value <= 0x7fffffff) value = before += (value >>> 1) ^ -(value & 1);
        else value = before += value % 2 ? -(value + 1) / 2 : value / 2;
      }
      out[i] = value;
    }
    this.decoded.set(name, out);
    return out;
  }

  /** Texts, each decoded when asked for: `{ length, get(i) }`. */
  texts(name) {
    const { count, from } = this.place(name), ends = new Float64Array(count), known = new Array(count);
    this.at = from;
    for (let i = 0, end = 0; i < count; i++) ends[i] = end += this.next();
    const start = this.at, utf8 = new TextDecoder();
    const get = i => known[i] ??= utf8.decode(this.bytes.subarray(start + (i ? ends[i - 1] : 0), start + ends[i]));
    // All of them as one text, in which each ends where its bytes do; null where a character has several bytes.
    let joined;
    const all = () => {
      if (joined === undefined) {
        const end = start + (count ? ends[count - 1] : 0), text = utf8.decode(this.bytes.subarray(start, end));
        joined = text.length === end - start ? text : null;
      }
      return joined;
    };
    return { length: count, get, ends, all };
  }
  list(name) {
    const texts = this.texts(name);
    return Array.from({ length: texts.length }, (_, i) => texts.get(i));
  }
}
