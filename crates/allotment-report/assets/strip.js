// A row of the block map as pixels: what each shows is found once for a moment and a zoom, for somewhat more than is
// visible, so that a drag only copies.
//
// Where a pixel has several ranges, it shows the most important class. So a small allocation is visible at any zoom. Where
// ranges are smaller than a pixel, the height of the colour says how much of the pixel they have: at least a third.

class Strip {
  /** The pixels `first` .. `first + count` of a block, each `each` bytes wide; pixel 0 begins at its first byte. */
  constructor(b, first, count, each) {
    const { model, moment } = view, { offset, requested, beyond, alignment } = model;
    Object.assign(this, { b, first, count, each });
    this.cells = new Uint8Array(count);     // the class of each pixel
    this.free = new Uint8Array(count);      // how many sixths of its height are free, seen from below
    this.edges = [];                        // pixels at the end of a range that is wide enough to be told from the next
    this.labels = [];                       // ranges that are wide enough for a name
    const list = moment.of(b), { cells } = this, from = first * each, until = from + count * each;
    const taken = new Float32Array(count), crowded = new Uint8Array(count), size = moment.size[b];
    const end = clamp(Math.ceil((size - from) / each - 1e-6), 0, count);
    cells.fill(FREE, 0, end);
    const mark = (low, high, what) => {
      let p = Math.max(0, Math.floor((low - from) / each));
      const last = Math.min(count, Math.max(p + 1, Math.ceil((high - from) / each - 1e-6)));
      for (; p < last; p++) if (cells[p] < what) cells[p] = what;
    };
    let reach = 0, at = -1, aligned = 0, labelled = 0;
    const begin = moment.firstAfter(b, from);
    if (begin > 0) reach = offset[list[begin - 1]] + model.occupied(list[begin - 1]);
    for (let k = begin; k < list.length; k++) {
      const i = list[k], low = offset[i], middle = low + requested[i], high = middle + beyond[i], what = moment.classOf(i);
      if (low !== at) { at = low; aligned = alignment[i]; }
      if (high === low) continue;
      if (low > reach && low - reach < 2 ** aligned && reach < until) mark(reach, low, PADDING);
      reach = Math.max(reach, high);
      if (low >= until) break;
      if (high <= from) continue;
      if (requested[i]) mark(low, middle, what);
      if (beyond[i]) mark(middle, high, what === MOVE ? MOVE : ROUNDING);
      const a = (low - from) / each, z = (high - from) / each, p0 = Math.floor(a), p1 = Math.floor(z);
      if (p0 === p1) { taken[p0] += z - a; crowded[p0] = 1; }
      else {
        if (p0 >= 0) taken[p0] += p0 + 1 - a;
        if (p1 < count) taken[p1] += z - p1;
        for (let p = Math.max(0, p0 + 1), last = Math.min(p1, count); p < last; p++) taken[p] = 1;
      }
      if (z - a >= 4 && high < size && high < until) this.edges.push(Math.round(z) - 1);
      // Where allocations overlap, one name is not written over another.
      if (z - a >= 44 && low >= labelled) { this.labels.push(i); labelled = high; }
    }
    for (let p = 0; p < end; p++) if (crowded[p]) this.free[p] = Math.min(4, Math.max(0, Math.round(6 * (1 - taken[p]))));
  }

  has(first, count, each) { return each === this.each && first >= this.first && first + count <= this.first + this.count; }

  /** Writes the pixels `first` .. `first + count` into an image that is as wide. Hatches keep their place in the block. */
  paint(image, first, count, deep) {
    const out = new Uint32Array(image.data.buffer), { tile, tileSize } = INK, skip = first - this.first;
    for (let p = 0; p < count; p++) {
      const colours = tile[this.cells[skip + p]], x = (first + p) % tileSize, below = deep - Math.round(deep * this.free[skip + p] / 6);
      let at = p, y = 0;
      for (; y < below; y++, at += count) out[at] = colours[(y % tileSize) * tileSize + x];
      for (; y < deep; y++, at += count) out[at] = tile[FREE][0];
    }
  }
}
