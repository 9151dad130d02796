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

/** Where moments are in a chart over the whole recording, in the unit of the timeline. */
function timeScale(width) {
  const { axis } = view.timeline, w = width - TIME_LEFT - TIME_RIGHT;
  return { w, x: t => TIME_LEFT + axis.toPosition(t) / axis.length * w, event: x => clamp(Math.floor(axis.toEvent((x - TIME_LEFT) / w * axis.length) + 1e-6), 0, view.model.end) };
}

/** The labels of a time axis, and the cursor. */
function drawTimeAxis(c, width, height, bottom) {
  const { axis } = view.timeline, { w, x } = timeScale(width);
  c.fillStyle = INK.muted; c.textAlign = "center";
  for (const p of axis.ticks(0, axis.length, w / 110)) {
    const at = TIME_LEFT + p / axis.length * w;
    c.fillRect(Math.round(at), bottom, 1, 3);
    c.fillText(axis.label(p), clamp(at, TIME_LEFT + 10, TIME_LEFT + w - 20), bottom + 11);
  }
  c.textAlign = "right"; c.fillText(axis.unit, TIME_LEFT - 8, bottom + 11);
  c.fillStyle = INK.cursor; c.fillRect(Math.round(x(view.t)), 2, 1.5, bottom - 2);
}

/** Values over time: each holds until the next. A click moves the cursor. */
function timeLine(label, at, value, top, text, colour = "accent", height = 96) {
  const bottom = height - 20, width = Math.max(300, $("panel").clientWidth), { w, x, event } = timeScale(width);
  const y = n => bottom - n / Math.max(top, 1e-9) * (bottom - 8);
  return chart(height, label, c => {
    c.textAlign = "right";
    for (const share of [0, 0.5, 1]) { c.fillStyle = INK.grid; c.fillRect(TIME_LEFT, Math.round(y(top * share)), w, 1); c.fillStyle = INK.muted; c.fillText(text(top * share), TIME_LEFT - 8, Math.min(y(top * share), bottom - 6)); }
    c.beginPath();
    for (let i = 0; i < at.length; i++) { if (i) c.lineTo(x(at[i]), y(value[i - 1])); else c.moveTo(x(at[0]), y(value[0])); c.lineTo(x(at[i]), y(value[i])); }
    c.strokeStyle = INK[colour]; c.lineWidth = 1.5; c.stroke();
    drawTimeAxis(c, width, height, bottom);
  }, {
    hover: px => { const t = event(px), k = after(at, t) - 1; return px < TIME_LEFT || k < 0 ? null : [sentence(view.model.when(t)), [[text(value[k])]]]; },
    click: px => { if (px >= TIME_LEFT) goTo(event(px)); },
  });
}
