// Numbers as people read them, and elements of the page.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** Bytes, with three digits and a unit. */
function bytes(n) {
  let unit = 0, value = Math.abs(n);
  while (value >= 1024 && unit < UNITS.length - 1) { value /= 1024; unit++; }
  const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${n < 0 ? "−" : ""}${value.toFixed(digits)} ${UNITS[unit]}`;
}
const int = n => n.toLocaleString("en-US");
/** Bytes, exactly. */
const exact = n => `${int(n)} B`;
const signed = (n, show) => n === 0 ? show(0) : `${n > 0 ? "+" : "−"}${show(Math.abs(n))}`;
const percent = (part, whole) => whole > 0 ? `${(100 * part / whole).toFixed(part > 0 && part < whole * 0.1 ? 1 : 0)} %` : "–";
/** The number of a block; of those that the library numbers, the pool and the block in it. */
const blockName = id => id < 2 ** 32 ? `${id}` : `${Math.floor(id / 2 ** 32)}:${id % 2 ** 32}`;
const hex = n => `0x${n.toString(16)}`;
function duration(ns) {
  if (ns < 1e3) return `${ns.toFixed(0)} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toPrecision(3)} µs`;
  if (ns < 1e9) return `${(ns / 1e6).toPrecision(3)} ms`;
  return `${(ns / 1e9).toFixed(2)} s`;
}
const plural = (n, one, many = `${one}s`) => `${int(n)} ${n === 1 ? one : many}`;
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

const $ = id => document.getElementById(id);

/** An element. Texts become text nodes, so nothing in a name is ever HTML. */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter(child => child != null));
  return node;
}

/** The first index in `sorted[low..high]` whose value exceeds `x`. */
function after(sorted, x, low = 0, high = sorted.length) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle] > x) high = middle; else low = middle + 1;
  }
  return low;
}
