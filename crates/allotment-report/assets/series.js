// Bytes by class at each moment, for the timeline.

class Series {
  constructor(model, scope = -1) {
    const { end, count, from, to, requested, beyond, flags, pending, blockOf, block } = model, n = end + 2;
    this.used = new Float64Array(n); this.overhead = new Float64Array(n);
    this.pending = new Float64Array(n); this.reserved = new Float64Array(n);
    const inScope = b => scope < 0 || model.heapOf(b) === scope;
    for (let b = 0; b < model.blocks; b++) {
      if (!inScope(b)) continue;
      this.reserved[block.from[b]] += block.size[b];
      this.reserved[block.to[b]] -= block.size[b];
    }
    // Changes at each moment first; their sums below.
    const scoped = scope < 0 ? null : Array.from({ length: model.blocks }, (_, b) => inScope(b));
    for (let i = 0; i < count; i++) {
      if (scoped && !scoped[blockOf[i]]) continue;
      const a = from[i], z = to[i], size = requested[i];
      if (beyond[i]) { this.overhead[a] += beyond[i]; this.overhead[z] -= beyond[i]; }
      if (flags[i] & RESERVATION) {
        const reserved = model.reserved.get(i);
        this.used[a] += size; this.used[reserved] -= size;
        this.overhead[reserved] += size; this.overhead[z] -= size;
        continue;
      }
      const wait = pending[i] < z ? pending[i] : z;
      this.used[a] += size; this.used[wait] -= size;
      if (wait < z) { this.pending[wait] += size; this.pending[z] -= size; }
    }
    this.occupied = new Float64Array(n);
    let u = 0, o = 0, p = 0, r = 0;
    this.peak = 0; this.most = 0;
    for (let t = 0; t < n; t++) {
      this.used[t] = u += this.used[t]; this.overhead[t] = o += this.overhead[t];
      this.pending[t] = p += this.pending[t]; this.reserved[t] = r += this.reserved[t];
      this.occupied[t] = u + o + p;
      if (t <= end && this.occupied[t] > this.occupied[this.peak]) this.peak = t;
      if (r > this.most) this.most = r;
    }
    this.most = Math.max(this.most, this.occupied[this.peak]);
    this.occupiedPeaks = new Peaks(this.occupied, end + 1);
    this.reservedPeaks = new Peaks(this.reserved, end + 1);
  }
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
