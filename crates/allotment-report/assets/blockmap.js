// The blocks at the moment of the cursor: one row a block, its bytes from left to right.
// What the pixels of a row show is in strip.js. The pointer and what is selected are drawn on a canvas above, so that a
// moving pointer draws no row again.

const ORDERS = { waste: "All blocks, the most free bytes first", size: "All blocks, the largest first", age: "All blocks, the oldest first" };
const MAP_LEFT = 116, MAP_RIGHT = 132, MAP_TOP = 18, MAP_BOTTOM = 22, GROUP = 22;

class BlockMap {
  constructor(node) {
    this.node = node;
    [this.canvas, this.over] = node.querySelectorAll("canvas");
    this.span = new Span(1, 1e-9);
    this.top = 0;       // pixels scrolled down
    this.stretch = 1;   // of the height of rows
    this.strips = new Map();             // the row of each block that was drawn
    this.scratch = document.createElement("canvas");
    this.hover = null;
    gestures(node, {
      zoom: (x, y, factor, e) => {
        if (e.shiftKey || x < MAP_LEFT) return this.scrollOrStretch(y, factor, e);
        if (this.span.all && factor > 1) return false;
        this.span.zoom(this.share(x), factor);
        redraw("map");
        return true;
      },
      pan: (dx, dy) => { this.span.pan(-dx / this.width * this.span.size); this.top -= dy; redraw("map"); },
      hover: (x, y, e) => this.showHover(x, y, e),
      leave: () => { this.hover = null; hideTip(); redraw("pointed"); },
      click: (x, y) => select(this.hit(x, y)),
      fit: () => this.fit(),
    });
  }

  fit() { this.span.fit(); this.top = 0; this.stretch = 1; redraw("map"); }

  /** Over the names, the wheel scrolls through the rows; with Shift it makes them taller. */
  scrollOrStretch(y, factor, e) {
    if (e.shiftKey) {
      const before = this.stretch;
      this.stretch = clamp(this.stretch / factor, 1, 12);
      this.top = (this.top + y - MAP_TOP) * this.stretch / before - y + MAP_TOP;
    } else this.top += e.deltaY;
    redraw("map");
    return true;
  }

  get width() { return Math.max(60, this.node.clientWidth - MAP_LEFT - MAP_RIGHT); }
  get height() { return this.node.clientHeight - MAP_TOP - MAP_BOTTOM; }
  share(x) { return this.span.a + clamp((x - MAP_LEFT) / this.width, 0, 1) * this.span.size; }
  /** Bytes of the whole width of a row. */
  scale(b) { return view.sharedScale ? this.largest : view.moment.size[b]; }

  /** Places a row for each block that exists, below a line for each pool and memory type. */
  layOut() {
    const { model, moment } = view, { block } = model, groups = new Map();
    this.largest = 1;
    const inOrder = view.order === "pool" ? moment.blocks : this.ordered();
    for (const b of inOrder) {
      const key = view.order !== "pool" ? "" : `${String(block.type[b]).padStart(3, "0")} ${String(block.pool[b]).padStart(9, "0")}`;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(b);
      this.largest = Math.max(this.largest, moment.size[b]);
    }
    const room = this.height - groups.size * GROUP, each = room / Math.max(1, moment.blocks.length);
    const height = clamp(each, 17, 44) * this.stretch;
    this.rows = [];
    let y = 0;
    for (const key of [...groups.keys()].sort()) {
      const blocks = groups.get(key);
      this.rows.push({ y, h: GROUP, group: key ? this.groupText(blocks[0], blocks.length) : ORDERS[view.order] });
      y += GROUP;
      for (const b of blocks) { this.rows.push({ y, h: height, b }); y += height; }
    }
    this.total = y;
    this.top = clamp(this.top, 0, Math.max(0, y - this.height));
  }

