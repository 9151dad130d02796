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
    this.occupied = new Float64Array(n); this.reserved = new Float64Array(n);
    let u = 0, o = 0, p = 0, r = 0, peak = 0, most = 0;
    for (let t = 0, at = 0; t < n; t++, at += 4) {
      sums[at] = u += sums[at]; sums[at + 1] = o += sums[at + 1]; sums[at + 2] = p += sums[at + 2];
      this.reserved[t] = r += sums[at + 3];
      this.occupied[t] = u + o + p;
      if (t <= end && u + o + p > this.occupied[peak]) peak = t;
      if (r > most) most = r;
    }
    this.peak = peak;
    this.most = Math.max(most, this.occupied[peak]);
    this.occupiedPeaks = new Peaks(this.occupied, end + 1);
    this.reservedPeaks = new Peaks(this.reserved, end + 1);
  }
  used(t) { return this.sums[4 * t]; }
  overhead(t) { return this.sums[4 * t + 1]; }
  pending(t) { return this.sums[4 * t + 2]; }
}

/** Where the largest value of any range is: a maximum for each 256 values, so that a whole recording is a short walk. */
class Peaks {
  constructor(values, count) {
    this.values = values;
    this.coarse = new Uint32Array(Math.ceil(count / 256));
    for (let c = 0; c < this.coarse.length; c++) this.coarse[c] = this.walk(c * 256, Math.min(count, c * 256 + 256));
  }
  walk(from, to) {
    let best = from;
    for (let i = from + 1; i < to; i++) if (this.values[i] > this.values[best]) best = i;
    return best;
  }
  /** The index of the largest of `values[from..to]`, which is not empty. */
  in(from, to) {
    const a = Math.ceil(from / 256), b = Math.floor(to / 256);
    if (a >= b) return this.walk(from, to);
    let best = from;
    const take = i => { if (this.values[i] > this.values[best]) best = i; };
    if (from < a * 256) take(this.walk(from, a * 256));
    for (let c = a; c < b; c++) take(this.coarse[c]);
    if (b * 256 < to) take(this.walk(b * 256, to));
    return best;
  }
}
