// Units of time along the timeline: events, frames or seconds. A position on the axis is a number of its unit.

class Axis {
  constructor(model, unit) {
    this.unit = unit;
    this.model = model;
    const { end, frames, timeAt, timeNs } = model;
    // Corresponding events and positions; linear between them.
    if (unit === "frames") {
      this.events = [0, ...frames]; this.positions = this.events.map((_, i) => i);
      if (this.events.at(-1) < end) { this.events.push(end); this.positions.push(this.positions.length); }
    } else if (unit === "seconds") {
      this.events = [0, ...timeAt]; this.positions = [0, ...timeNs].map(ns => ns / 1e9);
      if (this.events.at(-1) < end) { this.events.push(end); this.positions.push(this.positions.at(-1)); }
    } else {
      this.events = [0, Math.max(1, end)]; this.positions = this.events;
    }
    this.length = this.positions.at(-1) || 1;
  }
  toPosition(event) { return interpolate(this.events, this.positions, event); }
  toEvent(position) { return clamp(interpolate(this.positions, this.events, position), 0, this.model.end); }
  /** Positions for labels: round numbers, about `most` of them. */
  ticks(a, b, most) {
    const rough = (b - a) / most, power = 10 ** Math.floor(Math.log10(rough));
    let step = [1, 2, 5, 10].map(k => k * power).find(s => s >= rough);
    if (this.unit !== "seconds") step = Math.max(1, step);
    const out = [];
    for (let p = Math.ceil(a / step) * step; p <= b; p += step) out.push(p);
    return out;
  }
  label(position) {
    if (this.unit !== "seconds") return int(Math.round(position));
    return `${+position.toPrecision(6)} s`;
  }
}

function interpolate(xs, ys, x) {
  const i = clamp(after(xs, x), 1, xs.length - 1), x0 = xs[i - 1], x1 = xs[i];
  const share = x1 > x0 ? clamp((x - x0) / (x1 - x0), 0, 1) : 0;
  return ys[i - 1] + share * (ys[i] - ys[i - 1]);
}
