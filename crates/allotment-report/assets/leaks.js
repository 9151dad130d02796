// Allocations that were never freed, by where they were made.

const leaks = { between: false };

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

/** The cells that say which group a row is: its call site as people read it, with the whole one in its title, and its name. */
function groupCells(model, group) {
  const name = group.names.text(model);
  return [el("td", { title: group.key }, group.sited ? shortSite(group.key) : group.key), el("td", { title: name }, name)];
}

function drawLeaks(panel) {
  const { model } = view, groups = new Map(), from = leaks.between ? view.a : 0, to = leaks.between ? view.b : model.end;
  const own = model.columns.texts("library").get(0);
  let count = 0, sum = 0, library = 0, librarySum = 0;
  for (let i = 0; i < model.count; i++) {
    if (model.to[i] <= model.end || model.pending[i] <= model.end || model.isReservation(i)) continue;
    const first = model.origin(i), made = model.from[first];
    if (made < from || made > to || (leaks.between && made <= from)) continue;
    // The library frees its own rings and pages with its Gpu, which a program may drop after the recording ended.
    if (model.text(model.field("category", i)) === own) { library++; librarySum += model.requested[i]; continue; }
    const key = model.groupOf(i), group = groups.get(key) ?? { key, sited: model.field("site", i) > 0, names: new Names(), count: 0, bytes: 0, first: Infinity, last: 0 };
    group.names.add(model.field("name", i));
    group.count++; group.bytes += model.requested[i]; count++; sum += model.requested[i];
    group.first = Math.min(group.first, made); group.last = Math.max(group.last, made);
    groups.set(key, group);
  }
  const rows = [...groups.values()].sort((a, b) => b.bytes - a.bytes), shown = rows.slice(0, 300);
  const search = key => { table.query = key.split(/\s+/)[0]; table.whole = true; showTab("table", true); };
  panel.replaceChildren(
    el("div", { class: "row" }, el("p", { class: "sum" }, el("span", {}, "Never freed ", el("b", {}, plural(count, "allocation")), ", ", el("b", {}, bytes(sum)))),
      el("span", { class: "push" }, choices("between", [["all", "whole recording"], ["between", "allocated between A and B"]], value => { leaks.between = value === "between"; view.comparing ||= leaks.between; redraw("panel", "cursor"); }))),
    rows.length ? el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, [["Call site or name"], ["Name"], ["Allocations", 1], ["Bytes", 1], ["First", 1], ["Last", 1], ["Rate", 1]].map(([text, right]) => el("th", { class: right ? "r" : "" }, text)))),
      el("tbody", {}, shown.map(g => el("tr", { class: "go", onclick: () => search(g.key) },
        groupCells(model, g), ...[int(g.count), bytes(g.bytes), int(g.first), int(g.last), rate(g)].map(text => el("td", { class: "r" }, text)))))))
      : el("p", { class: "empty" }, leaks.between ? "All that was allocated between A and B was freed." : library ? "Every allocation of the program was freed." : "Every allocation of this recording was freed."),
    library ? el("p", { class: "muted" }, `The library itself has ${plural(library, "allocation")}, ${bytes(librarySum)}, until its Gpu is dropped. They are left out.`) : "",
    el("p", { class: "more" }, rows.length > shown.length ? `${int(shown.length)} of ${int(rows.length)} groups shown.` : ""));
  press("between", leaks.between ? "between" : "all");
}

/** How often a group allocates, if it does so again and again. */
function rate(group) {
  const { model } = view, frames = model.frameAt(group.last) - model.frameAt(group.first);
  if (group.count < 4 || frames < 4) return "–";
  const each = frames / (group.count - 1);
  return each <= 1 ? `${(1 / each).toFixed(1)} a frame` : `one in ${each.toFixed(each < 10 ? 1 : 0)} frames`;
}
