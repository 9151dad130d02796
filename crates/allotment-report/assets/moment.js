// What exists at one moment, in the order of addresses. A block is looked at when something first asks about it, so a
// step in time costs what the visible blocks have and not what the recording has.

class Moment {
  /** `scope` is a heap, or -1 for all memory. The memory of `spent`, a moment that nothing needs any more, is used again. */
  constructor(model, t, scope = -1, spent = null) {
    this.model = model;
    this.id = Moment.made = (Moment.made ?? 0) + 1;
    // Who still looks at the one whose memory this one takes has to stop.
    if (spent) spent.isSpent = true;
    this.t = t;
    this.scope = scope;
    const { block, blocks } = model;
    // The ranges of block b that exist are live[model.first[b]] .. live[last[b]], once `look(b)` was called.
    this.live = spent?.live ?? new Uint32Array(model.count);
    this.last = spent?.last ?? new Uint32Array(blocks);
    this.looked = spent?.looked.fill(0) ?? new Uint8Array(blocks);
    this.bytes = new Array(blocks);             // of each block that was looked at: see bytesOf
    this.size = model.sizesAt(t);               // of each block
    this.blocks = [];                           // the blocks that exist
    for (let b = 0; b < blocks; b++) {
      if (block.from[b] <= t && t < block.to[b] && (scope < 0 || model.heapOf(b) === scope)) this.blocks.push(b);
    }
  }

  /** Finds the ranges of a block that exist. Returns its bytes by class. */
  look(b) {
    if (this.looked[b]) return this.bytes[b];
    this.looked[b] = 1;
    const { model, live, t } = this, { from, to } = model;
    let n = model.first[b];
    // Written always and kept if it exists: a branch would be wrong half of the time.
    for (let i = n, end = model.first[b + 1]; i < end; i++) {
      live[n] = i;
      n += +(from[i] <= t && t < to[i]);
    }
    this.last[b] = n;
    const list = live.subarray(model.first[b], n);
    return this.bytes[b] = model.block.aliased[b] ? sweep(model, list, t, this.size[b]) : bytesOf(model, list, t, this.size[b]);
  }

  /** The ranges of a block that exist, by offset. */
  of(b) { this.look(b); return this.live.subarray(this.model.first[b], this.last[b]); }

  /** All ranges that exist. */
  all() {
    if (this.list) return this.list;
    let count = 0;
    for (const b of this.blocks) count += this.of(b).length;
    this.list = new Uint32Array(count);
    let n = 0;
    for (const b of this.blocks) { const of = this.of(b); this.list.set(of, n); n += of.length; }
    return this.list;
  }

  /** Looks at every block, with pauses. Returns false if the memory of the moment was taken meanwhile. */
  *lookAtAll() {
    for (const b of this.blocks) {
      if (this.isSpent) return false;
      this.look(b);
      yield;
    }
    return !this.isSpent;
  }

  /** The bytes of all blocks. Looks at every block. */
  get totals() {
    if (this.sums) return this.sums;
    const sum = noBytes();
    let allocations = 0, reserved = 0;
    for (const b of this.blocks) {
      const is = this.look(b);
      for (const key in sum) sum[key] += is[key];
      sum.largest = Math.max(sum.largest - is.largest, is.largest);
      allocations += this.last[b] - this.model.first[b];
      reserved += this.size[b];
    }
    const { used, pending, rounding, moves, free, padding, largest, squares, aliased } = sum;
    return this.sums = {
      t: this.t, allocations, blocks: this.blocks.length, reserved, used, overhead: rounding + moves, padding, rounding, moves,
      pending, free, largestFree: largest, aliased, unfragmented: free > 0 ? squares / (free * free) : 1,
    };
  }

  has(i) { return this.model.from[i] <= this.t && this.t < this.model.to[i]; }

  /** What a range is at this moment. */
  classOf(i) { return this.model.classAt(i, this.t); }

  /** The position in `of(b)` of the first range that may end after an offset. */
  firstAfter(b, at) {
    // Where ranges overlap, any of those before may be the longest.
    if (this.model.block.aliased[b]) return 0;
    const list = this.of(b), { model } = this;
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (model.offset[list[middle]] + model.occupied(list[middle]) > at) high = middle; else low = middle + 1;
    }
    return low;
  }
}

/** Bytes by class; `padding` is a part of `free`, `aliased` is what two or more ranges have, `saved` what that spares;
    `largest` and `squares` are about the free ranges. */
function noBytes() { return { used: 0, pending: 0, rounding: 0, moves: 0, free: 0, padding: 0, largest: 0, squares: 0, aliased: 0, saved: 0 }; }

/** Calls a function for each free range: its first byte, the byte behind it, and the bytes of it that are padding. */
function eachHole(model, list, size, visit) {
  const { offset, requested, beyond, alignment } = model;
  let reach = 0, at = -1, aligned = 0;
  for (let k = 0; k < list.length; k++) {
    const i = list[k], low = offset[i], high = low + requested[i] + beyond[i];
    if (low !== at) { at = low; aligned = alignment[i]; }
    if (high === low) continue; // no bytes: it divides no free range
    if (low > reach) visit(reach, low, low - reach < 2 ** aligned ? low - reach : 0);
    if (high > reach) reach = high;
  }
  if (size > reach) visit(reach, size, 0);
}

/** Counts the bytes of a block in which no two ranges overlap. */
function bytesOf(model, list, t, size) {
  const { requested, beyond, flags } = model, is = noBytes();
  let used = 0, rounding = 0;
  for (let k = 0; k < list.length; k++) {
    const i = list[k];
    if (flags[i] & (RESERVATION | RELEASED)) {
      const what = model.classAt(i, t);
      if (what === MOVE) { is.moves += requested[i] + beyond[i]; continue; }
      if (what === PENDING) is.pending += requested[i]; else used += requested[i];
    } else used += requested[i];
    rounding += beyond[i];
  }
  is.used = used; is.rounding = rounding;
  countHoles(model, list, size, is);
  return is;
}

function countHoles(model, list, size, is) {
  eachHole(model, list, size, (low, high, padding) => {
    const hole = high - low;
    is.free += hole; is.padding += padding; is.squares += hole * hole;
    if (hole > is.largest) is.largest = hole;
  });
}
