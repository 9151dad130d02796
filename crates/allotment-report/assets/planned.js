// The memory that would do if all lifetimes had been known, for each memory type, and where everything would be: time across,
// offsets up.

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
  const { model } = view, all = placedItems(model), name = k => model.text(all.name[k]) || "(no name)", end = k => all.from[k] + all.life[k];
  return boxPicture({
    id: `plan-${plan.type}`, label: `The plan of memory type ${plan.type}: ${plural(plan.drawn, "allocation")}, ${bytes(plan.peak)}`, top: plan.peak, bound: plan.bound,
    fill: (grid, column, row) => grid.fill(plan.drawn, (n, at) => {
      const k = plan.first + n;
      at[0] = column(all.from[k]); at[1] = row(all.offset[k] + all.size[k]); at[2] = column(end(k)); at[3] = row(all.offset[k]);
    }),
    colour: n => n < 0 ? INK.pixel.grid : INK.hue[all.hue[plan.first + n]], name: n => name(plan.first + n), ink: INK["on-hue"],
    tip: n => {
      const k = plan.first + n;
      return n < 0 ? null : [name(k), [[exact(all.size[k])], ["planned at offset", hex(all.offset[k])], [lifeText(all.from[k], end(k))]]];
    },
    click: (n, t) => { const i = n < 0 ? null : rangeFrom(model, all.from[plan.first + n]); if (i != null) show(i); else goTo(t); },
  });
}
