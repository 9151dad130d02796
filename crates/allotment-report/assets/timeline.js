// Memory over time: what the driver's memory was used for, with frames, stalls and refusals below.
//
// One column of pixels may stand for thousands of moments; it shows the one with the most bytes in use, so no peak is
// ever hidden.

const TIME_LEFT = 84, TIME_RIGHT = 16, TIME_TOP = 12, LANE = 13;

class Timeline {
  constructor(node) {
    this.node = node;
    [this.base, this.over] = node.querySelectorAll("canvas");
    this.hover = null;
    gestures(node, {
      zoom: (x, _, factor) => { if (this.span.all && factor > 1) return false; this.span.zoom(this.position(x), factor); redraw("time"); return true; },
      pan: dx => { this.span.pan(-dx / this.width * this.span.size); redraw("time"); },
      hover: (x, y, e) => this.showHover(x, y, e),
      leave: () => { this.hover = null; hideTip(); redraw("cursor"); },
      scrub: x => goTo(this.event(x)),
      click: (x, y) => { const hit = this.markAt(x, y); if (hit) { goTo(hit.at); showTab("happenings"); } },
      fit: () => { this.span.fit(); redraw("time"); },
    });
  }

  /** Shows another unit of time, or other data. */
  setAxis(axis) {
    const kept = this.axis && !this.span.all ? [this.axis.toEvent(this.span.a), this.axis.toEvent(this.span.b)] : null;
    this.axis = axis;
    this.span = new Span(axis.length, axis.unit === "seconds" ? 1e-6 : axis.unit === "frames" ? 0.05 : 8);
    if (kept) { const a = axis.toPosition(kept[0]); this.span.set(a, axis.toPosition(kept[1]) - a); }
  }

  get width() { return Math.max(50, this.node.clientWidth - TIME_LEFT - TIME_RIGHT); }
  x(event) { return TIME_LEFT + (this.axis.toPosition(event) - this.span.a) / this.span.size * this.width; }
  position(x) { return this.span.a + clamp((x - TIME_LEFT) / this.width, 0, 1) * this.span.size; }
  event(x) { return Math.floor(this.axis.toEvent(this.position(x)) + 1e-6); }

  draw() {
    const { c, w, h, ratio } = prepare(this.base), { model, series } = view;
    this.lanes = view.happenings.lanes();
    const plot = this.plot = { x: TIME_LEFT, y: TIME_TOP, w: this.width, h: h - TIME_TOP - 26 - this.lanes.length * LANE };
    const budget = view.happenings.budget();
    const budgetMost = Math.max(0, ...budget.value);
    // A budget far above would leave a flat line at the bottom; it is named instead of drawn.
    const inReach = budgetMost > 0 && budgetMost < series.most * 2.2;
    const top = Math.max(4, series.most, inReach ? budgetMost : 0) * 1.06;
    const y = value => plot.y + plot.h - value / top * plot.h;

    c.strokeStyle = INK.grid; c.fillStyle = INK.muted; c.textAlign = "right";
    const step = 2 ** Math.ceil(Math.log2(top / 4));
    for (let value = 0; value <= top; value += step) {
      c.beginPath(); c.moveTo(plot.x, Math.round(y(value)) + 0.5); c.lineTo(plot.x + plot.w, Math.round(y(value)) + 0.5); c.stroke();
      c.fillText(bytes(value), plot.x - 8, y(value));
    }

    this.columns(c, plot, y, ratio);
    c.strokeStyle = INK.budget; c.setLineDash([5, 4]); c.lineWidth = 1.5;
    if (inReach) this.steps(c, budget.at, budget.value, y);
    c.setLineDash([]); c.lineWidth = 1;
    c.textAlign = "right"; c.fillStyle = INK.budget;
    if (budgetMost > 0) {
      const last = budget.value.at(-1);
      c.fillText(inReach ? `budget ${bytes(last)}` : `↑ budget ${bytes(last)}`, plot.x + plot.w - 4, inReach ? Math.max(8, y(last) - 8) : 7);
    }

    this.drawLanes(c, plot);
    c.fillStyle = INK.muted; c.textAlign = "center";
    for (const p of this.axis.ticks(this.span.a, this.span.b, plot.w / 110)) {
      const x = plot.x + (p - this.span.a) / this.span.size * plot.w;
      c.fillRect(Math.round(x), h - 19, 1, 3);
      c.fillText(this.axis.label(p), clamp(x, plot.x + 10, plot.x + plot.w - 20), h - 8);
    }
    c.textAlign = "right"; c.fillText(this.axis.unit, plot.x - 8, h - 8);
    if (!model.count && !model.blocks) { c.textAlign = "center"; c.fillText("No memory was allocated in this recording.", plot.x + plot.w / 2, plot.y + plot.h / 2); }
    this.node.setAttribute("aria-label", `Memory over time, ${int(model.end)} events; at most ${bytes(series.occupied(series.peak))} in use, at event ${int(series.peak)}`);
  }

