// The difference of two moments, A and B.

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
    const key = model.groupOf(i), group = groups.get(key) ?? { key, sited: model.field("site", i) > 0, names: new Names(), i, counts: [0, 0], bytes: [0, 0] };
    group.names.add(model.field("name", i));
    for (const side of [0, 1]) if (kind !== (side ? "freed" : "new")) { group.counts[side]++; group.bytes[side] += size; }
    // A row shows an allocation that changed, if there is one.
    if (kind === "new" || kind === "freed") group.i = i;
    groups.set(key, group);
  }
  const grown = g => g.bytes[1] - g.bytes[0], same = g => g.bytes[0] === g.bytes[1] && g.counts[0] === g.counts[1];
  const rows = [...groups.values()].filter(g => compare.what !== "all" || !same(g))
    .sort((x, y) => Math.abs(grown(y)) - Math.abs(grown(x)) || y.bytes[1] - x.bytes[1]), shown = rows.slice(0, 300);
  const delta = n => el("td", { class: `r ${n > 0 ? "pos" : n < 0 ? "neg" : ""}` }, signed(n, bytes)), right = text => el("td", { class: "r" }, text);
  const line = (text, value, before) => el("span", {}, `${text} `, el("b", {}, signed(value - before, bytes)));
  panel.replaceChildren(
    el("div", { class: "row" },
      el("p", { class: "sum" }, el("span", {}, "From ", el("b", {}, "A"), " ", momentLink(a)), el("span", {}, "to ", el("b", {}, "B"), " ", momentLink(b))),
      el("span", { class: "push" }, choices("changes", KINDS, value => { compare.what = value; redraw("panel"); }))),
    el("p", { class: "sum" }, line("Used", B.totals.used, A.totals.used), line("Overhead", B.totals.overhead, A.totals.overhead), line("Pending", B.totals.pending, A.totals.pending),
      line("Free", B.totals.free, A.totals.free), line("From the driver", B.totals.reserved, A.totals.reserved)),
    el("p", { class: "sum muted", id: "difference" }, ...KINDS.slice(1).map(([kind, text]) => el("span", {}, `${text}: ${int(counts[kind][0])}, ${bytes(counts[kind][1])}`))),
    rows.length ? el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, ["Call site or name", "Name", "Change", "Bytes in A", "Bytes in B", "Count in A", "Count in B"].map((text, k) => el("th", { class: k > 1 ? "r" : "" }, text)))),
      el("tbody", {}, shown.map(g => el("tr", { class: "go", onclick: () => show(g.i) }, groupCells(model, g), delta(grown(g)), g.bytes.map(n => right(bytes(n))), g.counts.map(n => right(int(n))))))))
      : el("p", { class: "empty" }, a === b ? "A and B are the same moment. Move the cursor and press “Set A” or “Set B”." : "No such allocation."),
    el("p", { class: "more" }, rows.length > shown.length ? `${int(shown.length)} of ${int(rows.length)} groups shown.` : ""));
  press("changes", compare.what);
}
