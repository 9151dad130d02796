// Pictures with time across and offsets up: which allocation or resource had which bytes, and when.
//
// What each pixel shows is found once for a size and a zoom, as the number of a box. So a picture of very many boxes costs as
// much as its pixels: a moving cursor copies them, and what is under the pointer is one look.

const PICTURE_HEIGHT = 300;

/** Which box each pixel shows, and how many there have a byte at that time. */
class BoxGrid {
  constructor(width, height) {
    Object.assign(this, { width, height });
    this.box = new Uint32Array(width * height);                // the number of the box, plus 1
    this.changes = new Int32Array((width + 1) * (height + 1)); // of the depth; see countDepths
    this.large = [];                                           // boxes that a name may fit into: number, left, top, width, height
    this.edged = new Uint8Array(1);                            // by number plus 1: large enough to be told from its neighbours
  }

  /** Fills in boxes `0 .. count`. `edges(k, at)` writes the left, the top, the right and the bottom pixel of one into `at`, and returns
      false for one that need not be drawn. One that has no pixel of its own gets one where nothing larger is. */
  fill(count, edges) {
    const { box, width, height } = this, all = this.edges(count, edges), edged = this.edged = new Uint8Array(count + 1);
    for (const small of [1, 0]) {
      for (let k = 0, i = 0; k < count; k++, i += 5) {
        if (all[i + 4] !== small) continue;
        const left = all[i], top = all[i + 1], right = all[i + 2], bottom = all[i + 3];
        if (right - left === 1) for (let y = top, at = top * width + left; y < bottom; y++, at += width) box[at] = k + 1;
        else for (let y = top; y < bottom; y++) box.fill(k + 1, y * width + left, y * width + right);
        if (right - left > 3 && bottom - top > 3) edged[k + 1] = 1;
        if (right - left >= 30 && bottom - top >= 12) this.large.push([k, left, top, right - left, bottom - top]);
      }
    }
    return this;
  }

  /** Of each box its edges, inside of the picture and at least a pixel apart, and 1 for one that is smaller than a pixel, 2 for one that is
      not drawn. */
  edges(count, edges) {
    const { width, height } = this, at = new Int32Array(4), all = new Int32Array(5 * count);
    for (let k = 0, i = 0; k < count; k++, i += 5) {
      if (edges(k, at) === false || at[2] < 0 || at[0] >= width) { all[i + 4] = 2; continue; }
      all[i + 4] = +(at[0] >= at[2] || at[1] >= at[3]);
      const left = all[i] = clamp(at[0], 0, width - 1), top = all[i + 1] = clamp(at[1], 0, height - 1);
      all[i + 2] = clamp(at[2], left + 1, width); all[i + 3] = clamp(at[3], top + 1, height);
    }
    return all;
  }

  /** Counts how many of some boxes each pixel has: one more at two corners of a box, one fewer at the others, and then the sums. With
      `named`, their names are drawn where there is no other box; their numbers are those below 0, downwards. */
  countDepths(count, edges, named = false) {
    const { changes, width, height } = this, all = this.edges(count, edges), row = width + 1;
    for (let k = 0, i = 0; k < count; k++, i += 5) {
      if (all[i + 4] === 2) continue;
      const left = all[i], top = all[i + 1] * row, right = all[i + 2], bottom = all[i + 3] * row, w = right - left, h = all[i + 3] - all[i + 1];
      changes[top + left]++; changes[bottom + left]--; changes[top + right]--; changes[bottom + right]++;
      if (named && w >= 30 && h >= 12) this.large.push([-1 - k, left, all[i + 1], w, h]);
    }
    for (let y = 0; y < height; y++) for (let x = 0, i = y * row; x < width; x++, i++) {
      changes[i] += (x ? changes[i - 1] : 0) + (y ? changes[i - row] : 0) - (x && y ? changes[i - row - 1] : 0);
    }
    return this;
  }
  depth(x, y) { return this.changes[y * (this.width + 1) + x]; }

  /** Draws the pixels. `colour(box, depth)` is of one, as 32 bits; `box` is -1 where there is none. Boxes are divided by lines in the
      colour of the card. */
  image(colour) {
    const { width, height, box, edged } = this, image = new ImageData(width, height), out = new Uint32Array(image.data.buffer);
    for (let y = 0, i = 0; y < height; y++) for (let x = 0; x < width; x++, i++) {
      const is = box[i], divided = is > 0 && edged[is] && ((x > 0 && box[i - 1] !== is) || (y > 0 && box[i - width] !== is));
      out[i] = divided ? INK.pixel.card : colour(is - 1, this.depth(x, y));
    }
    const canvas = el("canvas", { width, height });
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }
}

/** The pixel of a moment in a picture of `width` pixels over the visible time: below 0 before it, `width` behind it. */
function momentColumns(width) {
  const { axis, span } = view.timeline, edges = new Float64Array(width + 1);
  for (let p = 0; p < width; p++) edges[p] = axis.toEvent(span.a + (p - 0.5) / width * span.size);
  // What begins at the last moment has the last pixel.
  edges[width] = axis.toEvent(span.b) + 1e-6;
  // A search for each of a million moments would take longer than to draw them: it begins near its end.
  const first = edges[0], last = edges[width], step = (last - first) / 2048, near = Uint32Array.from({ length: 2049 }, (_, part) => after(edges, first + part * step));
  return t => {
    if (t < first || t >= last) return t < first ? -1 : width;
    let p = near[Math.floor((t - first) / step)];
    while (edges[p] <= t) p++;
    return p - 1;
  };
}