  /** The blocks of the moment in the order that was chosen: of equal ones the older first. */
  ordered() {
    const { moment, order } = view, { block } = view.model;
    if (this.orderOf?.moment === moment && this.orderOf.order === order) return this.orderOf.blocks;
    const key = { waste: b => -moment.look(b).free, size: b => -moment.size[b], age: b => block.from[b] }[order];
    const keys = new Map(Array.from(moment.blocks, b => [b, key(b)]));
    const blocks = [...keys.keys()].sort((a, b) => keys.get(a) - keys.get(b) || block.from[a] - block.from[b] || a - b);
    this.orderOf = { moment, order, blocks };
    return blocks;
  }

  groupText(b, count) {
    const { model } = view, type = model.types[model.block.type[b]], pool = model.pools[model.block.pool[b] - 1];
    const where = `Memory type ${model.block.type[b]}${type?.properties ? ` (${type.properties.toLowerCase()})` : ""}`;
    const word = pool ? model.word("algorithm", pool.algorithm) : "";
    const algorithm = word ? `, ${word}` : "";
    return `${pool?.name || where}${pool?.name ? ` · ${where}` : ""}${algorithm} · ${plural(count, "block")}`;
  }

  draw() {
    const { c, w, h, ratio } = prepare(this.canvas), { model } = view;
    this.layOut();
    c.fillStyle = INK.faint; c.textAlign = "right";
    c.fillText("used", w - 84, 8); c.fillText("largest free", w - 6, 8);
    c.save();
    c.beginPath(); c.rect(0, MAP_TOP, w, this.height); c.clip();
    for (const row of this.rows) {
      const y = MAP_TOP + row.y - this.top;
      if (y + row.h < MAP_TOP || y > MAP_TOP + this.height) continue;
      if (row.group) { c.textAlign = "left"; c.fillStyle = INK.muted; fitText(c, row.group, 2, y + GROUP / 2 + 2, w - 12); }
      else this.drawRow(c, row.b, y + 1, row.h - 2, ratio);
    }
    c.restore();
    this.drawRuler(c, w, h);
    if (!this.rows.length) {
      c.fillStyle = INK.muted; c.textAlign = "center";
      c.fillText(model.blocks ? "No block exists at this moment. Move the cursor in the timeline." : "This recording has no blocks.", w / 2, h / 2);
    }
    this.node.setAttribute("aria-label", plural(view.moment.blocks.length, "block"));
  }

  /** What is selected, and what is under the pointer. */
  drawPointed() {
    const { c, w } = prepare(this.over);
    c.beginPath(); c.rect(0, MAP_TOP, w, this.height); c.clip();
    this.outline(c, view.selected, INK.selected, 2);
    this.outline(c, this.hover, INK.ink, 1);
  }

  /** The pixels of a block's row that are visible: the first, how many, and the bytes of each. */
  pixels(b) {
    const ratio = devicePixelRatio || 1, count = Math.ceil(this.width * ratio), each = this.scale(b) * this.span.size / (this.width * ratio);
    return { first: Math.round(this.span.a * this.scale(b) / each), count, each };
  }

  /** The strip that has the visible pixels of a block, and when it is dragged as many again at either side. */
  strip(b) {
    const { first, count, each } = this.pixels(b), { moment } = view, known = this.strips.get(b);
    if (this.stripsOf !== moment) { this.strips.clear(); this.stripsOf = moment; }
    else if (known?.has(first, count, each)) return known;
    const around = known?.each === each ? count : 0, begin = Math.max(0, first - around);
    const strip = new Strip(b, begin, first + count + around - begin, each);
    this.strips.set(b, strip);
    return strip;
  }

