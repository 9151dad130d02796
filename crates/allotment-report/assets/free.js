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

/** For each power of two up to the largest free range: the ranges of at least that size. */
function freeRows(sizes, free) {
  const rows = [];
  for (let size = 1, most = sizes[0]; size <= most; size *= 2) {
    let count = 0, sum = 0, fit = 0;
    for (; count < sizes.length && sizes[count] >= size; count++) { sum += sizes[count]; fit += Math.floor(sizes[count] / size); }
    const bar = el("span", { style: `display:inline-block;width:${(240 * sum / free).toFixed(0)}px;height:9px;background:var(--free);border-radius:2px` });
    rows.unshift({ cells: [bytes(size), int(count), bytes(sum), int(fit), percent(sum, free), bar] });
  }
  return rows;
}

function drawFree(panel) {
  if (view.freeOverTime?.scope !== view.scope) view.freeOverTime = new FreeOverTime(view.scope);
  const { model, moment } = view, over = view.freeOverTime, n = moment.totals, sizes = [];
  for (const b of moment.blocks) eachHole(model, moment.of(b), moment.size[b], (low, high) => sizes.push(high - low));
  if (!sizes.length) { panel.replaceChildren(el("p", { class: "empty" }, n.blocks ? "No byte of the blocks is free." : "No block exists at this moment.")); return; }
  sizes.sort((a, b) => b - a);
  panel.replaceChildren(...[
    el("p", { class: "sum" }, el("span", {}, "Free ", el("b", {}, bytes(n.free))), el("span", {}, "of which alignment padding ", el("b", {}, bytes(n.padding))), el("span", {}, "Largest range ", el("b", {}, bytes(n.largestFree)), ` (${percent(n.largestFree, n.free)} of the free bytes)`),
      el("span", { title: "The sum of the squares of all free ranges, divided by the square of their sum: 1 if there is only one range." }, "Unfragmented ", el("b", {}, n.unfragmented.toFixed(3)))),
    ...(model.isMoment ? [] : [el("h3", {}, "Fragmentation over time: the share of the free bytes that is outside the largest free range"),
    timeLine("Fragmentation over time", over.at, over.share, 1, share => percent(share, 1)),
    over.padding.some(n => n > 0) ? [el("h3", {}, "Alignment padding over time"), timeLine("Alignment padding over time", over.at, over.padding, Math.max(...over.padding), bytes, "overhead", 76)] : [],
    el("p", { class: "more" }, over.next <= over.count ? "Sampling …" : `At most ${percent(Math.max(...over.share), 1)}, in ${int(over.count)} samples.`)]),
    declaredTable([...columnsOf("free"), { heading: "", help: "" }], freeRows(sizes, n.free))].flat());
  if (!model.isMoment && over.work()) setTimeout(() => { if (view.tab === "free") redraw("panel"); }, 20);
}
