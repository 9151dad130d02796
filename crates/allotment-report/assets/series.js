// Bytes by class at each moment, for the timeline.

class Series {
  constructor(model, scope = -1) {
    const { end, count, from, to, requested, beyond, flags, pending, blockOf, block } = model, n = end + 2;
    const inScope = Array.from({ length: model.blocks }, (_, b) => scope < 0 || model.heapOf(b) === scope);
    // First the changes at each moment, then their sums. The classes of a moment are neighbours in memory: the ranges
    // are in the order of addresses, so the moments that they change are all over the place.
    const sums = this.sums = new Float64Array(4 * n);
    const change = (t, kind, size) => { sums[4 * t + kind] += size; };
    for (let b = 0; b < model.blocks; b++) {
      if (!inScope[b]) continue;
      change(block.from[b], 3, block.size[b]);
    }
    const last = block.size.slice(), { resize } = model;
    for (let k = 0; k < resize.of.length; k++) {
      const b = resize.of[k];
      if (inScope[b]) change(resize.at[k], 3, resize.size[k] - last[b]);
      last[b] = resize.size[k];
    }
    for (let b = 0; b < model.blocks; b++) if (inScope[b]) change(block.to[b], 3, -last[b]);
    // Where ranges overlap, a sum of theirs would count bytes twice.
    const plain = inScope.map((is, b) => is && !block.aliased[b]);
    for (let b = 0; b < model.blocks; b++) {
      if (inScope[b] && block.aliased[b]) changesOf(model, b, (t, u, o, p) => { sums[4 * t] += u; sums[4 * t + 1] += o; sums[4 * t + 2] += p; });
    }
    for (let i = 0; i < count; i++) {
      if (!plain[blockOf[i]]) continue;
      const a = from[i], z = to[i], size = requested[i], over = beyond[i];
      let until = z;
      if (over) { sums[4 * a + 1] += over; sums[4 * z + 1] -= over; }
      if (flags[i] & RESERVATION) {
        until = model.reserved.get(i);
        change(until, 1, size); change(z, 1, -size);
      } else if (flags[i] & RELEASED && pending[i] < z) {
        until = pending[i];
        change(until, 2, size); change(z, 2, -size);
      }
      sums[4 * a] += size; sums[4 * until] -= size;
    }
    // One pass makes sums of the changes, and finds where the largest of each 256 are.
    const coarse = Math.ceil((end + 1) / PEAK_STEP), occupiedAt = new Uint32Array(coarse), reservedAt = new Uint32Array(coarse);
    let u = 0, o = 0, p = 0, r = 0, peak = 0, most = 0, mostReserved = 0, high = -1, highReserved = -1;
    for (let t = 0, at = 0; t <= end; t++, at += 4) {
      sums[at] = u += sums[at]; sums[at + 1] = o += sums[at + 1]; sums[at + 2] = p += sums[at + 2]; sums[at + 3] = r += sums[at + 3];
      const c = (t / PEAK_STEP) | 0, occupied = u + o + p;
      if (t % PEAK_STEP === 0) high = highReserved = -1;
      if (occupied > high) { high = occupied; occupiedAt[c] = t; }
      if (r > highReserved) { highReserved = r; reservedAt[c] = t; }
      if (occupied > most) { most = occupied; peak = t; }
      if (r > mostReserved) mostReserved = r;
    }
    this.peak = peak;
    this.most = Math.max(most, mostReserved);
    this.occupiedPeaks = new Peaks(t => this.occupied(t), occupiedAt);
    this.reservedPeaks = new Peaks(t => this.reserved(t), reservedAt);
  }
  occupied(t) { const { sums } = this; return sums[4 * t] + sums[4 * t + 1] + sums[4 * t + 2]; }
  reserved(t) { return this.sums[4 * t + 3]; }
  used(t) { return this.sums[4 * t]; }
  overhead(t) { return this.sums[4 * t + 1]; }
  pending(t) { return this.sums[4 * t + 2]; }
}

/** How many moments share one maximum, so that a whole recording is a short walk. */
const PEAK_STEP = 256;

/** Where the largest value of any range is. */
class Peaks {
  /** `coarse` has the index of the largest of each `PEAK_STEP` values. */
  constructor(value, coarse) { this.value = value; this.coarse = coarse; }
  /** The index of the first of the largest values from `from` up to `to`, which is more. */
  in(from, to) {
    const { value, coarse } = this, a = Math.ceil(from / PEAK_STEP), b = Math.floor(to / PEAK_STEP);
    let best = from, most = value(from);
    const take = i => { const n = value(i); if (n > most) { most = n; best = i; } };
    if (a >= b) { for (let i = from + 1; i < to; i++) take(i); return best; }
    for (let i = from + 1; i < a * PEAK_STEP; i++) take(i);
    for (let c = a; c < b; c++) take(coarse[c]);
    for (let i = b * PEAK_STEP; i < to; i++) take(i);
    return best;
  }
}
