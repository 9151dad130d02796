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

/** What became of each allocation between two moments: the ranges, and the place of each one's word in `KINDS`. */
function* difference(model, a, b, scope) {
  const A = new Moment(model, a, scope), B = new Moment(model, b, scope), at = new Uint32Array(model.count);
  yield* A.lookAtAll();
  yield* B.lookAtAll();
  const before = A.all(), now = B.all(), list = new Uint32Array(before.length + now.length), kinds = new Uint8Array(list.length);
  let n = 0, steps = 0;
  for (const i of before) {
    if (++steps % PAUSE === 0) yield;
    if (!model.isReservation(i)) at[model.origin(i)] = i + 1;
  }
  for (const i of now) {
    if (++steps % PAUSE === 0) yield;
    if (model.isReservation(i)) continue;
    const origin = model.origin(i), was = at[origin];
    list[n] = i; kinds[n++] = !was ? 1 : was - 1 === i ? 3 : 4;
    at[origin] = 0;
  }
  for (let origin = 0; origin < model.count; origin++) {
    if (++steps % PAUSE === 0) yield;
    if (at[origin]) { list[n] = at[origin] - 1; kinds[n++] = 2; }
  }
  // The sums of all moments are used by the heading.
  return { A: A.totals, B: B.totals, list: list.subarray(0, n), kinds };
}

/** The changes of a kind by group, and what there is of each kind. Kind 0 is all. */
function* changesByGroup(model, { list, kinds }, only) {
  const counts = KINDS.map(() => [0, 0]), of = model.columns.numbers("range.group"), groups = new Map(), { requested } = model;
  for (let n = 0; n < list.length; n++) {
    if (n % PAUSE === 0) yield;
    const i = list[n], kind = kinds[n], size = requested[i];
    counts[kind][0]++; counts[kind][1] += size;
    if (only && only !== kind) continue;
    let group = groups.get(of[i]);
    if (!group) groups.set(of[i], group = { key: of[i], names: new Names(), i, counts: [0, 0], bytes: [0, 0] });
    for (const side of [0, 1]) if (kind !== (side ? 2 : 1)) { group.counts[side]++; group.bytes[side] += size; }
    // A row shows an allocation that changed, if there is one.
    if (kind < 3) group.i = i;
  }
  const grown = g => g.bytes[1] - g.bytes[0], same = g => g.bytes[0] === g.bytes[1] && g.counts[0] === g.counts[1];
  const rows = [...groups.values()].filter(g => only || !same(g)).sort((x, y) => Math.abs(grown(y)) - Math.abs(grown(x)) || y.bytes[1] - x.bytes[1]), shown = rows.slice(0, 300);
  // The names of the groups that are shown are counted alone.
  const named = new Map(shown.map(group => [group.key, group.names])), names = model.columns.numbers("range.name");
  for (let n = 0; n < list.length; n++) {
    if (n % PAUSE === 0) yield;
    if (!only || only === kinds[n]) named.get(of[list[n]])?.add(names[list[n]]);
  }
  return { counts, shown, count: rows.length };
}

function drawCompare(panel) {
  const { model, a, b, scope } = view, key = [a, b, scope].join("|"), only = KINDS.findIndex(([kind]) => kind === compare.what);
  const found = inSlices("difference", key, () => difference(model, a, b, scope), "panel"), groups = found && inSlices("changes", `${key}|${only}`, () => changesByGroup(model, found, only), "panel");
  if (!groups) {
    if (!$("difference")) panel.replaceChildren(el("p", { class: "empty" }, "Comparing …"));
    return;
  }
  const { A, B } = found, { counts, shown, count } = groups;
  const grown = g => g.bytes[1] - g.bytes[0];
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
    el("p", { class: "sum" }, line("Used", B.used, A.used), line("Overhead", B.overhead, A.overhead), line("Pending", B.pending, A.pending),
      line("Free", B.free, A.free), line("From the driver", B.reserved, A.reserved)),
    el("p", { class: "sum muted", id: "difference" }, ...KINDS.slice(1).map(([, text], k) => el("span", {}, `${text}: ${int(counts[k + 1][0])}, ${bytes(counts[k + 1][1])}`))),
    count ? declaredTable(columnsOf("compare"), shown.map(g => ({ cells: cells(g), click: () => show(g.i) })))
      : el("p", { class: "empty" }, a === b ? "A and B are the same moment. Move the cursor and press “Set A” or “Set B”." : "No such allocation."),
    el("p", { class: "more" }, count > shown.length ? `${int(shown.length)} of ${int(count)} groups shown.` : ""));
  press("changes", compare.what);
}
