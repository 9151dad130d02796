// Blocks in which allocations share bytes. A byte that several have counts once, for the class that matters most.

/** Calls a function for each part of a range: its bytes, and their class. */
function eachPart(model, i, what, visit) {
  const low = model.offset[i], middle = low + model.requested[i], high = middle + model.beyond[i];
  if (middle > low) visit(low, middle, what);
  if (high > middle) visit(middle, high, what === MOVE ? MOVE : ROUNDING);
}

/** Counts the bytes of a block at a moment: a sweep over the beginnings and ends of its ranges. */
function sweep(model, list, t, size) {
  const edges = [], is = noBytes(), open = new Uint32Array(USED + 1);
  for (const i of list) eachPart(model, i, model.classAt(i, t), (low, high, what) => edges.push([low, what, 1], [high, what, -1]));
  edges.sort((a, b) => a[0] - b[0]);
  let at = 0, depth = 0;
  for (const [to, what, change] of edges) {
    if (to > at) {
      const bytes = to - at;
      for (const [kind, key] of [[USED, "used"], [PENDING, "pending"], [MOVE, "moves"], [ROUNDING, "rounding"]]) if (open[kind]) { is[key] += bytes; break; }
      if (depth > 1) { is.aliased += bytes; is.saved += bytes * (depth - 1); }
      at = to;
    }
    open[what] += change; depth += change;
  }
  countHoles(model, list, size, is);
  return is;
}

/** A lane for each range, by offset: two that overlap are in different lanes, and there are as few as possible. */
function lanesOf(model, list) { return lanesAt(list, i => model.offset[i], i => model.occupied(i)); }

/** The same of anything with an offset and a size. Lanes beyond `most` are one, of which no drawing is made. */
function lanesAt(list, offset, size, most = Infinity) {
  const ends = [], lane = [];
  let count = 0;
  for (const i of list) {
    const low = offset(i), high = low + size(i);
    let l = high === low ? 0 : ends.findIndex(end => end <= low);
    if (l < 0) l = ends.length;
    if (l < most && high > low) ends[l] = high;
    lane.push(l);
    count = Math.max(count, l + 1);
  }
  return { lane, count };
}

/** How many bytes of a block each class has while ranges come and go: a tree over all offsets at which one begins or ends.
    Each node has, for each rank of class, how many ranges of that rank or a higher one cover all of it, and how many of its
    bytes are covered. A change costs log n. */
class Coverage {
  constructor(edges) {
    this.edges = Float64Array.from(new Set(edges)).sort();
    this.leaves = 2 ** Math.ceil(Math.log2(Math.max(1, this.edges.length - 1)));
    this.whole = new Int32Array(8 * this.leaves);
    this.covered = new Float64Array(8 * this.leaves);
  }
  edge(leaf) { return this.edges[Math.min(leaf, this.edges.length - 1)]; }
  change(low, high, what, by) {
    const rank = USED - what; // used, pending, moving, rounding
    this.node(1, 0, this.leaves, after(this.edges, low) - 1, after(this.edges, high) - 1, rank, by);
  }
  node(n, from, count, first, last, rank, by) {
    const { whole, covered } = this;
    if (first <= from && from + count <= last) for (let r = rank; r < 4; r++) whole[4 * n + r] += by;
    else {
      const half = count / 2;
      if (first < from + half) this.node(2 * n, from, half, first, last, rank, by);
      if (last > from + half) this.node(2 * n + 1, from + half, half, first, last, rank, by);
    }
    for (let r = rank; r < 4; r++) {
      covered[4 * n + r] = whole[4 * n + r] ? this.edge(from + count) - this.edge(from) : count > 1 ? covered[8 * n + r] + covered[8 * n + 4 + r] : 0;
    }
  }
  /** Bytes that are used, pending, moving, rounding. */
  get bytes() { const [a, b, c, d] = this.covered.subarray(4, 8); return [a, b - a, c - b, d - c]; }
}

/** Calls a function with each change of an aliased block's bytes: when, and used, overhead and pending bytes more than before. */
function changesOf(model, b, visit) {
  const { first, from, to, end } = model, events = [], edges = [];
  for (let i = first[b]; i < first[b + 1]; i++) {
    const low = model.offset[i], middle = low + model.requested[i];
    edges.push(low, middle, middle + model.beyond[i]);
    // The moments at which the class of the range changes: from each to the next it is the same.
    const moments = [from[i], model.pending[i], model.reserved.get(i) ?? end + 1].map(t => clamp(t, from[i], to[i]));
    moments.sort((x, y) => x - y);
    moments.push(to[i]);
    for (let k = 0; k < 3; k++) if (moments[k] < moments[k + 1]) { const what = model.classAt(i, moments[k]); events.push([moments[k], i, what, 1], [moments[k + 1], i, what, -1]); }
  }
  if (!edges.length) return;
  events.sort((x, y) => x[0] - y[0]);
  const coverage = new Coverage(edges);
  let known = [0, 0, 0, 0];
  for (let k = 0; k < events.length;) {
    const t = events[k][0];
    for (; k < events.length && events[k][0] === t; k++) eachPart(model, events[k][1], events[k][2], (low, high, what) => coverage.change(low, high, what, events[k][3]));
    const now = coverage.bytes;
    visit(t, now[0] - known[0], now[2] + now[3] - known[2] - known[3], now[1] - known[1]);
    known = now;
  }
}
