// The recording: blocks, and the ranges that allocations had, each with the moments of its life.
//
// A moment is a count of events: at moment t the first t events have happened. A range exists at t if
// from <= t < to. Ranges are sorted by block, then offset, so one block's are neighbours and in address order.

const RESERVATION = 1, MAPPED = 2, MOVABLE = 4, SECOND_CHOICE = 8, RELEASED = 16;
/** What a byte of a block is, from the least to the most important: where a pixel has several, the highest is drawn.
    Padding is free bytes before an allocation that are fewer than its alignment: the alignment made the hole. */
const NOTHING = 0, FREE = 1, PADDING = 2, ROUNDING = 3, MOVE = 4, PENDING = 5, USED = 6;
const CLASS_NAMES = ["", "free", "alignment padding", "rounding", "reserved for a move", "pending release", "used"];

class Model {
  constructor(columns) {
    this.columns = columns;
    this.fields = {}; // columns of ranges that were asked for
    const one = name => columns.numbers(name)[0];
    this.end = one("events");
    // A dump of one moment has no history: no curve, no lifetimes, and no other moment than the end.
    this.isMoment = one("moment") > 0;
    this.unread = columns.list("unread");
    this.title = columns.texts("title").get(0);
    this.texts = columns.texts("texts");

    const heapSize = columns.numbers("heap.size"), heapLocal = columns.numbers("heap.local");
    this.heaps = Array.from(heapSize, (size, i) => ({ size, local: heapLocal[i] > 0 }));
    const properties = columns.texts("type.properties");
    this.types = Array.from(columns.numbers("type.heap"), (heap, i) => ({ heap, properties: properties.get(i) }));

    const algorithm = columns.numbers("pool.algorithm"), custom = columns.numbers("pool.custom");
    const label = columns.texts("pool.label");
    this.pools = Array.from(algorithm, (algorithm, i) => ({ name: label.get(i), algorithm, custom: custom[i] > 0 }));

    this.block = {
      id: columns.numbers("block.id"), pool: columns.numbers("block.pool"), type: columns.numbers("block.type"),
      kind: columns.numbers("block.kind"), size: columns.numbers("block.size"), from: columns.numbers("block.from"),
      to: this.ends("block"), aliased: columns.numbers("block.aliased", Uint8Array),
    };
    this.blocks = this.block.id.length;
    // Blocks of some allocators grow and shrink: which, when, and the bytes from then on, in the order of time.
    this.resize = { of: columns.numbers("resize.of"), at: columns.numbers("resize.at"), size: columns.numbers("resize.value") };

    this.count = columns.count("range.from");
    this.offset = columns.numbers("range.offset");
    this.requested = columns.numbers("range.requested");
    this.beyond = columns.numbers("range.beyond");
    // What is looked at for each range at each moment is kept small.
    const Moments = this.end < 2 ** 32 - 2 ? Uint32Array : Float64Array;
    this.from = columns.numbers("range.from", Moments);
    this.to = this.ends("range", Moments);
    this.flags = columns.numbers("range.flags", Uint8Array);
    // From when on only the GPU needed the range; the end of the recording plus 1 if its free was not deferred.
    this.pending = columns.numbers("range.pending", Moments);
    for (let i = 0; i < this.count; i++) this.pending[i] = this.pending[i] ? this.from[i] + this.pending[i] - 1 : this.end + 1;

    // When a reservation became one: an event after its allocation.
    const reserved = columns.numbers("reservation.range"), reservedFrom = columns.numbers("reservation.from");
    this.reserved = new Map(Array.from(reserved, (i, k) => [i, Math.max(reservedFrom[k], this.from[i])]));
    this.alignment = columns.numbers("range.alignment", Uint8Array); // its power of two

    // The ranges of block b are first[b] .. first[b + 1].
    this.first = new Uint32Array(this.blocks + 1);
    this.blockOf = new Uint32Array(this.count);
    const ranges = columns.numbers("block.ranges");
    for (let b = 0; b < this.blocks; b++) {
      this.first[b + 1] = this.first[b] + ranges[b];
      this.blockOf.fill(b, this.first[b], this.first[b + 1]);
    }

    this.frames = columns.numbers("frame.at");
    this.frameNumbers = columns.numbers("frame.number");
    this.timeAt = columns.numbers("time.at");
    this.timeNs = columns.numbers("time.ns");
  }

  /** Turns lengths of lives into their ends; what has no end ends after the last moment. */
  ends(table, Type = Float64Array) {
    const from = this.columns.numbers(`${table}.from`, Type), life = this.columns.numbers(`${table}.life`, Type);
    for (let i = 0; i < life.length; i++) life[i] = life[i] ? from[i] + life[i] : this.end + 1;
    return life;
  }

  /** The bytes of each block at a moment, or the nearest size that it had. Not to be changed. */
  sizesAt(t) {
    const { of, at, size } = this.resize, many = after(at, t);
    if (!many) return this.block.size;
    const sizes = this.block.size.slice();
    for (let k = 0; k < many; k++) sizes[of[k]] = size[k];
    return sizes;
  }

  text(id) { return id > 0 && id <= this.texts.length ? this.texts.get(id - 1) : ""; }
  word(table, code) { return this.words?.[table]?.[code] ?? ((this.words ??= {})[table] ??= this.columns.list(`words.${table}`))[code] ?? "?"; }
  field(name, i) { return (this.fields[name] ??= this.columns.numbers(`range.${name}`))[i]; }
  occupied(i) { return this.requested[i] + this.beyond[i]; }
  name(i) { return this.text(this.field("name", i)) || "(no name)"; }
  /** The call site of a range as people read it. */
  site(i) {
    if (!this.sites) { const short = this.columns.list("site.short"); this.sites = new Map(Array.from(this.columns.numbers("site.id"), (id, k) => [id, short[k]])); }
    return this.sites.get(this.field("site", i)) ?? "";
  }
  isReservation(i) { return (this.flags[i] & RESERVATION) > 0; }

  /** What the requested bytes of a range are at a moment; the bytes beyond are rounding, unless reserved. */
  classAt(i, t) {
    const flags = this.flags[i];
    if (!(flags & (RESERVATION | RELEASED))) return USED;
    if (flags & RESERVATION && this.reserved.get(i) <= t) return MOVE;
    return this.pending[i] <= t ? PENDING : USED;
  }
  heapOf(b) { return this.types[this.block.type[b]]?.heap ?? 0; }
  /** The first range of the same allocation, before any move. */
  origin(i) {
    for (let before = this.field("before", i); before > 0; before = this.field("before", i)) i = before - 1;
    return i;
  }
  /** For each range, whether its allocation moved from it to another one. */
  get movedOn() {
    if (this.moved) return this.moved;
    const before = this.columns.numbers("range.before"), moved = new Uint8Array(this.count);
    for (let i = 0; i < this.count; i++) if (before[i]) moved[before[i] - 1] = 1;
    return this.moved = moved;
  }
  /** How many frames of the program had ended; a recording may begin in the middle. */
  frameAt(t) { const i = after(this.frames, t); return i ? this.frameNumbers[i - 1] : this.frames.length ? this.frameNumbers[0] - 1 : 0; }
  nsAt(t) { const i = after(this.timeAt, t); return i ? this.timeNs[i - 1] : 0; }
  /** A moment in words. */
  when(t) {
    if (this.isMoment) return "the moment of the dump";
    const frame = this.frames.length ? `, frame ${int(this.frameAt(t))}` : "";
    return `event ${int(t)}${frame}`;
  }
}
