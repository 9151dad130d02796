// What exists at one moment, in the order of addresses: found in one pass over all ranges.

class Moment {
  /** `scope` is a heap, or -1 for all memory. */
  constructor(model, t, scope = -1) {
    this.model = model;
    this.t = t;
    this.scope = scope;
    const { block, blocks, first, from, to, offset, requested, beyond, alignment } = model;
    this.live = new Uint32Array(model.count);   // the ranges that exist
    this.liveFirst = new Uint32Array(blocks + 1); // those of block b are liveFirst[b] .. liveFirst[b + 1]
    this.blocks = [];                           // the blocks that exist
    this.size = model.sizesAt(t);               // of each block
    this.blockUsed = new Float64Array(blocks);  // requested bytes in each
    this.blockFree = new Float64Array(blocks);
    this.blockLargest = new Float64Array(blocks);
    let used = 0, padding = 0, rounding = 0, moves = 0, waiting = 0, free = 0, largest = 0, squares = 0, reserved = 0, allocations = 0;
    let n = 0;
    for (let b = 0; b < blocks; b++) {
      this.liveFirst[b] = n;
      if (block.from[b] > t || block.to[b] <= t || (scope >= 0 && model.heapOf(b) !== scope)) continue;
      this.blocks.push(b);
      reserved += this.size[b];
      let reach = 0, blockUsed = 0, blockFree = 0, blockLargest = 0;
      const hole = size => {
        blockFree += size;
        squares += size * size;
        if (size > blockLargest) blockLargest = size;
      };
      for (let i = first[b], end = first[b + 1]; i < end; i++) {
        if (from[i] > t || to[i] <= t) continue;
        this.live[n++] = i;
        const size = requested[i] + beyond[i];
        if (offset[i] > reach) {
          hole(offset[i] - reach);
          if (offset[i] - reach < 2 ** alignment[i]) padding += offset[i] - reach;
        }
        if (offset[i] + size > reach) reach = offset[i] + size;
        const what = model.classAt(i, t);
        allocations++;
        if (what === MOVE) { moves += size; continue; }
        rounding += beyond[i];
        if (what === PENDING) waiting += requested[i]; else blockUsed += requested[i];
      }
      if (this.size[b] > reach) hole(this.size[b] - reach);
      used += blockUsed;
      free += blockFree;
      largest = Math.max(largest, blockLargest);
      this.blockUsed[b] = blockUsed; this.blockFree[b] = blockFree; this.blockLargest[b] = blockLargest;
    }
    this.liveFirst[blocks] = n;
    this.liveCount = n;
    this.totals = {
      t, allocations, blocks: this.blocks.length, reserved, used, overhead: rounding + moves, padding, rounding, moves,
      pending: waiting, free, largestFree: largest, unfragmented: free > 0 ? squares / (free * free) : 1,
    };
  }

  has(i) { return this.model.from[i] <= this.t && this.t < this.model.to[i]; }

  /** What a range is at this moment. */
  classOf(i) { return this.model.classAt(i, this.t); }

  /** Where the free bytes before the k-th live range begin, if they are alignment padding; else its own offset. */
  paddingBefore(k, b) {
    const { model, live } = this, i = live[k], at = model.offset[i];
    const end = k > this.liveFirst[b] ? model.offset[live[k - 1]] + model.occupied(live[k - 1]) : 0;
    return at > end && at - end < 2 ** model.alignment[i] ? end : at;
  }

  /** The position in `live` of the first range of a block that ends after an offset. */
  firstAfter(b, at) {
    const { live, model } = this;
    let low = this.liveFirst[b], high = this.liveFirst[b + 1];
    while (low < high) {
      const middle = (low + high) >>> 1, i = live[middle];
      if (model.offset[i] + model.requested[i] + model.beyond[i] > at) high = middle; else low = middle + 1;
    }
    return low;
  }
}
