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
  readPixels();
}

/** Colours as the pixels of an image, of 32 bits each: some of the above, the boxes of pictures by their hue, and how dark it is where
    several boxes have the same bytes. */
function readPixels() {
  const names = ["card", "grid", "ink", "used"], canvas = document.createElement("canvas");
  const hues = Array.from({ length: 360 }, (_, hue) => hueText(hue)), all = [...names.map(name => INK[name]), ...hues];
  canvas.width = all.length; canvas.height = 1;
  const c = canvas.getContext("2d", { willReadFrequently: true });
  all.forEach((colour, at) => { c.fillStyle = colour; c.fillRect(at, 0, 1, 1); });
  const pixels = new Uint32Array(c.getImageData(0, 0, all.length, 1).data.buffer);
  INK.pixel = Object.fromEntries(names.map((name, at) => [name, pixels[at]]));
  INK.hue = pixels.slice(names.length);
  INK["on-hue"] = isDark() ? "#fff" : "#1a222c";
  const { grid, ink, used, card } = INK.pixel;
  INK.depth = Uint32Array.from({ length: 9 }, (_, depth) => mix(grid, ink, depth && 0.07 + 0.05 * depth));
  INK.depthText = pixelText(INK.depth[2]);
  INK.overlap = Uint32Array.from({ length: 4 }, (_, depth) => depth ? mix(card, used, [0, 0.3, 0.5, 0.7][depth]) : grid);
}

const isDark = () => document.documentElement.dataset.theme === "dark";
/** The colour of a box of a picture, and that of a pixel, as the style sheet has colours. */
const hueText = hue => `hsl(${hue} ${isDark() ? "38% 42%" : "45% 68%"})`;
const pixelText = pixel => `rgb(${[0, 8, 16].map(shift => pixel >>> shift & 255).join()})`;

/** A pixel of a colour to which a share of another one was added. */
function mix(ground, colour, share) {
  let out = 0;
  for (const shift of [0, 8, 16, 24]) out |= Math.round((ground >>> shift & 255) * (1 - share) + (colour >>> shift & 255) * share) << shift;
  return out >>> 0;
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
