// Gestures on a chart: the wheel zooms at the cursor, dragging pans (or scrubs), a double click shows all.

// A turn of the wheel that began by scrolling the page goes on doing so when a chart comes under the pointer.
let wheelAt = 0, wheelOnChart = false;
addEventListener("wheel", e => {
  if (e.timeStamp - wheelAt > 250) wheelOnChart = e.target.closest?.(".chart") != null;
  wheelAt = e.timeStamp;
}, { capture: true, passive: true });

/** `act` has zoom(x, y, factor, e), pan(dx, dy, e), hover(x, y, e), leave(), click(x, y, e), fit(), and maybe scrub(x). */
function gestures(node, act) {
  let drag = null;
  const local = e => { const box = node.getBoundingClientRect(); return [e.clientX - box.left, e.clientY - box.top]; };
  node.addEventListener("wheel", e => {
    if (!wheelOnChart) return;
    const lines = e.deltaMode === 1 ? 18 : 1, [x, y] = local(e);
    const handled = Math.abs(e.deltaX) > Math.abs(e.deltaY)
      ? act.pan(-e.deltaX * lines, 0, e)
      : act.zoom(x, y, Math.exp(clamp(e.deltaY * lines, -200, 200) * 0.002), e);
    if (handled !== false) e.preventDefault();
  }, { passive: false });
  node.addEventListener("pointerdown", e => {
    if (e.button) return;
    const [x, y] = local(e);
    drag = { x, y, lastX: x, lastY: y, moved: false, scrub: !!act.scrub && !e.shiftKey };
    node.setPointerCapture(e.pointerId);
    if (drag.scrub) act.scrub(x);
  });
  node.addEventListener("pointermove", e => {
    const [x, y] = local(e);
    if (!drag) { act.hover(x, y, e); return; }
    if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < 4) return;
    drag.moved = true;
    if (drag.scrub) act.scrub(x);
    else { node.classList.add("grab"); act.pan(x - drag.lastX, y - drag.lastY, e); }
    drag.lastX = x; drag.lastY = y;
  });
  const done = e => {
    if (!drag) return;
    node.classList.remove("grab");
    if (!drag.moved && e.type === "pointerup") act.click(...local(e), e);
    drag = null;
  };
  node.addEventListener("pointerup", done);
  node.addEventListener("pointercancel", done);
  node.addEventListener("pointerleave", () => act.leave());
  node.addEventListener("dblclick", e => act.fit(e));
}

/** A visible part a..b of 0..length. */
class Span {
  constructor(length, least) { this.length = length; this.least = Math.min(least, length); this.fit(); }
  fit() { this.a = 0; this.size = this.length; }
  get b() { return this.a + this.size; }
  get all() { return this.size >= this.length; }
  set(a, size) { size = clamp(size, this.least, this.length); this.a = clamp(a, 0, this.length - size); this.size = size; }
  zoom(at, factor) { const size = clamp(this.size * factor, this.least, this.length); this.set(at - (at - this.a) * size / this.size, size); }
  pan(by) { this.set(this.a + by, this.size); }
}
