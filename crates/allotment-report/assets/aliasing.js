// Allocations that share bytes of a block: side by side at the moment of the cursor, and over time.

const LANE_HEIGHT = 20, MOST_DRAWN = 20000;
const aliasing = { block: -1 };

/** Blocks in which allocations share bytes, and the allocations of the chosen one. */
function aliasedParts() {
  const { model, moment, scope } = view, blocks = [];
  for (let b = 0; b < model.blocks; b++) if (model.block.aliased[b] && (scope < 0 || model.heapOf(b) === scope)) blocks.push(b);
  if (!blocks.length) return [];
  const now = blocks.filter(b => moment.blocks.includes(b)), saved = b => now.includes(b) ? moment.look(b).saved : -1;
  if (!blocks.includes(aliasing.block)) aliasing.block = blocks.reduce((best, b) => saved(b) > saved(best) ? b : best);
  const b = aliasing.block, sum = key => now.reduce((n, other) => n + moment.look(other)[key], 0);
  const field = el("select", { id: "aliased-block", "aria-label": "Block", onchange: e => { aliasing.block = +e.target.value; redraw("panel"); } },
    blocks.map(other => el("option", { value: other, selected: other === b }, `Block #${blockName(model.block.id[other])}, ${bytes(moment.size[other])}${now.includes(other) ? "" : ", not at this moment"}`)));
  return [
    el("div", { class: "row" }, field, el("p", { class: "sum", id: "aliased" },
      el("span", {}, "Bytes that several allocations share ", el("b", {}, bytes(sum("aliased")))), el("span", {}, "Memory saved ", el("b", {}, bytes(sum("saved")))))),
    el("h3", {}, "At this moment: allocations that share bytes are in different lanes"),
    now.includes(b) ? lanesNow(b) : el("p", { class: "muted" }, "The block does not exist at this moment."),
    el("h3", {}, "Over time: where the colour is stronger, more allocations have the same bytes at the same time"),
    aliasedPicture(b)];
}

/** Boxes of bytes in lanes, at one moment: `{ lane, low, size, name, fill, ink, chosen, tip, click }`. */
function laneChart(label, items, lanes, size) {
  const width = Math.max(300, $("panel").clientWidth), w = width - TIME_LEFT - TIME_RIGHT, height = lanes * LANE_HEIGHT + 24, x = at => TIME_LEFT + at / size * w;
  const shown = items.filter(({ lane }) => lane < lanes), box = ({ lane, low, size: bytes }) => [x(low), lane * LANE_HEIGHT + 1, bytes / size * w, LANE_HEIGHT - 2];
  const hit = (px, py) => shown.findLast(item => { const [bx, by, bw, bh] = box(item); return px >= bx && px < bx + Math.max(bw, 3) && py >= by && py < by + bh; });
  return chart(height, label, c => {
    c.fillStyle = INK.grid; c.fillRect(TIME_LEFT, 0, w, height - 24);
    // What is smaller than a pixel of its lane is drawn once for each pixel.
    const last = new Map();
    for (const item of shown) {
      const [bx, by, bw, bh] = box(item), pixel = Math.floor(bx);
      if (bw < 1 && last.get(item.lane) === pixel && !item.chosen) continue;
      last.set(item.lane, pixel);
      c.fillStyle = item.fill; c.fillRect(bx, by, Math.max(bw, 1), bh);
      if (bw > 3 || item.chosen) { c.strokeStyle = item.chosen ? INK.selected : INK.card; c.lineWidth = item.chosen ? 2 : 1; c.strokeRect(bx + 0.5, by + 0.5, Math.max(bw - 1, 2), bh - 1); }
      if (bw > 30) { c.fillStyle = item.ink; c.textAlign = "left"; fitText(c, item.name, bx + 5, by + bh / 2 + 0.5, bw - 9); }
    }
    c.fillStyle = INK.muted; c.textAlign = "right"; c.fillText("offset", TIME_LEFT - 8, height - 9);
    const parts = w < 340 ? 2 : 4;
    for (let k = 0; k <= parts; k++) { c.textAlign = k === 0 ? "left" : k === parts ? "right" : "center"; c.fillText(bytes(size * k / parts), TIME_LEFT + w * k / parts, height - 9); }
  }, { hover: (px, py) => hit(px, py)?.tip(), click: (px, py) => hit(px, py)?.click() });
}

const rangeTip = i => { const { model } = view; return [model.name(i), [[exact(model.requested[i]), "requested"], ["offset", hex(model.offset[i])], [lifeText(model.from[i], model.to[i])]]]; };

function lanesNow(b) {
  const { model, moment } = view, list = moment.of(b), { lane, count } = lanesOf(model, list);
  const items = Array.from(list, (i, k) => ({
    lane: lane[k], low: model.offset[i], size: model.occupied(i), name: model.name(i), fill: INK.fill[moment.classOf(i)], ink: moment.classOf(i) === USED ? INK["on-used"] : INK.ink,
    chosen: view.selected?.range === i, tip: () => rangeTip(i), click: () => show(i),
  }));
  return laneChart(`${plural(list.length, "allocation")} in ${plural(count, "lane")}`, items, Math.min(count, MOST_LANES), moment.size[b]);
}

function aliasedPicture(b) {
  const { model } = view, count = model.first[b + 1] - model.first[b];
  let size = model.block.size[b];
  for (let k = 0; k < model.resize.of.length; k++) if (model.resize.of[k] === b) size = Math.max(size, model.resize.size[k]);
  // The largest are drawn first, so that no small one is hidden.
  const all = Array.from({ length: count }, (_, k) => model.first[b] + k).sort((i, j) => model.occupied(j) - model.occupied(i)).slice(0, MOST_DRAWN);
  const edges = (column, row) => (n, at) => {
    const i = all[n];
    at[0] = column(model.from[i]); at[1] = row(model.offset[i] + model.occupied(i)); at[2] = column(model.to[i]); at[3] = row(model.offset[i]);
  };
  return boxPicture({
    id: "aliased-picture", version: b, label: `${plural(count, "allocation")} over time`, height: 260, top: size,
    fill: (grid, column, row) => grid.fill(all.length, edges(column, row)).countDepths(all.length, edges(column, row)),
    colour: (n, depth) => n < 0 ? 0 : INK.overlap[Math.min(depth, 3)], name: n => model.name(all[n]), ink: INK.ink,
    under: (c, x) => { c.fillStyle = INK.free; c.globalAlpha = 0.35; c.fillRect(x(model.block.from[b]), 0, x(Math.min(model.block.to[b], model.end)) - x(model.block.from[b]), 1e4); c.globalAlpha = 1; },
    tip: n => n < 0 ? null : rangeTip(all[n]), click: (n, t) => { if (n < 0) goTo(t); else show(all[n]); },
  });
}
