// The difference of two moments, A and B.

/** Counts the names of a group's allocations. */
class Names {
  constructor() { this.counts = new Map(); }
  add(id) { if (id) this.counts.set(id, (this.counts.get(id) ?? 0) + 1); }
  /** The commonest name, and how many others there are. */
  text(model) {
    let best = 0, most = 0;
    for (const [id, count] of this.counts) if (count > most) { best = id; most = count; }
    const others = this.counts.size - 1;
    return best ? `${model.text(best)}${others ? ` and ${plural(others, "other")}` : ""}` : "";
  }
}

const compare = { what: "all" };
const KINDS = [["all", "all"], ["new", "only in B"], ["freed", "only in A"], ["both", "in both"], ["moved", "moved"]];

/** What became of each allocation between two moments. */
function difference(model, a, b, scope) {
  const A = new Moment(model, a, scope), B = new Moment(model, b, scope), at = new Uint32Array(model.count), out = [];
  for (const i of A.all()) if (!model.isReservation(i)) at[model.origin(i)] = i + 1;
  for (const i of B.all()) {
    if (model.isReservation(i)) continue;
    const origin = model.origin(i), was = at[origin];
    out.push({ i, kind: !was ? "new" : was - 1 === i ? "both" : "moved" });
    at[origin] = 0;
  }
  for (let origin = 0; origin < model.count; origin++) if (at[origin]) out.push({ i: at[origin] - 1, kind: "freed" });
  return { A, B, changes: out };
}

function drawCompare(panel) {
  const { model, a, b, scope } = view, key = `${a} ${b} ${scope}`;
  if (compare.key !== key) { compare.key = key; compare.found = difference(model, a, b, scope); }
  const { A, B, changes } = compare.found, groups = new Map();
  const counts = { new: [0, 0], freed: [0, 0], both: [0, 0], moved: [0, 0] };
  for (const { i, kind } of changes) {
    const size = model.requested[i];
    counts[kind][0]++; counts[kind][1] += size;
    if (compare.what !== "all" && compare.what !== kind) continue;
    const key = model.field("group", i), group = groups.get(key) ?? { key, names: new Names(), i, counts: [0, 0], bytes: [0, 0] };
    group.names.add(model.field("name", i));
    for (const side of [0, 1]) if (kind !== (side ? "freed" : "new")) { group.counts[side]++; group.bytes[side] += size; }
    // A row shows an allocation that changed, if there is one.
    if (kind === "new" || kind === "freed") group.i = i;
    groups.set(key, group);
  }
  const grown = g => g.bytes[1] - g.bytes[0], same = g => g.bytes[0] === g.bytes[1] && g.counts[0] === g.counts[1];
  const rows = [...groups.values()].filter(g => compare.what !== "all" || !same(g))
    .sort((x, y) => Math.abs(grown(y)) - Math.abs(grown(x)) || y.bytes[1] - x.bytes[1]), shown = rows.slice(0, 300);
  const keys = model.columns.texts("group.key"), texts = model.columns.texts("group.text");
  const cells = g => {
    const key = keys.get(g.key), name = g.names.text(model);
    return [{ text: texts.get(g.key), title: key }, { text: name === key ? "" : name, title: name }, ...g.counts.map(int), ...g.bytes.map(bytes), { text: signed(grown(g), bytes), mark: grown(g) > 0 ? "pos" : grown(g) < 0 ? "neg" : "" }];
  };
  const line = (text, value, before) => el("span", {}, `${text} `, el("b", {}, signed(value - before, bytes)));
  panel.replaceChildren(
    el("div", { class: "row" },
      el("p", { class: "sum" }, el("span", {}, "From ", el("b", {}, "A"), " ", momentLink(a)), el("span", {}, "to ", el("b", {}, "B"), " ", momentLink(b))),
      el("span", { class: "push" }, choices("changes", KINDS, value => { compare.what = value; redraw("panel"); }))),
    el("p", { class: "sum" }, line("Used", B.totals.used, A.totals.used), line("Overhead", B.totals.overhead, A.totals.overhead), line("Pending", B.totals.pending, A.totals.pending),
      line("Free", B.totals.free, A.totals.free), line("From the driver", B.totals.reserved, A.totals.reserved)),
    el("p", { class: "sum muted", id: "difference" }, ...KINDS.slice(1).map(([kind, text]) => el("span", {}, `${text}: ${int(counts[kind][0])}, ${bytes(counts[kind][1])}`))),
    rows.length ? declaredTable(columnsOf("compare"), shown.map(g => ({ cells: cells(g), click: () => show(g.i) })))
      : el("p", { class: "empty" }, a === b ? "A and B are the same moment. Move the cursor and press “Set A” or “Set B”." : "No such allocation."),
    el("p", { class: "more" }, rows.length > shown.length ? `${int(shown.length)} of ${int(rows.length)} groups shown.` : ""));
  press("changes", compare.what);
}
