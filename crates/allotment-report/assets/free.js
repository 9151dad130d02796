// Free ranges by size: which request would still fit without a new block.

function drawFree(panel) {
  const { model, moment } = view, n = moment.totals, counts = new Map();
  const hole = size => { const power = Math.floor(Math.log2(size)), c = counts.get(power) ?? { count: 0, bytes: 0 }; c.count++; c.bytes += size; counts.set(power, c); };
  for (const b of moment.blocks) {
    let reach = 0;
    for (let k = moment.liveFirst[b]; k < moment.liveFirst[b + 1]; k++) {
      const i = moment.live[k];
      if (model.offset[i] > reach) hole(model.offset[i] - reach);
      reach = Math.max(reach, model.offset[i] + model.occupied(i));
    }
    if (model.block.size[b] > reach) hole(model.block.size[b] - reach);
  }
  if (!counts.size) { panel.replaceChildren(el("p", { class: "empty" }, n.blocks ? "No byte of the blocks is free." : "No block exists at this moment.")); return; }
  let share = 0;
  panel.replaceChildren(
    el("p", { class: "sum" }, el("span", {}, "Free ", el("b", {}, bytes(n.free))), el("span", {}, "Largest range ", el("b", {}, bytes(n.largestFree)), ` (${percent(n.largestFree, n.free)} of the free bytes)`),
      el("span", { title: "The sum of the squares of all free ranges, divided by the square of their sum: 1 if there is only one range." }, "Unfragmented ", el("b", {}, n.unfragmented.toFixed(3)))),
    el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, ["Ranges of at least", "Count", "Bytes", "Free bytes in ranges at least so large"].map((text, k) => el("th", { class: k < 3 ? "r" : "" }, text)))),
      el("tbody", {}, [...counts.keys()].sort((a, b) => b - a).map(power => {
        const c = counts.get(power);
        share += c.bytes;
        const bar = el("span", { style: `display:inline-block;width:${(240 * share / n.free).toFixed(0)}px;height:9px;background:var(--free);border-radius:2px;margin-right:8px` });
        return el("tr", {}, el("td", { class: "r" }, bytes(2 ** power)), el("td", { class: "r" }, int(c.count)), el("td", { class: "r" }, bytes(c.bytes)), el("td", {}, bar, percent(share, n.free)));
      })))));
}
