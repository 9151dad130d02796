// The colours of the style sheet, for canvases; the hatched classes as patterns.

const INK = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["page", "card", "ink", "muted", "faint", "line", "grid", "accent", "accent-soft", "cursor", "edge", "free", "used", "overhead",
    "pending", "pending-ground", "hatch", "padding", "on-used", "budget", "alarm", "stall", "selected"]) INK[name] = style.getPropertyValue(`--${name}`).trim();
  const context = document.createElement("canvas").getContext("2d");
  INK.fill = [];
  INK.fill[NOTHING] = "transparent";
  INK.fill[FREE] = INK.free;
  INK.fill[PADDING] = INK.padding;
  INK.fill[ROUNDING] = hatch(context, INK.overhead, INK.hatch, "\\");
  INK.fill[MOVE] = hatch(context, INK.overhead, INK.hatch, "x");
  INK.fill[PENDING] = hatch(context, INK["pending-ground"], INK.pending, "/");
  INK.fill[USED] = INK.used;
  readTiles();
}

/** The classes as pixels, for images: of each a square of 32-bit colours that is repeated. */
function readTiles() {
  const size = INK.tileSize = 8 * Math.max(1, Math.round(devicePixelRatio)), canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const c = canvas.getContext("2d", { willReadFrequently: true });
  INK.tile = INK.fill.map(fill => {
    c.clearRect(0, 0, size, size);
    c.fillStyle = fill; c.fillRect(0, 0, size, size);
    return new Uint32Array(c.getImageData(0, 0, size, size).data.buffer);
  });
}

/** A ground with diagonal lines: "/", "\\", or both as "x". */
function hatch(context, ground, line, way) {
  const size = 8 * Math.max(1, Math.round(devicePixelRatio)), tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const c = tile.getContext("2d");
  c.fillStyle = ground; c.fillRect(0, 0, size, size);
  c.strokeStyle = line; c.lineWidth = size / (way === "x" ? 8 : 4);
  c.beginPath();
  for (const shift of [-size, 0, size]) {
    if (way !== "\\") { c.moveTo(shift - 1, size + 1); c.lineTo(shift + size + 1, -1); }
    if (way !== "/") { c.moveTo(shift - 1, -1); c.lineTo(shift + size + 1, size + 1); }
  }
  c.stroke();
  return context.createPattern(tile, "repeat");
}

/** Sizes a canvas to its element and the screen's pixels. Returns its context, in CSS pixels, and its size. */
function prepare(canvas) {
  const ratio = devicePixelRatio || 1, { clientWidth: w, clientHeight: h } = canvas.parentElement;
  const W = Math.round(w * ratio), H = Math.round(h * ratio);
  if (canvas.width !== W || canvas.height !== H) { canvas.width = W; canvas.height = H; canvas.style.height = `${h}px`; }
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, w, h);
  c.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  c.textBaseline = "middle";
  return { c, w, h, ratio };
}

/** Draws text, shortened to a width. */
function fitText(c, text, x, y, width) {
  if (width < 14) return;
  if (c.measureText(text).width > width) {
    let keep = Math.floor(text.length * width / c.measureText(text).width);
    while (keep > 0 && c.measureText(`${text.slice(0, keep)}…`).width > width) keep--;
    if (keep < 2) return;
    text = `${text.slice(0, keep)}…`;
  }
  c.fillText(text, x, y);
}
