// The allocations, as a table that can be searched and sorted.

/** A dump of one moment does not say when anything began. */
const ofHistory = text => (m, i) => m.isMoment ? "" : text(m, i);

/** Of each column that the analysis declares: the text of a range, and the number to sort by; of texts, see `sortedAllocations`. What an allocation was moved
    from counts for when it was made. A range exists from the moment after the event that allocated it, so the event has the
    number before. */
const CELLS = [
  [(m, i) => m.name(i), null],
  [(m, i) => m.text(m.field("category", i)), null],
  [(m, i) => m.word("kind", m.field("kind", i)), (m, i) => m.field("kind", i)],
  [(m, i) => bytes(m.requested[i]), (m, i) => m.requested[i]],
  [(m, i) => m.beyond[i] ? bytes(m.beyond[i]) : "–", (m, i) => m.beyond[i]],
  [(m, i) => `#${blockName(m.block.id[m.blockOf[i]])}`, (m, i) => m.block.id[m.blockOf[i]]],
  [(m, i) => hex(m.offset[i]), (m, i) => m.offset[i]],
  [ofHistory((m, i) => int(m.from[m.origin(i)] - 1)), (m, i) => m.from[m.origin(i)]],
  [ofHistory((m, i) => m.to[i] <= m.end ? int(m.to[i] - 1) : "–"), (m, i) => m.to[i] <= m.end ? m.to[i] : -1],
  [ofHistory((m, i) => plural(lifeOf(m, i), m.frames.length ? "frame" : "event")), lifeOf],
  [(m, i) => m.site(i), null],
];
const REQUESTED = 3, SITE = 10;

/** How long the allocation of a range existed: in frames where the recording has some, else in events. */
function lifeOf(model, i) {
  const from = model.from[model.origin(i)], end = Math.min(model.to[i], model.end);
  return model.frames.length ? model.frameAt(end) - model.frameAt(from) : end - from;
}

/** The positions of all texts in the alphabet. */
function* textRanks(model) {
  if (model.ranks) return model.ranks;
  const texts = [""];
  for (let id = 1; id <= model.texts.length; id++) { if (id % PAUSE === 0) yield; texts.push(model.text(id)); }
  return model.ranks = yield* alphabet(texts);
}

/** By the number of its text, the position of a call site among all as people read them; 0 for none. */
function* siteRanks(model) {
  if (model.siteRanks) return model.siteRanks;
  const ranks = yield* alphabet(model.columns.list("site.short")), of = new Uint32Array(model.texts.length + 1);
  model.columns.numbers("site.id").forEach((id, k) => { of[id] = ranks[k] + 1; });
  return model.siteRanks = of;
}

const table = { query: "", whole: false, by: REQUESTED, down: true, most: 200 };

/** The allocations that the table has: which, and the bytes that were requested for them. */
function* findAllocations(model, moment, query, all, scope) {
  if (!all && !(yield* moment.lookAtAll())) return undefined;
  const test = parseQuery(query, model), live = all ? null : moment.all(), count = all ? model.count : live.length, list = new Uint32Array(count), { requested } = model;
  let n = 0, sum = 0;
  for (let k = 0; k < count; k++) {
    if (k % PAUSE === 0) yield;
    const i = all ? k : live[k];
    if (model.isReservation(i) || (all && scope >= 0 && model.heapOf(model.blockOf[i]) !== scope)) continue;
    if (test && !test(i)) continue;
    list[n++] = i;
    sum += requested[i];
  }
  return { list: list.subarray(0, n), sum };
}

/** Those of them that are shown. */
function* sortedAllocations(model, list, by, down, most) {
  const ranks = by === SITE ? yield* siteRanks(model) : by < 2 ? yield* textRanks(model) : null, field = ranks && model.columns.numbers(["range.name", "range.category"][by] ?? "range.site");
  const key = ranks ? i => ranks[field[i]] ?? 0 : i => CELLS[by][1](model, i);
  return yield* firstBy(list, key, down, most);
}

function drawTable(panel) {
  const { model, moment, scope } = view, { query, whole: all, by, down, most } = table, heads = columnsOf("allocations");
  if (!$("search")) panel.replaceChildren(tableHead(), el("div", { id: "rows" }), el("p", { class: "more", id: "more" }));
  press("whole", all ? "recording" : "moment");
  const found = inSlices("found", [query, all, all ? scope : moment.id].join("|"), () => findAllocations(model, moment, query, all, scope), "panel");
  if (found && tasks.get("shown")?.of !== found) tasks.delete("shown");
  const shown = found && inSlices("shown", [by, down, most].join("|"), () => sortedAllocations(model, found.list, by, down, most), "panel");
  if (found) tasks.get("shown").of = found;
  // Until the rows are known, those of before stay.
  if (!shown) { $("more").replaceChildren("Looking at all allocations …"); return; }
  // A click selects another row of the same ones.
  if (table.drawn === shown && $("rows").hasChildNodes()) {
    for (const row of $("rows").querySelectorAll("tr[data-range]")) row.classList.toggle("sel", +row.dataset.range === view.selected?.range);
    return;
  }
  table.drawn = shown;
  const sort = k => { table.down = table.by === k ? !table.down : heads[k].number; table.by = k; redraw("panel"); };
  $("rows").replaceChildren(shown.length ? rangeTable(heads, shown, { sorted: table, sort })
    : el("p", { class: "empty" }, query ? "Nothing matches the search." : all ? "No allocation was made in this recording." : "Nothing is allocated at this moment."));
  const { list, sum } = found, more = list.length > shown.length ? el("button", { class: "link", onclick: () => { table.most *= 5; redraw("panel"); } }, "Show more") : null;
  $("more").replaceChildren(`${int(shown.length)} of ${plural(list.length, "allocation")} shown, ${bytes(sum)} requested by all. `, more ?? "");
}

/** A table with a row for each range, which a click selects. `change` may write a cell otherwise. */
function rangeTable(heads, ranges, { sorted = null, sort = null, change = (k, i, text) => text }) {
  const { model } = view;
  return declaredTable(heads, ranges.map(i => {
    const cells = CELLS.map(([text], k) => {
      const shown = change(k, i, text(model, i)), whole = k === SITE ? model.text(model.field("site", i)) : shown;
      return { text: shown, title: (whole.length > 40 || whole !== shown) && whole };
    });
    return { cells, click: () => show(i), range: i, selected: view.selected?.range === i };
  }), sorted, sort);
}

function tableHead() {
  const field = el("input", { class: "search", id: "search", type: "search", spellcheck: "false", placeholder: "Name, category or call site · #block · 0x1000-0x1fff · >64k  ( / )", "aria-label": "Search allocations",
    oninput: e => { table.query = e.target.value; table.most = 200; redraw("panel"); } });
  field.value = table.query;
  return el("div", { class: "row" }, field, choices("whole", [["moment", "at this moment"], ["recording", "whole recording"]].slice(0, view.model.isMoment ? 1 : 2), value => { table.whole = value === "recording"; redraw("panel"); }));
}