  drawRow(c, b, y, h, ratio) {
    const strip = this.strip(b), { first, count } = this.pixels(b), deep = Math.max(1, Math.round(h * ratio)), { scratch } = this;
    if (scratch.width !== count || scratch.height !== deep) { scratch.width = count; scratch.height = deep; this.image = new ImageData(count, deep); }
    strip.paint(this.image, first, count, deep);
    scratch.getContext("2d").putImageData(this.image, 0, 0);
    c.save();
    c.setTransform(1, 0, 0, 1, Math.round(MAP_LEFT * ratio), Math.round(y * ratio));
    c.drawImage(scratch, 0, 0);
    c.fillStyle = INK.edge;
    for (const p of strip.edges) { const x = strip.first + p - first; if (x >= 0 && x < count) c.fillRect(x, 0, 1, deep); }
    c.restore();
    if (h >= 13) this.drawLabels(c, strip.labels, y, h, b);
    this.drawNumbers(c, b, y + h / 2);
  }

  drawLabels(c, labels, y, h, b) {
    c.textAlign = "left";
    for (const i of labels) {
      const r = this.rectangle(b, view.model.offset[i], view.model.offset[i] + view.model.requested[i]);
      if (!r) continue;
      c.fillStyle = view.moment.classOf(i) === USED ? INK["on-used"] : INK.ink;
      fitText(c, view.model.name(i), r.x + 5, y + h / 2 + 0.5, r.w - 9);
    }
  }

  /** At the left the block, at the right its numbers; in an empty one, for how long it has been empty. */
  drawNumbers(c, b, y) {
    const { model, moment } = view, size = moment.size[b], is = moment.look(b), end = Math.min(this.width, (size / this.scale(b) - this.span.a) / this.span.size * this.width);
    c.textAlign = "left"; c.fillStyle = view.selected?.block === b ? INK.accent : INK.ink;
    c.fillText(`#${blockName(model.block.id[b])}`, 8, y);
    c.fillStyle = INK.muted; c.textAlign = "right"; c.fillText(bytes(size), MAP_LEFT - 8, y);
    const right = this.node.clientWidth;
    c.fillText(percent(is.used, size), right - 84, y); c.fillText(bytes(is.largest), right - 6, y);
    if (!moment.of(b).length && end > 120) {
      c.textAlign = "left"; c.fillStyle = INK.ink; fitText(c, emptyText(b), MAP_LEFT + 8, y, end - 12);
    }
  }

  /** Where bytes of a block are on the page, cut to what is visible; null if nothing is. */
  rectangle(b, low, high) {
    const row = this.rows.find(row => row.b === b);
    if (!row) return null;
    const scale = this.scale(b), x = at => MAP_LEFT + (at / scale - this.span.a) / this.span.size * this.width;
    const a = x(low), z = x(high);
    if (z < MAP_LEFT || a > MAP_LEFT + this.width) return null;
    const left = Math.max(a, MAP_LEFT), w = Math.min(z, MAP_LEFT + this.width) - left;
    return { x: left, y: MAP_TOP + row.y - this.top + 1, w, h: row.h - 2 };
  }

  outline(c, what, colour, width) {
    if (!what) return;
    const { model, moment } = view, i = what.range;
    if (i != null && !moment.has(i)) return;
    const r = i != null ? this.rectangle(what.block, model.offset[i], model.offset[i] + model.occupied(i))
      : what.high ? this.rectangle(what.block, what.low, what.high) : null;
    if (!r) return;
    const w = Math.max(r.w, 3);
    c.strokeStyle = INK.card; c.lineWidth = width + 2; c.strokeRect(r.x, r.y, w, r.h);
    c.strokeStyle = colour; c.lineWidth = width; c.strokeRect(r.x, r.y, w, r.h);
  }