/** A life in words. */
const lifeText = (from, to) => `${sentence(view.model.when(from))} to ${to <= view.model.end ? view.model.when(to) : "the end"}`;

/** What was drawn last of each picture, for the next drawing with the same key. */
const pictures = new Map();

/**
 * A picture with time across and offsets up. `is` has
 * - `id` and `label`; `height` and `top`, the bytes of it; `bound`, a line at some bytes, or nothing;
 * - `fill(grid, column, row)`, which fills a grid with boxes, given the pixels of moments and offsets;
 * - `colour(box, depth)`, `name(box)` and `ink`, the colour of names;
 * - `under(c, x, y)` and `over(c, x, y)`, which draw below the boxes, and above them what changes with what is chosen, or nothing;
 * - `version`, what else the boxes depend on;
 * - `tip(box, t, offset)`, title and lines or null, and `click(box, t, offset)`; `key(key)`, or nothing.
 */
function boxPicture(is) {
  const { height = PICTURE_HEIGHT, top, id } = is, width = Math.max(300, $("panel").clientWidth), bottom = height - 20, { w, x, event } = timeScale(width);
  const ratio = devicePixelRatio || 1, W = Math.round(w * ratio), H = Math.round((bottom - 2) * ratio), y = at => bottom - at / Math.max(top, 1) * (bottom - 2);
  const { axis, span } = view.timeline, key = [W, H, top, axis.unit, span.a, span.size, view.theme, document.documentElement.dataset.theme, view.palette, is.version ?? ""].join();
  let drawn = pictures.get(id);
  if (drawn?.key !== key) {
    const grid = new BoxGrid(W, H);
    is.fill(grid, momentColumns(W), offset => Math.round(H - offset / Math.max(top, 1) * H));
    drawn = { key, grid, image: grid.image(is.colour) };
    pictures.set(id, drawn);
  }
  const { grid, image } = drawn;
  const at = (px, py) => {
    const column = Math.floor((px - TIME_LEFT) * ratio), row = Math.floor((py - 2) * ratio);
    if (column < 0 || column >= W || row < 0 || row >= H) return null;
    // Where there is none, one that is smaller than what a hand can point at.
    let box = grid.box[row * W + column];
    const reach = Math.ceil(1.5 * ratio);
    for (let dy = -reach; dy <= reach && !box; dy++) for (let dx = -reach; dx <= reach && !box; dx++) {
      if (row + dy >= 0 && row + dy < H && column + dx >= 0 && column + dx < W && !grid.edged[grid.box[(row + dy) * W + column + dx]]) box = grid.box[(row + dy) * W + column + dx];
    }
    return [box - 1, event(px), (bottom - py) / (bottom - 2) * top];
  };
  const canvas = chart(height, is.label, c => {
    c.save(); c.beginPath(); c.rect(TIME_LEFT, 2, w, bottom - 2); c.clip();
    is.under?.(c, x, y);
    c.drawImage(image, TIME_LEFT, 2, w, bottom - 2);
    drawNames(c, grid, ratio, is);
    is.over?.(c, x, y);
    if (is.bound != null) {
      c.strokeStyle = INK.ink; c.setLineDash([6, 4]); c.lineWidth = 1;
      const line = Math.round(y(Math.min(is.bound, top))) + 0.5;
      c.beginPath(); c.moveTo(TIME_LEFT, line); c.lineTo(TIME_LEFT + w, line); c.stroke(); c.setLineDash([]);
    }
    c.restore();
    c.fillStyle = INK.muted; c.textAlign = "right";
    for (let k = 0; k <= 4; k++) c.fillText(bytes(top * k / 4), TIME_LEFT - 8, clamp(y(top * k / 4), 8, bottom - 6));
    drawTimeAxis(c, width, height, bottom);
  }, {
    hover: (px, py) => { const hit = at(px, py); return hit && is.tip(...hit); },
    click: (px, py) => { const hit = at(px, py); if (hit) is.click(...hit); },
  });
  canvas.id = id;
  if (is.key) {
    canvas.tabIndex = 0;
    canvas.addEventListener("keydown", e => { if (!e.ctrlKey && !e.metaKey && !e.altKey && is.key(e.key)) { e.preventDefault(); e.stopPropagation(); } });
  }
  return canvas;
}

/** The names of boxes, at their tops, the largest first: none over another one. */
function drawNames(c, grid, ratio, { name, ink }) {
  const written = [], most = 400;
  grid.large.sort((a, b) => b[3] * b[4] - a[3] * a[4]);
  c.fillStyle = ink ?? INK.ink; c.textAlign = "left";
  for (const [k, ...edges] of grid.large) {
    if (written.length === most) return;
    const [left, top, w, h] = edges.map(edge => edge / ratio), y = top + 2 + Math.min(h / 2, 9);
    if (h < 13 || w < 30) continue;
    const text = name(k);
    const right = left + Math.min(w, c.measureText(text).width + 8);
    // Of a box that is not drawn itself, not over one that is.
    const row = Math.round(y * ratio) - 2;
    if (k < 0 && [left + 4, right - 4].some(px => grid.box[row * grid.width + Math.round(px * ratio)])) continue;
    if (written.some(one => one[0] < right && left < one[1] && Math.abs(one[2] - y) < 13)) continue;
    written.push([left, right, y]);
    fitText(c, text, TIME_LEFT + left + 4, y, w - 8);
  }
}
