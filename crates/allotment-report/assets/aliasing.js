// Allocations that share bytes: side by side at the moment of the cursor, and over time.

const LANE_HEIGHT = 20, MOST_DRAWN = 20000;
const aliasing = { block: -1 };

function drawAliasing(panel) {
  const { model, moment, scope } = view, blocks = [];
  for (let b = 0; b < model.blocks; b++) if (model.block.aliased[b] && (scope < 0 || model.heapOf(b) === scope)) blocks.push(b);
  if (!blocks.length) { panel.replaceChildren(el("p", { class: "empty" }, "No two allocations share bytes in this recording.")); return; }
  const now = blocks.filter(b => moment.blocks.includes(b)), saved = b => now.includes(b) ? moment.look(b).saved : -1;
  if (!blocks.includes(aliasing.block)) aliasing.block = blocks.reduce((best, b) => saved(b) > saved(best) ? b : best);
  const b = aliasing.block, sum = key => now.reduce((n, other) => n + moment.look(other)[key], 0);
  const field = el("select", { "aria-label": "Block", onchange: e => { aliasing.block = +e.target.value; redraw("panel"); } },
    blocks.map(other => el("option", { value: other, selected: other === b }, `Block #${blockName(model.block.id[other])}, ${bytes(moment.size[other])}${now.includes(other) ? "" : ", not at this moment"}`)));
  panel.replaceChildren(
    el("div", { class: "row" }, field, el("p", { class: "sum", id: "aliased" },
      el("span", {}, "Bytes that several allocations share ", el("b", {}, bytes(sum("aliased")))), el("span", {}, "Memory saved ", el("b", {}, bytes(sum("saved")))))),
    el("h3", {}, "At this moment: allocations that share bytes are in different lanes"),
    now.includes(b) ? lanesNow(b) : el("p", { class: "muted" }, "The block does not exist at this moment."),
    el("h3", {}, "Over time: where two overlap, they have the same bytes at the same time"),
    lanesOverTime(b));
}

/** A rectangle for an allocation, with its name where it fits. */
function allocationBox(c, i, x, y, w, h, what) {
  c.globalAlpha = 0.72; c.fillStyle = INK.fill[what]; c.fillRect(x, y, Math.max(w, 1), Math.max(h, 1)); c.globalAlpha = 1;
  const chosen = view.selected?.range === i;
  if (w > 3 && h > 3) { c.strokeStyle = chosen ? INK.selected : INK.card; c.lineWidth = chosen ? 2 : 1; c.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1); }
  if (h >= 13 && w > 30) { c.fillStyle = what === USED ? INK["on-used"] : INK.ink; c.textAlign = "left"; fitText(c, view.model.name(i), x + 5, y + Math.min(h / 2, 10) + 0.5, w - 9); }
}

/** What a list of boxes answers to the pointer. The last that was drawn is on top. */
function boxActions(boxes) {
  const { model } = view, hit = (x, y) => boxes.findLast(([, bx, by, w, h]) => x >= bx && x < bx + Math.max(w, 3) && y >= by && y < by + Math.max(h, 3))?.[0];
  return {
    hover: (x, y) => { const i = hit(x, y); return i == null ? null : [model.name(i), [[exact(model.requested[i]), "requested"], ["offset", hex(model.offset[i])], [`${sentence(model.when(model.from[i]))} to ${model.to[i] <= model.end ? model.when(model.to[i]) : "the end"}`]]]; },
    click: (x, y) => { const i = hit(x, y); if (i != null) show(i); },
  };
}

function lanesNow(b) {
  const { model, moment } = view, list = moment.of(b), { lane, count } = lanesOf(model, list), size = moment.size[b];
  const width = Math.max(300, $("panel").clientWidth), w = width - TIME_LEFT - TIME_RIGHT, height = Math.min(count, 30) * LANE_HEIGHT + 24, x = at => TIME_LEFT + at / size * w;
  const boxes = Array.from(list, (i, k) => [i, x(model.offset[i]), lane[k] * LANE_HEIGHT + 1, model.occupied(i) / size * w, LANE_HEIGHT - 2]).filter((_, k) => lane[k] < 30);
  return chart(height, `${plural(list.length, "allocation")} in ${plural(count, "lane")}`, c => {
    c.fillStyle = INK.free; c.globalAlpha = 0.35; c.fillRect(TIME_LEFT, 0, w, height - 24); c.globalAlpha = 1;
    for (const [i, ...at] of boxes) allocationBox(c, i, ...at, moment.classOf(i));
    c.fillStyle = INK.muted; c.textAlign = "right"; c.fillText("offset", TIME_LEFT - 8, height - 9);
    for (let k = 0; k <= 4; k++) { c.textAlign = k === 0 ? "left" : k === 4 ? "right" : "center"; c.fillText(bytes(size * k / 4), TIME_LEFT + w * k / 4, height - 9); }
  }, boxActions(boxes));
}

function lanesOverTime(b) {
  const { model } = view, width = Math.max(300, $("panel").clientWidth), height = 260, bottom = height - 20, { w, x } = timeScale(width);
  let size = model.block.size[b];
  for (let k = 0; k < model.resize.of.length; k++) if (model.resize.of[k] === b) size = Math.max(size, model.resize.size[k]);
  const y = at => at / size * (bottom - 4) + 2, all = [];
  for (let i = model.first[b]; i < model.first[b + 1]; i++) all.push(i);
  // The largest are drawn first, so that no small one is hidden.
  all.sort((i, j) => model.occupied(j) - model.occupied(i));
  const boxes = all.slice(0, MOST_DRAWN).map(i => { const a = x(model.from[i]), z = x(Math.min(model.to[i], model.end)), top = y(model.offset[i]); return [i, a, top, z - a, y(model.offset[i] + model.occupied(i)) - top]; });
  return chart(height, `${plural(all.length, "allocation")} over time`, c => {
    c.fillStyle = INK.free; c.globalAlpha = 0.35;
    const from = x(model.block.from[b]); c.fillRect(from, 2, x(Math.min(model.block.to[b], model.end)) - from, bottom - 4); c.globalAlpha = 1;
    for (const [i, ...at] of boxes) allocationBox(c, i, ...at, USED);
    c.fillStyle = INK.muted; c.textAlign = "right";
    for (let k = 0; k <= 4; k++) c.fillText(bytes(size * k / 4), TIME_LEFT - 8, clamp(y(size * k / 4), 8, bottom - 6));
    drawTimeAxis(c, width, height, bottom);
  }, boxActions(boxes));
}