  /** Below, what the width stands for, and which part of it is visible. */
  drawRuler(c, w, h) {
    const { a, size } = this.span, total = view.sharedScale ? this.largest : 100, y = h - MAP_BOTTOM + 6;
    c.fillStyle = INK.line; c.fillRect(MAP_LEFT, y - 3, this.width, 3);
    c.fillStyle = INK.accent; if (!this.span.all) c.fillRect(MAP_LEFT + a * this.width, y - 3, Math.max(3, size * this.width), 3);
    c.fillStyle = INK.muted;
    const parts = 4, digits = clamp(Math.ceil(-Math.log10(size)) + 1, 0, 9);
    for (let k = 0; k <= parts; k++) {
      const share = a + size * k / parts, x = MAP_LEFT + this.width * k / parts;
      c.textAlign = k === 0 ? "left" : k === parts ? "right" : "center";
      c.fillText(view.sharedScale ? (size < 0.01 ? hex(Math.floor(share * total)) : bytes(share * total)) : `${(share * total).toFixed(digits)} %`, x, y + 9);
    }
    c.textAlign = "right"; c.fillText(view.sharedScale ? "offset" : "of block", MAP_LEFT - 8, y + 9);
    const hidden = this.total - this.height;
    if (hidden > 1) {
      const track = this.height, thumb = Math.max(24, track * this.height / this.total);
      c.fillStyle = INK.line; c.fillRect(w - 3, MAP_TOP, 3, track);
      c.fillStyle = INK.faint; c.fillRect(w - 3, MAP_TOP + (track - thumb) * this.top / hidden, 3, thumb);
    }
  }

  /** What is at a point: `{ block, range }`, a hole `{ block, low, high }`, or a block `{ block }`. */
  hit(x, y) {
    if (y < MAP_TOP || y > MAP_TOP + this.height) return null;
    const row = this.rows?.find(row => row.b != null && y >= MAP_TOP + row.y - this.top && y < MAP_TOP + row.y + row.h - this.top);
    if (!row) return null;
    if (x < MAP_LEFT || x > MAP_LEFT + this.width) return { block: row.b };
    const { model, moment } = view, b = row.b, perPixel = this.scale(b) * this.span.size / this.width;
    const low = this.share(x) * this.scale(b), high = low + perPixel;
    if (low >= moment.size[b]) return { block: b };
    // As drawn: of several ranges in this pixel the most important.
    const list = moment.of(b);
    let best = -1, rank = -1;
    for (let k = moment.firstAfter(b, low); k < list.length && model.offset[list[k]] < high; k++) {
      const i = list[k], what = moment.classOf(i);
      if (what > rank && model.offset[i] + model.occupied(i) > low) { rank = what; best = i; }
    }
    if (best >= 0) return { block: b, range: best };
    let found = { block: b };
    eachHole(model, list, moment.size[b], (from, to, padding) => { if (from < high && to > low) found = { block: b, low: from, high: to, padding }; });
    return found;
  }

  showHover(x, y, e) {
    const hit = this.hit(x, y);
    this.node.classList.toggle("hit", hit != null);
    const same = hit?.block === this.hover?.block && hit?.range === this.hover?.range && hit?.low === this.hover?.low;
    this.hover = hit;
    if (hit) showTip(e, ...tipOf(hit)); else hideTip();
    if (!same) redraw("pointed");
  }

  /** Zooms so that a range is well visible. */
  reveal(i) {
    const { model } = view, b = model.blockOf[i], row = this.rows.find(row => row.b === b);
    if (!row) return;
    if (row.y < this.top || row.y + row.h > this.top + this.height) this.top = row.y - this.height / 2;
    const low = model.offset[i] / this.scale(b), size = model.occupied(i) / this.scale(b), pixels = size / this.span.size * this.width;
    if (pixels < 3 || low < this.span.a || low + size > this.span.b) {
      const around = pixels < 3 ? size * 12 : this.span.size;
      this.span.set(low + size / 2 - around / 2, around);
    }
  }
}

/** For how long a block without allocations has been empty. */
function emptyText(b) {
  const { model, t } = view;
  if (model.isMoment) return "empty";
  let since = model.block.from[b];
  for (let i = model.first[b]; i < model.first[b + 1]; i++) if (model.to[i] <= t && model.to[i] > since) since = model.to[i];
  const frames = model.frameAt(t) - model.frameAt(since);
  return frames > 0 ? `empty for ${plural(frames, "frame")}` : `empty for ${plural(t - since, "event")}`;
}
