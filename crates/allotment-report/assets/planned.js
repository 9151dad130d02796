// The memory that would do if all lifetimes had been known, for each memory type, and where everything would be: time across,
// offsets up.

const PLAN_HEIGHT = 300;

/** The plans, and the first rectangle of each. */
function plans(model) {
  if (model.plans) return model.plans;
  const { columns } = model, of = name => columns.numbers(`planned.${name}`), proved = columns.texts("planned.proved"), drawn = of("drawn");
  let first = 0;
  return model.plans = Array.from(of("type"), (type, k) => {
    const plan = { type, proved: proved.get(k), first, drawn: drawn[k] };
    for (const name of ["allocations", "recorded", "peak", "bound"]) plan[name] = of(name)[k];
    first += drawn[k];
    return plan;
  });
}

/** The rectangles of all plans. */
function placedItems(model) {
  if (model.placedItems) return model.placedItems;
  const of = name => model.columns.numbers(`placed.${name}`);
  return model.placedItems = { from: of("from"), life: of("life"), offset: of("offset"), size: of("size"), name: of("name"), hue: of("hue") };
}

/** The range of an allocation, by the moment from which it exists. */
function rangeFrom(model, from) {
  model.rangeAt ??= new Map(Array.from({ length: model.count }, (_, i) => model.count - 1 - i).filter(i => !model.field("before", i)).map(i => [model.from[i], i]));
  return model.rangeAt.get(from);
}

function drawPlanned(panel) {
  const { model } = view, refused = model.columns.list("planned.refused")[0];
  if (refused) { panel.replaceChildren(el("p", { class: "empty" }, refused)); return; }
  const all = plans(model);
  if (!all.length) { panel.replaceChildren(el("p", { class: "empty" }, "Nothing was allocated in this recording, so there is nothing to plan.")); return; }
  const cell = (value, title) => el("td", { class: "r", title }, value);
  panel.replaceChildren(
    el("p", { class: "muted" }, "An allocator decides at each request, without knowing what follows. These plans were made afterwards, with all lifetimes known: allocations that do not exist at the same time may have the same bytes. A program whose work repeats could use such a plan."),
    el("div", { class: "scroll" }, el("table", { id: "plans" },
      el("thead", {}, el("tr", {}, ["Memory type", "Allocations", "Blocks at the peak", "Planned peak", "Lower bound", "Proved"].map((text, k) => el("th", { class: k < 5 ? "r" : "" }, text)))),
      el("tbody", {}, all.map(plan => el("tr", {}, cell(int(plan.type)), cell(int(plan.allocations)), cell(bytes(plan.recorded), exact(plan.recorded)), cell(bytes(plan.peak), exact(plan.peak)), cell(bytes(plan.bound), exact(plan.bound)), el("td", {}, plan.proved)))))),
    ...all.flatMap(plan => [
      el("h3", {}, `Memory type ${plan.type}: ${bytes(plan.peak)}, at least ${bytes(plan.bound)} (dashed)${plan.drawn < plan.allocations ? `; the ${int(plan.drawn)} largest of ${plural(plan.allocations, "allocation")}` : ""}`),
      planPicture(plan)]));
}

/** Everything that was planned for a memory type, on the time axis of the timeline. */
function planPicture(plan) {
  const { model } = view, all = placedItems(model), width = Math.max(300, $("panel").clientWidth), bottom = PLAN_HEIGHT - 20, { w, x, event } = timeScale(width);
  const y = at => bottom - at / Math.max(plan.peak, 1) * (bottom - 2), last = plan.first + plan.drawn;
  const dark = document.documentElement.dataset.theme === "dark", ink = dark ? "38% 42%" : "45% 68%", text = dark ? "#fff" : "#1a222c";
  const name = k => model.text(all.name[k]) || "(no name)", end = k => all.from[k] + all.life[k];
  const hit = (px, py) => {
    if (px < TIME_LEFT || px > TIME_LEFT + w || py > bottom) return -1;
    // Where no rectangle is hit, one that is smaller than what a hand can point at.
    let near = -1;
    for (let k = plan.first; k < last; k++) {
      const left = x(all.from[k]), right = x(end(k)), low = y(all.offset[k]), high = y(all.offset[k] + all.size[k]);
      if (px >= left && px < right && py >= high && py < low) return k;
      if (px >= left - 1.5 && px < right + 1.5 && py >= high - 1.5 && py < low + 1.5) near = k;
    }
    return near;
  };
  return chart(PLAN_HEIGHT, `The plan of memory type ${plan.type}: ${plural(plan.drawn, "allocation")}, ${bytes(plan.peak)}`, c => {
    c.fillStyle = INK.grid; c.fillRect(TIME_LEFT, 2, w, bottom - 2);
    for (let k = plan.first; k < last; k++) {
      const left = x(all.from[k]), right = x(end(k)), low = y(all.offset[k]), high = y(all.offset[k] + all.size[k]);
      c.fillStyle = `hsl(${all.hue[k]} ${ink})`;
      c.fillRect(left, high, Math.max(right - left, 0.5), Math.max(low - high, 0.5));
      // A border would hide what is low or narrow.
      if (low - high > 3 && right - left > 3) { c.strokeStyle = INK.card; c.lineWidth = 0.5; c.strokeRect(left, high, right - left, low - high); }
      if (low - high >= 13 && right - left > 30) { c.fillStyle = text; c.textAlign = "left"; fitText(c, name(k), left + 4, high + Math.min((low - high) / 2, 9), right - left - 8); }
    }
    c.strokeStyle = INK.ink; c.setLineDash([6, 4]); c.lineWidth = 1;
    const bound = Math.round(y(Math.min(plan.bound, plan.peak))) + 0.5;
    c.beginPath(); c.moveTo(TIME_LEFT, bound); c.lineTo(TIME_LEFT + w, bound); c.stroke(); c.setLineDash([]);
    c.fillStyle = INK.muted; c.textAlign = "right";
    for (let k = 0; k <= 4; k++) c.fillText(bytes(plan.peak * k / 4), TIME_LEFT - 8, clamp(y(plan.peak * k / 4), 8, bottom - 6));
    drawTimeAxis(c, width, PLAN_HEIGHT, bottom);
  }, {
    hover: (px, py) => {
      const k = hit(px, py);
      return k < 0 ? null : [name(k), [[exact(all.size[k])], ["planned at offset", hex(all.offset[k])], [`${sentence(model.when(all.from[k]))} to ${end(k) <= model.end ? model.when(end(k)) : "the end"}`]]];
    },
    click: (px, py) => {
      const k = hit(px, py), i = k < 0 ? null : rangeFrom(model, all.from[k]);
      if (i != null) show(i); else if (px >= TIME_LEFT) goTo(event(px));
    },
  });
}
