// Free ranges by size: which request would still fit without a new block; and fragmentation over time.

/** Samples over the recording, taken a few at a time while the page is idle: each looks at every allocation. */
class FreeOverTime {
  constructor(scope) {
    this.scope = scope;
    this.at = [0]; this.share = [0]; this.padding = [0]; this.next = 1;
    this.count = clamp(Math.floor(4e7 / Math.max(1, view.model.count)), 40, 400);
  }
  /** Goes on for some milliseconds. Returns true while there is more to do. */
  work() {
    const until = performance.now() + 25, { model } = view;
    while (this.next <= this.count && performance.now() < until) {
      const t = Math.floor(model.end * this.next / this.count), n = (this.moment = new Moment(model, t, this.scope, this.moment)).totals;
      // The share of the free bytes that is not in the largest range.
      this.at.push(t); this.share.push(n.free > 0 ? 1 - n.largestFree / n.free : 0);
      this.padding.push(n.padding);
      this.next++;
    }
    return this.next <= this.count;
  }
}

function drawFree(panel) {
  if (view.freeOverTime?.scope !== view.scope) view.freeOverTime = new FreeOverTime(view.scope);
  const { model, moment } = view, over = view.freeOverTime, n = moment.totals, counts = new Map();
  const hole = size => { const power = Math.floor(Math.log2(size)), c = counts.get(power) ?? { count: 0, bytes: 0 }; c.count++; c.bytes += size; counts.set(power, c); };
  for (const b of moment.blocks) eachHole(model, moment.of(b), moment.size[b], (low, high) => hole(high - low));
  if (!counts.size) { panel.replaceChildren(el("p", { class: "empty" }, n.blocks ? "No byte of the blocks is free." : "No block exists at this moment.")); return; }
  let share = 0;
  panel.replaceChildren(...[
    el("p", { class: "sum" }, el("span", {}, "Free ", el("b", {}, bytes(n.free))), el("span", {}, "of which alignment padding ", el("b", {}, bytes(n.padding))), el("span", {}, "Largest range ", el("b", {}, bytes(n.largestFree)), ` (${percent(n.largestFree, n.free)} of the free bytes)`),
      el("span", { title: "The sum of the squares of all free ranges, divided by the square of their sum: 1 if there is only one range." }, "Unfragmented ", el("b", {}, n.unfragmented.toFixed(3)))),
    el("h3", {}, "Fragmentation over time: the share of the free bytes that is outside the largest free range"),
    timeLine("Fragmentation over time", over.at, over.share, 1, share => percent(share, 1)),
    over.padding.some(n => n > 0) ? [el("h3", {}, "Alignment padding over time"), timeLine("Alignment padding over time", over.at, over.padding, Math.max(...over.padding), bytes, "overhead", 76)] : [],
    el("p", { class: "more" }, over.next <= over.count ? "Sampling …" : `At most ${percent(Math.max(...over.share), 1)}, in ${int(over.count)} samples.`),
    el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, ["Ranges of at least", "Count", "Bytes", "Free bytes in ranges at least so large"].map((text, k) => el("th", { class: k < 3 ? "r" : "" }, text)))),
      el("tbody", {}, [...counts.keys()].sort((a, b) => b - a).map(power => {
        const c = counts.get(power);
        share += c.bytes;
        const bar = el("span", { style: `display:inline-block;width:${(240 * share / n.free).toFixed(0)}px;height:9px;background:var(--free);border-radius:2px;margin-right:8px` });
        return el("tr", {}, el("td", { class: "r" }, bytes(2 ** power)), el("td", { class: "r" }, int(c.count)), el("td", { class: "r" }, bytes(c.bytes)), el("td", {}, bar, percent(share, n.free)));
      }))))].flat());
  if (over.work()) setTimeout(() => { if (view.tab === "free") redraw("panel"); }, 20);
}
