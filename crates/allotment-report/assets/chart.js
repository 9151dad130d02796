// Small charts of the lists: lines over time, under each other and under the timeline; bars.

/** A canvas as wide as the list, drawn once. `act` has hover(x, y), the tip's lines or null, and click(x, y). */
function chart(height, label, draw, act = {}) {
  const ratio = devicePixelRatio || 1, width = Math.max(300, $("panel").clientWidth), canvas = el("canvas", { class: "plot", role: "img", "aria-label": label, width: Math.round(width * ratio), height: Math.round(height * ratio), style: `height:${height}px` });
  const c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  c.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  c.textBaseline = "middle";
  draw(c, width, height);
  const local = e => { const box = canvas.getBoundingClientRect(); return [e.clientX - box.left, e.clientY - box.top]; };
  if (act.hover) {
    canvas.addEventListener("pointermove", e => { const tip = act.hover(...local(e)); if (tip) showTip(e, ...tip); else hideTip(); });
    canvas.addEventListener("pointerleave", hideTip);
  }
  if (act.click) canvas.addEventListener("click", e => act.click(...local(e)));
  return canvas;
}

/** Where moments are in a chart over what the timeline shows, in its unit. */
function timeScale(width) {
  const { axis, span } = view.timeline, w = width - TIME_LEFT - TIME_RIGHT;
  return { w, x: t => TIME_LEFT + (axis.toPosition(t) - span.a) / span.size * w, event: x => clamp(Math.floor(axis.toEvent(span.a + (x - TIME_LEFT) / w * span.size) + 1e-6), 0, view.model.end) };
}

/** The labels of a time axis, and the cursor. */
function drawTimeAxis(c, width, height, bottom) {
  const { axis, span } = view.timeline, { w, x } = timeScale(width);
  c.fillStyle = INK.muted; c.textAlign = "center";
  for (const p of axis.ticks(span.a, span.b, w / 110)) {
    const at = TIME_LEFT + (p - span.a) / span.size * w;
    c.fillRect(Math.round(at), bottom, 1, 3);
    c.fillText(axis.label(p), clamp(at, TIME_LEFT + 10, TIME_LEFT + w - 20), bottom + 11);
  }
  c.textAlign = "right"; c.fillText(axis.unit, TIME_LEFT - 8, bottom + 11);
  const cursor = x(view.t);
  c.fillStyle = INK.cursor;
  if (cursor >= TIME_LEFT - 1 && cursor <= TIME_LEFT + w + 1) c.fillRect(Math.round(cursor), 2, 1.5, bottom - 2);
}

/** Values over time: each holds until the next. A click moves the cursor. */
function timeLine(label, at, value, top, text, colour = "accent", height = 96) {
  const bottom = height - 20, width = Math.max(300, $("panel").clientWidth), { w, x, event } = timeScale(width);
  const y = n => bottom - n / Math.max(top, 1e-9) * (bottom - 8);
  return chart(height, label, c => {
    c.textAlign = "right";
    for (const share of [0, 0.5, 1]) { c.fillStyle = INK.grid; c.fillRect(TIME_LEFT, Math.round(y(top * share)), w, 1); c.fillStyle = INK.muted; c.fillText(text(top * share), TIME_LEFT - 8, Math.min(y(top * share), bottom - 6)); }
    c.save(); c.beginPath(); c.rect(TIME_LEFT, 0, w, bottom); c.clip(); c.beginPath();
    for (let i = 0; i < at.length; i++) { if (i) c.lineTo(x(at[i]), y(value[i - 1])); else c.moveTo(x(at[0]), y(value[0])); c.lineTo(x(at[i]), y(value[i])); }
    c.strokeStyle = INK[colour]; c.lineWidth = 1.5; c.stroke(); c.restore();
    drawTimeAxis(c, width, height, bottom);
  }, {
    hover: px => { const t = event(px), k = after(at, t) - 1; return px < TIME_LEFT || k < 0 ? null : [sentence(view.model.when(t)), [[text(value[k])]]]; },
    click: px => { if (px >= TIME_LEFT) goTo(event(px)); },
  });
}