  /** The stacked columns of used, overhead, pending and free bytes. */
  columns(c, plot, y, ratio) {
    const { series } = view, pixels = Math.floor(plot.w * ratio), { axis, span } = this;
    const layers = [["used", INK.fill[USED]], ["overhead", INK.overhead], ["pending", INK.fill[PENDING]], ["free", INK.fill[FREE]]];
    const edges = layers.map(() => new Float64Array(pixels * 2));
    let event = Math.floor(axis.toEvent(span.a));
    for (let p = 0; p < pixels; p++) {
      const next = Math.floor(axis.toEvent(span.a + (p + 1) / pixels * span.size) + 1e-9);
      const end = Math.max(event + 1, next), at = series.occupiedPeaks.in(event, end);
      const reserved = series.reserved(series.reservedPeaks.in(event, end));
      let sum = 0;
      for (let l = 0; l < 4; l++) {
        edges[l][2 * p] = sum;
        sum = l < 3 ? sum + series[layers[l][0]](at) : Math.max(sum, reserved);
        edges[l][2 * p + 1] = sum;
      }
      event = Math.max(event, next);
    }
    for (let l = 0; l < 4; l++) {
      c.fillStyle = layers[l][1];
      c.beginPath();
      for (let p = 0; p < pixels;) {
        // Equal neighbours are one rectangle.
        let q = p + 1;
        const low = edges[l][2 * p], high = edges[l][2 * p + 1];
        while (q < pixels && edges[l][2 * q] === low && edges[l][2 * q + 1] === high) q++;
        if (high > low) {
          // What exists is at least a hair's breadth high.
          const bottom = y(low), height = Math.max(bottom - y(high), 0.75);
          c.rect(plot.x + p / ratio, bottom - height, (q - p) / ratio, height);
        }
        p = q;
      }
      c.fill();
    }
  }

  /** A step line through (at, value). */
  steps(c, at, value, y) {
    c.beginPath();
    for (let i = 0; i < at.length; i++) {
      const x = clamp(this.x(at[i]), this.plot.x, this.plot.x + this.plot.w);
      if (i) c.lineTo(x, y(value[i - 1])); else c.moveTo(x, y(value[0]));
      c.lineTo(x, y(value[i]));
    }
    c.lineTo(this.plot.x + this.plot.w, y(value.at(-1)));
    c.stroke();
  }

  /** Below the plot: one lane for each kind of thing that happened. */
  drawLanes(c, plot) {
    this.lanes.forEach((lane, l) => {
      const y = plot.y + plot.h + 8 + l * LANE;
      c.fillStyle = INK.muted; c.textAlign = "right"; c.fillText(lane.name, plot.x - 8, y + LANE / 2);
      c.fillStyle = INK[lane.colour];
      let last = -Infinity;
      const from = Math.max(0, after(lane.at, this.axis.toEvent(this.span.a)) - 1), step = Math.max(1, Math.floor((lane.at.length - from) / 200000));
      for (let i = from; i < lane.at.length; i += step) {
        const x = this.x(lane.at[i]);
        if (x > plot.x + plot.w) break;
        if (x < plot.x || x - last < 1) continue;
        last = x;
        if (lane.mark) { c.beginPath(); c.moveTo(x, y + 2); c.lineTo(x + 4.5, y + LANE - 2); c.lineTo(x - 4.5, y + LANE - 2); c.fill(); }
        else c.fillRect(Math.round(x), y + 3, 1, LANE - 5);
      }
    });
  }

  /** What happened at a point of the lanes: `{ lane, index, at }`. */
  markAt(x, y) {
    const l = Math.floor((y - this.plot.y - this.plot.h - 8) / LANE), lane = this.lanes[l];
    if (!lane || lane.quiet || !lane.at.length) return null;
    const i = after(lane.at, this.axis.toEvent(this.position(x)));
    const near = [i - 1, i].filter(k => k >= 0 && k < lane.at.length && Math.abs(this.x(lane.at[k]) - x) < 7);
    near.sort((p, q) => Math.abs(this.x(lane.at[p]) - x) - Math.abs(this.x(lane.at[q]) - x));
    return near.length ? { lane, index: near[0], at: lane.at[near[0]] } : null;
  }

  showHover(x, y, e) {
    if (x < TIME_LEFT) { this.hover = null; hideTip(); redraw("cursor"); return; }
    const mark = this.markAt(x, y), t = mark ? mark.at : this.event(x), { series, model } = view;
    this.hover = t;
    const lines = mark ? [[mark.lane.text(mark.index)]] : [
      ["used", exact(series.used(t))], ["overhead", exact(series.overhead(t))], ["pending release", exact(series.pending(t))],
      ["free in blocks", exact(Math.max(0, series.reserved(t) - series.occupied(t)))], ["allocated from the driver", exact(series.reserved(t))],
    ];
    const time = model.timeAt.length ? ` · ${duration(model.nsAt(t))}` : "";
    showTip(e, sentence(model.when(t)) + time, lines);
    redraw("cursor");
  }

  /** The cursor, the moments that the list below looks at, and the pointer. */
  drawCursor() {
    const { c, h } = prepare(this.over), { plot } = this;
    const line = (t, colour, label, dash) => {
      const x = Math.round(this.x(t)) + 0.5;
      if (x < plot.x - 1 || x > plot.x + plot.w + 1) return;
      c.strokeStyle = colour; c.lineWidth = label ? 1 : 1.5; c.setLineDash(dash);
      c.beginPath(); c.moveTo(x, label ? 12 : 2); c.lineTo(x, h - 20); c.stroke();
      if (!label) return;
      c.setLineDash([]); c.fillStyle = colour; c.beginPath(); c.arc(x, 7, 6.5, 0, 7); c.fill();
      c.fillStyle = INK.card; c.textAlign = "center"; c.font = `600 9.5px ${getComputedStyle(document.body).fontFamily}`; c.fillText(label, x, 7.5);
    };
    if (this.hover != null) line(this.hover, INK.faint, "", [2, 3]);
    for (const [mark, t] of shownMarks()) line(t, INK.accent, mark.toUpperCase(), []);
    line(view.t, INK.cursor, "", []);
  }
}
